"""Operations: which may be requested, which answers of controllers count, and which may begin now.

source    Twine §2.4: only acknowledged operations proceed; a release waits for ever, maintenance until its deadline; and apart
          from any controller, releases halt while too many tasks of a job are unavailable, for any cause
"""

from collections import Counter

from core.images import RegionImage
from core.images.capacity import Capacity
from core.images.control import AttemptControl, OperationRow, TaskPhase, TaskRow
from core.images.maintenance import Maintenance
from core.nouns.ids import AttemptKey
from core.nouns.instant import Instant, after
from core.nouns.limits import ACK_LEASE, MOVE_PATIENCE, STUCK_SPAN
from core.nouns.maintenance import MaintenancePhase
from core.nouns.operation import (
    CHANGE,
    DRAIN,
    MAINTENANCE,
    ROUND,
    WHOLE,
    Ack,
    Answer,
    BegunBy,
    OperationKind,
    OperationPhase,
    Outcome,
    TaskMove,
    job_and_rank,
    task_number,
)
from core.nouns.preemption import PREEMPTION
from core.nouns.workload import EndCause
from core.rules import preemption
from core.rules.disruption_budget import DEFRAGMENTATION, HEALTH, POOLS
from core.rules.scopes import drains_of

OF_GANGS = (
    OperationKind.RESTART,
    OperationKind.UPDATE,
    OperationKind.MOVE,
    OperationKind.CHECKPOINT_AND_STOP,
    OperationKind.RESIZE,
    OperationKind.PREEMPT,
)
"""Kinds of operations on a gang. A gang is stopped for good by cancelling its workload."""
RUNNING = (TaskPhase.UP, TaskPhase.STARTING)
"""Phases in which a process of the task is alive, or is about to be."""


def tasks_meant(row: AttemptControl, kind: OperationKind, tasks: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the tasks that an operation of this kind touches; None if such work cannot have this operation on these tasks."""
    if kind is OperationKind.PREEMPT:
        return (WHOLE,) if tasks in ((), (WHOLE,)) else None
    if not row.stands_alone:
        return (WHOLE,) if kind in OF_GANGS and tasks in ((), (WHOLE,)) else None
    if kind in (OperationKind.CHECKPOINT_AND_STOP, OperationKind.RESIZE):
        return None
    if not tasks:
        return tuple(sorted(row.tasks))
    known = all(
        task in row.tasks or (kind is OperationKind.START and _is_wanted(row, task)) for task in tasks
    )
    return tuple(dict.fromkeys(tasks)) if known else None


def missing_tasks(row: AttemptControl) -> list[int]:
    """Return, ascending, the tasks that the jobs should have but the region does not know: jobs grew, or were placed in part."""
    return [
        number
        for job, spec in enumerate(row.jobs)
        for number in range(task_number(job, 0), task_number(job, spec.tasks))
        if number not in row.tasks
    ]


def _is_wanted(row: AttemptControl, task: int) -> bool:
    job, rank = job_and_rank(task)
    return 0 <= job < len(row.jobs) and rank < row.jobs[job].tasks


def is_called_for(
    image: RegionImage, key: AttemptKey, row: AttemptControl, kind: OperationKind, task: int, source: str
) -> bool:
    """Return whether the purpose of an operation still holds: the drain, maintenance, change or promise behind it.

    A start is not called for while the task has a run.
    """
    if kind is OperationKind.START and task in row.tasks and row.tasks[task].phase in RUNNING:
        return False
    if source.startswith(PREEMPTION):
        return preemption.is_called_for(image.capacity, key, source)
    if source.startswith(CHANGE):
        return source == f"{CHANGE}{row.revision}" and _is_behind(row, kind, task)
    if not source.startswith((DRAIN, MAINTENANCE)):
        return True
    closure, held = image.capacity.closures.get(source), image.capacity.holding(*key)
    if closure is None or held is None or (task not in row.tasks and row.stands_alone):
        return False
    nodes = [row.tasks[task].node] if row.stands_alone else [n for s in held.claim.spreads for n in s.nodes]
    return any(first <= node <= last for node in nodes for first, last in closure.nodes)


def _is_behind(row: AttemptControl, kind: OperationKind, task: int) -> bool:
    """Return whether a task does not yet match its changed job. For a gang, the queue decides from the claim: always True here."""
    if kind is OperationKind.UPDATE and row.stands_alone:
        return task in row.tasks and row.tasks[task].revision < row.revision
    return kind is not OperationKind.STOP or not _is_wanted(row, task)


def destroys(row: AttemptControl, operation: OperationRow) -> bool:
    """Return whether a run ends by the operation. A task that is down or gone has no run to lose."""
    if operation.task not in row.tasks:
        return operation.task == WHOLE  # All tasks of a service at once.
    return operation.kind.stops and row.tasks[operation.task].phase in RUNNING


def may_finish(row: AttemptControl, operation: OperationRow, outcome: Outcome) -> bool:
    """Return whether an operation can have this outcome. Where the attempt has ended, the queue's log decides the rest."""
    has_begun = operation.phase is OperationPhase.BEGUN
    task = row.tasks.get(operation.task)
    match outcome:
        case Outcome.WITHDRAWN:
            return not has_begun or (task is not None and task.run < 0)  # A new task that never got a run.
        case Outcome.IGNORED:
            return operation.phase is OperationPhase.ACKED and operation.answer is Answer.IGNORE
        case Outcome.HEALTHY:
            return has_begun and (row.is_ended or (task is not None and task.phase is TaskPhase.UP))
        case Outcome.GONE:
            return has_begun and task is None


def counts(row: AttemptControl, ack: Ack, maintenance: Maintenance) -> bool:
    """Return whether a controller's answer concerns an operation that waits for an answer, and is valid for this operation."""
    operation = row.operations.get(ack.operation)
    if operation is None or operation.phase is not OperationPhase.ASKED:
        return False
    if ack.after_checkpoint and row.stands_alone:
        return False
    if operation.kind is OperationKind.PREEMPT:
        return preemption.counts_for(operation.kind, operation.source, ack)
    if ack.within or ack.instead:
        return False
    if ack.answer is Answer.PROCEED:
        return True
    if operation.kind is not OperationKind.MOVE or not operation.source:
        return False
    if ack.answer is Answer.MOVE:
        return True
    planned = maintenance.rows.get(operation.source)
    if planned is None:
        return False  # A drain ends when an operator lifts it: the time of a return is unknown.
    return ack.answer is Answer.STOP_AND_RETURN or not planned.kind.needs_empty


def is_overdue(operation: OperationRow, now: Instant) -> bool:
    """Return whether the deadline of an involuntary operation has passed."""
    return operation.deadline > 0 and operation.requested_at + operation.deadline <= now


def gives_way(known: OperationRow, source: str, deadline: int, now: Instant) -> bool:
    """Return whether a live operation, not yet begun, is withdrawn for another on the same task because of an earlier deadline.

    An optional operation gives way to each one with a deadline. An involuntary operation never gives way to one of the same
    source, so that a repeated request does not start the wait from scratch.
    """
    if deadline <= 0 or known.phase is OperationPhase.BEGUN:
        return False
    comes_sooner = now + deadline < known.requested_at + known.deadline
    return known.deadline == 0 or (comes_sooner and source != known.source)


def is_stuck(operation: OperationRow, now: Instant) -> bool:
    """Return whether a begun operation takes so long that an operator should look, and was not yet marked as stuck."""
    has_begun = operation.phase is OperationPhase.BEGUN and not operation.is_stuck
    return has_begun and operation.begun_at + STUCK_SPAN <= now


def is_stale(operation: OperationRow, now: Instant) -> bool:
    """Return whether an acknowledgement was not followed within `ACK_LEASE`. One that waits for a window or a checkpoint stays."""
    waits = operation.answer in (Answer.IGNORE, Answer.STOP_AND_RETURN) or operation.after_step >= 0
    waits = waits or operation.within > 0
    is_acked = operation.phase is OperationPhase.ACKED
    return is_acked and not waits and operation.acked_at + ACK_LEASE <= now


def may_begin(row: AttemptControl, number: int, by: BegunBy, maintenance: Maintenance, now: Instant) -> bool:
    """Return whether one operation may begin for the given reason. `within_limits` decides how many may begin at once."""
    operation = row.operations.get(number)
    if operation is None or row.is_ended or (operation.task != WHOLE and operation.task not in row.tasks):
        return False
    if by is BegunBy.DEADLINE:
        waits = operation.phase in (OperationPhase.ASKED, OperationPhase.ACKED)
        is_left_alone = operation.phase is OperationPhase.ACKED and operation.answer is Answer.IGNORE
        return waits and not is_left_alone and is_overdue(operation, now)
    if by is BegunBy.LIMITS:
        return operation.phase is OperationPhase.ASKED and not row.spec.controller
    if operation.phase is not OperationPhase.ACKED or is_stale(operation, now):
        return False
    if operation.answer in (Answer.IGNORE, Answer.INSTEAD) or _still_waits(row, operation, now):
        return False
    if operation.answer is Answer.STOP_AND_RETURN:
        planned = maintenance.rows.get(operation.source)
        return planned is not None and planned.phase is MaintenancePhase.OPEN
    return True


def _still_waits(row: AttemptControl, operation: OperationRow, now: Instant) -> bool:
    """Return whether the operation waits for its checkpoint, or for the controller's span; if both are set, for the earlier."""
    has_time = not operation.within or now < operation.acked_at + operation.within
    if operation.after_step >= 0:
        return has_time and row.saved_step <= operation.after_step
    return operation.within > 0 and has_time


def may_move_back(operation: OperationRow, now: Instant) -> bool:
    """Return whether a task that is to move may start where it was instead, should its node be open again.

    A task that had to leave because of its node, or was down, may return at once. A task that was moved for its own sake may
    return once no place was found for `MOVE_PATIENCE`: its capacity here is still held, and it must not be down for ever.
    """
    had_to_leave = bool(operation.source) or operation.requester == HEALTH
    return had_to_leave or operation.begun_at + MOVE_PATIENCE <= now


def may_return_from(capacity: Capacity, task: TaskRow) -> Instant:
    """Return when a task that stopped in order to return may start on its node although the node is drained.

    That is `MOVE_PATIENCE` after the stop or the drain: no place was found elsewhere for that time, and no controller agreed to a
    move. Once the task is up, the drain requests a move as of any task.
    """
    since = max((drain.at for drain in drains_of(capacity, task.node)), default=0)
    return after(Instant(max(task.since, since)), MOVE_PATIENCE)


def may_return(capacity: Capacity, task: TaskRow, now: Instant) -> bool:
    """Return whether a task may start on its node now, despite drains.

    Never once a drain's deadline has passed: the task would be stopped again at once.
    """
    drains = drains_of(capacity, task.node)
    is_forced = any(drain.deadline and drain.at + drain.deadline <= now for drain in drains)
    return not drains or (not is_forced and may_return_from(capacity, task) <= now)


def may_run_again(task: TaskRow | None, operation: OperationRow | None, move: TaskMove, now: Instant) -> bool:
    """Return whether a task gets this new run: no process of the task is alive, and a begun operation calls for this run."""
    if task is None or task.phase is not TaskPhase.GONE or task.node != move.node_from:
        return False
    if operation is None or operation.phase is not OperationPhase.BEGUN:
        return False  # Neither acknowledged nor at its deadline.
    if operation.kind is OperationKind.STOP:
        return False
    if move.task == WHOLE:
        return move.node_to == move.node_from and returns_here(operation)
    if leaves_its_node(operation) and move.node_to == move.node_from:
        return may_move_back(operation, now)
    return move.node_to >= 0


def leaves_its_node(operation: OperationRow) -> bool:
    """Return whether the operation's task is to start on another node."""
    return operation.kind is OperationKind.MOVE and not returns_here(operation)


def within_limits(row: AttemptControl, numbers: list[int]) -> list[int]:
    """Return the operations, in the given order, that leave no job with more unavailable tasks than the job allows."""
    if not row.stands_alone:
        return numbers
    down = Counter(job_and_rank(task)[0] for task in row.unavailable())
    allowed = []
    for number in numbers:
        operation = row.operations[number]
        if operation.task == WHOLE:
            allowed.append(number)
            continue
        job, _ = job_and_rank(operation.task)
        is_up = row.tasks[operation.task].phase is TaskPhase.UP
        if operation.kind.stops and is_up:
            if down[job] >= row.spec.unavailable_limit(row.jobs[job].tasks):
                continue
            down[job] += 1
        allowed.append(number)
    return allowed


def cause_of(operation: OperationRow) -> EndCause:
    """Return the cause with which this operation ends a gang's attempt."""
    if operation.kind is OperationKind.PREEMPT:
        return EndCause.PREEMPTED
    if operation.requester in (DEFRAGMENTATION, POOLS):
        return EndCause.MOVED
    if operation.source.startswith(ROUND):
        return EndCause.ROUND_OVER
    if operation.source.startswith(DRAIN):
        return EndCause.DRAINED
    if operation.source.startswith(MAINTENANCE):
        return EndCause.MAINTENANCE
    if operation.kind in (OperationKind.UPDATE, OperationKind.RESIZE):
        return EndCause.CHANGED
    return EndCause.MOVED


def returns_here(operation: OperationRow) -> bool:
    """Return whether the operation's task, or gang, starts again on the nodes where it was."""
    if operation.kind is OperationKind.MOVE:
        return operation.answer is Answer.STOP_AND_RETURN
    is_gang = operation.task == WHOLE
    return operation.kind is OperationKind.RESTART or (operation.kind is OperationKind.UPDATE and not is_gang)
