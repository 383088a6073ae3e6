"""The swarm: scenarios drawn from seeds are whole, repeat, and are clean; what fails is told with its command and made smaller."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.nouns.workload import Kind
from core.routing import POLICIES
from runtime.fleet_file import FunctionsSpec
from scenarios.fault import Fault, LinkFault
from scenarios.faults.crash import Crash
from scenarios.faults.domain_loss import DomainLoss
from scenarios.faults.partition import Partition
from scenarios.faults.pool_need_set import PoolNeedSet
from scenarios.faults.region_cut import RegionCut
from scenarios.faults.round_crash import RoundCrash
from scenarios.play.run import keys_of
from scenarios.scenario import ScenarioSpec, parse_scenario, scenario_written
from scenarios.schema.fleet import regions_of
from scenarios.schema.parts import parts_in
from scenarios.swarm.data import OF_COPIES, OF_DATA
from scenarios.swarm.draw import SHARED_EVERY, TWICE_EVERY, draw_scenario, mix_of
from scenarios.swarm.pool import command_of, kind_of, play_seed, play_seeds, played
from scenarios.swarm.pools import OF_POOLS
from scenarios.swarm.shrink import shrunk
from scenarios.workload import Workload
from scenarios.workloads.functions import Functions
from scenarios.workloads.shared import Shared
from tests.scenarios.runs import HOUSE

CLEAN = range(1, 11)
"""In `make test`; `make swarm` plays three hundred, and `make soak` five thousand."""
PINNED = {
    274: "two workloads released their bids for each other, hundreds of times a second, while messages were late",
    577: "an operator's undoing waited for a dead plane when faults ended, and was dropped: data stayed nowhere",
    770: "the auditor read the queue's log ahead of a region's, and took a promise that had ended for one never made",
    845: "as 577: a region stayed abandoned",
    2588: "a probe over quota was preempted by another one, as it may be, and was said to have ended by the wrong cause",
    219: "the last job of a shared pool ended before its shares were recorded: the planner never asked its solver again",
    299: "a class of jobs had been on hold: the queue gave it equal parts in place of all others', and these in its place, for ever",
    469: "a job of a shared pool was picked where no node is wide enough for a task of it, and waited there for ever",
    41: "the only service for functions moved, and calls that may be begun once stayed with the router that gave them back",
    108: "a run that was sent again and lost was repeated as a new one, and a server that had forgotten the call began it twice",
    263: "a policy that sends beyond sizes sent calls thousands of times a second to a server without any capacity",
    539: "a job of a shared pool waited for ever beside one that was cancelled while it changed its GPU",
    2852: "messages were late for minutes, so every auction ended before its answers came, and was opened anew",
}
"""Seeds that failed, and what they taught."""


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


def test_links_are_struck_one_way_and_of_some_alone() -> None:
    """A third of those of one direction, half of them of one process or one role; and a crash may come in a row."""
    faults = [fault for seed in range(1, 301) for fault in draw_scenario(seed).faults]
    links = [fault for fault in faults if isinstance(fault, LinkFault | Partition)]
    one_way = [fault for fault in links if fault.one_way]
    some = [fault.ones for fault in links if fault.ones not in ((), ("*",))]
    assert 1 / 4 < len(one_way) / len(links) < 2 / 5
    assert 2 / 5 < len(some) / len(links) < 3 / 5
    assert {True, False} == {name.endswith(".*") for (name,) in some}
    assert {True, False} == {fault.one_way for fault in faults if isinstance(fault, RegionCut)}
    assert {0.0, 0.5} == {fault.again_share for fault in faults if isinstance(fault, Crash)}


def test_loads_of_the_swarm_are_of_every_sort() -> None:
    """Of several kinds, limited, pinned, and of two jobs: what is never submitted is never tried."""
    specs = [
        arrival.spec
        for seed in range(1, 101)
        for arrival in draw_scenario(seed).arrivals(random.Random(f"load/{seed}"))
    ]
    assert set(Kind) == {spec.kind for spec in specs}
    for is_so in (
        [bool(spec.max_duration) for spec in specs],
        [bool(spec.regions) for spec in specs],
        [len(spec.jobs) == 2 for spec in specs],
    ):
        assert 0.02 < sum(is_so) / len(specs) < 0.3


def test_one_seed_in_ten_has_a_shared_pool() -> None:
    """With jobs for it, short rounds, another policy than the first and a planner in some, and a queue that dies at a boundary."""
    drawn = [draw_scenario(seed) for seed in range(1, 201)]
    specs = [spec for spec in drawn if spec.fleet.shared is not None]
    assert len(drawn) // SHARED_EVERY == len(specs)
    settings = [spec.fleet.shared for spec in specs if spec.fleet.shared is not None]
    assert {"shared"} <= {region.pool for spec in specs for region in regions_of(spec.fleet).values()}
    assert all(any(isinstance(load, Shared) for load in spec.workload) for spec in specs)
    assert max(one.round_seconds for one in settings) <= 60.0
    assert len({one.policy for one in settings}) > 3
    assert {True, False} == {spec.fleet.planner for spec in specs}
    assert {True, False} == {any(isinstance(one, RoundCrash) for one in spec.faults) for spec in specs}


def test_one_seed_in_eight_runs_functions() -> None:
    """By every policy, for one tenant and for all, with calls that may be begun once, and processes of functions that die."""
    drawn = [draw_scenario(seed) for seed in range(1, 401)]
    specs = [spec for spec in drawn if any(region.functions for region in regions_of(spec.fleet).values())]
    assert 0.08 < len(specs) / len(drawn) < 0.16
    loads = [load for spec in specs for load in spec.workload if isinstance(load, Functions)]
    assert len(specs) == len(loads)
    assert {True, False} == {load.for_all for load in loads} == {load.come_and_go for load in loads}
    assert {True, False} == {load.once_share > 0 for load in loads} == {load.gpu_share > 0 for load in loads}
    how = [region.functions for spec in specs for region in regions_of(spec.fleet).values()]
    assert set(POLICIES) == {one.policy for one in how if isinstance(one, FunctionsSpec)}
    faults = [fault for spec in specs for fault in spec.faults]
    died = {fault.role for fault in faults if isinstance(fault, Crash)}
    assert {"function_router", "function_server"} <= died


def test_data_moves_in_a_quarter_of_all_seeds() -> None:
    """Beside all that other seeds have: with storage for every dataset, work that reads some, and faults of copies."""
    drawn = [draw_scenario(seed) for seed in range(1, 401)]
    specs = [spec for spec in drawn if spec.fleet.data is not None]
    assert 0.2 < len(specs) / len(drawn) < 0.3
    for spec in specs:
        assert spec.fleet.data is not None
        named = spec.fleet.data.named()
        assert sum(one.gb for one in named.values()) < spec.fleet.data.storage_gb
        assert {name for load in spec.workload for name in load.data} == set(named)
        assert any(isinstance(fault, OF_DATA) for fault in spec.faults)
    assert {True, False} == {
        one.pinned for spec in specs if spec.fleet.data for one in spec.fleet.data.named().values()
    }
    for has in (
        [bool(spec.tenants) for spec in specs],
        [spec.fleet.shared is not None for spec in specs],
        [spec.fleet.agent_settings is not None for spec in specs],
        [any(fault.name == "dataset_set" for fault in spec.faults) for spec in specs],
    ):
        assert 0.05 < sum(has) / len(specs) < 0.4
    others = [spec for spec in drawn if spec.fleet.data is None]
    assert not any(isinstance(fault, OF_COPIES) for spec in others for fault in spec.faults)


def test_pools_have_needs_in_some_seeds() -> None:
    """Beside all that other seeds have: nodes for them, a planner, and needs that change; no gang is wider than its pool will be."""
    drawn = [draw_scenario(seed) for seed in range(1, 401)]
    specs = [spec for spec in drawn if spec.fleet.pools is not None]
    assert 0.1 < len(specs) / len(drawn) < 0.2
    for spec in specs:
        assert spec.fleet.planner
        assert any(isinstance(fault, PoolNeedSet) for fault in spec.faults)
        assert spec.fleet.pools is not None
        widest = min(sum(needs["training"].values()) for needs in spec.fleet.pools.in_region.values())
        assert all(load.gpus_max is not None and load.gpus_max <= widest for load in spec.workload)
    assert {True, False} == {any(isinstance(fault, DomainLoss) for fault in spec.faults) for spec in specs}
    others = [spec for spec in drawn if spec.fleet.pools is None]
    assert not any(isinstance(fault, OF_POOLS) for spec in others for fault in spec.faults)


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


@pytest.mark.parametrize("seed", PINNED)
def test_seed_that_failed_is_clean(seed: int) -> None:
    """Each was mended."""
    assert "" == play_seed(seed).problem, PINNED[seed]


def test_swarm_stops_when_its_time_is_over() -> None:
    """What is under way ends, nothing more is begun, and it is said that not all was played."""
    tally = play_seeds(range(1, 100_000), workers=2, minutes=0.005)
    assert tally.has_run_out
    assert tally.seeds < 1000


def test_seed_plays_alike_again() -> None:
    """Which is what makes a seed a bug report."""
    first, again = play_seed(7), play_seed(7)
    assert first.digest == again.digest != ""
    assert "" == first.problem


def test_failing_scenario_names_its_problem() -> None:
    """A scenario that has no time to calm down cannot have ended."""
    spec = draw_scenario(4)
    hasty = replace(spec, calm=replace(spec.calm, minutes=0.001), workload=(_long(spec),))
    assert "at the end" in played(hasty, 4, decides_twice=False).problem
    assert "mizzen scenario swarm --first-seed 4 --seeds 1" == command_of(4)


def test_exception_of_a_run_is_its_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake anywhere in the plane or in a fault is found too, and the swarm goes on."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr("scenarios.swarm.pool.run_simulated", broken)
    assert "ZeroDivisionError: a mistake" == play_seed(1).problem


def test_shrinking_keeps_only_the_parts_that_matter() -> None:
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


def test_shrinking_takes_regions_from_data_that_moves() -> None:
    """Datasets with their home in a region that is taken away have it in another one."""
    spec = next(
        drawn
        for drawn in map(draw_scenario, range(1, 100))
        if drawn.fleet.data is not None and len(regions_of(drawn.fleet)) > 2 and not drawn.tenants
    )

    def fails(smaller: ScenarioSpec) -> bool:
        return any(isinstance(fault, OF_DATA) for fault in smaller.faults)

    smallest = shrunk(spec, fails)
    assert 2 == len(regions_of(smallest.fleet)), "copies go from one region to another"
    assert smallest.fleet.data is not None
    assert set() == {one.home for one in smallest.fleet.data.named().values()} - set(
        regions_of(smallest.fleet)
    )


def test_fault_draws_the_same_beside_any_other() -> None:
    """Its chance is its own: neither another fault before it nor how often it strikes changes its draws."""
    spec = next(drawn for drawn in map(draw_scenario, range(1, 100)) if len(drawn.faults) >= 4)
    keys = keys_of(spec.faults)
    assert len(set(keys)) == len(keys)
    assert keys[1:] == keys_of(spec.faults[1:])
    fewer = tuple(replace(fault, times=1) for fault in spec.faults)
    assert keys == keys_of(fewer)
    twice = (spec.faults[0], *spec.faults)
    assert 1 + len(keys) == len(set(keys_of(twice)))


def test_kinds_of_problems_are_told_apart_by_their_text() -> None:
    """Not by the workload that they name: the same mistake strikes another workload in a smaller scenario."""
    one = "w-24 is RUNNING at the end, epoch 12 in r1"
    assert kind_of(one) == kind_of("w-3 is RUNNING at the end, epoch 1 in r0")
    assert kind_of(one) != kind_of("w-24 is PENDING at the end, epoch 12 in r1")
    assert kind_of("rule 3: global 60: w-12: AttemptClosed") == kind_of(
        "rule 3: global 1: w-2: AttemptClosed"
    )


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_swarm_that_is_ended_leaves_nothing_behind(number: signal.Signals, tmp_path: Path) -> None:
    """It says what was played until then, shows no trace, and its processes go with it."""
    words = ["scenario", "swarm", "--seeds", "5000", "--directory", str(tmp_path)]
    # As from a terminal, but that it tells of its first seed.
    program = f"import mizzen.cli, mizzen.commands.scenario as swarm; swarm.TOLD_EVERY = 1; exit(mizzen.cli.main({words!r}))"
    swarm = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=HOUSE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert swarm.stdout is not None
    first = swarm.stdout.readline()
    assert re.match("[1-9][0-9]? seeds?, 0 failed", first)
    os.killpg(swarm.pid, number) if number == signal.SIGINT else swarm.send_signal(number)
    out, err = swarm.communicate(timeout=60)
    assert 130 == swarm.returncode
    assert "of 5000, interrupted" in out
    assert "" == err
    deadline = time.monotonic() + 20
    while _is_there(swarm.pid):  # What the standard library started for itself goes a moment later.
        assert time.monotonic() < deadline, "its processes are still there"


def test_shrinking_has_its_time() -> None:
    """However much there is to try."""
    spec = draw_scenario(5)
    assert spec == shrunk(spec, lambda _: True, seconds=-1.0)


def _is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _long(spec: ScenarioSpec) -> Workload:
    return replace(spec.workload[0], minutes_median=30.0)
