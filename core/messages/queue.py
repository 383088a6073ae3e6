"""What users and regions say to the job queue, and its answers."""

from msgspec import Struct

from core.estimating.bands import StartEstimate
from core.estimating.prediction import PredictedBy
from core.messages.base import Answer, Message, Refused
from core.messages.copies import FailedCopy, ListedCopy
from core.nouns.ids import AgentName, DatasetName, PipelineId, RegionName, WorkloadId
from core.nouns.instant import Nanoseconds
from core.nouns.limits import LISTED_MAX
from core.nouns.placement import Shortage, Spread, View
from core.nouns.starts import EarliestStart
from core.nouns.workload import JobSpec, Phase, WorkloadSpec


class SubmitWorkload(Message, frozen=True, tag="submit-workload", forbid_unknown_fields=True):
    """Accept this workload."""

    spec: WorkloadSpec
    submitter: str
    key: str = ""
    """The same key from the same submitter answers the same id."""


class CancelWorkload(Message, frozen=True, tag="cancel-workload", forbid_unknown_fields=True):
    """End it for good. Nothing undoes this, so it carries no revision."""

    workload: WorkloadId


class HoldWorkload(Message, frozen=True, tag="hold-workload", forbid_unknown_fields=True):
    """Do not award it until it is released."""

    workload: WorkloadId
    revision: int
    """Of the hold, as last seen: an older one is refused."""


class HoldUnhandled(Message, frozen=True, tag="hold-unhandled"):
    """A unit cannot handle a message that belongs to this workload: hold the workload until an operator has looked.

    Said at each such message; a workload that is held already stays as it is.
    """

    workload: WorkloadId
    unit: str
    message: str
    """The message's type, by its tag."""
    error: str
    incident: str
    """The id of the message that cannot be handled: heard again after a release, it holds nothing."""


class ReleaseWorkload(Message, frozen=True, tag="release-workload", forbid_unknown_fields=True):
    """Lift a hold."""

    workload: WorkloadId
    revision: int


class RequeueWorkload(Message, frozen=True, tag="requeue-workload", forbid_unknown_fields=True):
    """Stop this attempt and place the workload anew."""

    workload: WorkloadId
    epoch: int
    """The attempt meant; another one is left alone."""


class ChangeWorkload(Message, frozen=True, tag="change-workload", forbid_unknown_fields=True):
    """Its jobs are these from now on: the same by name and hardware, with other programs or another number of tasks."""

    workload: WorkloadId
    revision: int
    """Of its spec, as the user saw it; another one is refused as superseded."""
    jobs: tuple[JobSpec, ...]


class SetPriority(Message, frozen=True, tag="set-priority", forbid_unknown_fields=True):
    """It asks for this level from now on, never above its tenant's. What runs goes on, and may be pushed out by other work."""

    workload: WorkloadId
    revision: int
    """Of its priority, as the user saw it; another one is refused as superseded."""
    priority: int | None
    """None: its tenant's level."""


class ShowWorkload(Message, frozen=True, tag="show-workload", forbid_unknown_fields=True):
    """Tell where a workload is in its life."""

    workload: WorkloadId
    wants_spec: bool = False
    """What was asked for is told too; it may be long."""


class ListWorkloads(Message, frozen=True, tag="list-workloads", forbid_unknown_fields=True):
    """Name workloads in these phases (none named: in any), in the order of submission."""

    phases: tuple[Phase, ...] = ()
    after: int = 0
    """The submission's number behind which to go on: `next` of the answer before, 0 at first."""
    count_max: int = LISTED_MAX


class ExplainWorkload(Message, frozen=True, tag="explain-workload", forbid_unknown_fields=True):
    """Tell all that is known now of why it does not run: by region, its place in the queue, its hold."""

    workload: WorkloadId


class Bid(Message, frozen=True, tag="bid"):
    """A region can place the workload now, at this price."""

    region: RegionName
    agent: AgentName
    workload: WorkloadId
    auction: str
    score: tuple[int, ...]
    """Compared from the left; lower is better (core/placing/answers/bids.py, `score`)."""
    spreads: tuple[Spread, ...]
    victims: tuple[tuple[WorkloadId, int], ...]
    view: View
    """What the agent knew, and how it chose."""


class Abstention(Message, frozen=True, tag="abstention"):
    """A region does not bid, and why."""

    region: RegionName
    agent: AgentName
    workload: WorkloadId
    auction: str
    reason: str
    view_sequence: int
    missing_gpu_milli: int = 0
    """The refusal holds until the region's log shows that so much more was freed; at least."""
    shortage: Shortage | None = None
    """For people; None when the room is there and something else is in the way."""
    prospect: EarliestStart | None = None
    """From when on it could start there, if that was wanted; None: nothing can be said, for what is in the way is no capacity."""
    again_in: Nanoseconds = Nanoseconds(0)
    """When it makes sense to ask again although nothing was freed: work that may be pushed out by then; 0: no such time is known."""
    missing_cpu_milli: int = 0
    """Of work that wants no GPUs: so many CPUs must be freed instead, at least; 0: GPUs."""


class Submitted(Answer, frozen=True, tag="submitted"):
    """Accepted under this id, durably."""

    workload: WorkloadId


class Acknowledged(Answer, frozen=True, tag="acknowledged"):
    """Done, or already so."""

    workload: WorkloadId
    revision: int = 0


class WaitedStage(Struct, frozen=True):
    """A stage that another one waits for."""

    stage: str
    workload: WorkloadId
    left: Nanoseconds = Nanoseconds(-1)
    """How long it will go on, from what has ended by now; -1: it does not run."""


class StageTold(Struct, frozen=True):
    """Of a workload that is a stage of a pipeline."""

    pipeline: PipelineId
    name: str
    """Of the pipeline."""
    stage: str
    """Empty: a plain job with a deadline, which is a pipeline of one stage."""
    waits_for: tuple[WaitedStage, ...] = ()
    """The stages that must complete before it begins."""
    begins_in: Nanoseconds = Nanoseconds(-1)
    """Until its window opens, 0: it is open; -1: it has none, or waits for other stages."""
    start_in: Nanoseconds | None = None
    """Until it must start, negative when that has passed; None: it need not."""
    is_late: bool = False
    """Whether its pipeline would be late even if it started now."""
    region: RegionName = RegionName("")
    """To which the stages of its pipeline are held, because the first was placed there; empty: to none yet."""


class WorkloadShown(Answer, frozen=True, tag="workload-shown"):
    """Where a workload is."""

    workload: WorkloadId
    name: str
    phase: str
    reason: str
    sentence: str
    epoch: int
    region: str
    hold_revision: int
    is_held: bool
    spec_revision: int = 0
    """What a change of it must name."""
    spec: WorkloadSpec | None = None
    """As it is now, if that was wanted."""
    priority_revision: int = 0
    """What a change of its priority must name."""
    up_for: int = -1
    """Nanoseconds since the tasks of its newest attempt were all up; -1: they are not, or not known to be."""
    last_cause: str = ""
    """What ended the newest attempt that has ended."""
    move_revision: int = 0
    """What a move of it to another region must name."""
    stage: StageTold | None = None
    """Of what it is a stage."""


class ListedWorkload(Struct, frozen=True):
    """One workload in a list."""

    workload: WorkloadId
    name: str
    tenant: str
    priority: int
    """The level that it asks for, or within its tenant's quota is placed at."""
    kind: str
    phase: Phase
    epoch: int
    gpu_milli: int
    """Of all its tasks."""
    tasks: int
    waited: Nanoseconds
    """From its submission until its gang was up, or until now."""
    ran: Nanoseconds
    """From then until its end, or until now, in its newest attempt; 0 when that was never up."""
    region: RegionName = RegionName("")
    """Of the standing award."""
    regions: tuple[RegionName, ...] = ()
    """Its pin."""
    node_runs: tuple[tuple[int, int], ...] = ()
    """Where its tasks are in that region, as first and last numbers."""
    saved_step: int = 0
    """The newest checkpoint of that attempt; 0: none."""
    reason: str = ""
    """Why it does not run, if it does not."""
    refusals: dict[RegionName, str] = {}
    """By region, if it is pending: every reason, that one among them."""
    promised_in: Nanoseconds | None = None
    """Until the start that it was promised, and 0 when that has passed; None: none was, or its region has not reserved it yet."""
    is_over: bool = False
    """Whether it is over its tenant's quota, so that it has the lowest level and not the one that it asks for."""
    stage: StageTold | None = None
    """Of what it is a stage, if it has not ended."""


class WorkloadsListed(Answer, frozen=True, tag="workloads-listed"):
    """Some of them, or all."""

    rows: tuple[ListedWorkload, ...]
    next: int
    """What to ask `after` for more; 0: there are none."""
    counts: dict[str, int] = {}
    """By phase, of all that the queue remembers; only in the first answer."""
    regions: tuple[RegionName, ...] = ()
    """Those that are heard and have nodes; only in the first answer."""


class Holder(Struct, frozen=True):
    """Who holds capacity in a region, of nodes of types that a pending workload asks for."""

    workload: WorkloadId
    priority: int
    gpu_milli: int
    cpu_milli: int = 0
    """Told where the workload wants no GPUs."""


class HardwareKnown(Struct, frozen=True):
    """All nodes of one type in a region, whether or not anything is free on them."""

    node_type: str
    nodes: int
    gpu_milli: int
    gpu_milli_max: int
    """Of one node."""


class ShownStart(Struct, frozen=True):
    """The start that a pending workload was promised, and that its region has reserved."""

    region: RegionName
    starts_in: Nanoseconds
    """From now; 0 when it has passed."""
    promised_ago: Nanoseconds
    why: str = ""
    """Why the promise before was not kept (`StartOver`); empty: there was none."""
    sentence: str = ""


class PastReason(Struct, frozen=True):
    """A lasting reason of a region, as the queue's log has it."""

    reason: str
    began_ago: Nanoseconds
    """Time since the reason was first seen; at most the time since the workload's submission or newest award."""
    held: Nanoseconds
    """Time from then until the next reason, or until now."""


class RegionOutlook(Struct, frozen=True):
    """What one region would say to a pending workload now, as the queue knows."""

    region: RegionName
    reason: str = ""
    """Why it does not bid; empty when it is asked, has bid, or would be asked next."""
    sentence: str = ""
    hardware: tuple[HardwareKnown, ...] = ()
    """Of the types that it asks for."""
    is_asked: bool = False
    """An auction is open, and the region was asked."""
    score: tuple[int, ...] = ()
    """Of its bid in that auction."""
    refused: WorkloadId = WorkloadId("")
    """For whom the refusal was said: one of the same shape."""
    agent: str = ""
    view_sequence: int = 0
    """Of the region's log, at the refusal."""
    missing_gpu_milli: int = 0
    """So much more must be freed, counted from then on, before it is asked again."""
    shortage: Shortage | None = None
    holders: tuple[Holder, ...] = ()
    """Who holds most there of what it asks for."""
    kept_for: tuple[WorkloadId, ...] = ()
    """For whom room is kept there: whose start is promised, for whom it is gathered, or who is offered it."""
    unbounded_gpu_milli: int = 0
    """What work holds there of which nobody can say when it ends, where for that reason no start could be promised when it was asked
    for last."""
    missing_data: tuple[DatasetName, ...] = ()
    """Datasets that it reads, and that are not there."""
    missing_cpu_milli: int = 0
    """Of work that wants no GPUs: so many CPUs instead."""
    noted: tuple[PastReason, ...] = ()
    """Lasting reasons of the region against the shape, the newest first."""
    no_copy: str = ""
    """Why none of the missing datasets is being copied there, one of `CopyObstacle`; empty: they are, or may be at once."""


class RunTimeTold(Struct, frozen=True):
    """How long a workload runs, as predicted."""

    duration: Nanoseconds
    """In all, from what had ended when it was submitted."""
    by: PredictedBy
    left: Nanoseconds = Nanoseconds(-1)
    """How long it will go on, from what has ended by now; -1: it is not up."""


class WorkloadExplained(Answer, frozen=True, tag="workload-explained"):
    """Why a workload does not run, as far as the queue knows now."""

    workload: WorkloadId
    name: str
    phase: Phase
    reason: str
    sentence: str
    epoch: int
    region: str
    is_held: bool
    hold_revision: int
    is_cancel_requested: bool
    shape: str
    """Workloads of one shape are refused together."""
    rank: int = -1
    """How many stand ahead of it; -1 when it is not in the order."""
    ahead: tuple[WorkloadId, ...] = ()
    """The nearest of those."""
    asking: tuple[WorkloadId, ...] = ()
    """Those ahead of it, or of its shape, whose auctions are open now: it is their turn."""
    regions: tuple[RegionOutlook, ...] = ()
    """Every region of the fleet, while it is pending."""
    tenant: str = ""
    standing: str = ""
    """To its tenant's quota, while it waits in the order: `within`, `over` or `held`."""
    level: int = 0
    """At which it stands in the order, or is placed; -1: over quota."""
    credit: int = 0
    """By which it is ahead of others of its level and standing; may be negative."""
    age_weight: int = 1
    """Credit for each nanosecond of waiting."""
    pass_number: int = 0
    """Of the newest pass, in which everybody's use was brought up to date."""
    is_held_to: tuple[str, ...] = ()
    """By job, the GPU types on which its tenant's quota has room for it, if these are not all that will do."""
    start: StartEstimate | None = None
    """When it will start, counted from now, as far as can be told; only of one in the order."""
    run_time: RunTimeTold | None = None
    """How long it runs; None: it has ended, or ends when somebody says so."""
    promised: ShownStart | None = None
    """The start that it was promised, while it is pending."""
    gathered_in: str = ""
    """The region in which room is gathered for it, since it has waited over quota for long."""
    copies: tuple[ListedCopy, ...] = ()
    """Copies under way of the datasets that it reads, while it is pending."""
    failed_copies: tuple[FailedCopy, ...] = ()
    """Copies of these that failed, and were not made since."""
    stage: StageTold | None = None
    """Of what it is a stage."""


MESSAGES: tuple[type[Message], ...] = (
    SubmitWorkload,
    CancelWorkload,
    HoldWorkload,
    HoldUnhandled,
    ReleaseWorkload,
    RequeueWorkload,
    ChangeWorkload,
    SetPriority,
    ShowWorkload,
    ListWorkloads,
    ExplainWorkload,
    Bid,
    Abstention,
    Submitted,
    Acknowledged,
    WorkloadShown,
    WorkloadsListed,
    WorkloadExplained,
    Refused,
)
