"""The newest report of every share, by attempt and by worker, and the commands for shares that must not exist any more.

A share is all that one worker runs of a gang, or one run of one independent task.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from components.region_broker.task_timers import Watches
from core.images import RegionImage
from core.images.control import AttemptControl, TaskPhase
from core.messages.base import Message
from core.messages.workers import LOST, EndRecorded, StopTasks, TasksPhase, TasksState
from core.nouns.ids import AttemptKey, RegionName, ShareKey, WorkerName
from core.nouns.limits import GRACE
from core.nouns.operation import WHOLE


class Part(NamedTuple):
    """The key of a share within its attempt."""

    worker: WorkerName
    task: int = WHOLE
    run: int = 0


Parts = Mapping[Part, TasksState]
"""The shares of one attempt, in the order of their newest changes, so that the first failure is found."""


class ReportedShares:
    """The newest report of each share of each worker."""

    def __init__(self) -> None:
        self._by_attempt: dict[AttemptKey, dict[Part, TasksState]] = {}
        self._by_worker: dict[WorkerName, dict[ShareKey, TasksState]] = {}

    def of(self, key: AttemptKey) -> Parts:
        """Return the shares of one attempt."""
        return self._by_attempt.get(key, {})

    def at(self, worker: WorkerName) -> list[TasksState]:
        """Return the shares of one worker."""
        return list(self._by_worker.get(worker, {}).values())

    def put(self, worker: WorkerName, share: TasksState) -> bool:
        """Record a reported share; return whether the report is news."""
        known = self._by_worker.setdefault(worker, {})
        if known.get(share.key) == share:
            return False
        known[share.key] = share
        parts = self._by_attempt.setdefault(share.key.attempt, {})
        part = Part(worker, share.task, share.run)
        parts.pop(part, None)
        parts[part] = share
        return True

    def drop(self, worker: WorkerName, key: ShareKey) -> None:
        """Forget a share that its worker no longer has."""
        known = self._by_worker[worker]
        del known[key]
        if not known:
            del self._by_worker[worker]
        parts = self._by_attempt[key.attempt]
        del parts[Part(worker, key.task, key.run)]
        if not parts:
            del self._by_attempt[key.attempt]

    # Shares missing from a beat.

    def miss(
        self,
        image: RegionImage,
        watches: Watches,
        worker: WorkerName,
        there: set[ShareKey],
        *,
        is_first: bool,
    ) -> list[TasksState]:
        """Apply a beat, which names all shares of a worker; return the shares of live attempts that it changes.

        is_first   whether this is the worker's first beat since the image was adopted: shares that run there by the log,
                   and are not in the beat, have then ended too
        """
        changed = self._drop_what_is_gone(image, worker, there)
        if is_first:
            changed.extend(self._end_what_never_came(image, watches, worker, there))
        return changed

    def _drop_what_is_gone(
        self, image: RegionImage, worker: WorkerName, there: set[ShareKey]
    ) -> list[TasksState]:
        """Record the end of shares that ran and are missing from a beat: their node restarted. Return the changed shares."""
        changed = []
        for share in self.at(worker):
            if share.key in there:
                continue
            row = image.attempts.row(*share.key.attempt)
            control = image.control.row(*share.key.attempt)
            if row is None or not row.phase.is_live or is_over(control, share):
                self.drop(worker, share.key)
            elif share.phase == TasksPhase.PREPARED:
                self.drop(worker, share.key)  # The share was only prepared, and is prepared again.
                changed.append(share)
            elif share.phase != TasksPhase.ENDED:
                changed.append(self._end(worker, share))
        return changed

    def _end_what_never_came(
        self, image: RegionImage, watches: Watches, worker: WorkerName, there: set[ShareKey]
    ) -> list[TasksState]:
        expected = [*_gangs_on(image, worker)]
        for key, watch in watches.tasks.items():
            row = image.control.row(*key)
            tasks = row.tasks if row is not None else {}
            expected.extend(
                ShareKey(*key, task, tasks[task].run)
                for task in watch.on.get(worker, ())
                if task in tasks and tasks[task].phase is TaskPhase.UP
            )
        known = self._by_worker.get(worker, {})
        return [
            self._end(worker, TasksState(*key.attempt, TasksPhase.ENDED, task=key.task, run=key.run))
            for key in expected
            if key not in there and key not in known
        ]

    def _end(self, worker: WorkerName, share: TasksState) -> TasksState:
        ended = replace(share, phase=TasksPhase.ENDED, exit_code=LOST)
        self.put(worker, ended)
        return ended


def _gangs_on(image: RegionImage, worker: WorkerName) -> Iterable[ShareKey]:
    """Yield the shares of gangs that run on a worker's nodes by the log."""
    worker_of = image.capacity.worker_of
    for workload, epoch, held in image.capacity.live():
        row = image.control.row(workload, epoch)
        whole = row.tasks.get(WHOLE) if row is not None else None
        is_up = whole.phase is TaskPhase.UP if whole is not None else row is None
        if not held.started_at or not is_up:
            continue
        if any(worker_of[node] == worker for spread in held.claim.spreads for node in spread.nodes):
            yield ShareKey(workload, epoch, WHOLE, whole.run if whole is not None else 0)


def is_over(row: AttemptControl | None, share: TasksState) -> bool:
    """Return whether, by the log, this run of a live attempt must not exist: the task has a newer run, or is gone."""
    task = row.tasks.get(share.task) if row is not None else None
    if task is None:
        # A gang without operations has run 0 only. Any other share is of a task that the attempt does not have.
        stands_alone = row is not None and row.stands_alone
        return stands_alone or share.task != WHOLE or share.run != 0
    return share.run != task.run or task.phase is TaskPhase.GONE


def words_for_report(
    region: RegionName, image: RegionImage, sequence: int, worker: WorkerName, share: TasksState
) -> tuple[Message, ...]:
    """Return the immediate answer to a report: acknowledge an end that the log has, stop a stale share."""
    key = share.key.attempt
    row = image.attempts.row(*key)
    control = image.control.row(*key)
    if row is None or not row.phase.is_live or is_over(control, share):
        return words_after_the_end(region, sequence, {Part(worker, share.task, share.run): share}, key)
    known = image.capacity.workers.get(worker)
    if known is None or not known.is_lost or share.phase == TasksPhase.ENDED:
        return ()
    # A lost worker that is back with a share that must stop. The attempt's own commands leave lost workers out.
    task = control.tasks.get(share.task) if control is not None else None
    if row.stop_cause or (task is not None and task.phase is TaskPhase.DOWN):
        return words_after_the_end(region, sequence, {Part(worker, share.task, share.run): share}, key)
    return ()


def words_after_the_end(
    region: RegionName, sequence: int, shares: Parts, key: AttemptKey
) -> tuple[Message, ...]:
    """Return the commands for runs that are over: stop a share that still runs, forget one that has ended."""
    words: list[Message] = []
    for (worker, task, run), share in sorted(shares.items()):
        # The workload's own grace is forgotten with the attempt: the default applies.
        if share.phase == TasksPhase.ENDED:
            words.append(EndRecorded(region, worker, sequence, *key, task, run))
        else:
            words.append(StopTasks(region, worker, sequence, *key, GRACE, task, run))
    return tuple(words)
