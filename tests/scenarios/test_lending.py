"""H-1: services lend idle devices in a whole plane, functions use them, and the services have them back within the grace."""

import pytest

from core.nouns.instant import SECOND
from scenarios.scenario import parse_scenario
from scenarios.schema.fleet import FleetSpec
from scenarios.workloads.duty_cycle import DutyCycle
from tests.scenarios.loads import drawn, job_of
from tests.scenarios.runs import run_quietly

GRACE_SECONDS = 10.0
PLANE = """
name: lent
survives: Services fill a fleet and lend the devices that are idle; calls of functions run there.
fleet: {regions: 1, nodes: 2, workers: 2, functions: true, harvest: {grace_seconds: 10, after_seconds: 5}}
workload:
  - functions:
      {workloads: 1, tasks: 1, gpus: 1, hours: 0.1, calls: 900, functions: 4, gpu_share: 1.0, run_seconds: 4, run_seconds_max: 60}
  - duty_cycle: {workloads: 2, tasks: 7, gpus: 1, hours: 0.1, faster: 5, spans: 6}
FAULTS
calm: {minutes: 20}
"""
FAULTS = """
faults:
  - message_loss: {share: 0.05}
  - message_repeat: {share: 0.05}
  - crash_each: {down_seconds: [1, 20]}
"""


@pytest.mark.parametrize("faults", ["", FAULTS], ids=["calm", "faults"])
def test_services_lend_to_functions(faults: str) -> None:
    """No task waits for a device that no executor used, and none longer than the grace, whichever process has died."""
    outcome = run_quietly(parse_scenario(PLANE.replace("FAULTS", faults), "lent.yaml"), 1)
    assert outcome.is_good, (outcome.violations, outcome.problems)
    figures = outcome.figures
    assert figures["devices_taken_back"] > figures["devices_waited_for"] > 0
    assert 0 < figures["wait_for_device_seconds_max"] <= GRACE_SECONDS
    assert 0 == figures["wait_for_nobody_seconds"]
    assert 900 == figures["calls"]


def test_cycles_are_drawn_as_said() -> None:
    """Each service by itself, with idle times of seconds to an hour; those of the floor lend nothing."""
    load = DutyCycle(hours=1.0, workloads=60, tasks=2, gpus=2, floor_share=0.25, faster=2.0)
    lending, spans = 0, set()
    for arrival in drawn(load, FleetSpec(regions=1, nodes=60)):
        job = job_of(arrival)
        assert job.emulation is not None
        if not job.emulation.idle:
            continue
        lending += 1
        assert {0, 2} == {count for _, count in job.emulation.idle}
        assert round(0.4 * job.need.memory_bytes) == job.emulation.keeps_bytes
        assert len(job.emulation.idle) <= 2 * 8
        spans |= {span / SECOND for span, count in job.emulation.idle if count}
    assert 35 <= lending <= 55
    assert min(spans) < 60
    assert max(spans) > 600
