"""The placement store's records of runs of tasks: runs that fail, are gone or are up, and the nodes of new runs.

Commands name a task's run by number, so a command about an older run has no effect. New capacity is granted as for a claim: if the
need fits now, on open nodes, and only to a task that has no live run and on which an operation has begun.
"""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from components.placement_store.disputed_nodes import Refused
from components.placement_store.harvest import takes_of
from components.placement_store.pools import broken_setting
from components.placement_store.reservations import StartRecords
from components.placement_store.state import StoreState
from core.claims.checks import has_capacity, may_move_to, mixed_by
from core.claims.reservations import barred_nodes
from core.component import NOTHING, Decision
from core.device_shares import part_of
from core.events.control import ClaimRevised, OperationsDone, TasksDown, TasksGone, TasksUp
from core.events.region import GangStarted
from core.fact import Event
from core.images.control import AttemptControl, OperationRow, TaskPhase
from core.images.region import AttemptPhase
from core.messages.base import Envelope, Message
from core.messages.control import (
    RecordTasksDown,
    RecordTasksGone,
    RecordTasksUp,
    ReviseClaim,
    RevisionAnswered,
)
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.instant import Instant
from core.nouns.limits import OPERATIONS_AT_ONCE_MAX
from core.nouns.maintenance import MaintenancePhase
from core.nouns.operation import (
    WHOLE,
    Answer,
    OperationKind,
    OperationPhase,
    Outcome,
    TaskMove,
    job_and_rank,
)
from core.nouns.placement import Claim, Spread, moved_spreads, nodes_of
from core.nouns.quantities import Amount
from core.placing.index.owners import Now
from core.rules.health import failed_soon
from core.rules.operations import leaves_its_node, may_return, may_run_again
from core.rules.scopes import is_drained, keeps_away

HEARD_OF_RUNS: tuple[type[Message], ...] = (RecordTasksDown, RecordTasksGone, RecordTasksUp, ReviseClaim)


class RunRecords:
    """The store's deciders for runs of tasks."""

    def __init__(self, region: RegionName) -> None:
        self.region = region
        self._starts = StartRecords(region)
        self.deciders: dict[type[Message], Callable[[StoreState, Envelope], Decision]] = {
            RecordTasksDown: self._tasks_down,
            RecordTasksGone: self._tasks_gone,
            RecordTasksUp: self._tasks_up,
            ReviseClaim: self._revise,
        }

    # Ends of runs.

    def _known(
        self,
        state: StoreState,
        workload: WorkloadId,
        epoch: int,
        tasks: tuple[tuple[int, int], ...],
        phases: tuple[TaskPhase, ...],
    ) -> list[int]:
        """Return the tasks that are in one of the phases and have this as their newest run, at most as many as one fact holds."""
        row = state.image.control.row(workload, epoch)
        rows = row.tasks if row is not None else {}
        known = [
            task
            for task, run in dict(tasks).items()
            if task in rows and rows[task].run == run and rows[task].phase in phases
        ]
        return known[:OPERATIONS_AT_ONCE_MAX]

    def _tasks_down(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, RecordTasksDown)
        about = (message.workload, message.epoch)
        alive = self._known(state, *about, message.tasks, (TaskPhase.UP, TaskPhase.STARTING))
        events: list[Event] = []
        if alive:
            soon = failed_soon(state.image.control, message, alive, envelope.at)
            events.append(
                TasksDown(*about, tuple(alive), message.cause, message.exit_code, message.is_gone, *soon)
            )
        if message.is_gone:
            down = self._known(state, *about, message.tasks, (TaskPhase.DOWN,))
            events.extend(self._gone(state, *about, down))
        return Decision(events=tuple(events)) if events else NOTHING

    def _tasks_gone(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, RecordTasksGone)
        about = (message.workload, message.epoch)
        events = self._gone(state, *about, self._known(state, *about, message.tasks, (TaskPhase.DOWN,)))
        row = state.image.control.row(*about)
        if not events and row is not None:
            # Tasks that are gone already, as nodes returned empty, and that stop for good have yet to leave their jobs.
            events = leaves(
                row, *about, _stops(row, self._known(state, *about, message.tasks, (TaskPhase.GONE,)))
            )
        return Decision(events=tuple(events)) if events else NOTHING

    def _gone(self, state: StoreState, workload: WorkloadId, epoch: int, tasks: list[int]) -> list[Event]:
        """Return the facts of tasks that are gone; tasks that stop for good leave their jobs in the same batch."""
        if not tasks:
            return []
        row = state.image.control.row(workload, epoch)
        assert row is not None, (workload, epoch)
        events: list[Event] = [TasksGone(workload, epoch, tuple(tasks))]
        return [*events, *leaves(row, workload, epoch, _stops(row, tasks))]

    def _tasks_up(self, state: StoreState, envelope: Envelope) -> Decision:
        """Record tasks as up, and the operations that had begun on these tasks as done."""
        message = envelope.message
        assert isinstance(message, RecordTasksUp)
        about = (message.workload, message.epoch)
        up = self._known(state, *about, message.tasks, (TaskPhase.STARTING,))
        if not up:
            return NOTHING
        row, attempt = state.image.control.row(*about), state.image.attempts.row(*about)
        assert row is not None, about
        is_first_start = attempt is not None and attempt.phase == AttemptPhase.GRANTED
        if WHOLE in up and is_first_start:
            # The gang was restarted before it was ever up: the queue waits for just this fact.
            return Decision(events=(GangStarted(*about), *healed(row, *about, up)))
        return Decision(events=(TasksUp(*about, tuple(up)), *healed(row, *about, up)))

    # New runs.

    def _revise(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, ReviseClaim)
        row = state.image.control.row(message.workload, message.epoch)
        attempt = state.image.attempts.row(message.workload, message.epoch)
        is_live = attempt is not None and attempt.phase.is_live and not attempt.stop_cause
        if row is None or not is_live or message.revision != row.claim_revision + 1:
            return self._revised(state, message, "refused")
        moves = {move.task: move for move in message.moves}
        if not moves or len(moves) < len(message.moves) or len(moves) > OPERATIONS_AT_ONCE_MAX:
            return self._revised(state, message, "refused")
        begun = _begun(row)
        now = envelope.at
        if not all(may_run_again(row.tasks.get(t), begun.get(t), move, now) for t, move in moves.items()):
            return self._revised(state, message, "refused")
        full: dict[int, None] = {}
        short = self._short_of_capacity(state, message, row, begun, now, full)
        if short:
            barred = barred_nodes(state.image.starts, self._claim_of(state, message), now)
            refused = Refused.revision(message, tuple(node for node in full if node not in barred))
            told = self._revised(state, message, "conflict", short)
            return state.disputes.with_them(told, refused, state.image, state.sequence, now)
        takes = takes_of(state, self._claim_of(state, message), message.moves)
        event = ClaimRevised(message.workload, message.epoch, message.revision, message.moves, takes)
        coming = [move.node_to for move in message.moves if move.node_to != move.node_from]
        displaced = self._starts.displaced(state, self._claim_of(state, message), coming, now)
        return replace(self._revised(state, message, "granted"), events=(event, *displaced))

    def _claim_of(self, state: StoreState, message: ReviseClaim) -> Claim:
        held = state.image.capacity.holding(message.workload, message.epoch)
        assert held is not None, message
        return held.claim

    def _short_of_capacity(
        self,
        state: StoreState,
        message: ReviseClaim,
        row: AttemptControl,
        begun: dict[int, OperationRow],
        now: Instant,
        full: dict[int, None],
    ) -> list[int]:
        """Return the nodes that cannot take the runs to start there, ascending. A task that stays holds its capacity already.

        full   filled with those of the nodes that an agent chose and that lack capacity, or forbid the task
        """
        capacity, claim = state.image.capacity, self._claim_of(state, message)
        wanted: dict[int, Amount] = {}
        parts: dict[int, list[int]] = {}
        short: dict[int, None] = {}
        barred = barred_nodes(state.image.starts, claim, now)
        there = Now(capacity, state.owners, ((message.workload, message.epoch),), barred)
        for move in message.moves:
            node = move.node_to
            if move.node_from == node:
                nodes = nodes_of(claim) if move.task == WHOLE else (node,)
                operation = begun[move.task]
                is_worked_on = _waits_for_its_window(state, operation) or (
                    leaves_its_node(operation) and not capacity.is_open(node)
                )
                comes_back = operation.answer is Answer.STOP_AND_RETURN
                may_stay = move.task != WHOLE and may_return(capacity, row.tasks[move.task], now)
                short.update(
                    (other, None)
                    for other in nodes
                    if is_worked_on
                    or self._keeps_away(state, other)
                    or (comes_back and is_drained(capacity, other) and not may_stay)
                )
                continue
            job = claim.jobs[job_and_rank(move.task)[0]]
            if not may_move_to(node, claim, job, there):
                short[node] = full[node] = None
                continue
            wanted[node] = wanted.get(node, Amount()).plus(job.need)
            if part_of(job.need.gpu_milli):
                parts.setdefault(node, []).append(part_of(job.need.gpu_milli))
        if not short and mixed_by(capacity, claim, message.moves):
            short.update((move.node_to, None) for move in message.moves if move.node_to != move.node_from)
        full.update(
            (n, None) for n, need in wanted.items() if not has_capacity(capacity, n, need, parts.get(n, ()))
        )
        short.update(full)
        coming = coming_to(claim, message.moves)
        if not short and broken_setting(state, coming) is not None:
            short.update((node, None) for node in nodes_of(coming))
        return sorted(short)

    def _keeps_away(self, state: StoreState, node: int) -> bool:
        return keeps_away(state.image.capacity, state.image.maintenance, node)

    def _revised(
        self, state: StoreState, message: ReviseClaim, verdict: str, nodes: Iterable[int] = ()
    ) -> Decision:
        """Return the answer to the agent of a revision. Without an agent, tasks stay on their nodes; the sender reads the log."""
        if not message.agent:
            return NOTHING
        capacity = state.image.capacity
        rows = tuple(capacity.node_row(node) for node in nodes if capacity.has_node(node))
        answer = RevisionAnswered(
            self.region,
            message.agent,
            message.workload,
            message.epoch,
            message.revision,
            verdict,
            rows,
            state.sequence,
        )
        return Decision(messages=(answer,))


def coming_to(claim: Claim, moves: Iterable[TaskMove]) -> Claim:
    """Return the part of a claim that these moves add: tasks without a node before, for which pools make no exception."""
    nowhere = tuple(Spread((), ()) for _ in claim.jobs)
    coming = [move for move in moves if move.node_from < 0 <= move.node_to]
    return replace(claim, spreads=moved_spreads(nowhere, coming))


def leaves(row: AttemptControl, workload: WorkloadId, epoch: int, stops: dict[int, int]) -> list[Event]:
    """Return the facts by which tasks without a live run leave their jobs: their capacity is free, their operations are done.

    stops   number of the operation that stopped each task for good, by task
    """
    if not stops:
        return []
    moves = tuple(TaskMove(task, row.tasks[task].node, -1) for task in stops)
    return [
        ClaimRevised(workload, epoch, row.claim_revision + 1, moves),
        OperationsDone(workload, epoch, tuple(stops.values()), Outcome.GONE),
    ]


def healed(row: AttemptControl, workload: WorkloadId, epoch: int, tasks: Iterable[int]) -> list[Event]:
    """Return the fact that operations begun on tasks that are up now are done, if there are such operations."""
    begun = {operation.task: number for number, operation in row.operations.items() if _has_begun(operation)}
    done = tuple(begun[task] for task in tasks if task in begun)
    return [OperationsDone(workload, epoch, done, Outcome.HEALTHY)] if done else []


def _stops(row: AttemptControl, tasks: Iterable[int]) -> dict[int, int]:
    """Return the number of the begun operation that stops a task for good, by task; other tasks are left out."""
    begun = {o.task: n for n, o in row.operations.items() if o.kind is OperationKind.STOP and _has_begun(o)}
    return {task: begun[task] for task in tasks if task in begun}


def _begun(row: AttemptControl) -> dict[int, OperationRow]:
    return {operation.task: operation for operation in row.operations.values() if _has_begun(operation)}


def _has_begun(operation: OperationRow) -> bool:
    return operation.phase is OperationPhase.BEGUN


def _waits_for_its_window(state: StoreState, operation: OperationRow) -> bool:
    """Return whether a task that returns after maintenance must still wait, because the window is open.

    The controller agreed to a return after the work, so this also holds for maintenance that lets other tasks start again there.
    """
    planned = state.image.maintenance.rows.get(operation.source)
    is_open = planned is not None and planned.phase is MaintenancePhase.OPEN
    return is_open and operation.answer is Answer.STOP_AND_RETURN
