"""The swarm: scenarios drawn from seeds are whole, repeat, and are clean; what fails is told with its command and made smaller."""

import pytest
from msgspec.structs import replace

from scenarios.fault import Fault
from scenarios.fleet import regions_of
from scenarios.parts import parts_in
from scenarios.scenario import ScenarioSpec, parse_scenario, scenario_written
from scenarios.shrink import shrunk
from scenarios.swarm import TWICE_EVERY, draw_scenario, mix_of
from scenarios.swarm_pool import command_of, play_seed, play_seeds, played
from scenarios.workload import Workload

CLEAN = range(1, 41)
"""In `make test`; `make soak` plays a thousand."""


@pytest.mark.parametrize("seed", range(0, 300, 10))
def test_drawn_scenario_is_one_that_could_be_written(seed: int) -> None:
    """It passes every check of a scenario file, is the same when read again, and is drawn alike again."""
    spec = draw_scenario(seed)
    assert spec == parse_scenario(scenario_written(spec), "drawn.yaml")
    assert spec == draw_scenario(seed)


def test_a_thousand_seeds_have_every_fault() -> None:
    """Many times each: what is never drawn is never tried."""
    mix = mix_of(range(1, 1001))
    assert set(parts_in("faults", Fault)) == set(mix.faults)
    assert min(mix.faults.values()) >= 30
    assert mix.workloads > 10_000


def test_short_swarm_is_clean() -> None:
    """Nothing is lost, nothing runs twice, everything ends, and twins under two PYTHONHASHSEEDs agree."""
    told: list[int] = []
    tally = play_seeds(CLEAN, workers=2, minutes=5, watch=lambda tally: told.append(tally.seeds))
    assert [] == tally.failed
    assert (len(CLEAN), len(CLEAN) // TWICE_EVERY, False) == (tally.seeds, tally.twice, tally.has_run_out)
    assert sorted(told) == told
    assert tally.strikes > len(CLEAN)
    assert tally.kills > 0
    assert tally.facts > 1000


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_thousand_seeds_are_clean() -> None:
    """The whole swarm, within a quarter of an hour on two cores."""
    tally = play_seeds(range(1, 1001), workers=2, minutes=15)
    assert [] == tally.failed
    assert 1000 == tally.seeds


def test_swarm_stops_when_its_time_is_over() -> None:
    """What is under way ends, nothing more is begun, and it is said that not all was played."""
    tally = play_seeds(range(1, 100_000), workers=2, minutes=0.02)
    assert tally.has_run_out
    assert tally.seeds < 1000


def test_seed_plays_alike_again() -> None:
    """Which is what makes a seed a bug report."""
    first, again = play_seed(7), play_seed(7)
    assert first.digest == again.digest != ""
    assert "" == first.problem


def test_failing_scenario_says_what_was_wrong() -> None:
    """A scenario that has no time to calm down cannot have ended."""
    spec = draw_scenario(3)
    hasty = replace(spec, calm=replace(spec.calm, minutes=0.001), workload=(_long(spec),))
    assert "at the end" in played(hasty, 3).problem
    assert "mizzen scenario swarm --first-seed 3 --seeds 1" == command_of(3)


def test_whatever_a_run_raises_is_what_was_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake anywhere in the plane or in a fault is found too, and the swarm goes on."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr("scenarios.swarm_pool.run_simulated", broken)
    assert "ZeroDivisionError: a mistake" == play_seed(1).problem


def test_shrinking_keeps_what_matters_alone() -> None:
    """Everything that can be taken away is: here all but one fault, two workloads and one node."""
    spec = next(
        drawn
        for drawn in map(draw_scenario, range(1, 100))
        if len(drawn.faults) >= 4 and drawn.workload[0].workloads > 4 and len(regions_of(drawn.fleet)) > 1
    )
    wanted = spec.faults[2].name
    tried: list[ScenarioSpec] = []

    def fails(smaller: ScenarioSpec) -> bool:
        tried.append(smaller)
        has_it = any(fault.name == wanted for fault in smaller.faults)
        return has_it and smaller.workload[0].workloads >= 2

    smallest = shrunk(spec, fails)
    assert [wanted] == [fault.name for fault in smallest.faults]
    assert (1, 2) == (smallest.faults[0].times, smallest.workload[0].workloads)
    (region,) = regions_of(smallest.fleet).values()
    assert (1, 1, 1) == (region.nodes, region.workers, region.agents)
    assert len(tried) < 200


def test_shrinking_has_its_time() -> None:
    """However much there is to try."""
    spec = draw_scenario(5)
    assert spec == shrunk(spec, lambda _: True, seconds=-1.0)


def _long(spec: ScenarioSpec) -> Workload:
    return replace(spec.workload[0], minutes_median=30.0)
