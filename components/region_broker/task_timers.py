"""A broker's timers for independent tasks and paused gangs: when each is to be looked at.

A deadline counts from when this broker learned of the change that started it. Tasks are looked at one by one, when a fact
or report changed them or a command is to be repeated: an attempt of thousands of tasks costs only the changes.
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
"""The task that writes the attempt's checkpoints."""


class TasksAttended(Note, frozen=True):
    """An attempt of independent tasks was looked at."""

    key: AttemptKey
    again: tuple[tuple[int, Instant | None], ...]
    """Tasks that were looked at, each with the time of the next look; None: when a fact or report changes the task."""
    asked: tuple[tuple[int, int, Instant], ...]
    """Tasks with a requested new run: number, the claim's revision, and when the request may be repeated."""
    quiet: tuple[tuple[str, Instant], ...]
    """Names of commands about the whole attempt, each with the time before which it is not repeated."""
    is_going: bool
    """True once all tasks were prepared at one time: from then on each starts when prepared."""
    whole_at: Instant | None
    """When the attempt is looked at again even if no task changes."""


class TaskWatch:
    """The timers of one attempt of independent tasks."""

    def __init__(self, row: AttemptControl, worker_of: Sequence[str], at: Instant) -> None:
        self.due: Agenda[int] = Agenda()
        self.seen: dict[int, Instant] = {}
        """When this broker learned of each task's phase, or of the end of its wait, by task number."""
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
        """Return when to look at the attempt: at most once per `TASKS_LOOK`, so that changes are recorded together."""
        first = earliest(self.due.due(), self.whole_at)
        if first is None or self.looked_at is None:
            return first
        return max(first, after(self.looked_at, TASKS_LOOK))

    def look(self, task: int, at: Instant) -> None:
        """Make a task due at `at`, unless due earlier."""
        known = self.due.at(task)
        if known is None or at < known:
            self.due.put(task, at)

    def changed(self, task: int, at: Instant) -> None:
        """Record that a task is in another phase, or that its wait is over."""
        self.seen[task] = at
        self.look(task, at)

    def look_at_whole(self, at: Instant) -> None:
        """Make the attempt due at `at`, unless due earlier."""
        self.whole_at = at if self.whole_at is None else min(at, self.whole_at)

    def moved(self, moves: Sequence[TaskMove], worker_of: Sequence[str], at: Instant) -> None:
        """Record that these tasks have new runs, or have left the job."""
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
        """Record the commands that were sent, and when to look again."""
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
    """The timers of all independent tasks and paused gangs of a region, and the times of worker losses."""

    def __init__(self) -> None:
        self.tasks: dict[AttemptKey, TaskWatch] = {}
        self.gangs: dict[AttemptKey, Instant] = {}
        """When this broker learned of the newest change to each gang's row in `control`, or of the end of the gang's wait."""
        self.lost_at: dict[WorkerName, Instant] = {}
        """When this broker learned of each lost worker's loss."""

    def adopt(self, image: RegionImage, at: Instant) -> None:
        """Adopt an image: all timers count from now, except for losses known before."""
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
        """Fold a fact that the image has folded; return the attempts to look at."""
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
        """Record that these tasks, or a gang as a whole, are in another phase; return the attempt."""
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
        """Return the attempts with tasks that stopped to return: a begun or lifted drain may change where these start."""
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
        """Return the attempts that stopped for this maintenance, if it is over: their waits count from now."""
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
