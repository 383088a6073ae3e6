"""The load of a published fleet: its durations, sizes, priorities and habits, none of them scaled to the scenario's day.

Set-up is left out: emulated tasks start at once.

source    MAST (OSDI'24) §5.1: GPUs of a GPU workload p50/p90/p99 16/64/128; durations 20 min / 6.7 h / 66 h, of which a
          lognormal of median 20 min and sigma 2.3, cut at 14 days, makes 20 min / 6.4 h / 70 h; workloads without GPUs
          38 min / 7.9 h / 38 h on 72/180/205 machines; 30 % of all workloads without GPUs; 30 % recurring
"""

import random

from msgspec.structs import replace

from core.nouns.instant import Nanoseconds
from core.nouns.quantities import Amount
from core.nouns.workload import JobSpec, WorkloadSpec
from runtime.fleet_file import RegionSpec
from scenarios.schema.fleet import FleetSpec
from scenarios.schema.parts import Minutes, Share
from scenarios.workload import (
    GPU_WEIGHTS,
    GPUS,
    Arrival,
    Workload,
    draw_region,
    draw_retry,
)

SIGMA = 2.3
"""Of the logarithm of the duration."""
CPU_MINUTES_MEDIAN, CPU_SIGMA, CPU_MINUTES_MAX = 38.0, 1.9, 38 * 60.0
CPU_TASKS_MEDIAN, CPU_TASKS_SIGMA, CPU_TASKS_MAX = 72, 0.71, 205
CPU_NEED = Amount(0, 8_000, 32 << 30)
"""Of one task without GPUs: a part of what workloads with GPUs leave of a node."""
RUNS = (2, 12)
"""How often one that recurs is run during the load, drawn between these. A guess: the paper says only how many recur."""
RUN_SHARE_MIN = 0.9
"""Of its series' duration, the shortest run. A guess."""
MINUTES_MEDIAN = 20.0


class Calibrated(Workload, frozen=True):
    """What a fleet of GPUs is asked for. `compression` makes days of it minutes, and `gpus_max` makes it small."""

    minutes_median: Minutes = MINUTES_MEDIAN
    minutes_max: Minutes = 14 * 24 * 60.0
    cpu_share: Share = 0.3
    """Who want no GPUs."""
    recurring_share: Share = 0.3
    """Who are runs of a series: the same work of the same tenant again, each a period after the one before."""

    def times(self, dice: random.Random) -> list[float]:
        """Uniform, for those that do not recur."""
        return [dice.random() for _ in range(self.workloads - round(self.recurring_share * self.workloads))]

    def arrivals(self, fleet: FleetSpec, dice: random.Random) -> list[Arrival]:
        """Those that recur, and the others."""
        found = super().arrivals(fleet, dice)
        series = 0
        while len(found) < self.workloads:
            like = self.draw(fleet, dice, self.workloads + series)
            like = replace(like, name=f"{self.name}-series-{series}")
            runs = dice.randint(*RUNS)
            first = dice.random()
            found += [
                self.arrival(_run_of(like, dice), (first + run) / runs * self.span, dice)
                for run in range(min(runs, self.workloads - len(found)))
            ]
            series += 1
        return sorted(found, key=lambda arrival: arrival.at)

    def draw_minutes(self, dice: random.Random) -> float:
        """Of one with GPUs."""
        return min(self.minutes_median * dice.lognormvariate(0.0, SIGMA), self.minutes_max)

    def draw(self, fleet: FleetSpec, dice: random.Random, number: int) -> WorkloadSpec:
        """What one of them is: with GPUs or without."""
        region = draw_region(fleet, dice, self.gpu_type)
        job = self._cpu_job(region, dice) if dice.random() < self.cpu_share else self._gpu_job(region, dice)
        return WorkloadSpec(
            name=f"{self.name}-{number}",
            jobs=(job,),
            tenant=self.draw_tenant(dice),
            priority=self.draw_priority(dice),
            retry=draw_retry(dice),
        )

    def _gpu_job(self, region: RegionSpec, dice: random.Random) -> JobSpec:
        gpus = self.at_most(dice.choices(GPUS, GPU_WEIGHTS)[0], region)
        return self.job(region, gpus, self.emulation(60 * self.draw_minutes(dice), dice))

    def _cpu_job(self, region: RegionSpec, dice: random.Random) -> JobSpec:
        """Its duration is scaled as that of the others."""
        tasks = round(CPU_TASKS_MEDIAN * dice.lognormvariate(0.0, CPU_TASKS_SIGMA))
        tasks = max(1, min(tasks, CPU_TASKS_MAX, region.nodes))
        scale = self.minutes_median / MINUTES_MEDIAN
        minutes = CPU_MINUTES_MEDIAN * scale * dice.lognormvariate(0.0, CPU_SIGMA)
        minutes = min(minutes, CPU_MINUTES_MAX * scale, self.minutes_max)
        return JobSpec("main", tasks, CPU_NEED, region.gpu_type, self.emulation(60 * minutes, dice))


def _run_of(like: WorkloadSpec, dice: random.Random) -> WorkloadSpec:
    """The same once more, at times a little shorter."""
    factor = dice.uniform(RUN_SHARE_MIN, 1.0)
    return replace(like, jobs=tuple(scaled(job, factor) for job in like.jobs))


def scaled(job: JobSpec, factor: float) -> JobSpec:
    """The same with so much of its work."""
    assert job.emulation is not None, "a drawn load is emulated"
    emulation = replace(
        job.emulation,
        work=Nanoseconds(max(1, round(job.emulation.work * factor))),
        fails_after=Nanoseconds(round(job.emulation.fails_after * factor)),
    )
    return replace(job, emulation=emulation)
