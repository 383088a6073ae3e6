"""What agents and the broker ask a region's placement store to record."""

from core.messages.base import Message
from core.nouns.fleet import Inventory
from core.nouns.ids import RegionName, WorkerName, WorkloadId
from core.nouns.placement import Claim
from core.nouns.workload import EndCause


class SubmitClaim(Message, frozen=True, tag="submit-claim"):
    """Grant this, if the award stands and it fits now."""

    region: RegionName
    claim: Claim


class DeclineAward(Message, frozen=True, tag="decline-award"):
    """This region will not start the attempt. Ignored once it is granted."""

    region: RegionName
    workload: WorkloadId
    epoch: int
    award_sequence: int
    reason: str
    tries: int = 0
    """Claims that its agent made; 0: none, or nobody said."""
    conflict: str = ""
    """Why the last of them that met a conflict was not granted."""
    nodes: tuple[int, ...] = ()
    """And on which nodes, the first of very many."""


class RecordJoin(Message, frozen=True, tag="record-join"):
    """A worker reported nodes that the region's log does not have."""

    region: RegionName
    inventory: Inventory


class RecordLoss(Message, frozen=True, tag="record-loss"):
    """A worker went silent."""

    region: RegionName
    worker: WorkerName
    sequence: int
    """Of the region's log when that was seen: a later return is not undone by it."""


class RecordReturn(Message, frozen=True, tag="record-return"):
    """A lost worker is back, and its nodes run nothing that the log does not know."""

    region: RegionName
    worker: WorkerName
    sequence: int


class OrderStop(Message, frozen=True, tag="order-stop"):
    """An attempt must end."""

    region: RegionName
    workload: WorkloadId
    epoch: int
    cause: EndCause
    by: WorkloadId = WorkloadId("")


class RecordStarted(Message, frozen=True, tag="record-started"):
    """All ranks are up."""

    region: RegionName
    workload: WorkloadId
    epoch: int


class RecordCheckpoint(Message, frozen=True, tag="record-checkpoint"):
    """The gang saved this step."""

    region: RegionName
    workload: WorkloadId
    epoch: int
    step: int


class RecordEnd(Message, frozen=True, tag="record-end"):
    """No node that can be reached runs any of it."""

    region: RegionName
    workload: WorkloadId
    epoch: int
    cause: EndCause
    exit_code: int = 0
    failed_nodes: tuple[int, ...] = ()
    """Where its tasks failed first, if they did."""
    run: int = 0
    """Of the whole gang, as it was when that was seen: its next run is not ended by it. 0 of tasks that stand alone."""


MESSAGES: tuple[type[Message], ...] = (
    SubmitClaim,
    DeclineAward,
    RecordJoin,
    RecordLoss,
    RecordReturn,
    OrderStop,
    RecordStarted,
    RecordCheckpoint,
    RecordEnd,
)
