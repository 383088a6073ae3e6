"""The load of the benchmark `estimate`: jobs of a public trace as they came, or jobs that are drawn to be like them.

Nothing of the trace is stretched: its times, run times, sizes and virtual clusters are as they were, but for the longest run times and
the widest jobs, which are cut. It has neither names nor failures, so that all jobs of one virtual cluster are one family, and none
fails. Where the trace is not there, jobs are drawn: in crowds, for users submit many at once, and those of one crowd are alike.

source    the trace: scenarios/workloads/philly.py. What is drawn: its percentiles of run time (61 s, 20 min, 3 h) and the shares of
          its sizes; that crowds have six jobs on average and differ more from each other than within is a guess
"""

import random
from collections.abc import Sequence
from pathlib import Path

from core.nouns.ids import TenantName
from core.nouns.instant import seconds
from core.nouns.workload import WorkloadSpec
from scenarios.schema.fleet import FleetSpec
from scenarios.trace import TracedJob
from scenarios.workload import Arrival, Workload, draw_region
from scenarios.workloads.philly import FILE, Philly

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "data" / "philly-2017"
TENANTS = 15
GPUS, GPU_SHARES = (1, 2, 4, 8, 16), (84, 6, 5, 4, 1)
CROWD_MEAN = 6
CROWD_MEDIAN, CROWD_SIGMA, JOB_SIGMA = 1_190.0, 1.6, 1.0
"""Seconds, and of logarithms: of the medians of crowds, and within one."""


class AsTraced(Workload, frozen=True):
    """These jobs, at their times, on behalf of their virtual clusters."""

    jobs: tuple[TracedJob, ...] = ()

    def arrivals(self, fleet: FleetSpec, dice: random.Random) -> list[Arrival]:
        """As they are."""
        first = self.jobs[0].at or 0.0
        return [
            Arrival(seconds((job.at or 0.0) - first), self._spec(fleet, dice, number, job))
            for number, job in enumerate(self.jobs)
        ]

    def _spec(self, fleet: FleetSpec, dice: random.Random, number: int, traced: TracedJob) -> WorkloadSpec:
        region = draw_region(fleet, dice)
        work = min(traced.seconds or 1.0, 60 * self.minutes_max)
        job = self.job(region, self.at_most(traced.gpus, region), self.emulation(max(1.0, work), dice))
        return WorkloadSpec(f"job-{number}", (job,), TenantName(traced.tenant))


def load_of(jobs: Sequence[TracedJob], *, hours_max: float, gpus_max: int) -> AsTraced:
    """Of these, by arrival: nobody runs longer than that, or on more GPUs."""
    span = (jobs[-1].at or 0.0) - (jobs[0].at or 0.0)
    return AsTraced(
        workloads=len(jobs),
        hours=span / 3_600,
        minutes_max=60 * hours_max,
        gpus_max=gpus_max,
        priority=3,
        fails_share=0.0,
        cancels_share=0.0,
        unsaved_share=1.0,
        jobs=tuple(jobs),
    )


def traced(folder: Path, first: int, count: int) -> Sequence[TracedJob]:
    """So many jobs of the trace, or none where it is not there."""
    if not (folder / FILE).is_file():
        return ()
    return Philly(workloads=count, hours=1.0, directory=str(folder)).jobs()[first : first + count]


def drawn(count: int, gpus: int, load: float, seed: int = 1) -> Sequence[TracedJob]:
    """So many that ask for this share of so many GPUs."""
    dice = random.Random(f"estimate/{seed}")
    jobs: list[TracedJob] = []
    while len(jobs) < count:
        size = min(count - len(jobs), 1 + int(dice.expovariate(1 / CROWD_MEAN)))
        tenant, width = f"vc-{dice.randrange(TENANTS)}", dice.choices(GPUS, GPU_SHARES)[0]
        median = CROWD_MEDIAN * dice.lognormvariate(0.0, CROWD_SIGMA)
        spans = [median * dice.lognormvariate(0.0, JOB_SIGMA) for _ in range(size)]
        jobs += [TracedJob(gpus=width, seconds=span, tenant=tenant) for span in spans]
    wanted = sum(job.gpus * min(job.seconds or 0.0, 86_400.0) for job in jobs)
    return _at_times(jobs, wanted / gpus / load, dice)


def _at_times(jobs: Sequence[TracedJob], span: float, dice: random.Random) -> Sequence[TracedJob]:
    """Over a span, those of one crowd together."""
    crowds: dict[tuple[str, int], float] = {}
    found = []
    for job in jobs:
        at = crowds.setdefault((job.tenant, job.gpus), dice.uniform(0.0, span))
        if dice.random() < 1 / CROWD_MEAN:
            del crowds[job.tenant, job.gpus]
        found.append(
            TracedJob(gpus=job.gpus, at=at + dice.uniform(0.0, 60.0), seconds=job.seconds, tenant=job.tenant)
        )
    return sorted(found, key=lambda job: job.at or 0.0)
