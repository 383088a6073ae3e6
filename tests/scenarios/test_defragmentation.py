"""Whole nodes come free again and again on a simulated plane, under work whose controllers agree, hesitate or refuse."""

from msgspec.structs import replace

from core.nouns.defragmentation import Freeing, Plan
from scenarios.fault import RegionFault, Stage
from scenarios.play.operators import Operators
from scenarios.scenario import ScenarioSpec, parse_scenario
from scenarios.schema.parts import Range
from tests.scenarios.runs import run_quietly

PLANE = """
name: scattered
survives: Work is moved so that whole nodes come free, as its controllers agree.
fleet: {regions: 1, nodes: 10, workers: 5, nodes_per_rack: 2}
workload:
  - steady: {workloads: 24, hours: 0.4, minutes_median: 4, minutes_max: 10, gpus_max: 4, priority: 3, fails_share: 0, cancels_share: 0, controller: gangs}
  - services: {workloads: 4, tasks: 4, hours: 0.1, priority: 3, stop_seconds: 2, controller: services, unavailable_max: 2}
controllers:
  - CONTROLLER
  - consents: {called: services, share: 0.5}
faults: []
calm: {minutes: 60}
expectations:
  - operations_unasked == 0
  - operations_forced == 0
"""
PLANS: list[tuple[Plan, str]] = []
"""What the run that plays now was asked for."""


class Defragment(RegionFault, frozen=True):
    """An operator has nodes freed, whatever lies there just then."""

    lasts_seconds: Range = 90.0

    async def strike(self, stage: Stage) -> None:
        """Once: plan, and ask for all of it."""
        found = await Operators(stage.users).free(
            self.drawn(stage), Freeing.NODES, stage.draw(self.lasts_seconds)
        )
        stage.has_struck = bool(found[1])
        PLANS.append(found)


def scene(controller: str) -> ScenarioSpec:
    """Nodes are freed eight times while all of that comes and goes."""
    spec = parse_scenario(PLANE.replace("CONTROLLER", controller), "scattered.yaml")
    return replace(spec, faults=(Defragment(times=8),))


def test_nothing_is_lost_or_moved_unasked() -> None:
    """P30, T30: moves are made with consent alone; what the auditor checks holds all the while, and the plane comes to rest."""
    PLANS.clear()
    outcome = run_quietly(scene("consents: {called: gangs}"), 1)
    assert outcome.is_good, outcome.first_problem()
    moves = sum(len(plan.moves) for plan, name in PLANS if name)
    assert 0 < outcome.figures["operations_healthy"] == outcome.figures["operations_acked"] <= moves
    assert 0 == outcome.figures["operations_unasked"] == outcome.figures["operations_forced"]


def test_gang_with_a_refusing_controller_stays() -> None:
    """P30: gangs with a controller that refuses end where they were, and the nodes take work again all the same."""
    PLANS.clear()
    outcome = run_quietly(scene("refuses: {called: gangs}"), 1)
    assert outcome.is_good, outcome.first_problem()
    assert any(name for _, name in PLANS)
    assert 0 == outcome.figures["operations"] == outcome.figures["gpu_seconds_lost"]
