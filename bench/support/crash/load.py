"""The load of the benchmark `crash`: one-GPU work and gangs over several nodes, as much as keeps most of a region busy."""

import math
import random

from core.nouns.instant import Nanoseconds, seconds
from core.nouns.workload import Emulation, JobSpec, WorkloadSpec
from runtime.fleet_file import RegionSpec
from scenarios.schema.fleet import FleetSpec
from scenarios.schema.parts import PositiveFloat
from scenarios.workload import Workload, draw_region, draw_retry, gpus_of

SIZES = (1, 2, 4, 8, 16, 32)
"""GPUs of one workload: parts of a node, a node, and gangs of two and four nodes."""
WEIGHTS = (60, 8, 8, 12, 8, 4)
SIGMA = 0.6
"""Of the logarithm of the duration."""
CHECKPOINT_SECONDS = 10.0
STOP_SECONDS = (0.5, 3.0)
"""From the order to stop until a task has left, drawn between these."""


class Sustained(Workload, frozen=True):
    """Arrivals at any time with the same likelihood, and all sizes alike in how long they run."""

    seconds_median: PositiveFloat = 30.0

    def times(self, dice: random.Random) -> list[float]:
        """Uniform."""
        return [dice.random() for _ in range(self.workloads)]

    def draw(self, fleet: FleetSpec, dice: random.Random, number: int) -> WorkloadSpec:
        """What one of them is."""
        region = draw_region(fleet, dice)
        gpus = dice.choices(SIZES, WEIGHTS)[0]
        return WorkloadSpec(
            name=f"{self.name}-{number}",
            jobs=(self._job(region, gpus, dice),),
            tenant=self.draw_tenant(dice),
            priority=self.draw_priority(dice),
            retry=draw_retry(dice),
        )

    def _job(self, region: RegionSpec, gpus: int, dice: random.Random) -> JobSpec:
        span = self.seconds_median * dice.lognormvariate(0.0, SIGMA)
        fails = dice.random() < self.fails_share
        fails_after = span * dice.uniform(0.1, 0.9)
        emulation = Emulation(
            work=seconds(span),
            checkpoint_every=seconds(CHECKPOINT_SECONDS),
            fails_after=seconds(fails_after) if fails else Nanoseconds(0),
            stop_span=seconds(dice.uniform(*STOP_SECONDS)),
        )
        return self.job(region, gpus, emulation)


def workloads_for(share: float, region: RegionSpec, span: float, seconds_median: float) -> int:
    """So many arrivals in `span` seconds ask for this share of a region's GPUs."""
    gpus_mean = sum(size * weight for size, weight in zip(SIZES, WEIGHTS, strict=True)) / sum(WEIGHTS)
    seconds_mean = seconds_median * math.exp(SIGMA**2 / 2)
    return round(share * gpus_of(region) * span / (gpus_mean * seconds_mean))
