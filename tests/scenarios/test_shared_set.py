"""How shared pools are divided is set by a scenario's fleet: the policy and the span of a round."""

from typing import Any

import pytest
import structlog
from msgspec.structs import replace

from core.events.queue import WorkloadSubmitted
from core.events.sharing import PolicySet, RoundBegun
from core.nouns.ids import GLOBAL_LOG
from core.nouns.instant import seconds
from core.nouns.sharing import SharingSettings
from runtime.virtual_loop import VirtualLoop
from scenarios.play.operators import OPERATOR
from scenarios.play.run import Run
from scenarios.play.simulated import simulated_run
from scenarios.scenario import load_scenario, parse_scenario, scenario_written
from scenarios.schema.fleet import SharedSpec, read_fleet
from scenarios.schema.parts import FieldErrors
from scenarios.worlds.simulated.world import START, SimulatedWorld
from store.rows import facts_of

ALIKE: dict[str, Any] = {"regions": 1, "nodes": 2, "pool": "shared"}  # Any: as YAML gives it
NAMED: dict[str, Any] = {
    "regions": {"eu": {"nodes": 2, "gpu_type": "V100", "pool": "shared"}}
}  # Any: as above


@pytest.mark.parametrize("fleet", [ALIKE, NAMED], ids=["alike", "named"])
def test_fleet_sets_policy_and_round(fleet: dict[str, Any]) -> None:  # Any: as YAML gives it
    """Beside regions that are alike, and beside regions that are named; a value that is not given is that of a new plane."""
    spec = read_fleet({**fleet, "shared": {"policy": "fifo", "round_seconds": 30}}, ("fleet",))
    assert spec.shared is not None
    assert SharingSettings("fifo", seconds(30)) == spec.shared.settings
    assert SharedSpec() == read_fleet({**fleet, "shared": {}}, ("fleet",)).shared
    assert SharingSettings() == SharedSpec().settings
    assert read_fleet(fleet, ("fleet",)).shared is None


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"shared": {"policy": "fair"}}, "there is no policy `fair`"),
        ({"shared": {"round_seconds": 1}}, "5"),
        ({"shared": {"rounds": 60}}, "rounds"),
    ],
    ids=["policy", "span", "field"],
)
@pytest.mark.parametrize("fleet", [ALIKE, NAMED], ids=["alike", "named"])
def test_settings_that_the_queue_would_refuse(
    fleet: dict[str, Any], changes: dict[str, Any], problem: str
) -> None:  # Any: as YAML gives it
    """An unknown policy, a round that is too short and an unknown field are refused when the file is read."""
    with pytest.raises(Exception, match=problem):
        read_fleet({**fleet, **changes}, ("fleet",))


def test_settings_without_a_shared_pool() -> None:
    """A fleet without nodes in the pool has no use for the settings."""
    with pytest.raises(FieldErrors, match="no region of the fleet has nodes in the pool `shared`"):
        read_fleet({"regions": 1, "nodes": 2, "shared": {}}, ("fleet",))


def test_scenario_is_written_as_it_is_read() -> None:
    """The settings stand in the file that is written of a scenario."""
    spec = load_scenario("shared_pool")
    spec = replace(spec, fleet=replace(spec.fleet, shared=SharedSpec("fifo", 20.0)))
    assert spec == parse_scenario(scenario_written(spec), "some.yaml")


async def _begin(run: Run) -> None:
    await run.begin()
    await run.strike()


def test_rounds_are_as_long_as_the_scenario_says() -> None:
    """An operator sets them before anything is submitted, and from then on each round begins at a multiple of the span."""
    spec = load_scenario("shared_pool")
    (load, _) = spec.workload
    span = 20.0
    short = replace(
        spec,
        fleet=replace(spec.fleet, shared=SharedSpec("fifo", span)),
        workload=(
            replace(load, workloads=8, hours=1.0, compression=8.0, minutes_median=20.0, minutes_max=60.0),
        ),
        faults=(),
        expectations=(),
    )
    loop = VirtualLoop(START)
    with structlog.testing.capture_logs():
        run = simulated_run(short, 1, loop)
        loop.run_until_complete(_begin(run))
    assert isinstance(run.world, SimulatedWorld)
    file = run.world.store.disk(GLOBAL_LOG).file(GLOBAL_LOG)
    assert file is not None
    facts = facts_of(GLOBAL_LOG, file.rows[: file.durable])
    loop.cancel_all()
    loop.close()
    (first, *_) = (fact.event for fact in facts if isinstance(fact.event, PolicySet | WorkloadSubmitted))
    assert PolicySet(SharingSettings("fifo", seconds(span)), 1, OPERATOR) == first
    begun = [(fact.at, fact.event.number) for fact in facts if isinstance(fact.event, RoundBegun)]
    assert len(begun) > 10
    assert [at // seconds(span) for at, _ in begun] == [number for _, number in begun]
