"""Task control: what a region asks an application's controller, what it answers, and what follows.

source    Twine §2.4-2.5: the request has six fields (here `job`, `requests`, `completed`, `notices`, `unhealthy` and
          `sequence`), the answer names the operations that may proceed
"""

from msgspec import Struct

from core.messages.base import Answer, Message
from core.nouns.ids import AgentName, RegionName, TenantName, WorkloadId
from core.nouns.maintenance import MaintenanceKind
from core.nouns.operation import Ack, BegunBy, OperationKind, Outcome, TaskMove
from core.nouns.placement import NodeRow
from core.nouns.workload import JobSpec


class JobHandle(Struct, frozen=True):
    """Which attempt a request is about."""

    region: RegionName
    workload: WorkloadId
    epoch: int


class OperationAsked(Struct, frozen=True):
    """One operation that waits for its controller's word."""

    operation: int
    """Its number within the attempt."""
    kind: OperationKind
    task: int
    """`task_number(job, rank)`; -1: the whole gang."""
    reason: str
    notice: str = ""
    """The maintenance or drain that calls for it, if one does."""
    deadline: int = 0
    """Nanoseconds from now after which it begins unasked; 0: it waits for ever."""


class OperationCompleted(Struct, frozen=True):
    """One operation that is over."""

    operation: int
    kind: OperationKind
    task: int
    outcome: Outcome


class AdvanceNotice(Struct, frozen=True):
    """Planned work on nodes of this job."""

    notice: str
    kind: MaintenanceKind | None
    """None: a drain."""
    tasks: tuple[int, ...]
    reason: str
    starts_in: int = 0
    """Nanoseconds: the deadline. 0: a drain that waits."""
    lasts: int = 0


class TaskControlRequest(Message, frozen=True, tag="task-control-request"):
    """All that waits for a controller's word on one attempt. Level-triggered: what is not acknowledged comes again."""

    tenant: TenantName
    controller: str
    job: JobHandle
    requests: tuple[OperationAsked, ...]
    completed: tuple[OperationCompleted, ...]
    """Since the last request that was answered."""
    notices: tuple[AdvanceNotice, ...]
    unhealthy: tuple[int, ...]
    """Every task that is not up, whatever the cause: the whole set, never a difference."""
    sequence: int
    """Of the region's log: it grows with every request that says something new, and a repeat has the same."""
    acked: tuple[int, ...] = ()
    """Tasks whose operations were acknowledged and have not begun: as good as down. A controller that started again, or
    whose newest answer was another's, would not know of them."""


class TaskControlResponse(Message, frozen=True, tag="task-control-response"):
    """Which operations may proceed: any subset, in any order. One that names an older sequence counts for nothing."""

    region: RegionName
    tenant: TenantName
    controller: str
    workload: WorkloadId
    epoch: int
    sequence: int
    acks: tuple[Ack, ...]


class ShowControllers(Message, frozen=True, tag="show-controllers"):
    """Who answers, and what waits for whom?"""

    region: RegionName


class ControllerShown(Struct, frozen=True):
    """One controller, as the region knows it."""

    tenant: TenantName
    controller: str
    heard_ago: int
    """Nanoseconds since its newest answer; -1: never in this life of the region's task control."""
    waiting: int
    """Operations that wait for its word."""
    ignored: int
    """Answers and acks that counted for nothing: stale, repeated, unknown, or another's."""
    why: str = ""
    """What was wrong with the newest of these."""
    asked_ago: int = -1
    """Nanoseconds since the oldest operation that waits for its word was asked for; -1: none waits."""


class ControllersShown(Answer, frozen=True, tag="controllers-shown"):
    """Answer to `ShowControllers`."""

    controllers: tuple[ControllerShown, ...]


# To the placement store.


class OperateTasks(Message, frozen=True, tag="operate-tasks"):
    """Something is to happen to these tasks, if their application agrees."""

    region: RegionName
    workload: WorkloadId
    epoch: int
    kind: OperationKind
    tasks: tuple[int, ...]
    """Empty: all of them."""
    reason: str
    source: str = ""
    deadline: int = 0
    requester: str = ""
    first: int = 0
    """Without a source: the number that the next operation on this attempt has, as the asker saw it. With another one it is
    refused as superseded, so a repeat that comes late asks for nothing twice."""


class OperationsAccepted(Answer, frozen=True, tag="operations-accepted"):
    """They are recorded under these numbers; those that had one already are not asked for twice."""

    operations: tuple[int, ...]


class RecordAnswer(Message, frozen=True, tag="record-answer"):
    """A controller answered the request of this sequence."""

    region: RegionName
    workload: WorkloadId
    epoch: int
    sequence: int
    acks: tuple[Ack, ...]


class BeginOperations(Message, frozen=True, tag="begin-operations"):
    """These may proceed."""

    region: RegionName
    workload: WorkloadId
    epoch: int
    operations: tuple[int, ...]
    by: BegunBy


class ExpireAcks(Message, frozen=True, tag="expire-acks"):
    """These were acknowledged too long ago."""

    region: RegionName
    workload: WorkloadId
    epoch: int
    operations: tuple[int, ...]


class MarkStuck(Message, frozen=True, tag="mark-stuck"):
    """These were begun long ago."""

    region: RegionName
    workload: WorkloadId
    epoch: int
    operations: tuple[int, ...]


class FinishOperations(Message, frozen=True, tag="finish-operations"):
    """These are over."""

    region: RegionName
    workload: WorkloadId
    epoch: int
    operations: tuple[int, ...]
    outcome: Outcome


class ForgetControl(Message, frozen=True, tag="forget-control"):
    """Nobody takes what is still to be told of this attempt, which ended long ago."""

    region: RegionName
    workload: WorkloadId
    epoch: int


class RecordTasksDown(Message, frozen=True, tag="record-tasks-down"):
    """These tasks fail."""

    region: RegionName
    workload: WorkloadId
    epoch: int
    tasks: tuple[tuple[int, int], ...]
    """Each with its run: a newer run is not taken down by it."""
    cause: str
    exit_code: int = 0
    is_gone: bool = False


class RecordTasksGone(Message, frozen=True, tag="record-tasks-gone"):
    """Nothing is left of these runs."""

    region: RegionName
    workload: WorkloadId
    epoch: int
    tasks: tuple[tuple[int, int], ...]


class RecordTasksUp(Message, frozen=True, tag="record-tasks-up"):
    """These runs are healthy."""

    region: RegionName
    workload: WorkloadId
    epoch: int
    tasks: tuple[tuple[int, int], ...]


class ReviseClaim(Message, frozen=True, tag="revise-claim"):
    """Tasks of a granted attempt of which nothing runs get new runs, if there is room now."""

    region: RegionName
    workload: WorkloadId
    epoch: int
    revision: int
    """One more than the claim has; another one is refused."""
    moves: tuple[TaskMove, ...]
    agent: AgentName = AgentName("")
    """Who searched, and is answered; empty: nobody, they stay where they were."""
    view_sequence: int = 0
    """Of the region's log: what the agent had folded when it chose; 0: unknown."""
    tries: int = 1
    """Times that it has searched for these tasks."""


class RevisionAnswered(Message, frozen=True, tag="revision-answered"):
    """The store's answer to a revision that an agent made."""

    region: RegionName
    agent: AgentName
    workload: WorkloadId
    epoch: int
    revision: int
    verdict: str
    """`granted`, `conflict` or `refused`."""
    rows: tuple[NodeRow, ...] = ()
    sequence: int = 0


class ChangeAttempt(Message, frozen=True, tag="change-attempt"):
    """The queue's log shows that its user changed the workload. Said again until the region's log shows it."""

    region: RegionName
    workload: WorkloadId
    epoch: int
    revision: int
    jobs: tuple[JobSpec, ...]


# To an agent.


class PlaceTasks(Message, frozen=True, tag="place-tasks"):
    """Find new nodes for tasks of a granted attempt."""

    region: RegionName
    agent: AgentName
    workload: WorkloadId
    epoch: int
    revision: int
    tasks: tuple[TaskMove, ...]
    """To nowhere yet."""


MESSAGES: tuple[type[Message], ...] = (
    TaskControlRequest,
    TaskControlResponse,
    ShowControllers,
    ControllersShown,
    OperateTasks,
    OperationsAccepted,
    RecordAnswer,
    BeginOperations,
    ExpireAcks,
    MarkStuck,
    FinishOperations,
    ForgetControl,
    RecordTasksDown,
    RecordTasksGone,
    RecordTasksUp,
    ReviseClaim,
    RevisionAnswered,
    ChangeAttempt,
    PlaceTasks,
)
