"""H-1: workers kill executors that have not left when the grace is over, with function servers that stand still and a plane that is dead."""

import pytest

from scenarios.scenario import ScenarioError, parse_scenario
from tests.scenarios.runs import run_quietly

GRACE_SECONDS = 5.0
PLANE = """
name: in_the_way
survives: Gangs are granted nodes on which calls of functions run.
fleet: {regions: 1, nodes: 4, workers: 2, functions: true, harvest: {grace_seconds: 5, after_seconds: 1}}
workload:
  - functions: {workloads: 1, tasks: 1, gpus: 1, hours: 0.05, calls: 600, functions: 4, gpu_share: 1.0, run_seconds: 10, run_seconds_max: 60}
  - steady: {workloads: 6, hours: 0.05, minutes_median: 0.3, minutes_max: 0.6, gpus_max: 16}
faults: [FAULT]
calm: {minutes: 10}
"""


@pytest.mark.parametrize(
    ("fault", "is_kind_to_servers"),
    [
        ("recall_unheeded: {after_seconds: 10, for_seconds: 20}", False),
        (
            "plane_dies: {after_seconds: 10, down_seconds: 20, paused: [function_server], mid_recall: true}",
            False,
        ),
        (
            "plane_dies: {after_seconds: 10, down_seconds: 20, spared: [function_server], mid_recall: true}",
            True,
        ),
    ],
    ids=["servers stand still", "plane dies, servers stand still", "plane dies, servers live"],
)
def test_tasks_wait_no_longer_than_the_grace(fault: str, *, is_kind_to_servers: bool) -> None:
    """Where function servers live, their executors have left by then; where they stand still, workers kill those that are in the way."""
    outcome = run_quietly(parse_scenario(PLANE.replace("FAULT", fault), "in_the_way.yaml"), 1)
    assert outcome.is_good, (outcome.violations, outcome.problems)
    figures = outcome.figures
    assert {fault.partition(":")[0]: 1} == outcome.strikes
    assert is_kind_to_servers == (figures["executors_killed"] == 0)
    assert 1 <= figures["tasks_waited_for_executors"]
    assert 0 < figures["wait_for_executors_seconds_max"] <= GRACE_SECONDS


@pytest.mark.parametrize("field", ["spared", "paused"])
def test_role_that_there_is_not_is_named(field: str) -> None:
    """By its place in the file."""
    fault = f"plane_dies: {{{field}: [worker, function_servant]}}"
    with pytest.raises(ScenarioError, match=rf"{field}.*no role `function_servant`"):
        parse_scenario(PLANE.replace("FAULT", fault), "in_the_way.yaml")
