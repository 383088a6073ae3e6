"""The commands of a service attempt: each independent task is stopped, replaced and restarted while the others run.

    granted             prepare every task; when all are ready, start them; when all run, record the start
    task starting       prepare and start the task; record that it is up, or after START_SPAN that it failed
    task up             wait until the share ends by itself
    task down           stop the share; when it no longer runs, record that
    task gone           once an operation has begun: request the next run, on the same node or where an agent finds capacity
    all tasks done      record the end
    stop ordered        stop every share; when no share runs, record the end

Commands of several tasks are combined into one message where possible. Every command is repeated until the log or a
report shows its effect, and names runs: a late or repeated command is about a run that is over, and changes no state.
"""

from collections.abc import Iterable

from msgspec import Struct

from components.region_broker.gangs import cause_of_exit, gone_for_sure_at, isolation_of, resume_of
from components.region_broker.task_timers import LEADER, TasksAttended, TaskWatch, Watches
from components.region_broker.worker_reports import Part, Parts, words_after_the_end
from core.images import RegionImage
from core.images.control import OperationRow, TaskPhase, TaskRow
from core.images.region import AttemptPhase
from core.messages.base import Message
from core.messages.control import (
    PlaceTasks,
    RecordTasksDown,
    RecordTasksGone,
    RecordTasksUp,
    ReviseClaim,
)
from core.messages.store import OrderStop, RecordCheckpoint, RecordEnd, RecordStarted
from core.messages.workers import PrepareTasks, StartTasks, StopTasks, TasksPhase, TasksState
from core.nouns.ids import AgentName, AttemptKey, RegionName, WorkerName
from core.nouns.instant import Instant, Nanoseconds, after, earliest
from core.nouns.limits import (
    COMMAND_SAY_AGAIN,
    GRACE,
    HEAD_INTERVAL,
    PLACE_AGAIN,
    RESTART_HOLD,
    RESTART_HOLD_MAX,
    START_SPAN,
    TASKS_AT_ONCE_MAX,
)
from core.nouns.operation import OperationKind, OperationPhase, TaskMove, job_and_rank
from core.nouns.placement import Spread
from core.nouns.workload import EndCause
from core.rules.attempt_ends import is_completed
from core.rules.operations import leaves_its_node, may_move_back, may_return, returns_here
from core.rules.scopes import is_drained, keeps_away

BY_ITSELF = (EndCause.TASK_FAILED, EndCause.START_FAILED, EndCause.NODE_FAILED)
"""Causes of tasks that failed unstopped on a node with a live worker: they might fail again as fast as they start."""

Run = tuple[int, int]
"""Number of a task, and its run."""


class TasksCare(Struct, frozen=True):
    """Commands to send now, and the note that records them."""

    messages: tuple[Message, ...]
    note: TasksAttended
    has_asked_agent: bool = False


def care_for_tasks(
    region: RegionName,
    image: RegionImage,
    sequence: int,
    key: AttemptKey,
    watches: Watches,
    shares: Parts,
    seen: Instant,
    agent: AgentName | None,
    now: Instant,
) -> TasksCare:
    """Return the commands that this live attempt needs now.

    seen    when this broker learned of the attempt's phase
    agent   the agent for a search, should one be needed; None: no agent is present
    """
    return _Tasks(region, image, sequence, key, watches, shares, seen, agent, now).commands()


class _Tasks:
    """One look at a live attempt of independent tasks, with its image rows and reports."""

    def __init__(
        self,
        region: RegionName,
        image: RegionImage,
        sequence: int,
        key: AttemptKey,
        watches: Watches,
        shares: Parts,
        seen: Instant,
        agent: AgentName | None,
        now: Instant,
    ) -> None:
        row, held, control = image.attempts.row(*key), image.capacity.holding(*key), image.control.row(*key)
        assert row is not None, key
        assert held is not None, key
        assert control is not None, key
        self.region, self.image, self.sequence, self.key = region, image, sequence, key
        self.row, self.held, self.control = row, held, control
        self.watch: TaskWatch = watches.tasks[key]
        self.lost_at, self.shares, self.seen, self.agent = watches.lost_at, shares, seen, agent
        self.now, self.again = now, after(now, COMMAND_SAY_AGAIN)
        self.grace: Nanoseconds = Nanoseconds(held.claim.grace or GRACE)
        self.is_going = self.watch.is_going
        # Results of the look.
        self.words: list[Message] = []
        self.up: list[Run] = []
        self.gone: list[Run] = []
        self.down: dict[tuple[str, int, bool], list[Run]] = {}
        self.looked: dict[int, Instant | None] = {}
        self.asked: dict[int, tuple[int, Instant]] = {}
        self.quiet: dict[str, Instant] = {}
        self.times: list[Instant] = []
        self.has_asked_agent = False

    def commands(self) -> TasksCare:
        # 1. Record a saved step before any command that would make its worker forget the step.
        leader = self._share(LEADER)
        counts = self.row.stop_cause != EndCause.ABANDONED
        self.has_unsaved = counts and leader is not None and leader.saved_step > self.row.saved_step
        if leader is not None and self.has_unsaved:
            self._say_once(
                f"saved {leader.saved_step}", RecordCheckpoint(self.region, *self.key, leader.saved_step)
            )
        # 2. Handle the attempt as a whole.
        if self.row.stop_cause:
            self._stop_all()
        elif self._end_or_order():
            self.looked = dict.fromkeys(self._due(), self.again)
        else:
            if self.row.phase == AttemptPhase.GRANTED:
                self._bring_up()
            # 3. Look at each task that changed or waits for an answer.
            for task in self._due():
                self._look_at(task)
            if self.row.phase == AttemptPhase.STARTED:
                self._ask_for_new_runs()
        # 4. Combine the records of several tasks.
        self._gather()
        note = TasksAttended(
            self.key,
            tuple(self.looked.items()),
            tuple((task, revision, until) for task, (revision, until) in self.asked.items()),
            tuple(self.quiet.items()),
            self.is_going,
            earliest(*self.times),
        )
        return TasksCare(tuple(self.words), note, self.has_asked_agent)

    def _gather(self) -> None:
        about = (self.region, *self.key)
        for (cause, exit_code, is_gone), runs in self.down.items():
            self.words.extend(
                RecordTasksDown(*about, part, cause, exit_code, is_gone) for part in _in_parts(runs)
            )
        self.words.extend(RecordTasksGone(*about, part) for part in _in_parts(self.gone))
        self.words.extend(RecordTasksUp(*about, part) for part in _in_parts(self.up))

    def _say_once(self, name: str, *words: Message) -> None:
        """Send commands about the whole attempt, again after `COMMAND_SAY_AGAIN` and not at every look."""
        held_until = self.watch.quiet.get(name, self.now)
        is_held = held_until > self.now
        self.quiet[name] = held_until if is_held else self.again
        self.times.append(self.quiet[name])
        if not is_held:
            self.words.extend(words)

    # State of one task.

    def _due(self) -> list[int]:
        return self.watch.due.passed(self.now, TASKS_AT_ONCE_MAX)

    def _part(self, number: int, task: TaskRow) -> Part:
        return Part(WorkerName(self.image.capacity.worker_of[task.node]), number, task.run)

    def _share(self, number: int) -> TasksState | None:
        task = self.control.tasks.get(number)
        return self.shares.get(self._part(number, task)) if task is not None and task.node >= 0 else None

    def _phase(self, number: int) -> TasksPhase | None:
        share = self._share(number)
        return share.phase if share is not None else None

    def _sure_at(self, task: TaskRow) -> Instant | None:
        """Return when a task's run on a lost node counts as gone; None: the node is not lost."""
        if task.node < 0 or not self.image.capacity.is_lost[task.node]:
            return None
        worker = WorkerName(self.image.capacity.worker_of[task.node])
        return gone_for_sure_at(self.held.claim, self.lost_at.get(worker, self.now))

    # The whole.

    def _stop_all(self) -> None:
        """Stop every share, and record the end once all have ended. Single tasks are no longer recorded."""
        runs_until: list[Instant] = []
        for number, task in self.control.tasks.items():
            if task.phase is TaskPhase.GONE or self._phase(number) == TasksPhase.ENDED:
                continue
            sure_at = self._sure_at(task)
            if sure_at is None or sure_at > self.now:
                runs_until.append(self.again if sure_at is None else sure_at)
        if not runs_until and not self.has_unsaved:
            cause = EndCause(self.row.stop_cause)
            failed = self._failed_too_often() if cause is EndCause.TASK_FAILED else None
            end = RecordEnd(self.region, *self.key, cause, failed.exit_code if failed else 0)
            self._say_once("end", end)
        self.times.extend(runs_until)
        for number in self._due():
            known = self.control.tasks.get(number)
            self.looked[number] = self._stop(number, known) if known is not None else None

    def _end_or_order(self) -> bool:
        """Record the end of a completed attempt, or order its stop; return whether one of the two was due."""
        if is_completed(self.control):
            self._say_once("end", RecordEnd(self.region, *self.key, EndCause.COMPLETED))
            return True
        if self._failed_too_often() is not None:
            self._say_once("order", OrderStop(self.region, *self.key, EndCause.TASK_FAILED))
            return True
        has_started = self.row.phase == AttemptPhase.STARTED
        limit = self.held.claim.max_duration if has_started else START_SPAN
        if not limit:
            return False
        ends_at = after(self.seen, Nanoseconds(limit))
        if ends_at > self.now:
            self.times.append(ends_at)
            return False
        cause = EndCause.TIMEOUT if has_started else EndCause.START_FAILED
        self._say_once("order", OrderStop(self.region, *self.key, cause))
        return True

    def _failed_too_often(self) -> TaskRow | None:
        """Return a task that failed more often than the user allows, if there is one: the whole attempt then fails."""
        allowed = self.held.claim.failures_max
        if allowed < 0:
            return None
        rows = self.control.tasks.values()
        return next((row for row in rows if row.phase is TaskPhase.GONE and row.failures > allowed), None)

    def _bring_up(self) -> None:
        """Start all tasks together once all are prepared, without waiting for tasks that failed or lost their node."""
        phases = {
            number: self._phase(number)
            for number, task in self.control.tasks.items()
            if task.phase is TaskPhase.STARTING
        }
        ready = (TasksPhase.PREPARED, TasksPhase.RUNNING)
        if not self.is_going and phases and all(phase in ready for phase in phases.values()):
            self.is_going = True
            for number, phase in phases.items():
                if phase == TasksPhase.PREPARED:
                    self._look_at(number)
        if phases and all(phase == TasksPhase.RUNNING for phase in phases.values()):
            self._say_once("started", RecordStarted(self.region, *self.key))

    # One task.

    def _look_at(self, number: int) -> None:
        """Collect the commands of one task, and note when to look at the task again."""
        if number in self.looked:
            return
        task = self.control.tasks.get(number)
        if task is None:
            self.looked[number] = None
        elif number == LEADER and self.has_unsaved and self._phase(number) == TasksPhase.ENDED:
            self.looked[number] = None  # The last step is recorded first.
        elif task.phase is TaskPhase.DOWN:
            self.looked[number] = self._look_at_down(number, task)
        elif task.phase is TaskPhase.GONE:
            self.looked[number] = None
            share = self._share(number)
            if share is not None and share.phase == TasksPhase.ENDED:
                known = {self._part(number, task): share}
                self.words.extend(words_after_the_end(self.region, self.sequence, known, self.key))
        else:
            self.looked[number] = self._look_at_wanted(number, task)

    def _look_at_down(self, number: int, task: TaskRow) -> Instant | None:
        sure_at = self._sure_at(task)
        if self._phase(number) == TasksPhase.ENDED or (sure_at is not None and sure_at <= self.now):
            self.gone.append((number, task.run))
            return self.again
        if sure_at is not None:
            return sure_at
        return self._stop(number, task)

    def _stop(self, number: int, task: TaskRow) -> Instant | None:
        """Stop a task's share, unless the worker confirmed the stop or is lost; return when to look again."""
        if task.phase is TaskPhase.GONE or self._sure_at(task) is not None:
            return None
        part = self._part(number, task)
        if self._phase(number) not in (TasksPhase.STOPPING, TasksPhase.ENDED):
            self.words.append(
                StopTasks(self.region, part.worker, self.sequence, *self.key, self.grace, number, task.run)
            )
        return self.again

    def _look_at_wanted(self, number: int, task: TaskRow) -> Instant | None:
        """Bring a task up, or record that it is up or has failed; return when to look again."""
        share = self._share(number)
        if share is not None and share.phase == TasksPhase.ENDED:
            cause = cause_of_exit(share.exit_code) if share.exit_code else EndCause.COMPLETED
            self.down.setdefault((cause, share.exit_code, True), []).append((number, task.run))
            return self.again
        if task.phase is TaskPhase.UP:
            return None
        is_first = self.row.phase == AttemptPhase.GRANTED
        late_at = after(self.watch.seen.get(number, self.now), START_SPAN)
        if share is not None and share.phase == TasksPhase.RUNNING:
            if is_first:
                return None  # The start is recorded once the last task runs.
            self.up.append((number, task.run))
        elif not is_first and late_at <= self.now:
            self.down.setdefault((EndCause.START_FAILED, 0, False), []).append((number, task.run))
        elif share is None:
            self.words.append(self._prepare(number, task))
        elif share.phase == TasksPhase.PREPARED:
            if is_first and not self.is_going:
                return None  # All tasks start once the last one is prepared.
            worker = self._part(number, task).worker
            self.words.append(
                StartTasks(self.region, worker, self.sequence, *self.key, task=number, run=task.run)
            )
        return self.again

    def _prepare(self, number: int, task: TaskRow) -> PrepareTasks:
        """Return the command to prepare a task, with the rank that it would have in a gang, alone on its node."""
        job, rank = job_and_rank(number)
        claim = self.held.claim
        resume_epoch, resume_step = resume_of(claim, self.row.saved_step)
        mine = [at == job for at in range(len(self.control.jobs))]
        part = self.held.parts.get(number)
        figures = tuple((rank,) if is_mine else () for is_mine in mine)
        return PrepareTasks(
            region=self.region,
            worker=self._part(number, task).worker,
            sequence=self.sequence,
            workload=claim.workload,
            epoch=claim.epoch,
            jobs=self.control.jobs,
            spreads=tuple(Spread((task.node,), (1,)) if is_mine else Spread((), ()) for is_mine in mine),
            resume_epoch=resume_epoch,
            resume_step=resume_step,
            is_leader=number == LEADER,
            ranks=figures,
            groups=figures,
            devices=tuple((part[1],) if is_mine else () for is_mine in mine) if part is not None else (),
            task=number,
            run=task.run,
            isolation=isolation_of(claim),
            tenant=claim.tenant,
            forerunners=claim.forerunners,
        )

    # New runs.

    def _ask_for_new_runs(self) -> None:
        """Request new runs for tasks that are gone and have a begun operation; an agent searches for those that move."""
        revision = self.control.claim_revision + 1
        here: list[TaskMove] = []
        away: list[TaskMove] = []
        for operation in self.control.operations.values():
            task = self.control.tasks.get(operation.task)
            if (
                operation.phase is not OperationPhase.BEGUN
                or task is None
                or task.phase is not TaskPhase.GONE
            ):
                continue
            ready_at, is_here = self._plan(operation, task)
            if ready_at is None:
                continue
            asked_at, until = self.watch.asked.get(operation.task, (0, self.now))
            if asked_at == revision and until > ready_at:
                ready_at = until
            if ready_at > self.now:
                self.times.append(ready_at)
            elif operation.kind is OperationKind.STOP:
                self.gone.append((operation.task, task.run))
                self._note_asked(operation.task, revision, self.again)
            else:
                to = task.node if is_here else -1
                (here if is_here else away).append(TaskMove(operation.task, task.node, to))
        if here:
            # The store accepts a revision once. The other tasks request the next one when the log shows this one.
            self._revise(here[:TASKS_AT_ONCE_MAX], revision)
        elif away:
            self._place(away[:TASKS_AT_ONCE_MAX], revision)

    def _revise(self, moves: list[TaskMove], revision: int) -> None:
        for move in moves:
            self._note_asked(move.task, revision, self.again)
        self.words.append(ReviseClaim(self.region, *self.key, revision, tuple(moves)))

    def _place(self, moves: list[TaskMove], revision: int) -> None:
        if self.agent is None:
            self.times.append(after(self.now, HEAD_INTERVAL))
            return
        for move in moves:
            self._note_asked(move.task, revision, after(self.now, PLACE_AGAIN))
        self.words.append(PlaceTasks(self.region, self.agent, *self.key, revision, tuple(moves)))
        self.has_asked_agent = True

    def _note_asked(self, task: int, revision: int, until: Instant) -> None:
        self.asked[task] = (revision, until)
        self.times.append(until)

    def _plan(self, operation: OperationRow, task: TaskRow) -> tuple[Instant | None, bool]:
        """Return when the task's next run may be requested (None: a later fact decides), and whether on the same node."""
        seen = self.watch.seen.get(operation.task, self.now)
        ready_at = self.now
        if operation.kind in (OperationKind.START, OperationKind.MOVE) and task.cause in BY_ITSELF:
            ready_at = after(seen, _hold_of(task.failures))
        if task.node < 0:
            return ready_at, False
        capacity, maintenance = self.image.capacity, self.image.maintenance
        is_kept_away = keeps_away(capacity, maintenance, task.node)
        if operation.kind is OperationKind.MOVE and returns_here(operation):
            is_early = operation.source in maintenance.rows
            if is_drained(capacity, task.node):
                may_stay = not is_early and not is_kept_away and may_return(capacity, task, self.now)
                return self.now, may_stay
            if is_early:
                return None, True
            # The maintenance is over. A node that is still unusable is awaited for START_SPAN; then the task moves.
            return (after(seen, START_SPAN), False) if is_kept_away else (self.now, True)
        if leaves_its_node(operation):
            return ready_at, capacity.is_open(task.node) and may_move_back(operation, self.now)
        return ready_at, not is_kept_away


def _hold_of(failures: int) -> Nanoseconds:
    """Return how long a failed task waits before its next start: doubled with each failure in a row, bounded."""
    doublings = min(max(0, failures - 1), 32)
    return Nanoseconds(min(RESTART_HOLD_MAX, RESTART_HOLD << doublings))


def _in_parts(runs: list[Run]) -> Iterable[tuple[Run, ...]]:
    return (tuple(runs[at : at + TASKS_AT_ONCE_MAX]) for at in range(0, len(runs), TASKS_AT_ONCE_MAX))
