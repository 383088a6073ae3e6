"""Events of a region's log, kept by its placement store: what the region has, and who holds it."""

from core.fact import Event
from core.nouns.fleet import Inventory
from core.nouns.ids import WorkerName, WorkloadId
from core.nouns.placement import Claim
from core.nouns.preemption import PreemptionSettings
from core.nouns.quantities import Amount
from core.nouns.workload import EndCause


class NodesJoined(Event, frozen=True, tag="nodes-joined"):
    """A worker's nodes, new to the region, are there and empty."""

    about_field = "worker"
    worker: WorkerName
    inventory: Inventory


class NodesLost(Event, frozen=True, tag="nodes-lost"):
    """A worker went silent: what its nodes have is lost until they report empty."""

    about_field = "worker"
    worker: WorkerName
    nodes: tuple[int, ...]


class NodesReturned(Event, frozen=True, tag="nodes-returned"):
    """Lost nodes are back and reported that they run nothing."""

    about_field = "worker"
    worker: WorkerName
    nodes: tuple[int, ...]


class ClaimPromised(Event, frozen=True, tag="claim-promised"):
    """Granted as soon as its victims ended: reserved for it, still counted as theirs."""

    about_field = "workload"
    workload: WorkloadId
    epoch: int
    claim: Claim
    destroyed: tuple[int, ...] = ()
    """GPU-seconds of work that the end of each victim destroys at most, in their order."""
    ask_span: int = 0
    """Nanoseconds from now until victims with a controller are stopped without its word."""


class PromiseRevised(Event, frozen=True, tag="promise-revised"):
    """A promise waits for others from now on: a victim's controller offered another workload of its tenant in its place."""

    about_field = "workload"
    workload: WorkloadId
    epoch: int
    victims: tuple[tuple[WorkloadId, int], ...]
    destroyed: tuple[int, ...]
    """As when it was promised."""
    spared: tuple[WorkloadId, int]
    """Who offered; once an attempt."""


class ClaimGranted(Event, frozen=True, tag="claim-granted"):
    """The gang holds its capacity: one fact, whole."""

    about_field = "workload"
    workload: WorkloadId
    epoch: int
    claim: Claim
    is_merged: bool
    """The view was old, but the claim still fitted."""
    unplaced: tuple[int, ...] = ()
    """How many tasks of each job found no room, if any: the claim is of the others, whose ranks come first. These are placed
    one by one, as those by which a job grows."""
    spares: tuple[tuple[int, Amount], ...] = ()
    """By harvested node, the part of the tasks' need that lies beside the harvest: functions keep so much more. Nodes without such a
    part are not named."""


class AwardDeclined(Event, frozen=True, tag="award-declined"):
    """This region will never start this attempt."""

    about_field = "workload"
    workload: WorkloadId
    epoch: int
    reason: str
    award_sequence: int
    tries: int = 0
    """Claims that its agent made; 0: none, or nobody said."""
    conflict: str = ""
    """Why the last of them that met a conflict was not granted."""
    nodes: tuple[int, ...] = ()
    """And on which nodes, the first of very many."""


class GangStarted(Event, frozen=True, tag="gang-started"):
    """All ranks of the attempt are up."""

    about_field = "workload"
    workload: WorkloadId
    epoch: int


class CheckpointCommitted(Event, frozen=True, tag="checkpoint-committed"):
    """A checkpoint that counts: what the next attempt may resume."""

    about_field = "workload"
    workload: WorkloadId
    epoch: int
    step: int


class StopOrdered(Event, frozen=True, tag="stop-ordered"):
    """The attempt must end; its capacity is ending until every node reports empty. The first order's cause stands."""

    about_field = "workload"
    workload: WorkloadId
    epoch: int
    cause: EndCause
    by: WorkloadId = WorkloadId("")
    """For whom, if it is preempted."""
    requester: str = ""
    """Whose budget of destruction it counts against; empty: nobody's, because something else allows it."""
    global_sequence: int = 0
    """Up to which the queue's log was read that shows it given up; 0: that is not why."""


class AttemptEnded(Event, frozen=True, tag="attempt-ended"):
    """No node runs any of it: its capacity is free."""

    about_field = "workload"
    workload: WorkloadId
    epoch: int
    cause: EndCause
    exit_code: int = 0
    gpu_milli: int = 0
    """What that frees."""
    failed_nodes: tuple[int, ...] = ()
    """Where tasks failed first, if they did."""
    destroyed: int = 0
    """GPU-seconds of work that a preemption destroyed: from its newest checkpoint, or its start, until it was told to stop."""
    cpu_milli: int | None = None
    """What that frees besides; None: an earlier build, which did not say."""
    bare_cpu_milli: int | None = None
    """Of these, on nodes without GPUs."""


class AttemptRanked(Event, frozen=True, tag="attempt-ranked"):
    """A live attempt has another level from now on: who may push it out, and whom it could."""

    about_field = "workload"
    workload: WorkloadId
    epoch: int
    revision: int
    """Of its standing, as the queue counts."""
    level: int


class AttemptsForgotten(Event, frozen=True, tag="attempts-forgotten"):
    """Ended and declined attempts, which the queue's log shows superseded, left the image."""

    attempts: tuple[tuple[WorkloadId, int], ...]
    global_sequence: int
    """Of the queue's log, as far as it was folded: it shows every one of them superseded."""


class PreemptionSet(Event, frozen=True, tag="preemption-set"):
    """An operator set how this region chooses whom it pushes out, and how much work may be lost by that."""

    revision: int
    settings: PreemptionSettings
    by: str = ""


EVENTS: tuple[type[Event], ...] = (
    NodesJoined,
    NodesLost,
    NodesReturned,
    ClaimPromised,
    PromiseRevised,
    ClaimGranted,
    AwardDeclined,
    GangStarted,
    CheckpointCommitted,
    StopOrdered,
    AttemptEnded,
    AttemptRanked,
    AttemptsForgotten,
    PreemptionSet,
)
