"""The operations that an attempt calls for, found in the region's image.

    a promise waits for the attempt's end               preempt, whole
    nodes are to be emptied by a drain or maintenance   move
    a task has no run, or the node is lost              start on the same node, or move
    the job was changed                                 update
    the job grew or shrank                              start, stop
    a gang was changed                                  update or resize, whole
    a gang is to continue in another region             move, whole
    a job of a shared pool is not picked for the round  move, whole

Operations are derived from state: each is requested again until the log shows the operation, and not after that.
"""

from msgspec import Struct

from core.images import RegionImage
from core.images.awards import AwardRow
from core.images.capacity import Holding
from core.images.closures import Closure
from core.images.control import AttemptControl, OperationRow, TaskPhase, TaskRow
from core.messages.control import OperateTasks
from core.nouns.ids import AttemptKey, RegionName
from core.nouns.instant import Instant
from core.nouns.limits import FAILURE_DEADLINE, OPERATIONS_AT_ONCE_MAX
from core.nouns.maintenance import ClosureKind
from core.nouns.operation import (
    CHANGE,
    ROUND,
    ROUNDS,
    TRANSFER,
    WHOLE,
    OperationKind,
    job_and_rank,
)
from core.nouns.placement import numbers_in
from core.nouns.preemption import PREEMPTION_REQUESTER, source_of
from core.nouns.workload import EndCause
from core.rules.disruption_budget import DEFRAGMENTATION, HEALTH, MOVES, POOLS
from core.rules.operations import gives_way, is_called_for, missing_tasks
from core.rules.preemption import promises_over


class Wanted(Struct, frozen=True):
    """The properties of an operation; tasks that call for equal operations share one request."""

    kind: OperationKind
    reason: str
    source: str
    deadline: int
    requester: str


def operations_wanted(
    region: RegionName,
    image: RegionImage,
    closing: dict[int, tuple[str, ...]],
    key: AttemptKey,
    row: AttemptControl,
    now: Instant,
    award: AwardRow | None = None,
) -> tuple[OperateTasks, ...]:
    """Return the requests for operations on one live attempt.

    closing   drains and maintenances that are to empty each node (`closing_of`)
    now       estimated time on the keeper's clock
    award     the workload's newest award in the queue's log
    """
    held = image.capacity.holding(*key)
    if held is None or held.is_ending:
        return ()
    wants: dict[Wanted, list[int]] = {}
    live = {task: row.operations[number] for task, number in row.busy().items()}
    leave = _Leaving(image, closing, row, now)
    preempt = _preempted(image, key, row, now)
    if row.stands_alone:
        _want_for_tasks(image, row, live, leave, wants)
        if preempt is not None and _is_new(live.get(WHOLE), preempt, now):
            wants[preempt] = [WHOLE]
    else:
        _want_for_gang(held, row, live.get(WHOLE), leave, preempt, wants)
        if not wants and not live and award is not None and award.moving and award.epoch == key[1]:
            is_round = award.moving.startswith(ROUND)
            why = "it is not picked there for this round" if is_round else "it moves to another region"
            by = ROUNDS if is_round else MOVES
            wants[Wanted(OperationKind.MOVE, why, award.moving, award.move_deadline, by)] = [WHOLE]
    return tuple(
        OperateTasks(
            region,
            *key,
            wanted.kind,
            tuple(part),
            wanted.reason,
            wanted.source,
            wanted.deadline,
            wanted.requester,
        )
        for wanted, tasks in wants.items()
        for part in _parts(sorted(tasks))
    )


def _preempted(image: RegionImage, key: AttemptKey, row: AttemptControl, now: Instant) -> Wanted | None:
    """Return the operation that frees capacity for a promise over the attempt, if such a promise and a controller exist."""
    by = promises_over(image, key) if row.spec.controller and image.capacity.promises else None
    promise = image.preemption.promise(*by) if by is not None else None
    if by is None or promise is None:
        return None
    deadline = max(1, promise.asked_until - now)
    reason = f"to make room for {by[0]}, which is of higher priority"
    return Wanted(OperationKind.PREEMPT, reason, source_of(*by), deadline, PREEMPTION_REQUESTER)


def is_moot(
    image: RegionImage,
    key: AttemptKey,
    row: AttemptControl,
    operation: OperationRow,
    award: AwardRow | None = None,
) -> bool:
    """Return whether the reason for an operation is gone.

    For example, the drain was lifted, the job was changed again, or the move to another region was called off.
    """
    if operation.source.startswith((TRANSFER, ROUND)):
        return award is None or award.moving != operation.source
    return not is_called_for(image, key, row, operation.kind, operation.task, operation.source)


def _parts(tasks: list[int]) -> list[list[int]]:
    return [tasks[at : at + OPERATIONS_AT_ONCE_MAX] for at in range(0, len(tasks), OPERATIONS_AT_ONCE_MAX)]


def closing_of(image: RegionImage) -> dict[int, tuple[str, ...]]:
    """Return, by node, the drains and maintenances that are to empty the node, the nearest deadline first."""
    found: dict[int, list[str]] = {}
    closures = image.capacity.closures
    for source in sorted(closures, key=lambda name: _urgency(image, name, closures[name])):
        if closures[source].kind.empties:
            for node in numbers_in(closures[source].nodes):
                found.setdefault(node, []).append(source)
    return {node: tuple(sources) for node, sources in found.items()}


class _Leaving:
    """The moves of one attempt's tasks off nodes that are to be emptied, as of now."""

    def __init__(
        self, image: RegionImage, closing: dict[int, tuple[str, ...]], row: AttemptControl, now: Instant
    ) -> None:
        self._image, self._closing, self.now = image, closing, now
        self._wanted: dict[str, Wanted] = {}
        self._ignored = {(one.task, one.source) for one in row.operations.values() if one.is_left_alone}

    def at(self, node: int, task: int) -> Wanted | None:
        """Return the move for the nearest deadline on the node, without those that the controller chose to ignore."""
        for source in self._closing.get(node, ()):
            if (task, source) not in self._ignored:
                return self._of(source)
        return None

    def _of(self, source: str) -> Wanted:
        if source not in self._wanted:
            closure = self._image.capacity.closures[source]
            deadline = _deadline(self._image, source, closure, self.now)
            by = f"operator:{closure.by}" if closure.by else str(closure.kind)
            by = DEFRAGMENTATION if closure.lasts else by
            by = POOLS if closure.pool else by
            self._wanted[source] = Wanted(OperationKind.MOVE, closure.reason, source, deadline, by)
        return self._wanted[source]


def _urgency(image: RegionImage, source: str, closure: Closure) -> tuple[bool, int, str]:
    at = _ends_at(image, source, closure)
    return at is None, at or 0, source


def _ends_at(image: RegionImage, source: str, closure: Closure) -> int | None:
    """Return when tasks still on the nodes are stopped without consent; None: never."""
    planned = image.maintenance.rows.get(source)
    if planned is not None:
        return planned.starts_at
    return closure.at + closure.deadline if closure.deadline else None


def _deadline(image: RegionImage, source: str, closure: Closure, now: Instant) -> int:
    at = _ends_at(image, source, closure)
    return 0 if at is None else max(1, at - now)


def _want_for_gang(
    held: Holding,
    row: AttemptControl,
    live: OperationRow | None,
    leave: _Leaving,
    preempt: Wanted | None,
    wants: dict[Wanted, list[int]],
) -> None:
    nodes = [node for spread in held.claim.spreads for node in spread.nodes]
    leaving = [wanted for node in nodes if (wanted := leave.at(node, WHOLE)) is not None]
    if preempt is not None:
        leaving.append(preempt)
    if leaving:
        # Nearest deadline first; without a deadline, the least name of a source.
        first = min(leaving, key=lambda wanted: (wanted.deadline == 0, wanted.deadline, wanted.source))
        if _is_new(live, first, leave.now):
            wants[first] = [WHOLE]
        return
    if live is None and row.revision > held.claim.spec_revision:
        is_resized = any(job.tasks != was.tasks for job, was in zip(row.jobs, held.claim.jobs, strict=True))
        kind = OperationKind.RESIZE if is_resized else OperationKind.UPDATE
        wants[_change(row, kind)] = [WHOLE]


def _change(row: AttemptControl, kind: OperationKind) -> Wanted:
    return Wanted(kind, "its user changed it", f"{CHANGE}{row.revision}", 0, "user:change")


def _start(row: AttemptControl) -> Wanted:
    return Wanted(OperationKind.START, "it has no place yet", f"{CHANGE}{row.revision}", 0, "user:change")


def _is_new(live: OperationRow | None, wanted: Wanted, now: Instant) -> bool:
    """Return whether the task has no live operation, or one that is withdrawn for an earlier deadline (`gives_way`)."""
    return live is None or gives_way(live, wanted.source, wanted.deadline, now)


def _want_for_tasks(
    image: RegionImage,
    row: AttemptControl,
    live: dict[int, OperationRow],
    leave: _Leaving,
    wants: dict[Wanted, list[int]],
) -> None:
    update = _change(row, OperationKind.UPDATE)
    stop = _change(row, OperationKind.STOP)
    for number, task in row.tasks.items():
        known = live.get(number)
        job, rank = job_and_rank(number)
        wanted: Wanted | None = None
        if rank >= row.jobs[job].tasks:
            wanted = stop
        elif task.phase in (TaskPhase.UP, TaskPhase.STARTING):
            wanted = leave.at(task.node, number)
            if wanted is None and task.revision < row.revision:
                wanted = update
        elif task.node < 0:
            wanted = _start(row)
        elif task.cause != EndCause.COMPLETED:
            wanted = _replacement(image, number, task, leave)
        if wanted is not None and _is_new(known, wanted, leave.now):
            wants.setdefault(wanted, []).append(number)
    new = [number for number in missing_tasks(row) if number not in live]
    if new:
        wants.setdefault(_start(row), []).extend(new)


def _replacement(image: RegionImage, number: int, task: TaskRow, leave: _Leaving) -> Wanted | None:
    """Return the replacement of a failed task: on its node, or elsewhere if the node is lost, to be emptied or in quarantine."""
    cause = task.cause or "it is not running"
    is_away = task.node < 0 or image.capacity.is_lost[task.node] or leave.at(task.node, number) is not None
    if task.phase is TaskPhase.DOWN and not (task.node >= 0 and image.capacity.is_lost[task.node]):
        return None  # Part of the run is still on the node: the operation or failure that stopped the run is not over.
    if task.node >= 0 and not is_away:
        for closure in image.capacity.closures.values():
            if closure.kind is ClosureKind.QUARANTINE and _covers(closure, task.node):
                is_away = True
    kind = OperationKind.MOVE if is_away and task.node >= 0 else OperationKind.START
    return Wanted(kind, cause, "", FAILURE_DEADLINE, HEALTH)


def _covers(closure: Closure, node: int) -> bool:
    return any(first <= node <= last for first, last in closure.nodes)
