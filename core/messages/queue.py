"""What users and regions say to the job queue, and its answers."""

from core.messages.base import Answer, Message, Refused
from core.nouns.ids import AgentName, RegionName, WorkloadId
from core.nouns.placement import Spread
from core.nouns.workload import WorkloadSpec


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


class ReleaseWorkload(Message, frozen=True, tag="release-workload", forbid_unknown_fields=True):
    """Lift a hold."""

    workload: WorkloadId
    revision: int


class RequeueWorkload(Message, frozen=True, tag="requeue-workload", forbid_unknown_fields=True):
    """Stop this attempt and place the workload anew."""

    workload: WorkloadId
    epoch: int
    """The attempt meant; another one is left alone."""


class ShowWorkload(Message, frozen=True, tag="show-workload", forbid_unknown_fields=True):
    """Tell where a workload is in its life."""

    workload: WorkloadId


class Bid(Message, frozen=True, tag="bid"):
    """A region can place the workload now, at this price."""

    region: RegionName
    agent: AgentName
    workload: WorkloadId
    auction: str
    score: tuple[int, ...]
    """Compared from the left; lower is better (core/search.py, `score`)."""
    spreads: tuple[Spread, ...]
    victims: tuple[tuple[WorkloadId, int], ...]
    view_sequence: int


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


class Submitted(Answer, frozen=True, tag="submitted"):
    """Accepted under this id, durably."""

    workload: WorkloadId


class Acknowledged(Answer, frozen=True, tag="acknowledged"):
    """Done, or already so."""

    workload: WorkloadId
    revision: int = 0


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


MESSAGES: tuple[type[Message], ...] = (
    SubmitWorkload,
    CancelWorkload,
    HoldWorkload,
    ReleaseWorkload,
    RequeueWorkload,
    ShowWorkload,
    Bid,
    Abstention,
    Submitted,
    Acknowledged,
    WorkloadShown,
    Refused,
)
