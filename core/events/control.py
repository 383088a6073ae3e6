"""Events of a region's log about tasks, what may happen to them, and the nodes under them."""

from core.fact import Event
from core.nouns.ids import WorkerName, WorkloadId
from core.nouns.maintenance import ClosureKind, MaintenanceKind, MaintenancePhase, Scope
from core.nouns.operation import Ack, BegunBy, OperationKind, Outcome, TaskMove
from core.nouns.quantities import Amount
from core.nouns.workload import JobSpec

Runs = tuple[tuple[int, int], ...]
"""Node numbers as runs, each by its first and its last, ascending."""


class TasksDown(Event, frozen=True, tag="tasks-down"):
    """Tasks that stand alone fail, and are out of discovery."""

    about_field = "workload"
    workload: WorkloadId
    epoch: int
    tasks: tuple[int, ...]
    cause: str
    """As why an attempt ended (`EndCause`)."""
    exit_code: int = 0
    is_gone: bool = False
    """Nothing of their runs is left."""
    failed_nodes: tuple[int, ...] = ()
    """Where those ran that failed soon after their start: it may be their nodes' doing."""
    failed_after: int = 0
    """Nanoseconds from when the first of those was to start."""


class TasksGone(Event, frozen=True, tag="tasks-gone"):
    """Nothing is left of the runs of these tasks, which were unavailable before."""

    about_field = "workload"
    workload: WorkloadId
    epoch: int
    tasks: tuple[int, ...]


class ClaimRevised(Event, frozen=True, tag="claim-revised"):
    """A granted attempt's tasks have new runs: elsewhere, where they were, or none. Old room is freed and new room held."""

    about_field = "workload"
    workload: WorkloadId
    epoch: int
    revision: int
    moves: tuple[TaskMove, ...]
    takes: tuple[tuple[int, Amount], ...] = ()
    """By node, the capacity that functions give back for tasks that come there, in whole devices. Functions give back all of other nodes."""


class TasksUp(Event, frozen=True, tag="tasks-up"):
    """These tasks' newest runs are healthy, and in discovery again."""

    about_field = "workload"
    workload: WorkloadId
    epoch: int
    tasks: tuple[int, ...]


class AttemptChanged(Event, frozen=True, tag="attempt-changed"):
    """The user changed what the workload's jobs are: tasks follow one by one, a gang whole."""

    about_field = "workload"
    workload: WorkloadId
    epoch: int
    revision: int
    """Of the workload's spec, in the queue's log."""
    jobs: tuple[JobSpec, ...]


class OperationsRequested(Event, frozen=True, tag="operations-requested"):
    """Something is to happen to these tasks, one operation each, numbered from `first` in their order."""

    about_field = "workload"
    workload: WorkloadId
    epoch: int
    first: int
    kind: OperationKind
    tasks: tuple[int, ...]
    reason: str
    source: str = ""
    """The drain, maintenance or change that calls for it; it falls away with that."""
    deadline: int = 0
    """Nanoseconds from now after which it begins unasked; 0: it is optional, and waits for ever."""
    requester: str = ""


class ControlAnswered(Event, frozen=True, tag="control-answered"):
    """A controller answered the request that this log's state at `sequence` made."""

    about_field = "workload"
    workload: WorkloadId
    epoch: int
    sequence: int
    acks: tuple[Ack, ...]


class AcksExpired(Event, frozen=True, tag="acks-expired"):
    """Acknowledged, and not begun while the word was fresh: the controller is asked again."""

    about_field = "workload"
    workload: WorkloadId
    epoch: int
    operations: tuple[int, ...]


class OperationsBegun(Event, frozen=True, tag="operations-begun"):
    """These operations may be carried out from now on; their tasks are out of discovery."""

    about_field = "workload"
    workload: WorkloadId
    epoch: int
    operations: tuple[int, ...]
    by: BegunBy
    requester: str = ""
    """Who asked for them: whose budget of destruction they count against."""
    charged: int = 0
    """How many of them do: those that end a run before any deadline, at the wish of somebody who has a budget."""


class OperationsStuck(Event, frozen=True, tag="operations-stuck"):
    """Begun long ago and still not done: somebody should look."""

    about_field = "workload"
    workload: WorkloadId
    epoch: int
    operations: tuple[int, ...]


class OperationsDone(Event, frozen=True, tag="operations-done"):
    """These operations are over. Their controller is told once."""

    about_field = "workload"
    workload: WorkloadId
    epoch: int
    operations: tuple[int, ...]
    outcome: Outcome


class ControlForgotten(Event, frozen=True, tag="control-forgotten"):
    """What a controller was still to be told of an attempt that ended long ago, it will not be told."""

    about_field = "workload"
    workload: WorkloadId
    epoch: int


class DestructionHalted(Event, frozen=True, tag="destruction-halted"):
    """Somebody asked for more to be stopped than its budget allows: it was refused. Said once in a minute."""

    about_field = "requester"
    requester: str
    asked: int
    budget: int
    """Operations in a minute."""


class MaintenancePlanned(Event, frozen=True, tag="maintenance-planned"):
    """Work on these nodes: the window begins `starts_in` from now and lasts so long, and notice is given `lead` before."""

    about_field = "maintenance"
    maintenance: str
    kind: MaintenanceKind
    scope: Scope
    nodes: Runs
    starts_in: int
    lasts: int
    lead: int
    reason: str = ""
    by: str = ""
    key: str = ""
    """Chosen by the operator, so that a request that is repeated is known."""


class MaintenanceMoved(Event, frozen=True, tag="maintenance-moved"):
    """A maintenance entered this phase."""

    about_field = "maintenance"
    maintenance: str
    phase: MaintenancePhase
    reason: str = ""


class NodesClosed(Event, frozen=True, tag="nodes-closed"):
    """Nothing new is placed on these nodes while this source closes them."""

    about_field = "source"
    source: str
    kind: ClosureKind
    nodes: Runs
    reason: str
    deadline: int = 0
    """Of a drain: nanoseconds from now after which the rest is stopped; 0: it waits for consent."""
    by: str = ""
    until_checked: bool = False
    """Of a quarantine: a passed check opens them again. Otherwise an operator does."""
    scope: Scope | None = None
    """Of a drain: how the nodes were named, for those that join later. None when they were named one by one: none will."""
    lasts: int = 0
    """Of a drain for defragmentation or for another pool: nanoseconds from now after which it lifts itself, or before, once all its nodes
    are free. 0: somebody lifts it."""
    key: str = ""
    """Of a drain: chosen by the operator, so that a request that is repeated is known."""
    pool: str = ""
    """Of a drain for a move between pools: the pool into which each node comes as soon as it is vacant."""


class NodesOpened(Event, frozen=True, tag="nodes-opened"):
    """This source closes these nodes no longer."""

    about_field = "source"
    source: str
    kind: ClosureKind
    nodes: Runs
    reason: str = ""
    by: str = ""


class ScopeJoined(Event, frozen=True, tag="scope-joined"):
    """Nodes that join belong to what a drain or a maintenance names: they are in it from the first moment on."""

    about_field = "source"
    source: str
    kind: ClosureKind
    nodes: Runs


class DomainLost(Event, frozen=True, tag="domain-lost"):
    """Workers of one power domain or zone went silent together: one loss, whose nodes have nothing until they report empty."""

    about_field = "domain"
    domain: str
    workers: tuple[WorkerName, ...]
    nodes: Runs


EVENTS: tuple[type[Event], ...] = (
    TasksDown,
    TasksGone,
    ClaimRevised,
    TasksUp,
    AttemptChanged,
    OperationsRequested,
    ControlAnswered,
    AcksExpired,
    OperationsBegun,
    OperationsStuck,
    OperationsDone,
    ControlForgotten,
    DestructionHalted,
    MaintenancePlanned,
    MaintenanceMoved,
    NodesClosed,
    NodesOpened,
    ScopeJoined,
    DomainLost,
)
