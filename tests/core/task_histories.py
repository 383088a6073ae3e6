"""Steps of a random region that concern tasks, operations on them, and nodes that are closed: part of `RegionHistory`.

What may be decided at a moment is read from the image of the history so far, which is folded beside it; what comes of it is
for tests to compare. Everything is drawn, also what a sensible keeper would seldom do.
"""

import random
from collections.abc import Callable, Iterable
from typing import Protocol

from msgspec.structs import replace

from core.device_shares import FreeDevices, Leaving
from core.events.control import (
    AcksExpired,
    AttemptChanged,
    ClaimRevised,
    ControlAnswered,
    ControlForgotten,
    DestructionHalted,
    MaintenanceMoved,
    MaintenancePlanned,
    NodesClosed,
    NodesOpened,
    OperationsBegun,
    OperationsDone,
    OperationsRequested,
    OperationsStuck,
    TasksDown,
    TasksGone,
    TasksUp,
)
from core.events.region import StopOrdered
from core.fact import Event
from core.images import RegionImage
from core.images.control import AttemptControl, OperationRow, TaskPhase
from core.nouns.ids import AttemptKey
from core.nouns.instant import SECOND, Instant, Nanoseconds
from core.nouns.limits import ACK_LEASE
from core.nouns.maintenance import ClosureKind, MaintenanceKind, MaintenancePhase, Scope, ScopeKind
from core.nouns.operation import (
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
from core.nouns.placement import Claim, numbers_in, runs_of
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import Emulation, EndCause

ALIVE = (TaskPhase.UP, TaskPhase.STARTING)
CLOSED_BY_ONE = {ClosureKind.SUSPECT: "suspicion", ClosureKind.QUARANTINE: "quarantine"}
OF_TASKS = (OperationKind.RESTART, OperationKind.UPDATE, OperationKind.MOVE, OperationKind.STOP)
OF_GANGS = (
    OperationKind.RESTART,
    OperationKind.UPDATE,
    OperationKind.MOVE,
    OperationKind.CHECKPOINT_AND_STOP,
    OperationKind.RESIZE,
)


class History(Protocol):
    """What these steps need of the history that they are part of."""

    dice: random.Random
    image: RegionImage
    now: Instant
    total: dict[int, Amount]
    gpu_type: dict[int, str]
    live: dict[AttemptKey, Claim]
    stopping: list[AttemptKey]

    def say(self, event: Event) -> None:
        """One more fact."""

    def is_open(self, node: int) -> bool:
        """Whether new tasks may be placed there."""

    def is_there(self, node: int) -> bool:
        """Whether it is not lost."""

    def available(self, node: int) -> Amount:
        """Free and not promised."""


class TaskSteps:
    """Tasks are asked about, touched, fail, move and are up again; nodes are closed and opened."""

    def __init__(self, history: History) -> None:
        self.history = history

    def steps(self) -> list[Callable[[], None]]:
        """All that may happen, some of it oftener."""
        often = 3 * [self._ask, self._answer, self._begin, self._gone, self._new_runs, self._up]
        nodes = [self._close, self._open, self._plan, self._maintain]
        seldom = [self._withdraw, self._change, self._expire, self._mark_stuck, self._halt, self._forget]
        return [*often, *nodes, self._down, *seldom]

    # Nodes.

    def _some_nodes(self, nodes: Iterable[int]) -> list[int]:
        dice, listed = self.history.dice, sorted(nodes)
        return sorted(dice.sample(listed, min(len(listed), dice.randint(1, 3))))

    def _close(self) -> None:
        history, closures = self.history, self.history.image.capacity.closures
        kind = history.dice.choice((ClosureKind.DRAIN, ClosureKind.SUSPECT, ClosureKind.QUARANTINE))
        source = CLOSED_BY_ONE.get(kind, f"d-{history.image.maintenance.drains + 1}")
        closed = numbers_in(closures[source].nodes) if source in closures else []
        nodes = self._some_nodes(node for node in history.total if node not in closed)
        if nodes and len(closures) < 3 and history.dice.random() < 0.4:
            deadline = history.dice.choice((0, 20 * SECOND)) if kind is ClosureKind.DRAIN else 0
            history.say(NodesClosed(source, kind, runs_of(nodes), "why not", deadline, "olga"))

    def _open(self) -> None:
        history, closures = self.history, self.history.image.capacity.closures
        names = [name for name, one in closures.items() if one.kind is not ClosureKind.MAINTENANCE]
        if names:
            source = history.dice.choice(names)
            nodes = numbers_in(closures[source].nodes)
            if history.dice.random() < 0.3:
                nodes = self._some_nodes(nodes)
            history.say(NodesOpened(source, closures[source].kind, runs_of(nodes), "well again"))

    def _plan(self) -> None:
        history, maintenance = self.history, self.history.image.maintenance
        nodes = self._some_nodes(history.total)
        if nodes and len(maintenance.rows) < 2 and history.dice.random() < 0.4:
            span = history.dice.choice((5, 60)) * SECOND
            scope = Scope(ScopeKind.NODE, tuple(str(node) for node in nodes))
            kind = history.dice.choice(list(MaintenanceKind))
            name = f"m-{maintenance.planned + 1}"
            history.say(MaintenancePlanned(name, kind, scope, runs_of(nodes), span, span, span // 2, "fan"))

    def _maintain(self) -> None:
        """Whatever is due, or put off."""
        history = self.history
        for name, row in list(history.image.maintenance.rows.items()):
            starts_at = row.planned_at + row.starts_in
            is_active = row.phase is not MaintenancePhase.PLANNED
            if row.phase is not MaintenancePhase.OPEN and history.dice.random() < 0.1:
                self._move(name, MaintenancePhase.CANCELLED, is_active)
            elif not is_active and history.now >= starts_at - row.lead:
                history.say(MaintenanceMoved(name, MaintenancePhase.NOTICED))
                history.say(NodesClosed(name, ClosureKind.MAINTENANCE, row.nodes, "fan"))
            elif row.phase is MaintenancePhase.NOTICED and history.now >= starts_at:
                history.say(MaintenanceMoved(name, MaintenancePhase.OPEN))
            elif row.phase is MaintenancePhase.OPEN and history.now >= starts_at + row.lasts:
                self._move(name, MaintenancePhase.OVER, is_active)

    def _move(self, name: str, phase: MaintenancePhase, was_active: bool) -> None:
        if was_active:
            nodes = self.history.image.maintenance.rows[name].nodes
            self.history.say(NodesOpened(name, ClosureKind.MAINTENANCE, nodes))
        self.history.say(MaintenanceMoved(name, phase))

    # Operations.

    def _rows(self, *, is_running: bool = True) -> list[tuple[AttemptKey, AttemptControl]]:
        """Of those that have tasks or operations; those that are not told to stop, or all."""
        history, control = self.history, self.history.image.control
        rows = [(key, control.row(*key)) for key in control.all_keys()]
        return [
            (key, row)
            for key, row in rows
            if row is not None and (not is_running or (key in history.live and key not in history.stopping))
        ]

    def _one(
        self, fits: Callable[[AttemptControl], object], *, is_running: bool = True
    ) -> tuple[AttemptKey, AttemptControl] | None:
        rows = [pair for pair in self._rows(is_running=is_running) if fits(pair[1])]
        return self.history.dice.choice(rows) if rows else None

    def _ask(self) -> None:
        history, dice = self.history, self.history.dice
        keys = [key for key in history.live if key not in history.stopping]
        if not keys:
            return
        key = dice.choice(keys)
        row = history.image.control.spec_of(*key)
        assert row is not None, key
        busy = [operation.task for operation in row.operations.values() if operation.is_live]
        if row.stands_alone:
            kind = dice.choice((*OF_TASKS, OperationKind.START))
            wanted = _that_may(row, kind)
        else:
            kind, wanted = dice.choice(OF_GANGS), [WHOLE]
        tasks = [task for task in wanted if task not in busy]
        if not tasks:
            return
        chosen = tuple(dice.sample(tasks, min(len(tasks), dice.randint(1, 3))))
        sources = [s for s in history.image.capacity.closures if s.startswith(("d-", "m-"))]
        source = dice.choice(sources) if sources and kind is OperationKind.MOVE else ""
        deadline = dice.choice((0, 0, 15 * SECOND))
        requester = dice.choice(("user:ada", "rebalancer", "health"))
        history.say(
            OperationsRequested(
                *key, row.next_operation, kind, chosen, "because", source, deadline, requester
            )
        )

    def _answer(self) -> None:
        dice = self.history.dice
        found = self._one(_says_something, is_running=False)
        if found is None:
            return
        key, row = found
        asked = _in_phase(row, OperationPhase.ASKED)
        acks = tuple(self._ack(row, number) for number in asked if dice.random() < 0.7)
        if acks or len(row.operations) > len(_live(row)):
            self.history.say(ControlAnswered(*key, row.changed, acks))

    def _ack(self, row: AttemptControl, number: int) -> Ack:
        operation, dice = row.operations[number], self.history.dice
        planned = self.history.image.maintenance.rows.get(operation.source)
        answers = [Answer.PROCEED]
        if operation.kind is OperationKind.MOVE and operation.source:
            answers.append(Answer.MOVE)
            answers += [Answer.STOP_AND_RETURN] * 2 if planned is not None else []
            answers += [Answer.IGNORE] if planned is not None and not planned.kind.needs_empty else []
        waits = not row.stands_alone and dice.random() < 0.3
        return Ack(number, dice.choice(answers), after_checkpoint=waits)

    def _begin(self) -> None:
        """Whoever may, by whatever allows it."""
        pairs = self._rows()
        self.history.dice.shuffle(pairs)
        for key, row in pairs:
            for by in BegunBy:
                ready = [number for number in _live(row) if self._may_begin(row, row.operations[number], by)]
                begun = ready if by is BegunBy.DEADLINE else _paced(row, ready)
                if begun:
                    requester = row.operations[begun[0]].requester
                    mine = [number for number in begun if row.operations[number].requester == requester]
                    self._say_begun(key, row, mine, by, requester)
                    return

    def _say_begun(
        self, key: AttemptKey, row: AttemptControl, mine: list[int], by: BegunBy, requester: str
    ) -> None:
        history = self.history
        ends = sum(_ends_a_run(row, row.operations[number]) for number in mine)
        is_charged = by is not BegunBy.DEADLINE and requester != "user:ada"
        first = row.operations[mine[0]]
        stops = not row.stands_alone and first.kind.ends_gang and first.answer is not Answer.STOP_AND_RETURN
        gone = [n for n in mine if row.tasks[row.operations[n].task].phase is TaskPhase.GONE]
        history.say(OperationsBegun(*key, tuple(mine), by, requester, ends if is_charged else 0))
        if stops:
            history.stopping.append(key)
            history.say(StopOrdered(*key, EndCause.MOVED))
        self._leave(key, row, [n for n in gone if row.operations[n].kind is OperationKind.STOP])

    def _may_begin(self, row: AttemptControl, operation: OperationRow, by: BegunBy) -> bool:
        history, source = self.history, operation.source
        if source and source not in history.image.capacity.closures:
            return False
        is_asked = operation.phase is OperationPhase.ASKED
        is_acked = operation.phase is OperationPhase.ACKED
        if by is BegunBy.LIMITS:
            return is_asked and not row.spec.controller
        if is_acked and operation.answer is Answer.IGNORE:
            return False
        if by is BegunBy.DEADLINE:
            is_due = 0 < operation.deadline <= history.now - operation.requested_at
            return is_due and operation.phase is not OperationPhase.BEGUN
        if not is_acked or _is_stale(operation, history.now) or row.saved_step <= operation.after_step:
            return False
        planned = history.image.maintenance.rows.get(source)
        is_window = planned is not None and planned.phase is MaintenancePhase.OPEN
        return is_window or operation.answer is not Answer.STOP_AND_RETURN

    def _withdraw(self) -> None:
        found = self._one(_live, is_running=False)
        if found is not None:
            key, row = found
            waiting = [n for n in _live(row) if row.operations[n].phase is not OperationPhase.BEGUN]
            if waiting:
                self.history.say(OperationsDone(*key, tuple(waiting[:2]), Outcome.WITHDRAWN))

    def _expire(self) -> None:
        for key, row in self._rows(is_running=False):
            acked = _in_phase(row, OperationPhase.ACKED)
            stale = tuple(n for n in acked if _is_stale(row.operations[n], self.history.now))
            if stale:
                self.history.say(AcksExpired(*key, stale))

    def _mark_stuck(self) -> None:
        for key, row in self._rows(is_running=False):
            begun = _in_phase(row, OperationPhase.BEGUN)
            stuck = tuple(n for n in begun if not row.operations[n].is_stuck)
            if stuck:
                self.history.say(OperationsStuck(*key, stuck))

    def _halt(self) -> None:
        if self.history.dice.random() < 0.2:
            self.history.say(DestructionHalted("rebalancer", 90, 60))

    def _change(self) -> None:
        """One task more or fewer, or another program."""
        history, dice = self.history, self.history.dice
        keys = [key for key in history.live if key not in history.stopping]
        if not keys:
            return
        key = dice.choice(keys)
        row = history.image.control.spec_of(*key)
        assert row is not None, key
        first, *others = row.jobs
        if dice.random() < 0.5:
            work = Nanoseconds(dice.randint(60, 90) * SECOND)
            first = replace(first, emulation=Emulation(work=work))
        else:
            first = replace(first, tasks=max(1, first.tasks + dice.choice((-1, 1))))
        history.say(AttemptChanged(*key, row.revision + 1, (first, *others)))

    def _forget(self) -> None:
        """What ended a gang is over, or nobody takes what is to be told."""
        found = self._one(lambda row: row.is_ended, is_running=False)
        if found is not None:
            key, row = found
            if _live(row) and self.history.dice.random() < 0.7:
                outcome = self.history.dice.choice((Outcome.HEALTHY, Outcome.GONE))
                self.history.say(OperationsDone(*key, tuple(_live(row)), outcome))
            else:
                self.history.say(ControlForgotten(*key))

    # Runs.

    def _down(self) -> None:
        history, dice = self.history, self.history.dice
        found = self._one(lambda row: row.stands_alone and _tasks_in(row, *ALIVE), is_running=False)
        if found is not None:
            key, row = found
            tasks = _tasks_in(row, *ALIVE)
            chosen = tuple(dice.sample(tasks, min(len(tasks), dice.randint(1, 2))))
            cause = dice.choice((EndCause.TASK_FAILED, EndCause.NODE_FAILED, EndCause.COMPLETED))
            history.say(TasksDown(*key, chosen, cause, 1, dice.random() < 0.5))

    def _gone(self) -> None:
        found = self._one(lambda row: _tasks_in(row, TaskPhase.DOWN), is_running=False)
        if found is not None:
            key, row = found
            down = _tasks_in(row, TaskPhase.DOWN)
            if not row.stands_alone and key in self.history.stopping:
                return
            begun = {row.operations[n].task: n for n in _in_phase(row, OperationPhase.BEGUN)}
            self.history.say(TasksGone(*key, tuple(down)))
            stops = [begun[task] for task in down if task in begun]
            self._leave(key, row, [n for n in stops if row.operations[n].kind is OperationKind.STOP])

    def leave_with(self, nodes: set[int]) -> None:
        """What was to stop for good on nodes that are back and empty leaves its job."""
        for key, row in self._rows(is_running=False):
            begun = {number: row.operations[number] for number in _in_phase(row, OperationPhase.BEGUN)}
            stops = [n for n, operation in begun.items() if operation.kind is OperationKind.STOP]
            self._leave(key, row, [n for n in stops if row.tasks[begun[n].task].node in nodes])

    def _leave(self, key: AttemptKey, row: AttemptControl, stops: list[int]) -> None:
        if stops:
            tasks = [row.operations[number].task for number in stops]
            moves = tuple(TaskMove(task, row.tasks[task].node, -1) for task in tasks)
            self.history.say(ClaimRevised(*key, row.claim_revision + 1, moves))
            self.history.say(OperationsDone(*key, tuple(stops), Outcome.GONE))

    def _new_runs(self) -> None:
        """Each where it was, if it may be, or wherever there is room."""
        found = self._one(lambda row: _tasks_in(row, TaskPhase.GONE))
        if found is None:
            return
        key, row = found
        begun = {row.operations[n].task: row.operations[n] for n in _in_phase(row, OperationPhase.BEGUN)}
        room = {
            node: self.history.available(node) for node in self.history.total if self.history.is_open(node)
        }
        devices = {node: self.history.image.capacity.room(node) for node in room}
        moves = []
        for task in _tasks_in(row, TaskPhase.GONE):
            node = self._place(key, row, task, begun[task], room, devices) if task in begun else None
            if node is not None:
                moves.append(TaskMove(task, row.tasks[task].node, node))
        if moves:
            self.history.say(ClaimRevised(*key, row.claim_revision + 1, tuple(moves)))

    def _place(
        self,
        key: AttemptKey,
        row: AttemptControl,
        task: int,
        operation: OperationRow,
        room: dict[int, Amount],
        devices: dict[int, FreeDevices],
    ) -> int | None:
        history = self.history
        node = row.tasks[task].node
        if task == WHOLE:
            nodes = [node for spread in history.live[key].spreads for node in spread.nodes]
            is_well = all(history.is_there(node) and not self._is_worked_on(node) for node in nodes)
            return -1 if is_well else None
        stays = operation.kind is not OperationKind.MOVE or operation.answer is Answer.STOP_AND_RETURN
        if node >= 0 and stays and history.dice.random() < 0.7:
            return node if history.is_there(node) and not self._is_worked_on(node) else None
        job = row.jobs[job_and_rank(task)[0]]
        whole, part = divmod(job.need.gpu_milli, MILLI)
        parts = [part] if part else []
        others = [
            other
            for other, left in room.items()
            if other != node and devices[other].after(Leaving()).take(whole, parts)
            if left.covers(job.need) and history.gpu_type[other] == job.gpu_type
            if not self._is_worked_on(other)
        ]
        if not others:
            return None
        chosen = history.dice.choice(sorted(others))
        room[chosen] = room[chosen].minus(job.need)
        devices[chosen].take(whole, parts)
        return chosen

    def _is_worked_on(self, node: int) -> bool:
        return any(
            row.phase is MaintenancePhase.OPEN and node in numbers_in(row.nodes)
            for row in self.history.image.maintenance.rows.values()
        )

    def _up(self) -> None:
        found = self._one(lambda row: _tasks_in(row, TaskPhase.STARTING), is_running=False)
        if found is not None:
            key, row = found
            up = _tasks_in(row, TaskPhase.STARTING)
            begun = [n for n in _in_phase(row, OperationPhase.BEGUN) if row.operations[n].task in up]
            self.history.say(TasksUp(*key, tuple(up)))
            if begun:
                self.history.say(OperationsDone(*key, tuple(begun), Outcome.HEALTHY))


def _that_may(row: AttemptControl, kind: OperationKind) -> list[int]:
    """Tasks on which an operation of this kind makes sense."""
    if kind is not OperationKind.START:
        return [task for task, one in row.tasks.items() if one.run >= 0]
    wanted = [task_number(job, rank) for job, spec in enumerate(row.jobs) for rank in range(spec.tasks)]
    gone = _tasks_in(row, TaskPhase.GONE)
    return [task for task in wanted if task not in row.tasks or task in gone]


def _tasks_in(row: AttemptControl, *phases: TaskPhase) -> list[int]:
    return [task for task, one in row.tasks.items() if one.phase in phases]


def _in_phase(row: AttemptControl, phase: OperationPhase) -> list[int]:
    return [number for number, operation in row.operations.items() if operation.phase is phase]


def _live(row: AttemptControl) -> list[int]:
    return [number for number, operation in row.operations.items() if operation.is_live]


def _says_something(row: AttemptControl) -> bool:
    is_asked = bool(_in_phase(row, OperationPhase.ASKED))
    return row.spec.controller != "" and (is_asked or len(_live(row)) < len(row.operations))


def _is_stale(operation: OperationRow, now: Instant) -> bool:
    keeps = operation.answer in (Answer.IGNORE, Answer.STOP_AND_RETURN) or operation.after_step >= 0
    return not keeps and now - operation.acked_at >= ACK_LEASE


def _ends_a_run(row: AttemptControl, operation: OperationRow) -> bool:
    return operation.kind is not OperationKind.START and row.tasks[operation.task].phase in ALIVE


def _paced(row: AttemptControl, numbers: list[int]) -> list[int]:
    """As many as leave no job with more unavailable than it allows."""
    if not row.stands_alone:
        return numbers
    down: dict[int, int] = {}
    for task, one in row.tasks.items():
        job = job_and_rank(task)[0]
        down[job] = down.get(job, 0) + (one.phase is not TaskPhase.UP)
    allowed = []
    for number in numbers:
        operation = row.operations[number]
        job = job_and_rank(operation.task)[0]
        is_up = row.tasks[operation.task].phase is TaskPhase.UP
        if operation.kind is not OperationKind.START and is_up:
            if down[job] >= (row.spec.unavailable_max or max(1, row.jobs[job].tasks // 10)):
                continue
            down[job] += 1
        allowed.append(number)
    return allowed
