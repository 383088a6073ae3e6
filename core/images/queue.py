"""The image of the log `global`: every workload that is alive or lately ended, and which awards stand."""

from msgspec import Struct, field
from msgspec.structs import replace

from core.events.moves import MoveBegun, MoveEnded, MovePlanned
from core.events.pipelines import StagesHeld
from core.events.queue import (
    AttemptClosed,
    AwardReturned,
    CancelRequested,
    PrioritySet,
    RequeueRequested,
    StandingChanged,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadChanged,
    WorkloadHeld,
    WorkloadReleased,
    WorkloadsForgotten,
    WorkloadSubmitted,
)
from core.events.sharing import PicksAdded, RoundBegun
from core.events.starts import StartPromised, StartPromiseEnded
from core.fact import Fact
from core.images.awards import Awards
from core.images.base import Image, Section
from core.images.clock import AcceptedClock
from core.images.copies import Copies
from core.images.data_settings import DataSettings
from core.images.datasets import Datasets
from core.images.demand import Demand
from core.images.dispatch import Dispatch
from core.images.history import History
from core.images.packing import packed, shared, unpacked
from core.images.pipelines import Pipelines
from core.images.queue_reservations import StartPromises
from core.images.readings import Readings
from core.images.refusals import Refusals
from core.images.regions import Regions
from core.images.sharing import Sharing
from core.images.start_estimates import Starts
from core.images.tenants import Tenants
from core.images.usage import Usage
from core.nouns.ids import PipelineId, RegionName, TenantName, WorkloadId, submission_key
from core.nouns.instant import Instant
from core.nouns.moving import PlannedMove
from core.nouns.sharing import ShareColumn
from core.nouns.workload import EndCause, Kind, Phase, WorkloadSpec


class WorkloadRow(Struct, gc=False):
    """One workload."""

    number: int
    kept: WorkloadSpec | str = field(name="spec")
    """The spec; of an ended workload packed (core/images/packing.py), because a queue remembers a million of these."""
    submitter: str
    key: str
    submitted_at: int
    phase: Phase = Phase.PENDING
    is_held: bool = False
    hold_reason: str = ""
    """Which unit cannot handle the workload's messages; empty: a person holds it."""
    hold_incident: str = ""
    """The message for which the workload was held last."""
    hold_revision: int = 0
    is_cancel_requested: bool = False
    requeued_epoch: int = 0
    """The attempt that an operator wants stopped and placed anew."""
    epoch: int = 0
    """Of the newest award; it only grows."""
    region: RegionName = RegionName("")
    """Of the standing award."""
    award_sequence: int = 0
    awarded_at: int = 0
    """When the newest award was made; 0: never."""
    started_at: int = 0
    """When its gang was up; 0: it is not, or not yet known here."""
    resume_epoch: int = 0
    """Epoch of the checkpoint from which the next attempt resumes."""
    resume_step: int = 0
    tasks_failed: int = 0
    starts_failed: int = 0
    ended_at: int = 0
    last_cause: str = ""
    last_reason: str = ""
    spec_revision: int = 0
    """Grows whenever its user changes it."""
    level: int = 0
    """Of the newest award, `OVER_LEVEL` over quota."""
    charge: dict[str, int] = field(default_factory=dict)
    """GPU milli by type that the standing award holds, as last recorded."""
    types: tuple[tuple[str, ...], ...] = ()
    """To which the newest award holds its jobs."""
    standing_revision: int = 0
    """Grows whenever its level or its charge changes while an award stands."""
    level_revision: int = 0
    """The same, of the newest with another level: what its region is told."""
    priority_revision: int = 0
    start_revision: int = 0
    """Of the newest start that it was promised."""
    is_start_promised: bool = False
    """Whether that promise stands."""
    move_revision: int = 0
    move: PlannedMove | None = None
    """To another region, while it is under way."""
    pick: ShareColumn | None = None
    """Where it is to run in this round; None: it waits, or is not of a shared pool."""
    is_wide: bool = False
    """Whether it needs several GPUs of one node, and so may push out narrower picks."""
    beside: WorkloadId = WorkloadId("")
    """The job with which it is picked to share a GPU; empty: none."""
    is_guest: bool = False
    """Whether it comes beside that job; else the other comes beside it."""
    saved_region: RegionName = RegionName("")
    """Of a job of a shared pool, the region of the checkpoint that its next attempt resumes; empty: there is none."""
    saved_at: int = 0
    """When the attempt that saved it was over."""
    tenant: TenantName = TenantName("")
    """As in its spec."""
    asked_regions: tuple[RegionName, ...] | None = None
    """Of a stage that is held to other regions: those that its user named."""

    def __post_init__(self) -> None:
        """Share texts that many rows have: each is an object of its own when it was decoded."""
        self.tenant = shared(self.tenant or self.spec.tenant)
        self.submitter, self.last_cause = shared(self.submitter), shared(self.last_cause)

    @property
    def spec(self) -> WorkloadSpec:
        """Return the workload's spec."""
        return unpacked(self.kept, WorkloadSpec) if isinstance(self.kept, str) else self.kept

    @property
    def is_healing(self) -> bool:
        """True if a failure of nodes ended the newest attempt: the workload is recovering."""
        return self.last_cause in (EndCause.NODE_LOST, EndCause.NODE_FAILED)

    @property
    def shape(self) -> str:
        """Return a key that is equal for workloads that fit in the same places, including reserves and nodes kept for reservations.

        A workload with a reservation fits on its reserved nodes, where no other workload does.
        """
        return self.spec.shape + self._beside_spec

    @property
    def base(self) -> str:
        """Return the shape of a workload of one job without the number of tasks; empty for several jobs."""
        base = self.spec.base
        return base + self._beside_spec if base else ""

    @property
    def _beside_spec(self) -> str:
        healing = "|healing" if self.is_healing else ""
        promised = f"|start {self.number}" if self.is_start_promised else ""
        picked = f"|at {self.pick.name}" if self.pick is not None else ""
        picked += f"|beside {self.beside}" if self.is_guest else ""
        return f"{self.spec.lasting}{healing}{promised}{picked}"

    @property
    def is_active(self) -> bool:
        """Whether an award stands: some region may be running it, or about to."""
        return self.phase in (Phase.AWARDED, Phase.RUNNING)

    def end(self, at: Instant) -> None:
        """Record the workload's end; keep the spec packed, and nothing of the last award."""
        self.ended_at = at
        self.kept = packed(self.spec)
        self.charge, self.types, self.pick, self.beside = {}, (), None, WorkloadId("")


class Workloads(Section):
    """Every workload, in the order of submission."""

    FOLDS = {
        WorkloadSubmitted: "_submitted",
        WorkloadChanged: "_changed",
        WorkloadHeld: "_held",
        WorkloadReleased: "_released",
        CancelRequested: "_cancel_requested",
        RequeueRequested: "_requeue_requested",
        WorkloadAwarded: "_awarded",
        AwardReturned: "_award_returned",
        WorkloadBound: "_bound",
        AttemptClosed: "_attempt_closed",
        StandingChanged: "_standing_changed",
        PrioritySet: "_priority_set",
        WorkloadCancelled: "_cancelled",
        WorkloadsForgotten: "_forgotten",
        StartPromised: "_start_promised",
        StartPromiseEnded: "_start_promise_ended",
        MovePlanned: "_move_planned",
        MoveBegun: "_move_begun",
        MoveEnded: "_move_ended",
        RoundBegun: "_round_begun",
        PicksAdded: "_picks_added",
        StagesHeld: "_stages_held",
    }

    submitted: int = 0
    rows: dict[WorkloadId, WorkloadRow] = field(default_factory=dict)
    keys: dict[str, WorkloadId] = field(default_factory=dict)
    """Idempotency keys, each under its submitter."""

    def tenant_of(self, workload: str) -> TenantName | None:
        """Return the tenant of a workload; None if the workload is unknown."""
        row = self.rows.get(WorkloadId(workload))
        return None if row is None else row.tenant

    def _submitted(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadSubmitted)
        self.submitted = event.number
        self.rows[event.workload] = WorkloadRow(event.number, event.spec, event.submitter, event.key, fact.at)
        if event.key:
            self.keys[submission_key(event.submitter, event.key)] = event.workload

    def _changed(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadChanged)
        row = self.rows[event.workload]
        row.kept = replace(row.spec, jobs=event.jobs)
        row.spec_revision = event.revision
        row.is_start_promised = False

    def _held(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadHeld)
        row = self.rows[event.workload]
        row.is_held = True
        row.hold_reason = event.reason
        row.hold_incident = event.incident or row.hold_incident
        row.is_start_promised = False
        row.hold_revision = event.revision

    def _released(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadReleased)
        row = self.rows[event.workload]
        row.is_held = False
        row.hold_reason = ""
        row.hold_revision = event.revision

    def _cancel_requested(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, CancelRequested)
        row = self.rows[event.workload]
        row.is_cancel_requested = True
        row.is_start_promised = False

    def _requeue_requested(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, RequeueRequested)
        self.rows[event.workload].requeued_epoch = event.epoch

    def _awarded(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadAwarded)
        row = self.rows[event.workload]
        row.phase = Phase.AWARDED
        row.epoch = event.epoch
        row.region = event.region
        row.award_sequence = fact.sequence
        row.awarded_at, row.started_at = fact.at, 0
        row.level = event.level if event.level is not None else row.spec.priority or 0
        row.charge, row.types = dict(event.charge), event.types

    def _award_returned(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AwardReturned)
        row = self.rows[event.workload]
        row.phase = Phase.PENDING
        row.region = RegionName("")
        row.last_reason = event.reason

    def _bound(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadBound)
        row = self.rows[event.workload]
        row.phase = Phase.RUNNING
        row.started_at = fact.at
        row.is_start_promised = False
        if row.move is not None and row.move.region == event.region:
            row.move = None

    def _attempt_closed(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AttemptClosed)
        row = self.rows[event.workload]
        row.phase = event.phase
        goes_on = row.move is not None and event.region != row.move.region and not event.phase.is_terminal
        row.is_start_promised = row.is_start_promised and goes_on
        if row.move is not None and goes_on:
            row.move.stopped_at = fact.at
        elif event.phase.is_terminal:
            row.move = None
        row.region = RegionName("")
        row.last_cause = event.cause
        row.resume_epoch = event.saved_epoch
        row.resume_step = event.saved_step
        if row.spec.kind is Kind.SHARED and event.saved_epoch == event.epoch:
            row.saved_region, row.saved_at = event.region, fact.at
        row.tasks_failed += event.cause == EndCause.TASK_FAILED
        row.starts_failed += event.cause == EndCause.START_FAILED
        if row.beside and (event.cause is not EndCause.ROUND_OVER or event.phase.is_terminal):
            self._part(event.workload)
            row.pick = None
        if event.phase.is_terminal:
            row.end(fact.at)

    def _stages_held(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, StagesHeld)
        for workload in event.workloads:
            row = self.rows[workload]
            if row.phase.is_terminal:
                continue
            asked = row.spec.regions if row.asked_regions is None else row.asked_regions
            row.kept = replace(row.spec, regions=event.held_to or asked)
            row.asked_regions = asked if event.held_to else None

    def _part(self, workload: WorkloadId) -> None:
        """Record that the job beside this one in a shared pool has its GPU alone."""
        row = self.rows[workload]
        if row.beside:
            other = self.rows[row.beside]
            other.beside, other.is_guest = WorkloadId(""), False
            row.beside, row.is_guest = WorkloadId(""), False

    def _standing_changed(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, StandingChanged)
        row = self.rows[event.workload]
        if row.level != event.level:
            row.level_revision = event.revision
        row.level, row.charge, row.standing_revision = event.level, dict(event.charge), event.revision

    def _priority_set(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, PrioritySet)
        row = self.rows[event.workload]
        row.kept = replace(row.spec, priority=event.priority)
        row.priority_revision = event.revision

    def _cancelled(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadCancelled)
        row = self.rows[event.workload]
        row.phase = Phase.CANCELLED
        row.is_start_promised, row.move = False, None
        self._part(event.workload)
        row.end(fact.at)

    def _forgotten(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadsForgotten)
        for workload in event.workloads:
            row = self.rows.pop(workload)
            if row.key:
                self.keys.pop(submission_key(row.submitter, row.key), None)

    def _start_promised(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, StartPromised)
        row = self.rows[event.workload]
        row.start_revision, row.is_start_promised = event.revision, True

    def _start_promise_ended(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, StartPromiseEnded)
        self.rows[event.workload].is_start_promised = False

    def _move_planned(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, MovePlanned)
        row = self.rows[event.workload]
        row.move_revision = event.revision
        row.move = PlannedMove(event.revision, event.region, event.epoch, fact.at, event.cost)

    def _move_begun(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, MoveBegun)
        move = self.rows[event.workload].move
        if move is not None:
            move.is_begun = True

    def _move_ended(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, MoveEnded)
        self.rows[event.workload].move = None

    def _round_begun(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, RoundBegun)
        for workload in event.leaves:
            self._part(workload)
            self.rows[workload].pick = None
        self._join(event)
        for guest, host in event.beside.items():
            self.rows[guest].beside, self.rows[guest].is_guest = host, True
            self.rows[host].beside = guest

    def _picks_added(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, PicksAdded)
        self._join(event)

    def _join(self, event: RoundBegun | PicksAdded) -> None:
        for workload, column in event.joins.items():
            row = self.rows[workload]
            row.pick, row.is_wide = event.columns[column], workload in event.wide


class GlobalImage(Image):
    """The fold of the queue's log."""

    workloads: Workloads
    """Every workload."""
    awards: Awards
    """Which awards stand."""
    regions: Regions
    """The fleet's regions."""
    demand: Demand
    """Which tasks were asked for, by what they need."""
    history: History
    """What ran, how long, and how right predictions from it were."""
    starts: Starts
    """When workloads were estimated to start, and when they did."""
    datasets: Datasets
    """Which regions hold which data."""
    tenants: Tenants
    """What operators set of tenants."""
    usage: Usage
    """What tenants have used."""
    start_promises: StartPromises
    """Starts that were promised."""
    clock: AcceptedClock
    """How far the log's time may be from the machine's."""
    refusals: Refusals
    """Why regions refuse what waits, and since when."""
    sharing: Sharing
    """Shared pools: the policy, the shares, and who is picked."""
    data_settings: DataSettings
    """How much data regions may hold, how fast it may travel, and what plans may do."""
    copies: Copies
    """The plan for data, and the copies under way."""
    readings: Readings
    """Which datasets are read together, with how many GPUs, and what of that waits."""
    dispatch: Dispatch
    """In which order hosts decide messages."""
    pipelines: Pipelines
    """Every pipeline, and by when each of its stages must start."""

    def tenant_of(self, name: str) -> TenantName | None:
        """Return the tenant of a workload or a pipeline, by its id; None if the id is unknown."""
        pipeline = self.pipelines.rows.get(PipelineId(name))
        return self.workloads.tenant_of(name) if pipeline is None else pipeline.tenant
