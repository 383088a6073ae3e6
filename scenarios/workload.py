"""Workloads of a scenario: who submits what, when, and what they do with it then. The sorts are in `scenarios/workloads/`.

Sizes and priorities are drawn from published distributions of a GPU training fleet, scaled to the scenario's fleet and day.

source    MAST (OSDI'24) §5.1 and fig. 7, as calibrated: durations lognormal, GPUs per workload with the percentiles
          16/64/128, seven priority levels with the shares 3/20/16/54/0.2/0.5/0.02 % and 6 % lowest
"""

import random
from typing import Annotated, Self

from msgspec import Meta, Struct
from msgspec.structs import replace

from core.nouns.ids import DatasetName, TenantName
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.operation import ControlSpec
from core.nouns.pipeline import PipelineSpec
from core.nouns.pool import SHARED_POOL
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import Emulation, JobSpec, Kind, RetryLimits, WorkloadSpec
from runtime.fleet_file import EMULATED_NODE, RegionSpec
from scenarios.schema.fleet import FleetSpec, emulated_regions, parts_of
from scenarios.schema.parts import (
    SECONDS_MAX,
    Compression,
    Count,
    FieldError,
    Hours,
    Minutes,
    NotNegative,
    Part,
    Positive,
    Share,
    Steps,
    unknown,
)

GPUS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
GPU_WEIGHTS = (4.0, 4.0, 8.0, 24.0, 22.0, 18.0, 14.0, 5.2, 0.8)
PRIORITIES = (6, 5, 4, 3, 2, 1, 0)
PRIORITY_WEIGHTS = (3.0, 20.0, 16.0, 54.0, 0.2, 0.5, 6.3)
SIGMA = 1.6
"""Of the logarithm of the duration. Less than the fleet's 2.3, so that a day holds the tail that it draws."""
CHECKPOINT_SECONDS = (300.0, 600.0, 1800.0)
Priority = Annotated[int, Meta(ge=min(PRIORITIES), le=max(PRIORITIES))]
CPU_MILLI_PER_GPU = 8000
MEMORY_PER_GPU = 64 << 30
TENANTS = 20
Weight = Annotated[float, Meta(gt=0.0, le=SECONDS_MAX)]
CONTROLLED = TenantName("apps")
"""The tenant of work that has a controller, and of the controllers."""
OTHER_KINDS = tuple(kind for kind in Kind if kind not in (Kind.TRAINING, Kind.SHARED))
LIMIT_FACTORS = (0.3, 2.0)
"""Of the work, between which a longest duration is drawn. A guess; no published figures are known to us."""
SPAN_SECONDS_MAX = 100_000_000
"""Three years: above all ceilings of hours and minutes, and far below the last nanosecond that a clock can tell."""


class Arrival(Struct, frozen=True):
    """One workload or pipeline, when it is submitted, and what its user does with it later; spans count from its submission."""

    at: Nanoseconds
    spec: WorkloadSpec
    cancel_after: Nanoseconds | None = None
    hold_after: Nanoseconds | None = None
    release_after: Nanoseconds | None = None
    """Later than the hold."""
    requeue_after: Nanoseconds | None = None
    pipeline: PipelineSpec | None = None
    """The pipeline that is submitted; `spec` is its first stage's. None: the workload alone."""
    stage: int = 0
    """The stage of the pipeline that its user holds or requeues, by place; a cancel is of the whole pipeline."""
    until_calls_end: bool = False
    """Its user cancels it once every call of a function has ended (scenarios/play/callers.py)."""

    @property
    def workloads(self) -> int:
        """Return the number of workloads that its submission makes."""
        return 1 if self.pipeline is None else len(self.pipeline.stages)


class Workload(Part, frozen=True):
    """One sort of load. A sort says when workloads arrive; what they are is drawn alike."""

    workloads: Positive
    hours: Hours
    """Over which they arrive."""
    minutes_median: Minutes = 20.0
    minutes_max: Minutes = 600.0
    gpus_max: Positive | None = None
    """Of one workload; as many as one region has, if this is not said."""
    priority: Priority | None = None
    """Of all of them; as in the published fleet, if this is not said, or its tenant's level, if it is said whose they are."""
    tenant: str = ""
    """Whose all of them are; one of twenty tenants' each, if neither this nor `tenants` is said and the scenario has none."""
    tenants: dict[str, Weight] = {}
    """Whose they are: each is one of these tenants', drawn by these weights."""
    gpu_type: str = ""
    """On which all of them run; if this is not said, each on that of a region that is drawn, larger ones more often."""
    fails_share: Share = 0.05
    """Whose tasks fail once they ran for a while."""
    cancels_share: Share = 0.02
    holds_share: Share = 0.0
    """Who are held for a while and released."""
    requeues_share: Share = 0.0
    """Whose running attempt is requeued."""
    unsaved_share: Share = 0.0
    """Who never write a checkpoint."""
    other_kinds_share: Share = 0.0
    """Who are no training: interactive work, services, batches or functions."""
    limited_share: Share = 0.0
    """Who may run only for so long, drawn around as long as they work: some are ended before they are through."""
    pinned_share: Share = 0.0
    """Who run in one region alone."""
    data: tuple[str, ...] = ()
    """Datasets of which each reads one, drawn; nobody reads any, if this is not said."""
    alone_share: Share = 0.0
    """Who share their nodes with no other tenant."""
    kind: Kind | None = None
    """Of all of them; training, where `other_kinds_share` draws nothing else."""
    controller: str = ""
    """Who must agree before their tasks are touched: one of the scenario's `controllers`. Their tenant is then its."""
    unavailable_max: Count = 0
    """Tasks of one of their jobs that may be unavailable while more are released; 0: a tenth."""
    is_strict: bool = False
    """They stop by themselves when their region has not been heard for a while."""
    move_after_seconds: NotNegative = 0.0
    """How long their region may be silent before they go on elsewhere, compressed already; 0: they wait for it."""
    checkpoint_gib: NotNegative = 0.0
    """Of each: what comes along when one of them moves to another region."""
    two_jobs_share: Share = 0.0
    """Who are two jobs, which are placed together, and of which one ends before the other. Of two GPUs or more."""
    change_minutes: Minutes = 120.0
    """Within so much of the submission users change their minds: they cancel, hold, and requeue."""
    compression: Compression = 1.0
    """By which every span that is drawn is divided: a day in minutes."""

    @property
    def amount(self) -> int:
        """The number of submissions."""
        return self.workloads

    def of_amount(self, amount: int) -> Self:
        """Return the same load with another number of submissions."""
        return replace(self, workloads=amount)

    @property
    def span(self) -> float:
        """Seconds over which they arrive."""
        return 3600 * self.hours / self.compression

    @property
    def of_tenants(self) -> tuple[str, ...]:
        """Tenants whom it names."""
        return (self.tenant, *self.tenants) if self.tenant else (*self.tenants,)

    @property
    def lasts(self) -> float:
        """Seconds that the longest of them runs."""
        return 60 * self.minutes_max / self.compression

    def times(self, dice: random.Random) -> list[float]:
        """When each arrives, as a share of the span."""
        raise NotImplementedError

    def problem(self, fleet: FleetSpec, path: Steps) -> FieldError | None:
        """What the types cannot say is wrong with it on this fleet."""
        if problem := self._too_long():
            return FieldError((*path, "compression"), problem)
        if self.tenant and self.tenants:
            return FieldError((*path, "tenants"), "either `tenant` or `tenants` says whose they are")
        emulated = list(emulated_regions(fleet).values())
        if not emulated:
            return FieldError(path, "a load is drawn for emulated nodes, and this fleet has none")
        if self.gpu_type and self.gpu_type not in (types := {region.gpu_type for region in emulated}):
            return FieldError((*path, "gpu_type"), unknown(self.gpu_type, types, what="GPU type"))
        largest = max(gpus_of(region) for region in emulated if self.gpu_type in ("", region.gpu_type))
        if self.gpus_max is not None and self.gpus_max > largest:
            kind = f" {self.gpu_type}" if self.gpu_type else ""
            text = f"a workload of {self.gpus_max}{kind} GPUs fits no region of this fleet: the largest has {largest}"
            return FieldError((*path, "gpus_max"), text)
        return None

    def _too_long(self) -> str:
        """That a span, once it is divided, is longer than a plane is played; a compression below 1 makes it longer."""
        spans = {
            "hours": self.span,
            "minutes_max": self.lasts,
            "change_minutes": 60 * self.change_minutes / self.compression,
        }
        for name, span in spans.items():
            if span > SPAN_SECONDS_MAX:
                return f"by this `{name}` comes to {span:g} seconds, and at most {SPAN_SECONDS_MAX:,} can be played"
        return ""

    def arrivals(self, fleet: FleetSpec, dice: random.Random) -> list[Arrival]:
        """All of them, by arrival."""
        times = sorted(self.times(dice))
        return [
            self.arrival(self.draw(fleet, dice, number), share * self.span, dice)
            for number, share in enumerate(times)
        ]

    def draw(self, fleet: FleetSpec, dice: random.Random, number: int) -> WorkloadSpec:
        """What one of them is."""
        region = draw_region(fleet, dice, self.gpu_type)
        gpus = self.at_most(dice.choices(GPUS, GPU_WEIGHTS)[0], region)
        emulation = self.emulation(60 * self.draw_minutes(dice), dice)
        spec = WorkloadSpec(
            name=f"{self.name}-{number}",
            jobs=(self.job(region, gpus, emulation),),
            tenant=self.draw_tenant(dice),
            priority=self.draw_priority(dice),
            retry=draw_retry(dice),
            data=(DatasetName(dice.choice(self.data)),) if self.data else (),
            move_after=seconds(self.move_after_seconds),
            checkpoint_bytes=round(self.checkpoint_gib * (1 << 30)),
        )
        return self._controlled(self._varied(spec, fleet, region, gpus, dice))

    def _controlled(self, spec: WorkloadSpec) -> WorkloadSpec:
        """Of the kind that is said, and under whoever controls it."""
        if self.kind is not None:
            spec = replace(spec, kind=self.kind)
        if self.controller:
            spec = replace(spec, tenant=CONTROLLED)
        control = ControlSpec(self.controller, self.unavailable_max, self.is_strict)
        return spec if control == ControlSpec() else replace(spec, control=control)

    def _varied(
        self, spec: WorkloadSpec, fleet: FleetSpec, region: RegionSpec, gpus: int, dice: random.Random
    ) -> WorkloadSpec:
        """What few loads have. Dice are thrown only where they do, so that the others are drawn as ever."""
        (job,) = spec.jobs
        assert job.emulation is not None, "a drawn load is emulated"
        if self.other_kinds_share and dice.random() < self.other_kinds_share:
            spec = replace(spec, kind=dice.choice(OTHER_KINDS))
        if self.limited_share and dice.random() < self.limited_share:
            span = round(job.emulation.work * dice.uniform(*LIMIT_FACTORS))
            spec = replace(spec, max_duration=Nanoseconds(max(1, span)))
        if self.pinned_share and dice.random() < self.pinned_share:
            names = [name for name, one in emulated_regions(fleet).items() if one == region]
            spec = replace(spec, regions=(dice.choice(names),))
        if self.two_jobs_share and dice.random() < self.two_jobs_share and gpus > 1:
            spec = replace(spec, jobs=self._two_jobs(region, gpus, job.emulation, dice))
        if self.alone_share and dice.random() < self.alone_share:
            spec = replace(spec, jobs=tuple(replace(job, is_alone=True) for job in spec.jobs))
        return spec

    def _two_jobs(
        self, region: RegionSpec, gpus: int, emulation: Emulation, dice: random.Random
    ) -> tuple[JobSpec, ...]:
        """The GPUs of one, in two parts, each of whole nodes where it needs more than one."""
        half = gpus // 2
        if half > region.gpus_per_node:
            half -= half % region.gpus_per_node
        shorter = replace(
            emulation,
            work=Nanoseconds(max(1, round(emulation.work * dice.random()))),
            fails_after=Nanoseconds(0),
        )
        first, second = self.job(region, gpus - half, emulation), self.job(region, half, shorter)
        return first, replace(second, name="side")

    def draw_tenant(self, dice: random.Random) -> TenantName:
        """The one that is said, or one of several; where neither is said, all are alike."""
        if self.tenants:
            return TenantName(dice.choices([*self.tenants], [*self.tenants.values()])[0])
        drawn = TenantName(f"tenant-{dice.randrange(TENANTS)}")
        return TenantName(self.tenant) if self.tenant else drawn

    def draw_priority(self, dice: random.Random) -> int | None:
        """The one that is said, or one of which few are urgent; what else is drawn is the same in both cases."""
        drawn = dice.choices(PRIORITIES, PRIORITY_WEIGHTS)[0]
        if self.priority is None and (self.tenant or self.tenants):
            return None
        return drawn if self.priority is None else self.priority

    def draw_minutes(self, dice: random.Random) -> float:
        """How long one of them runs."""
        return min(self.minutes_median * dice.lognormvariate(0.0, SIGMA), self.minutes_max)

    def at_most(self, gpus: int, region: RegionSpec) -> int:
        """So many GPUs, or as many as one workload may have here; whole nodes, where it is more than one."""
        most = min(self.gpus_max or gpus_of(region), gpus_of(region))
        if most > region.gpus_per_node:
            most -= most % region.gpus_per_node
        return min(gpus, most)

    def job(self, region: RegionSpec, gpus: int, emulation: Emulation) -> JobSpec:
        """A job of so many GPUs, whole nodes of this sort of region where it needs more than one."""
        per_task = max(1, min(gpus, region.gpus_per_node))
        need = Amount(
            MILLI * per_task,
            min(CPU_MILLI_PER_GPU * per_task, EMULATED_NODE.cpu_milli),
            min(MEMORY_PER_GPU * per_task, EMULATED_NODE.memory_bytes),
        )
        return JobSpec("main", max(1, -(-gpus // per_task)), need, region.gpu_type, emulation)

    def emulation(self, work: float, dice: random.Random) -> Emulation:
        """What its tasks do: work for so many seconds, checkpoint, and fail or not. Spans are divided here."""
        saves = dice.random() >= self.unsaved_share
        every = dice.choice(CHECKPOINT_SECONDS)
        fails = dice.random() < self.fails_share
        fails_after = work * dice.uniform(0.1, 0.9)
        return Emulation(
            work=seconds(max(0.001, work / self.compression)),
            checkpoint_every=seconds(every / self.compression) if saves else Nanoseconds(0),
            fails_after=seconds(fails_after / self.compression) if fails else Nanoseconds(0),
            stop_span=seconds(dice.uniform(1.0, 40.0) / self.compression),
        )

    def arrival(self, spec: WorkloadSpec, at: float, dice: random.Random) -> Arrival:
        """When it comes, and what its user does with it: draws the same number of times whatever is drawn."""

        def drawn(share: float) -> Nanoseconds | None:
            """Some time after the submission, or never."""
            happens, after = dice.random() < share, dice.uniform(1.0, 60 * self.change_minutes)
            return seconds(after / self.compression) if happens else None

        cancel, hold, requeue = (
            drawn(self.cancels_share),
            drawn(self.holds_share),
            drawn(self.requeues_share),
        )
        held_for = dice.uniform(1.0, 15 * self.change_minutes) / self.compression
        release = None if hold is None else Nanoseconds(hold + seconds(held_for))
        return Arrival(seconds(at), spec, cancel, hold, release, requeue)


def gpus_of(region: RegionSpec) -> int:
    """All GPUs of a region."""
    return region.nodes * region.gpus_per_node


def draw_region(fleet: FleetSpec, dice: random.Random, gpu_type: str = "") -> RegionSpec:
    """One of the fleet's regions of this GPU type, or of any, outside shared pools: for the sort of hardware that a workload wants.
    Larger regions are drawn more often; of a region with several types, one part is drawn.
    """
    parts = [part for region in emulated_regions(fleet).values() for part in parts_of(region)]
    regions = [region for region in parts if gpu_type in ("", region.gpu_type) and region.pool != SHARED_POOL]
    return dice.choices(regions, [gpus_of(region) for region in regions])[0]


def draw_retry(dice: random.Random) -> RetryLimits:
    """How often somebody wants to try again."""
    return RetryLimits(task_failed=dice.choice((0, 1, 2)))
