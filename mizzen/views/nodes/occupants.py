"""Who is on a region's nodes, and what each task that is to leave one waits for: found in the region's image alone."""

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from core.images import RegionImage
from core.images.control import AttemptControl, OperationRow, TaskPhase, TaskRow
from core.images.maintenance import BUDGET_SPAN
from core.nouns.ids import AttemptKey
from core.nouns.instant import Instant
from core.nouns.maintenance import MaintenancePhase
from core.nouns.operation import WHOLE, Answer, OperationKind, OperationPhase, job_and_rank
from core.rules.operations import returns_here
from core.rules.scopes import is_drained


class WaitKind(StrEnum):
    """What has to happen before a task has left, those first that most likely want somebody's look."""

    STUCK = "stuck"
    """It was told to go long ago."""
    BUDGET = "budget"
    """Whoever wants it gone has had too much stopped in the last minute."""
    CONTROLLER = "controller"
    """Its application's word."""
    ROOM = "room"
    """Nothing of it runs; it has no other node to start on."""
    UNASKED = "unasked"
    """The region's task control is to ask for it."""
    CHECKPOINT = "checkpoint"
    FIRST = "first"
    """Another operation on it, which comes first."""
    LIMIT = "limit"
    """As many tasks of its job are down as may be."""
    TURN = "turn"
    """Nothing: it may go now."""
    STOPPING = "stopping"
    WINDOW = "window"
    """The window: it stops then, and returns."""
    NOTICE = "notice"
    """The time at which anybody is told of the maintenance."""
    RETURN = "return"
    """Nothing of it runs; it returns when the maintenance is over."""
    STAYS = "stays"
    """Its application wants nothing done, and the work lets it stay."""
    LOST = "lost"
    """Its node is lost: what runs there nobody knows."""


URGENCY = {kind: place for place, kind in enumerate(WaitKind)}


class Wait(Struct, frozen=True):
    """What a task waits for."""

    kind: WaitKind
    since: int = 0
    """An instant; 0: the image does not tell."""
    forced_at: int = 0
    """When it is stopped unasked; 0: never."""
    what: str = ""
    """The controller, the step of the checkpoint, the operation, why it stops; what the kind leaves open."""


class Occupant(Struct, frozen=True):
    """One task that stands alone on its node, or a gang's tasks on one of its nodes."""

    key: AttemptKey
    node: int
    task: int
    """`WHOLE`: a gang's."""
    tasks: int
    is_there: bool
    """Whether something of it may still run; if not, only its room is held."""


def occupants(image: RegionImage) -> Iterator[Occupant]:
    """All of them, in the order of grants."""
    for workload, epoch, held in image.capacity.live():
        key = (workload, epoch)
        row = image.control.row(*key)
        if row is not None and row.stands_alone:
            for number, task in row.tasks.items():
                if task.node >= 0:
                    yield Occupant(key, task.node, number, 1, task.phase is not TaskPhase.GONE)
            continue
        is_there = row is None or not row.is_paused
        for spread in held.claim.spreads:
            for node, tasks in zip(spread.nodes, spread.tasks, strict=True):
                yield Occupant(key, node, WHOLE, tasks, is_there)


def tasks_there(image: RegionImage) -> Counter[int]:
    """By node, how many tasks may still run on it."""
    found: Counter[int] = Counter()
    for occupant in occupants(image):
        if occupant.is_there:
            found[occupant.node] += occupant.tasks
    return found


def forced_at(image: RegionImage, source: str) -> int:
    """When a drain or a maintenance has stopped what is still there; 0: never unasked."""
    planned = image.maintenance.rows.get(source)
    if planned is not None:
        return planned.starts_at
    closure = image.capacity.closures[source]
    return closure.at + closure.deadline if closure.deadline else 0


class Waits:
    """What occupants wait for who are to leave for one drain or maintenance. What is the same for all tasks is looked up once."""

    def __init__(self, image: RegionImage, source: str, now: Instant) -> None:
        self._image, self._source, self._now = image, source, now
        self._planned = image.maintenance.rows.get(source)
        closure = image.capacity.closures.get(source)
        self._closed_at = closure.at if closure is not None else 0
        self._live: dict[AttemptKey, dict[int, OperationRow]] = {}
        self._down: dict[AttemptKey, Counter[int]] = {}

    def of(self, occupant: Occupant) -> Wait:
        """What one of them waits for."""
        capacity, key = self._image.capacity, occupant.key
        if occupant.is_there and capacity.is_lost[occupant.node]:
            return Wait(WaitKind.LOST)
        held = capacity.holding(*key)
        assert held is not None, key
        row = self._image.control.row(*key)
        operation = self._operations(key, row).get(occupant.task)
        if held.is_ending:
            return self._ending(key, operation)
        if row is None or operation is None:
            return self._unasked(row, occupant)
        task = row.tasks[occupant.task]
        match operation.phase:
            case OperationPhase.BEGUN:
                return _begun(task, operation, is_drained=self._is_drained(task.node))
            case OperationPhase.ACKED:
                return self._acked(key, row, task, operation)
        return self._asked(key, row, task, operation)

    def _operations(self, key: AttemptKey, row: AttemptControl | None) -> dict[int, OperationRow]:
        if key not in self._live:
            rows = row.operations.values() if row is not None else ()
            self._live[key] = {operation.task: operation for operation in rows if operation.is_live}
        return self._live[key]

    def _ending(self, key: AttemptKey, operation: OperationRow | None) -> Wait:
        """All of it was told to stop."""
        attempt = self._image.attempts.row(*key)
        cause = attempt.stop_cause if attempt is not None else ""
        if operation is not None and operation.phase is OperationPhase.BEGUN:
            kind = WaitKind.STUCK if operation.is_stuck else WaitKind.STOPPING
            return Wait(kind, operation.begun_at, what=cause)
        return Wait(WaitKind.STOPPING, what=cause)

    def _unasked(self, row: AttemptControl | None, occupant: Occupant) -> Wait:
        task = row.tasks.get(occupant.task) if row is not None else None
        if task is not None and task.phase is TaskPhase.DOWN:
            return Wait(WaitKind.STOPPING, task.since, what=task.cause)
        at = forced_at(self._image, self._source)
        if self._planned is not None and self._planned.phase is MaintenancePhase.PLANNED:
            return Wait(WaitKind.NOTICE, forced_at=at)
        if row is not None and any(
            self._lets_stay(known, occupant.task) for known in row.operations.values()
        ):
            return Wait(WaitKind.STAYS)
        if not occupant.is_there:
            assert task is not None, occupant
            return Wait(WaitKind.ROOM, task.since)
        return Wait(WaitKind.UNASKED, self._closed_at, at)

    def _lets_stay(self, operation: OperationRow, task: int) -> bool:
        """Whether this is the word, over and not told yet, that nothing is to be done."""
        is_mine = operation.task == task and operation.source == self._source
        return is_mine and operation.answer is Answer.IGNORE

    def _asked(self, key: AttemptKey, row: AttemptControl, task: TaskRow, operation: OperationRow) -> Wait:
        at = _forced_at(operation)
        if not _leaves(operation):
            return Wait(WaitKind.FIRST, operation.requested_at, at, str(operation.kind))
        if row.spec.controller:
            who = f"{row.tenant}/{row.spec.controller}"
            return Wait(WaitKind.CONTROLLER, operation.requested_at, at, who)
        return self._free(key, row, task, operation, operation.requested_at)

    def _acked(self, key: AttemptKey, row: AttemptControl, task: TaskRow, operation: OperationRow) -> Wait:
        at = _forced_at(operation)
        if not _leaves(operation):
            return Wait(WaitKind.FIRST, operation.acked_at, at, str(operation.kind))
        if operation.answer is Answer.IGNORE:
            return Wait(WaitKind.STAYS, operation.acked_at)
        if operation.answer is Answer.STOP_AND_RETURN and self._is_ahead(operation):
            return Wait(WaitKind.WINDOW, operation.acked_at, at, operation.source)
        if operation.after_step >= 0 and row.saved_step <= operation.after_step:
            return Wait(WaitKind.CHECKPOINT, operation.acked_at, at, str(operation.after_step))
        return self._free(key, row, task, operation, operation.acked_at)

    def _is_drained(self, node: int) -> bool:
        return node >= 0 and is_drained(self._image.capacity, node)

    def _is_ahead(self, operation: OperationRow) -> bool:
        planned = self._image.maintenance.rows.get(operation.source)
        return planned is not None and planned.phase is not MaintenancePhase.OPEN

    def _free(
        self, key: AttemptKey, row: AttemptControl, task: TaskRow, operation: OperationRow, since: int
    ) -> Wait:
        """What still holds one back to which everybody has agreed."""
        at = _forced_at(operation)
        told_at = self._image.destruction.halted.get(operation.requester)
        if told_at is not None and told_at + BUDGET_SPAN > self._now:
            return Wait(WaitKind.BUDGET, since, at, operation.requester)
        if row.stands_alone and task.phase is TaskPhase.UP:
            job, _ = job_and_rank(operation.task)
            limit = row.spec.unavailable_limit(row.jobs[job].tasks)
            down = self._unavailable(key, row)[job]
            if down >= limit:
                return Wait(WaitKind.LIMIT, since, at, f"{down} of {row.jobs[job].tasks}")
        return Wait(WaitKind.TURN, since, at)

    def _unavailable(self, key: AttemptKey, row: AttemptControl) -> Counter[int]:
        if key not in self._down:
            self._down[key] = Counter(job_and_rank(task)[0] for task in row.unavailable())
        return self._down[key]


def _begun(task: TaskRow, operation: OperationRow, *, is_drained: bool) -> Wait:
    if task.phase is TaskPhase.GONE:
        moves_instead = is_drained and operation.answer is Answer.STOP_AND_RETURN
        if _returns(operation) and not moves_instead:
            kind = WaitKind.RETURN if operation.source else WaitKind.FIRST
            return Wait(kind, task.since, what=operation.source or str(operation.kind))
        if operation.is_stuck:
            return Wait(WaitKind.STUCK, task.since, what="room")
        return Wait(WaitKind.ROOM, task.since)
    if operation.is_stuck:
        return Wait(WaitKind.STUCK, operation.begun_at, what=str(operation.kind))
    if not _leaves(operation):
        return Wait(WaitKind.FIRST, operation.begun_at, what=str(operation.kind))
    return Wait(WaitKind.STOPPING, operation.begun_at, what=operation.source or str(operation.kind))


def _returns(operation: OperationRow) -> bool:
    return returns_here(operation) or operation.kind is OperationKind.START


def _leaves(operation: OperationRow) -> bool:
    """Whether its task is off its node once it is over: for that drain or another, it comes to the same."""
    if operation.task == WHOLE:
        return operation.kind.ends_gang
    return operation.kind in (OperationKind.MOVE, OperationKind.STOP)


def _forced_at(operation: OperationRow) -> int:
    return operation.requested_at + operation.deadline if operation.deadline else 0
