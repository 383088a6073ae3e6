"""The load of a published fleet, as `calibrated` draws it, with the set-up of each attempt, and enough at the start to fill a fleet.

    GPUs of a workload     1: 4 %, 2: 4, 4: 8, 8: 24, 16: 22, 32: 18, 64: 14, 128: 5.2, 256 and more: 0.8
    works, with GPUs       lognormal, median 20 min, sigma 2.3, cut at 14 days
    works, without         lognormal, median 38 min, sigma 1.9, cut at 38 h; 30 % of all
    set-up                 lognormal, median 150 s, sigma 0.47
    priorities 6 to 0      3 %, 20, 16, 54, 0.2, 0.5, and 0.02 and the 6 % that name none
    recurring              30 % of all

source    MAST (OSDI'24) §5.1 and §5.5 (set-up: 150 s, 278 s and 449 s at p50, p90 and p99, of which this makes 150, 274 and
          448); the sizes are a guess that meets the published 16/64/128
"""

import math
import random

from msgspec.structs import replace

from core.nouns.fleet import CPU_TYPE
from core.nouns.instant import seconds
from core.nouns.placement import gpu_milli_of
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import Emulation, JobSpec, WorkloadSpec
from runtime.fleet_file import RegionSpec
from scenarios.schema.fleet import FleetSpec, emulated_regions
from scenarios.schema.parts import Count, Minutes, NotNegative
from scenarios.workload import Arrival, gpus_of
from scenarios.workloads.calibrated import Calibrated, scaled

SET_UP_SECONDS, SET_UP_SIGMA = 150.0, 0.47
CPU_NEED = Amount(0, 8_000, 32 << 30)
"""Of one task without GPUs. Published is only on how many machines they are."""


class Mast(Calibrated, frozen=True):
    """What a fleet of GPUs is asked for, and its set-up. What comes at the start comes on top of `workloads`."""

    standing: NotNegative = 0.0
    """So many times the fleet's GPUs are asked for within the first minutes, by what an endless past has left: drawn by how long it runs,
    and through with some of that, as whatever runs at any time is."""
    standing_minutes: Minutes = 10.0
    """Within which they come."""
    bursts: Count = 0
    """In which all come that do not recur, at times that are drawn; 0: they come at any time."""
    burst_minutes: Minutes = 5.0
    """How long each lasts."""

    def arrivals(self, fleet: FleetSpec, dice: random.Random) -> list[Arrival]:
        """Those of the start, and the others."""
        wanted = self.standing * sum(gpus_of(region) for region in emulated_regions(fleet).values())
        found: list[Arrival] = []
        longest = seconds(self.lasts)
        while wanted > 0:
            spec = self.draw(fleet, dice, self.workloads + len(found))
            if longest * dice.random() >= _work_of(spec):
                continue  # Of what runs at any time there is as much of each length as it is long.
            left = dice.random()
            jobs = tuple(scaled(job, left) for job in spec.jobs)
            spec = replace(spec, name=f"{self.name}-standing-{len(found)}", jobs=jobs)
            wanted -= gpu_milli_of(jobs) / MILLI
            at = 60 * self.standing_minutes / self.compression * dice.random()
            found.append(self.arrival(spec, at, dice))
        return sorted([*found, *super().arrivals(fleet, dice)], key=lambda arrival: arrival.at)

    def times(self, dice: random.Random) -> list[float]:
        """A burst is drawn for each, and a time within it."""
        if not self.bursts:
            return super().times(dice)
        length = min(1.0, self.burst_minutes / (60 * self.hours))
        begins = [dice.uniform(0.0, 1.0 - length) for _ in range(self.bursts)]
        return [dice.choice(begins) + dice.uniform(0.0, length) for _ in super().times(dice)]

    def draw(self, fleet: FleetSpec, dice: random.Random, number: int) -> WorkloadSpec:
        """What one of them is; all runs of a series set up alike."""
        spec = super().draw(fleet, dice, number)
        set_up = SET_UP_SECONDS * math.exp(SET_UP_SIGMA * dice.gauss(0.0, 1.0)) / self.compression
        return replace(spec, jobs=tuple(_setting_up(job, set_up) for job in spec.jobs))

    def _cpu_job(self, region: RegionSpec, dice: random.Random) -> JobSpec:
        """On machines of their own, as published, where there are any."""
        job = replace(super()._cpu_job(region, dice), need=CPU_NEED)
        return replace(job, gpu_type=CPU_TYPE) if region.cpu_nodes else job


def _work_of(spec: WorkloadSpec) -> int:
    return max(job.emulation.work for job in spec.jobs if job.emulation is not None)


def _setting_up(job: JobSpec, set_up: float) -> JobSpec:
    emulation = job.emulation
    assert isinstance(emulation, Emulation), "a drawn load is emulated"
    return replace(job, emulation=replace(emulation, set_up=seconds(set_up)))
