"""Events of the log `global`, kept by the job queue: what users asked for and what was awarded."""

from msgspec import Struct

from core.estimating.bands import StartEstimate
from core.fact import Event
from core.nouns.ids import RegionName, TenantName, WorkloadId
from core.nouns.instant import Nanoseconds
from core.nouns.placement import VICTIM_PARTS, Shortage
from core.nouns.workload import Consent, EndCause, JobSpec, Phase, WorkloadSpec


class RankedBid(Struct, frozen=True):
    """One region's bid, as the queue compared it."""

    region: RegionName
    score: tuple[int, ...]
    """Compared from the left; lower is better."""
    away: int = 0
    """Number of datasets that the workload reads with a home elsewhere: compared after victims, and before all else."""

    gathered: int = 0
    """1: the region is drained for other work; such a bid is taken only if there is no other."""

    @property
    def place(self) -> tuple[int, tuple[int, ...], int, tuple[int, ...], RegionName]:
        """Among bids for the same: the smallest wins. Ties fall by the region's name (DESIGN §5.4)."""
        return self.gathered, self.score[:VICTIM_PARTS], self.away, self.score[VICTIM_PARTS:], self.region


class RegionAdded(Event, frozen=True, tag="region-added"):
    """The fleet has a region of this name."""

    about_field = "region"
    region: RegionName


class WorkloadSubmitted(Event, frozen=True, tag="workload-submitted"):
    """A user's workload was accepted."""

    about_field = "workload"
    workload: WorkloadId
    number: int
    """Counts submissions; the id is made of it."""
    spec: WorkloadSpec
    submitter: str
    key: str = ""
    """The submitter's idempotency key: the same key answers the same id."""
    start: StartEstimate | None = None
    """When it was to start, as far as could be told; None: nothing could."""


class WorkloadChanged(Event, frozen=True, tag="workload-changed"):
    """Its user changed what its jobs are: what they run, or how many tasks they have."""

    about_field = "workload"
    workload: WorkloadId
    revision: int
    jobs: tuple[JobSpec, ...]


class WorkloadHeld(Event, frozen=True, tag="workload-held"):
    """It is not awarded until it is released. What runs goes on."""

    about_field = "workload"
    workload: WorkloadId
    revision: int
    """Of the workload's hold: it grows with every hold and release."""
    reason: str = ""
    """Which unit cannot handle the workload's messages, and why not; empty: a person holds it."""
    incident: str = ""
    """The id of the message that the unit could not handle."""


class WorkloadReleased(Event, frozen=True, tag="workload-released"):
    """A hold was lifted."""

    about_field = "workload"
    workload: WorkloadId
    revision: int


class CancelRequested(Event, frozen=True, tag="cancel-requested"):
    """The user wants it ended. It ends when the region that has it shows that it did."""

    about_field = "workload"
    workload: WorkloadId


class RequeueRequested(Event, frozen=True, tag="requeue-requested"):
    """An operator wants this attempt to stop and the workload to be placed anew."""

    about_field = "workload"
    workload: WorkloadId
    epoch: int


class WorkloadAwarded(Event, frozen=True, tag="workload-awarded"):
    """One region, and no other, may start the next attempt. It stands until its end or its decline is recorded here."""

    about_field = "workload"
    workload: WorkloadId
    epoch: int
    region: RegionName
    rank: int
    """Place in the queue at the award, from 0."""
    bids: tuple[RankedBid, ...]
    resume_epoch: int = 0
    resume_step: int = 0
    tenant: TenantName = TenantName("")
    """Whose it is: who is charged."""
    level: int | None = None
    """At which it is placed, `OVER_LEVEL` over quota; None: what its user asked for, as earlier builds had it."""
    charge: dict[str, int] = {}
    """GPU milli by type that it will hold."""
    types: tuple[tuple[str, ...], ...] = ()
    """For each job the GPU types to which its tenant's quota holds it; none: those that it names."""
    refusals: dict[RegionName, str] = {}
    """Why other regions did not bid, of those that were asked for it or for its like."""


class AwardReturned(Event, frozen=True, tag="award-returned"):
    """The region's log shows that it declined: nothing was started, nothing will be, under this epoch."""

    about_field = "workload"
    workload: WorkloadId
    epoch: int
    reason: str
    region: RegionName
    region_sequence: int
    """Of the decline in the region's log."""


class WorkloadBound(Event, frozen=True, tag="workload-bound"):
    """All tasks of the gang run."""

    about_field = "workload"
    workload: WorkloadId
    epoch: int
    region: RegionName
    region_sequence: int


class AttemptClosed(Event, frozen=True, tag="attempt-closed"):
    """The region's log shows the attempt's end, or it was given up. The workload keeps its place in the queue unless `phase` is
    terminal.
    """

    about_field = "workload"
    workload: WorkloadId
    epoch: int
    cause: EndCause
    phase: Phase
    """What the workload is from now on: pending or terminal."""
    region: RegionName
    region_sequence: int
    saved_epoch: int = 0
    """Whose checkpoint the next attempt resumes; 0: none."""
    saved_step: int = 0
    consent: Consent = Consent.NOBODY
    """Of an attempt that was given up, who agreed that two may run."""


class StandingChanged(Event, frozen=True, tag="standing-changed"):
    """What a standing award may hold on to is other than it was: its tenant's quota, its level, or what it holds has changed."""

    about_field = "workload"
    workload: WorkloadId
    epoch: int
    revision: int
    """Grows with each of these of a workload, whatever the epoch."""
    tenant: TenantName
    level: int
    """`OVER_LEVEL` over quota."""
    charge: dict[str, int]
    """GPU milli by type that it holds."""


class PrioritySet(Event, frozen=True, tag="priority-set"):
    """Its user wants it at another level."""

    about_field = "workload"
    workload: WorkloadId
    revision: int
    """Of the workload's priority: it grows with each of these."""
    priority: int | None
    """None: its tenant's level."""


class WorkloadCancelled(Event, frozen=True, tag="workload-cancelled"):
    """A workload that nothing stood for was cancelled: terminal."""

    about_field = "workload"
    workload: WorkloadId


class WorkloadsForgotten(Event, frozen=True, tag="workloads-forgotten"):
    """Ended workloads left the image; their facts stay in the log."""

    workloads: tuple[WorkloadId, ...]


class NotedRefusal(Struct, frozen=True):
    """A lasting reason of one region, other than the reason noted before."""

    region: RegionName
    reason: str
    held: Nanoseconds
    """Time for which the reason had held when the fact was written."""
    missing_gpu_milli: int = 0
    missing_cpu_milli: int = 0
    shortage: Shortage | None = None


class RefusedShape(Struct, frozen=True):
    """A request that every region refuses."""

    request: str
    """Digest of the request: level, shape and types."""
    shape: str
    """Digest of the workloads' shape."""
    workload: WorkloadId
    """The first workload of the shape, as an example."""
    refusals: tuple[NotedRefusal, ...]
    kind: str = ""
    """Of the workloads; unknown of facts of earlier builds, for which no node moves."""
    node_types: tuple[str, ...] = ()
    """That every job of the workloads accepts."""
    gpu_milli: int = 0
    """Of all tasks of all such workloads that wait, as they were counted when this was noted."""


class RefusalsNoted(Event, frozen=True, tag="refusals-noted"):
    """Every region refuses these requests, and a reason has changed that lasts. No decision of the queue depends on this fact; plans of pools do."""

    shapes: tuple[RefusedShape, ...] = ()
    gone: tuple[str, ...] = ()
    """Digests of shapes that no waiting workload has any more."""


EVENTS: tuple[type[Event], ...] = (
    RegionAdded,
    WorkloadSubmitted,
    WorkloadChanged,
    WorkloadHeld,
    WorkloadReleased,
    CancelRequested,
    RequeueRequested,
    WorkloadAwarded,
    AwardReturned,
    WorkloadBound,
    AttemptClosed,
    StandingChanged,
    PrioritySet,
    WorkloadCancelled,
    WorkloadsForgotten,
    RefusalsNoted,
)
