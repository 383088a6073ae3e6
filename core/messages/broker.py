"""What the queue says to a region's broker."""

from core.messages.base import Message
from core.nouns.ids import AgentName, AttemptKey, RegionName, TenantName, WorkloadId
from core.nouns.instant import Nanoseconds
from core.nouns.limits import OPEN_BID_SPAN
from core.nouns.operation import ControlSpec
from core.nouns.pipeline import Forerunner
from core.nouns.placement import Spread, View
from core.nouns.workload import EndCause, JobSpec


class SolicitBid(Message, frozen=True, tag="solicit-bid"):
    """Search the region for room for this workload and bid, or abstain with a reason."""

    region: RegionName
    workload: WorkloadId
    auction: str
    jobs: tuple[JobSpec, ...]
    priority: int
    kind: str
    tenant: TenantName = TenantName("")
    is_healing: bool = False
    """A failure of nodes ended its attempt before: it may take what pools keep in reserve."""
    max_duration: int = 0
    """Nanoseconds from the start of the gang; 0: no limit. Who surely ends in time may use what is kept for a promised start."""
    grace: int = 0
    wants_prospect: bool = False
    """Whether an agent that abstains says from when on it could start."""
    spares_all: bool = False
    """Whether nobody is to be pushed out for it: it was promised a start that comes sooner than they may be gone."""
    held_for: Nanoseconds = OPEN_BID_SPAN
    """How long the agent counts its bid as taken if it is not told that the auction has ended: longer than that may last."""
    beside: AttemptKey | None = None
    """The host: the live attempt of a shared pool, on the device of which this workload is to run as its guest; None: it gets its own."""


class ExecuteAward(Message, frozen=True, tag="execute-award"):
    """The region may start this attempt. Said again until its log shows a promise, a grant or a decline."""

    region: RegionName
    workload: WorkloadId
    epoch: int
    award_sequence: int
    priority: int
    kind: str
    jobs: tuple[JobSpec, ...]
    agent: AgentName
    """Who bid; another may place it."""
    spreads: tuple[Spread, ...]
    """As bid; empty when the queue forgot, and then the agent searches again."""
    victims: tuple[tuple[WorkloadId, int], ...] = ()
    view: View = View(0)
    """As of the bid."""
    resume_epoch: int = 0
    resume_step: int = 0
    grace: int = 0
    max_duration: int = 0
    tenant: TenantName = TenantName("")
    control: ControlSpec = ControlSpec()
    spec_revision: int = 0
    failures_max: int = -1
    is_healing: bool = False
    """As in `SolicitBid`."""
    is_incremental: bool = False
    """Whether some of its tasks may be placed without the others."""
    standing_revision: int = 0
    """Of its standing to its tenant's quota, that `priority` is from."""
    run_min: int = 0
    """Nanoseconds that it runs at least before it may be a victim."""
    beside: AttemptKey | None = None
    """As in `SolicitBid`."""
    forerunners: tuple[Forerunner, ...] = ()
    """The completed stages of its pipeline that came before it."""


class WithdrawAward(Message, frozen=True, tag="withdraw-award"):
    """Decline the award unless it is already granted. Said again until the region's log shows which."""

    region: RegionName
    workload: WorkloadId
    epoch: int
    award_sequence: int
    is_overdue: bool
    """Only because nothing was heard of it: a promise that stands by now, with a deadline of its own, is left alone."""


class RankAttempt(Message, frozen=True, tag="rank-attempt"):
    """To the region's store: the queue's log shows that a live attempt has another level. Said again until its log shows it."""

    region: RegionName
    workload: WorkloadId
    epoch: int
    revision: int
    level: int


class StopAttempt(Message, frozen=True, tag="stop-attempt"):
    """End a granted attempt. Said again until the region's log shows the order."""

    region: RegionName
    workload: WorkloadId
    epoch: int
    cause: EndCause


MESSAGES: tuple[type[Message], ...] = (SolicitBid, ExecuteAward, WithdrawAward, RankAttempt, StopAttempt)
