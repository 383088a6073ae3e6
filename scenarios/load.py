"""Workloads drawn from published distributions of a GPU training fleet, scaled to a scenario's fleet and day.

source    MAST (OSDI'24) §5.1 and fig. 7, as calibrated: durations lognormal, GPUs per workload with the percentiles
          16/64/128, seven priority levels with the shares 3/20/16/54/0.2/0.5/0.02 % and 6 % lowest
"""

import random

from msgspec import Struct

from core.nouns.ids import TenantName
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.quantities import Amount
from core.nouns.workload import Emulation, JobSpec, RetryLimits, WorkloadSpec
from scenarios.fleet import emulated_regions
from scenarios.scenario import FleetSpec, LoadSpec

GPUS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
GPU_WEIGHTS = (4.0, 4.0, 8.0, 24.0, 22.0, 18.0, 14.0, 5.2, 0.8)
PRIORITIES = (6, 5, 4, 3, 2, 1, 0)
PRIORITY_WEIGHTS = (3.0, 20.0, 16.0, 54.0, 0.2, 0.5, 6.3)
SIGMA = 1.6
"""Of the logarithm of the duration. Less than the fleet's 2.3, so that a day holds the tail that it draws."""


class Arrival(Struct, frozen=True):
    """One workload, when it is submitted, and when it is cancelled, if it is."""

    at: Nanoseconds
    spec: WorkloadSpec
    cancel_after: Nanoseconds | None


def draw_load(load: LoadSpec, fleet: FleetSpec, dice: random.Random) -> list[Arrival]:
    """All workloads of a scenario, by arrival."""
    arrivals = [_draw(load, fleet, dice, number) for number in range(load.workloads)]
    arrivals.sort(key=lambda arrival: arrival.at)
    return arrivals


def _draw(load: LoadSpec, fleet: FleetSpec, dice: random.Random, number: int) -> Arrival:
    gpus = dice.choices(GPUS, GPU_WEIGHTS)[0]
    region = next(iter(emulated_regions(fleet).values()))  # As the others of its sort.
    gpus = min(gpus, load.gpus_max, region.nodes * region.gpus_per_node)
    per_task = min(gpus, region.gpus_per_node)
    minutes = min(load.minutes_median * dice.lognormvariate(0.0, SIGMA), load.minutes_max)
    faster = load.compression
    work = seconds(60 * minutes / faster)
    fails = dice.random() < load.fails_share
    emulation = Emulation(
        work=work,
        checkpoint_every=seconds(dice.choice((300.0, 600.0, 1800.0)) / faster),
        fails_after=seconds(60 * minutes * dice.uniform(0.1, 0.9) / faster) if fails else Nanoseconds(0),
        stop_span=seconds(dice.uniform(1.0, 40.0) / faster),
    )
    need = Amount(1000 * per_task, 8000 * per_task, (64 << 30) * per_task)
    job = JobSpec("main", max(1, gpus // per_task), need, region.gpu_type, emulation)
    spec = WorkloadSpec(
        name=f"load-{number}",
        jobs=(job,),
        tenant=TenantName(f"tenant-{dice.randrange(20)}"),
        priority=dice.choices(PRIORITIES, PRIORITY_WEIGHTS)[0],
        retry=RetryLimits(task_failed=dice.choice((0, 1, 2))),
    )
    cancel = seconds(dice.uniform(1.0, 7200.0) / faster) if dice.random() < load.cancels_share else None
    return Arrival(seconds(3600 * load.hours * dice.random() / faster), spec, cancel)
