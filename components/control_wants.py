"""Which operations an attempt calls for, found in the region's image: what is to leave, to be replaced, to be brought up to date.

    its nodes are closed by a drain or a maintenance    move
    a task has no run, or its node is lost              start where it was, or move
    its job was changed                                 update
    its job grew or shrank                              start, stop
    a gang was changed                                  update or resize, whole

Each is wanted from state, so it is asked for again until the log has it, and once it has, it is not wanted any more.
"""

from msgspec import Struct

from core.images import RegionImage
from core.images.capacity import Closure, Holding
from core.images.control import AttemptControl, OperationRow, TaskPhase, TaskRow
from core.messages.control import OperateTasks
from core.nouns.ids import AttemptKey, RegionName
from core.nouns.instant import Instant
from core.nouns.limits import FAILURE_DEADLINE, OPERATIONS_AT_ONCE_MAX
from core.nouns.maintenance import ClosureKind
from core.nouns.operation import (
    CHANGE,
    WHOLE,
    OperationKind,
    OperationPhase,
    job_and_rank,
    task_number,
)
from core.nouns.placement import numbers_in
from core.nouns.workload import EndCause
from core.rules.destruction import HEALTH
from core.rules.operations import is_called_for


class Wanted(Struct, frozen=True):
    """One sort of operation, and the tasks that need it."""

    kind: OperationKind
    reason: str
    source: str
    deadline: int
    requester: str


def operations_wanted(
    region: RegionName,
    image: RegionImage,
    closing: dict[int, str],
    key: AttemptKey,
    row: AttemptControl,
    now: Instant,
) -> tuple[OperateTasks, ...]:
    """What is to be asked for, on one live attempt.

    closing   what empties each closed node (`closing_of`)
    now       on the keeper's clock, as well as can be told
    """
    held = image.capacity.holding(*key)
    if held is None or held.is_ending:
        return ()
    wants: dict[Wanted, list[int]] = {}
    live = {operation.task: operation for operation in row.operations.values() if operation.is_live}
    leave = _Leaving(image, closing, now)
    if row.stands_alone:
        _want_for_tasks(image, row, live, leave, wants)
    else:
        _want_for_gang(held, row, live.get(WHOLE), leave, wants)
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


def is_moot(image: RegionImage, key: AttemptKey, row: AttemptControl, operation: OperationRow) -> bool:
    """Whether what called for an operation is gone: a drain was lifted, a maintenance is over, the job was changed again."""
    return not is_called_for(image, key, row, operation.kind, operation.task, operation.source)


def _parts(tasks: list[int]) -> list[list[int]]:
    return [tasks[at : at + OPERATIONS_AT_ONCE_MAX] for at in range(0, len(tasks), OPERATIONS_AT_ONCE_MAX)]


def closing_of(image: RegionImage) -> dict[int, str]:
    """For each closed node that is to be empty, by which source: of several, the one with the nearest deadline."""
    found: dict[int, str] = {}
    closures = image.capacity.closures
    for source in sorted(closures, key=lambda name: _urgency(image, name, closures[name])):
        if closures[source].kind.empties:
            for node in numbers_in(closures[source].nodes):
                found.setdefault(node, source)
    return found


class _Leaving:
    """The operation that empties a node, if it is to be empty."""

    def __init__(self, image: RegionImage, closing: dict[int, str], now: Instant) -> None:
        self._image, self._closing, self._now = image, closing, now
        self._wanted: dict[str, Wanted] = {}

    def at(self, node: int) -> Wanted | None:
        """As of now."""
        source = self._closing.get(node)
        if source is None:
            return None
        if source not in self._wanted:
            closure = self._image.capacity.closures[source]
            deadline = _deadline(self._image, source, closure, self._now)
            by = f"operator:{closure.by}" if closure.by else str(closure.kind)
            self._wanted[source] = Wanted(OperationKind.MOVE, closure.reason, source, deadline, by)
        return self._wanted[source]


def _urgency(image: RegionImage, source: str, closure: Closure) -> tuple[bool, int, str]:
    at = _ends_at(image, source, closure)
    return at is None, at or 0, source


def _ends_at(image: RegionImage, source: str, closure: Closure) -> int | None:
    """When whatever is still there is stopped; None: never unasked."""
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
    wants: dict[Wanted, list[int]],
) -> None:
    nodes = [node for spread in held.claim.spreads for node in spread.nodes]
    leaving = [wanted for node in nodes if (wanted := leave.at(node)) is not None]
    if leaving:
        # Nearest deadline first; without any, the first that was asked for.
        first = min(leaving, key=lambda wanted: (wanted.deadline == 0, wanted.deadline, wanted.source))
        if _is_new(live, first):
            wants[first] = [WHOLE]
        return
    if live is None and row.revision > held.claim.spec_revision:
        is_resized = any(job.tasks != was.tasks for job, was in zip(row.jobs, held.claim.jobs, strict=True))
        kind = OperationKind.RESIZE if is_resized else OperationKind.UPDATE
        wants[_change(row, kind)] = [WHOLE]


def _change(row: AttemptControl, kind: OperationKind) -> Wanted:
    return Wanted(kind, "its user changed it", f"{CHANGE}{row.revision}", 0, "user:change")


def _is_new(live: OperationRow | None, wanted: Wanted) -> bool:
    """Whether the task has no operation that will do: one that waits for ever gives way to one with a deadline."""
    if live is None:
        return True
    waits = live.phase in (OperationPhase.ASKED, OperationPhase.ACKED)
    return waits and live.deadline == 0 and wanted.deadline > 0


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
            wanted = leave.at(task.node)
            if wanted is None and task.revision < row.revision:
                wanted = update
        elif task.node < 0:
            wanted = _change(row, OperationKind.START)
        elif task.cause != EndCause.COMPLETED:
            wanted = _replacement(image, task, leave)
        if wanted is not None and _is_new(known, wanted):
            wants.setdefault(wanted, []).append(number)
    for job, spec in enumerate(row.jobs):
        missing = [task_number(job, rank) for rank in range(spec.tasks)]
        new = [number for number in missing if number not in row.tasks and number not in live]
        if new:
            wants.setdefault(_change(row, OperationKind.START), []).extend(new)


def _replacement(image: RegionImage, task: TaskRow, leave: _Leaving) -> Wanted | None:
    """A task that failed starts where it was, if it may; one whose node is lost or to be empty, elsewhere."""
    cause = task.cause or "it is not running"
    is_away = task.node < 0 or image.capacity.is_lost[task.node] or leave.at(task.node) is not None
    if task.phase is TaskPhase.DOWN and not (task.node >= 0 and image.capacity.is_lost[task.node]):
        return None  # Something of its run is still there, and whatever took it down goes on.
    if task.node >= 0 and not is_away:
        for closure in image.capacity.closures.values():
            if closure.kind is ClosureKind.QUARANTINE and _covers(closure, task.node):
                is_away = True
    kind = OperationKind.MOVE if is_away and task.node >= 0 else OperationKind.START
    return Wanted(kind, cause, "", FAILURE_DEADLINE, HEALTH)


def _covers(closure: Closure, node: int) -> bool:
    return any(first <= node <= last for first, last in closure.nodes)
