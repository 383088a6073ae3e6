"""How long work waited for its start, within its tenant's quota and over it: from the queue's log.

A wait begins with the submission, and again whenever an attempt that ran has ended and the workload waits once more. It ends when
all ranks are up and, of emulated work, set up; an attempt that is lost before that ends no wait. Its time is within quota while the
workload's tenant had room for it, by the queue's own reference of who takes a quota (core/ranking/scan.py), or while it stood awarded
within quota; the rest is over quota, and time on hold is neither. A stage of a pipeline waits from when its forerunners have completed. By how it stood when it began a wait is of the class `within` or `over`.
"""

from bisect import bisect_left, insort
from collections import Counter

from msgspec import Struct, field
from msgspec.structs import replace

from core.events.pipelines import PipelineSubmitted
from core.events.queue import (
    AttemptClosed,
    AwardReturned,
    PrioritySet,
    StandingChanged,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadHeld,
    WorkloadReleased,
    WorkloadSubmitted,
)
from core.events.tenants import BudgetSet, EntitlementSet, RankingSet, TenantSet
from core.fact import Fact
from core.images.queue import GlobalImage
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import Instant
from core.nouns.placement import gpu_milli_of
from core.nouns.tenant import LEVEL_MAX, OVER_LEVEL
from core.nouns.workload import EndCause, Phase, WorkloadSpec
from core.ranking.scan import PendingWork, QuotaClass, TenantState, Walk
from core.rules.quota import entitled_to, level_asked, may_be_over, needs_of, types_under_quota

OF_TENANTS = (TenantSet, EntitlementSet, BudgetSet, RankingSet)
OfOne = (
    WorkloadAwarded
    | StandingChanged
    | AwardReturned
    | AttemptClosed
    | WorkloadCancelled
    | WorkloadHeld
    | WorkloadReleased
    | PrioritySet
)
RAN = (EndCause.COMPLETED, EndCause.TASK_FAILED)
HIGH_LEVEL = 4
"""The lowest level that is called high: it and those above it have 39 % of the work in MAST's paper (§4.2)."""


class Wait(Struct):
    """One wait. Spans are in nanoseconds."""

    workload: WorkloadId
    level: int
    """That it asks for."""
    gpu_milli: int
    works: int
    """How long it takes to run, where that is known: of emulated work; 0: it is not."""
    set_up: int
    """Of `ended_at`, what its set-up took, once it has started."""
    began_at: Instant
    is_first: bool
    is_within: bool = False
    """How it stood when it began."""
    within: int = 0
    over: int = 0
    ended_at: int = 0
    """When it was over; 0: it is not."""
    has_started: bool = False

    @property
    def whole(self) -> int:
        """All of it."""
        return self.within + self.over


class Row(Struct):
    """A workload that has not ended."""

    work: PendingWork
    spec: WorkloadSpec
    level: int
    set_up: int
    wait: Wait | None
    """None while it runs."""
    is_held: bool = False
    award: int | None = None
    """The level of the award that stands."""
    charge: dict[str, int] = field(default_factory=dict)
    """What that holds."""
    is_within: bool = False
    """How its time counts."""
    is_counted: bool = True
    """Whether it does."""
    since: int = 0
    """When that began."""
    away: int = 0
    """Datasets that it reads whose home is elsewhere than where it runs."""
    ran_from: int = 0
    setting_up: Wait | None = None
    """The wait that its set-up ended, or is to end."""
    set_up_within: bool = False
    """How that set-up was counted."""


class Line(Struct):
    """A tenant's workloads that would take of its quota, or do."""

    pending: list[tuple[int, int, WorkloadId]] = field(default_factory=list)
    """Level negated, number: in the order in which they take it."""
    needs: dict[str, Counter[int]] = field(default_factory=dict)
    """By GPU type, how many of them need so much."""
    within: dict[WorkloadId, None] = field(default_factory=dict)
    """Those of them that are within quota."""
    awarded: dict[WorkloadId, None] = field(default_factory=dict)

    def add(self, place: tuple[int, int, WorkloadId], work: PendingWork, sign: int) -> None:
        """One of them more, or less."""
        for need in work.needs:
            for kind, count in need.items():
                counts = self.needs.setdefault(kind, Counter())
                counts[count] += sign
                if not counts[count]:
                    del counts[count]
        if sign > 0:
            insort(self.pending, place)
        else:
            del self.pending[bisect_left(self.pending, place)]
            self.within.pop(place[2], None)

    def could_take(self, walk: Walk) -> bool:
        """Whether any of them needs no more than what is left."""
        return any(
            walk.within.get(kind, 0) + min(counts) <= walk.tenant.entitled.get(kind, 0)
            for kind, counts in self.needs.items()
            if counts
        )


class Waits:
    """Told of each fact of the queue's log, in order."""

    def __init__(self) -> None:
        self.waits: list[Wait] = []
        """All that have ended, and those that have not."""
        self.wasted: dict[WorkloadId, None] = {}
        """Workloads that ended, and did not complete."""
        self.phases: dict[Phase, int] = {}
        """How many ended how."""
        self.submitted = self.preempted = 0
        self.reading = self.reading_away = 0
        """GPU-milli-nanoseconds of high-priority work that reads data, and of that what ran elsewhere than its data's home."""
        self._image = GlobalImage.empty(("tenants", "pipelines"))
        self._rows: dict[WorkloadId, Row] = {}
        self._lines: dict[TenantName, Line] = {}
        self._quota: frozenset[str] = frozenset()

    def take(self, fact: Fact) -> None:
        """A fact of the log."""
        event, at = fact.event, fact.at
        self._image.fold(fact)
        if isinstance(event, OF_TENANTS):
            self._tenants_set(at)
        elif isinstance(event, WorkloadSubmitted):
            self._submit(event, at)
        elif isinstance(event, PipelineSubmitted):
            for stage in event.stages:
                if stage.after:
                    self._change(self._rows[stage.workload], WorkloadHeld(stage.workload, 0), at)
        elif isinstance(event, WorkloadBound):
            self._start(self._rows[event.workload], at)
        elif isinstance(event, OfOne):
            row = self._rows.get(event.workload)
            if row is not None:
                self._change(row, event, at)
            if isinstance(event, AttemptClosed) and event.phase is Phase.COMPLETED:
                self._let_followers_wait(event.workload, at)

    def _let_followers_wait(self, workload: WorkloadId, at: Instant) -> None:
        """A stage has completed: those that waited for it and for no other one wait for their start from now on."""
        pipelines = self._image.pipelines
        pipeline = pipelines.pipeline(workload)
        for stage in pipeline.stages if pipeline is not None else ():
            row = self._rows.get(stage.workload)
            if row is not None and row.wait is not None and stage.after and stage.ready_at == at:
                row.wait.began_at = row.since = at
                self._change(row, WorkloadReleased(stage.workload, 0), at)

    def until(self, at: Instant) -> None:
        """Count what waits still up to there."""
        for row in self._rows.values():
            self._count(row, at)

    # What happens to one.

    def _submit(self, event: WorkloadSubmitted, at: Instant) -> None:
        self.submitted += 1
        spec = event.spec
        level = level_asked(spec, self._image.tenants)
        set_up = max((job.emulation.set_up for job in spec.jobs if job.emulation), default=0)
        work = self._work(event.workload, event.number, spec, at)
        row = self._rows[event.workload] = Row(work, spec, level, set_up, None, since=at)
        self._begin(row, at, is_first=True)

    def _begin(self, row: Row, at: Instant, *, is_first: bool) -> None:
        """It waits from now on."""
        works = max((job.emulation.work for job in row.spec.jobs if job.emulation), default=0)
        gpu_milli = gpu_milli_of(row.spec.jobs)
        row.wait = Wait(row.work.workload, row.level, gpu_milli, works, row.set_up, at, is_first=is_first)
        self.waits.append(row.wait)
        row.since, row.is_counted = at, True
        self._join(row, at)
        row.wait.is_within = row.is_within

    def _start(self, row: Row, at: Instant) -> None:
        """Its set-up counts as waiting."""
        row.ran_from = at
        if row.wait is not None:
            ready = Instant(at + row.set_up)
            self._count(row, ready)
            row.wait.ended_at, row.wait.has_started = ready, True
            row.setting_up, row.set_up_within, row.wait = row.wait, row.is_within, None

    def _reopen(self, row: Row, at: Instant) -> None:
        """Its attempt is over. Unless it had been set up by then, its wait was not, and goes on."""
        wait, row.setting_up = row.setting_up, None
        if wait is None or at >= wait.ended_at:
            return
        missing = wait.ended_at - at
        if row.set_up_within:
            wait.within -= missing
        else:
            wait.over -= missing
        wait.ended_at, wait.has_started = 0, False
        row.wait, row.since = wait, at

    def _change(self, row: Row, event: OfOne, at: Instant) -> None:
        match event:
            case WorkloadAwarded(level=level, charge=charge):
                self._leave(row, at)
                row.award, row.charge = level or 0, dict(charge)
                row.away = event.bids[0].away if event.bids and row.spec.data else 0
                self._line(row).awarded[event.workload] = None
                self._stand(row, at, is_within=level != OVER_LEVEL)
            case StandingChanged(level=level, charge=charge):
                row.award, row.charge = level, dict(charge)
                self._stand(row, at, is_within=level != OVER_LEVEL)
            case AwardReturned():
                self._wait_again(row, at)
            case AttemptClosed(phase=phase):
                self.preempted += event.cause is EndCause.PREEMPTED
                if event.cause in RAN and row.wait is not None:
                    self._start(row, at)  # It was over before the queue had heard that it was up.
                if event.cause not in RAN:
                    self._reopen(row, at)
                self._ran(row, at)
                self._end(row, phase, at) if phase.is_terminal else self._wait_again(row, at)
            case WorkloadCancelled():
                self._end(row, Phase.CANCELLED, at)
            case WorkloadHeld():
                self._leave(row, at)
                row.is_held = True
                row.is_counted = row.award is not None
            case WorkloadReleased():
                self._count(row, at)
                row.is_held, row.is_counted = False, True
                self._join(row, at)
            case PrioritySet(priority=priority):
                self._leave(row, at)
                row.spec = replace(row.spec, priority=priority)
                row.level = level_asked(row.spec, self._image.tenants)
                row.work = replace(row.work, level=row.level)
                self._join(row, at)
        self._walk(row.spec.tenant, at)

    def _wait_again(self, row: Row, at: Instant) -> None:
        self._line(row).awarded.pop(row.work.workload, None)
        self._count(row, at)
        row.award, row.charge = None, {}
        if row.wait is None:
            self._begin(row, at, is_first=False)
        else:
            self._join(row, at)
        row.is_counted = not row.is_held

    def _ran(self, row: Row, at: Instant) -> None:
        """An attempt of it is over."""
        if row.ran_from and row.spec.data and row.level >= HIGH_LEVEL:
            used = gpu_milli_of(row.spec.jobs) * (at - row.ran_from)
            self.reading += used
            self.reading_away += used if row.away else 0
        row.ran_from = 0

    def _end(self, row: Row, phase: Phase, at: Instant) -> None:
        self._leave(row, at)
        if row.wait is not None:
            row.wait.ended_at = at
        self._line(row).awarded.pop(row.work.workload, None)
        del self._rows[row.work.workload]
        self.phases[phase] = self.phases.get(phase, 0) + 1
        if phase is not Phase.COMPLETED:
            self.wasted[row.work.workload] = None

    # Who is within quota.

    def _stand(self, row: Row, at: Instant, *, is_within: bool) -> None:
        self._count(row, at)
        row.is_within = is_within

    def _count(self, row: Row, at: Instant) -> None:
        span = max(0, at - row.since) if row.is_counted else 0
        if row.wait is not None and row.is_within:
            row.wait.within += span
        elif row.wait is not None:
            row.wait.over += span
        row.since = max(row.since, at)

    def _walk(self, tenant: TenantName, at: Instant) -> None:
        """Each that waits takes its tenant's quota in turn, until there is less left than any of them needs."""
        line = self._lines.get(tenant)
        if line is None or not line.pending:
            return
        ranking = self._image.tenants.ranking
        patience = ranking.quota_patience
        walk = Walk(self._state(tenant, line), by_level=ranking.walks_by_level)
        found: dict[WorkloadId, None] = {}
        for _, _, workload in line.pending:
            work = self._rows[workload].work
            is_patient = bool(patience) and at - work.submitted_at >= patience
            if walk.step(work, is_patient=is_patient) is QuotaClass.NOMINAL:
                found[workload] = None
            if not line.could_take(walk):
                break
        for workload in line.within:
            if workload not in found:
                self._stand(self._rows[workload], at, is_within=False)
        for workload in found:
            if workload not in line.within:
                self._stand(self._rows[workload], at, is_within=True)
        line.within = found

    def _state(self, tenant: TenantName, line: Line) -> TenantState:
        within: dict[int, dict[str, int]] = {}
        held: dict[str, int] = {}
        for workload in line.awarded:
            row = self._rows[workload]
            amounts = [held] if row.award == OVER_LEVEL else [held, within.setdefault(row.level, {})]
            for kind, count in row.charge.items():
                for one in amounts:
                    one[kind] = one.get(kind, 0) + count
        entitled = entitled_to(self._image.tenants.rows.get(tenant), self._quota)
        return TenantState(level=LEVEL_MAX, entitled=entitled, held=held, within=within)

    def _tenants_set(self, at: Instant) -> None:
        """What is asked of quotas may be another, and of whom."""
        waiting = [row for row in self._rows.values() if row.award is None and not row.is_held]
        for row in waiting:
            self._leave(row, at)
        self._quota = types_under_quota(self._image.tenants)
        for row in self._rows.values():
            row.level = level_asked(row.spec, self._image.tenants)
            row.work = self._work(row.work.workload, row.work.number, row.spec, row.work.submitted_at)
        for row in waiting:
            self._join(row, at)

    def _work(self, workload: WorkloadId, number: int, spec: WorkloadSpec, at: Instant) -> PendingWork:
        needs = needs_of(spec, self._quota, sorted(self._quota))
        level = level_asked(spec, self._image.tenants)
        return PendingWork(workload, spec.tenant, number, at, needs, level, may_be_over(spec.kind))

    # A tenant's line. Whoever takes of no quota is within it, and not in the line.

    def _line(self, row: Row) -> Line:
        return self._lines.setdefault(row.spec.tenant, Line())

    def _join(self, row: Row, at: Instant) -> None:
        """It waits, unless it is held or an award stands."""
        if row.award is not None or row.is_held:
            return
        takes = any(row.work.needs)
        self._stand(row, at, is_within=not takes)
        if takes:
            self._line(row).add((-row.level, row.work.number, row.work.workload), row.work, 1)
            self._walk(row.spec.tenant, at)

    def _leave(self, row: Row, at: Instant) -> None:
        self._count(row, at)
        if row.award is None and not row.is_held and any(row.work.needs):
            self._line(row).add((-row.level, row.work.number, row.work.workload), row.work, -1)
