"""What an attempt calls for whose tasks stand alone: each is stopped, replaced and started again while the others run.

    granted             prepare every task; when all are ready, start them; when all run, record it
    starting            prepare, start; record that it is up, or that it failed when that takes too long
    up                  nothing, until its share ends by itself
    down                tell its share to stop; when nothing of it runs, record it
    gone                once an operation has begun: its next run where it was, or wherever an agent finds room
    all done            record the end
    stop ordered        tell every share to stop; when none runs, record the end

What several tasks call for at once is said in one word. Every word is said again until the log or a report shows that it
was heard, and names runs: what is late, or repeated, is about a run that is over, and changes nothing.
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
"""Why a task is down that nobody stopped, on a node that is heard: it would fail again as fast as it was started."""

Run = tuple[int, int]
"""A task and its run."""


class TasksCare(Struct, frozen=True):
    """Words to say now, and what to remember of having said them."""

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
    """What this live attempt calls for now.

    seen    when its phase was first known here
    agent   who is to look for room, if it must; None: none is there
    """
    return _Tasks(region, image, sequence, key, watches, shares, seen, agent, now).commands()


class _Tasks:
    """One live attempt whose tasks stand alone, with all that is known of it, looked at once."""

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
        # What is found to be said.
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
        # 1. A step that was saved is recorded before anything that would make its worker forget it.
        leader = self._share(LEADER)
        counts = self.row.stop_cause != EndCause.ABANDONED
        self.has_unsaved = counts and leader is not None and leader.saved_step > self.row.saved_step
        if leader is not None and self.has_unsaved:
            self._say_once(
                f"saved {leader.saved_step}", RecordCheckpoint(self.region, *self.key, leader.saved_step)
            )
        # 2. What the whole calls for.
        if self.row.stop_cause:
            self._stop_all()
        elif self._end_or_order():
            self.looked = dict.fromkeys(self._due(), self.again)
        else:
            if self.row.phase == AttemptPhase.GRANTED:
                self._bring_up()
            # 3. What each task calls for that was changed, or waits for an answer.
            for task in self._due():
                self._look_at(task)
            if self.row.phase == AttemptPhase.STARTED:
                self._ask_for_new_runs()
        # 4. What several call for is one word.
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
        """About the whole: again when it was not heard, and not at every look."""
        held_until = self.watch.quiet.get(name, self.now)
        is_held = held_until > self.now
        self.quiet[name] = held_until if is_held else self.again
        self.times.append(self.quiet[name])
        if not is_held:
            self.words.extend(words)

    # What is known of one task.

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
        """If its node is lost: from when on its run can be taken for gone."""
        if task.node < 0 or not self.image.capacity.is_lost[task.node]:
            return None
        worker = WorkerName(self.image.capacity.worker_of[task.node])
        return gone_for_sure_at(self.held.claim, self.lost_at.get(worker, self.now))

    # The whole.

    def _stop_all(self) -> None:
        """Every share, and the end once none runs. Nothing is recorded of single tasks any more."""
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
        """Whether it is over, or has to be: then nothing more is to be said of it."""
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
        """A task that failed once more than its user allows, if there is one: then the whole has failed."""
        allowed = self.held.claim.failures_max
        if allowed < 0:
            return None
        rows = self.control.tasks.values()
        return next((row for row in rows if row.phase is TaskPhase.GONE and row.failures > allowed), None)

    def _bring_up(self) -> None:
        """All start together, once all are prepared; who fails meanwhile, or loses its node, is not waited for."""
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
        """What one task calls for; when to look at it again is kept with it."""
        if number in self.looked:
            return
        task = self.control.tasks.get(number)
        if task is None:
            self.looked[number] = None
        elif number == LEADER and self.has_unsaved and self._phase(number) == TasksPhase.ENDED:
            self.looked[number] = None  # The log will show its last step first.
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
        """Its share, unless it has said that it heard, is over, or is out of reach."""
        if task.phase is TaskPhase.GONE or self._sure_at(task) is not None:
            return None
        part = self._part(number, task)
        if self._phase(number) not in (TasksPhase.STOPPING, TasksPhase.ENDED):
            self.words.append(
                StopTasks(self.region, part.worker, self.sequence, *self.key, self.grace, number, task.run)
            )
        return self.again

    def _look_at_wanted(self, number: int, task: TaskRow) -> Instant | None:
        """It is up, or comes up."""
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
                return None  # The last of them to run makes the start be recorded.
            self.up.append((number, task.run))
        elif not is_first and late_at <= self.now:
            self.down.setdefault((EndCause.START_FAILED, 0, False), []).append((number, task.run))
        elif share is None:
            self.words.append(self._prepare(number, task))
        elif share.phase == TasksPhase.PREPARED:
            if is_first and not self.is_going:
                return None  # The last of them to be prepared makes all of them start.
            worker = self._part(number, task).worker
            self.words.append(
                StartTasks(self.region, worker, self.sequence, *self.key, task=number, run=task.run)
            )
        return self.again

    def _prepare(self, number: int, task: TaskRow) -> PrepareTasks:
        """It is in its job what it would be as one of a gang, alone on its node."""
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
        )

    # New runs.

    def _ask_for_new_runs(self) -> None:
        """For tasks that are gone and whose operations have begun: those that stay at once, the others by an agent."""
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
            # A revision is taken once. Whoever is not in this one asks for the next as soon as the log shows it.
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
        """When its next run may be asked for, and whether that is where it was. Never: a fact will tell when."""
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
            # It is over. Its node is waited for as a start would be, and then it goes elsewhere after all.
            return (after(seen, START_SPAN), False) if is_kept_away else (self.now, True)
        if leaves_its_node(operation):
            return ready_at, capacity.is_open(task.node) and may_move_back(operation, self.now)
        return ready_at, not is_kept_away


def _hold_of(failures: int) -> Nanoseconds:
    """How long a task that fails again and again waits before it is started again."""
    doublings = min(max(0, failures - 1), 32)
    return Nanoseconds(min(RESTART_HOLD_MAX, RESTART_HOLD << doublings))


def _in_parts(runs: list[Run]) -> Iterable[tuple[Run, ...]]:
    return (tuple(runs[at : at + TASKS_AT_ONCE_MAX]) for at in range(0, len(runs), TASKS_AT_ONCE_MAX))
