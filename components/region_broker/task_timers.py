"""What a broker remembers of tasks that stand alone and of paused gangs, beside the image: when each is to be looked at.

A task's deadlines count from when this broker first knew of what they count from. Tasks are looked at one by one, when a
fact or a report has changed them or a word about them is to be said again; an attempt of thousands costs what changes in it.
"""

from collections.abc import Iterable, Sequence

from core.agenda import Agenda
from core.events.control import (
    ClaimRevised,
    DomainLost,
    MaintenanceMoved,
    NodesClosed,
    NodesOpened,
    OperationsBegun,
    TasksDown,
    TasksGone,
    TasksUp,
)
from core.events.region import (
    AttemptEnded,
    CheckpointCommitted,
    ClaimGranted,
    GangStarted,
    NodesLost,
    NodesReturned,
    StopOrdered,
)
from core.fact import Event, Note
from core.images import RegionImage
from core.images.control import AttemptControl
from core.nouns.ids import AttemptKey, WorkerName, WorkloadId
from core.nouns.instant import Instant, after, earliest
from core.nouns.limits import TASKS_LOOK
from core.nouns.maintenance import ClosureKind
from core.nouns.operation import WHOLE, Answer, OperationPhase, TaskMove, task_number

LEADER = task_number(0, 0)
"""The task whose checkpoints are its attempt's."""


class TasksAttended(Note, frozen=True):
    """An attempt whose tasks stand alone was looked at."""

    key: AttemptKey
    again: tuple[tuple[int, Instant | None], ...]
    """Each task that was looked at, and when it is again, if at all."""
    asked: tuple[tuple[int, int, Instant], ...]
    """Tasks for which a new run was asked: at which revision of the claim, and until when that may take."""
    quiet: tuple[tuple[str, Instant], ...]
    """Words about the whole that are not repeated before then."""
    is_going: bool
    """Whether all were prepared at once: from then on each starts when it can."""
    whole_at: Instant | None
    """When the whole is looked at again, though no task changes."""


class TaskWatch:
    """One attempt whose tasks stand alone."""

    def __init__(self, row: AttemptControl, worker_of: Sequence[str], at: Instant) -> None:
        self.due: Agenda[int] = Agenda()
        self.seen: dict[int, Instant] = {}
        """When each task was first known here to be in its phase, or what it waited for to be over."""
        self.on: dict[WorkerName, dict[int, None]] = {}
        self.asked: dict[int, tuple[int, Instant]] = {}
        self.quiet: dict[str, Instant] = {}
        self.is_going = False
        self.whole_at: Instant | None = at
        self.looked_at: Instant | None = None
        for task, known in row.tasks.items():
            self._place(task, known.node, worker_of)
            self.changed(task, at)

    def next_at(self) -> Instant | None:
        """When the attempt is to be looked at: not at every change, so that changes are recorded together."""
        first = earliest(self.due.due(), self.whole_at)
        if first is None or self.looked_at is None:
            return first
        return max(first, after(self.looked_at, TASKS_LOOK))

    def look(self, task: int, at: Instant) -> None:
        """Something about this task may call for a word."""
        known = self.due.at(task)
        if known is None or at < known:
            self.due.put(task, at)

    def changed(self, task: int, at: Instant) -> None:
        """It is in another phase, or what it waited for is over."""
        self.seen[task] = at
        self.look(task, at)

    def look_at_whole(self, at: Instant) -> None:
        """Something about the attempt may call for a word."""
        self.whole_at = at if self.whole_at is None else min(at, self.whole_at)

    def moved(self, moves: Sequence[TaskMove], worker_of: Sequence[str], at: Instant) -> None:
        """These tasks have new runs, or are no more."""
        for move in moves:
            if move.node_from >= 0:
                self.on.get(WorkerName(worker_of[move.node_from]), {}).pop(move.task, None)
            if move.node_to >= 0:
                self._place(move.task, move.node_to, worker_of)
                self.changed(move.task, at)
            else:
                self.seen.pop(move.task, None)
                self.due.drop(move.task)
            self.asked.pop(move.task, None)
        self.look_at_whole(at)

    def attended(self, note: TasksAttended, at: Instant) -> None:
        """Remember what was said, and when to look again."""
        for task, again_at in note.again:
            if again_at is None:
                self.due.drop(task)
            else:
                self.due.put(task, again_at)
        for task, revision, until in note.asked:
            self.asked[task] = (revision, until)
        self.quiet = dict(note.quiet)
        self.is_going = note.is_going
        self.whole_at = note.whole_at
        self.looked_at = at

    def _place(self, task: int, node: int, worker_of: Sequence[str]) -> None:
        if node >= 0:
            self.on.setdefault(WorkerName(worker_of[node]), {})[task] = None


class Watches:
    """All that is watched in a region beside whole attempts."""

    def __init__(self) -> None:
        self.tasks: dict[AttemptKey, TaskWatch] = {}
        self.gangs: dict[AttemptKey, Instant] = {}
        """When each gang's row was first known here to be as it is, or what it waits for to be over."""
        self.lost_at: dict[WorkerName, Instant] = {}
        """When the loss of each lost worker was first known here."""

    def adopt(self, image: RegionImage, at: Instant) -> None:
        """The image is known, or known anew: everything counts from now, but losses that were known before."""
        lost = [worker for worker, row in image.capacity.workers.items() if row.is_lost]
        self.lost_at = {worker: self.lost_at.get(worker, at) for worker in lost}
        self.tasks, self.gangs = {}, {}
        for workload, epochs in image.control.rows.items():
            for epoch, row in epochs.items():
                if row.stands_alone and not row.is_ended:
                    self.tasks[workload, epoch] = TaskWatch(row, image.capacity.worker_of, at)
                elif WHOLE in row.tasks:
                    self.gangs[workload, epoch] = at

    def fold(self, image: RegionImage, event: Event, at: Instant) -> list[AttemptKey]:
        """A fact, which the image has folded. Returns the attempts to look at."""
        match event:
            case ClaimGranted(workload=workload, epoch=epoch):
                row = image.control.row(workload, epoch)
                if row is not None and row.stands_alone:
                    self.tasks[workload, epoch] = TaskWatch(row, image.capacity.worker_of, at)
                return [(workload, epoch)]
            case AttemptEnded(workload=workload, epoch=epoch):
                self.tasks.pop((workload, epoch), None)
                self.gangs.pop((workload, epoch), None)
                return []
            case NodesLost(worker=worker):
                return self._lost((worker,), at)
            case DomainLost(workers=workers):
                return self._lost(workers, at)
            case NodesReturned(worker=worker):
                return self._returned(worker, at)
            case MaintenanceMoved(maintenance=maintenance):
                return self._over(image, maintenance, at)
            case NodesClosed(kind=ClosureKind.DRAIN) | NodesOpened(kind=ClosureKind.DRAIN):
                return self._drained(image, at)
        return self._fold_of_attempt(image, event, at)

    def _fold_of_attempt(self, image: RegionImage, event: Event, at: Instant) -> list[AttemptKey]:
        match event:
            case GangStarted():
                return self._look(event.workload, event.epoch, (), at)
            case CheckpointCommitted():
                return self._look(event.workload, event.epoch, (LEADER,), at)
            case StopOrdered():
                watch = self.tasks.get((event.workload, event.epoch))
                return self._look(event.workload, event.epoch, list(watch.seen) if watch else (), at)
            case TasksDown() | TasksGone() | TasksUp():
                return self._changed(event.workload, event.epoch, event.tasks, at)
            case OperationsBegun():
                row = image.control.row(event.workload, event.epoch)
                known = row.operations if row is not None else {}
                tasks = [known[number].task for number in event.operations if number in known]
                if WHOLE in tasks:
                    return self._changed(event.workload, event.epoch, (), at)
                return self._look(event.workload, event.epoch, tasks, at)
            case ClaimRevised():
                key = (event.workload, event.epoch)
                if key in self.tasks:
                    self.tasks[key].moved(event.moves, image.capacity.worker_of, at)
                    return [key]
                return self._changed(*key, (), at)
        return []

    def _look(self, workload: WorkloadId, epoch: int, tasks: Iterable[int], at: Instant) -> list[AttemptKey]:
        watch = self.tasks.get((workload, epoch))
        if watch is not None:
            watch.look_at_whole(at)
            for task in tasks:
                if task in watch.seen:
                    watch.look(task, at)
        return [(workload, epoch)]

    def _changed(
        self, workload: WorkloadId, epoch: int, tasks: Iterable[int], at: Instant
    ) -> list[AttemptKey]:
        """These are in another phase: of a gang, the whole."""
        watch = self.tasks.get((workload, epoch))
        if watch is None:
            self.gangs[workload, epoch] = at
            return [(workload, epoch)]
        watch.look_at_whole(at)
        for task in tasks:
            watch.changed(task, at)
        return [(workload, epoch)]

    # Nodes.

    def _lost(self, workers: Sequence[WorkerName], at: Instant) -> list[AttemptKey]:
        for worker in workers:
            self.lost_at[worker] = at
        return self._tasks_on(workers, at)

    def _returned(self, worker: WorkerName, at: Instant) -> list[AttemptKey]:
        self.lost_at.pop(worker, None)
        return [*self._tasks_on((worker,), at), *self.gangs]

    def _tasks_on(self, workers: Sequence[WorkerName], at: Instant) -> list[AttemptKey]:
        found = []
        for key, watch in self.tasks.items():
            tasks = [task for worker in workers for task in watch.on.get(worker, ())]
            for task in tasks:
                watch.changed(task, at)
            if tasks:
                watch.look_at_whole(at)
                found.append(key)
        return found

    def _drained(self, image: RegionImage, at: Instant) -> list[AttemptKey]:
        """Who stopped to return may not any more, or may after all."""
        found = []
        for key in [*self.tasks, *self.gangs]:
            row = image.control.row(*key)
            operations = row.operations.values() if row is not None else ()
            mine = [
                one.task
                for one in operations
                if one.answer is Answer.STOP_AND_RETURN and one.phase is OperationPhase.BEGUN
            ]
            if mine:
                found.extend(self._look(*key, mine, at))
        return found

    def _over(self, image: RegionImage, maintenance: str, at: Instant) -> list[AttemptKey]:
        """What was stopped for it may come back, or have its time to."""
        if maintenance in image.maintenance.rows:
            return []
        found = []
        for key in [*self.tasks, *self.gangs]:
            row = image.control.row(*key)
            operations = row.operations.values() if row is not None else ()
            mine = [
                one.task
                for one in operations
                if one.source == maintenance and one.phase is OperationPhase.BEGUN
            ]
            if mine:
                found.extend(self._changed(*key, mine, at))
        return found
