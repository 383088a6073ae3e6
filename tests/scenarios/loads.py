"""What a load draws, as tests look at it."""

import random

from core.nouns.instant import SECOND
from core.nouns.workload import JobSpec
from scenarios.schema.fleet import FleetSpec
from scenarios.workload import Arrival, Workload

FLEET = FleetSpec(regions=2, nodes=40)


def drawn(workload: Workload, fleet: FleetSpec = FLEET, seed: int = 1) -> list[Arrival]:
    """All that it draws."""
    return workload.arrivals(fleet, random.Random(seed))


def job_of(arrival: Arrival) -> JobSpec:
    """Its one job."""
    (job,) = arrival.spec.jobs
    return job


def work_seconds(arrival: Arrival) -> float:
    """How long it runs."""
    emulation = job_of(arrival).emulation
    assert emulation is not None
    return emulation.work / SECOND


def gpus_of_all(arrival: Arrival) -> float:
    """All GPUs of a workload."""
    job = job_of(arrival)
    return job.tasks * job.need.gpu_milli / 1000
