"""Invariants of tasks and of operations on them (DESIGN §11.6), given the region's image before a fact.

Apart from `has_capacity` and `mixed_by`, the rules are written a second time, without the functions by which the store decides, so that
a mistake there is found here. Times are compared with the fact's own time, limits with those that the log records for its term.
"""

from collections import Counter
from collections.abc import Iterable

from core.claims.checks import has_capacity, mixed_by
from core.device_shares import part_of
from core.events.control import (
    AcksExpired,
    ClaimRevised,
    ControlAnswered,
    OperationsBegun,
    OperationsDone,
    OperationsRequested,
    TasksDown,
    TasksGone,
    TasksUp,
)
from core.events.region import StopOrdered
from core.fact import Fact
from core.images import RegionImage
from core.images.control import AttemptControl, OperationRow, TaskPhase
from core.invariants.nodes import check_closures, check_node_fact, check_stop, over_budget
from core.nouns.ids import AttemptKey
from core.nouns.maintenance import ClosureKind, MaintenancePhase
from core.nouns.operation import (
    CHANGE,
    DRAIN,
    MAINTENANCE,
    ROUNDS,
    WHOLE,
    Ack,
    Answer,
    BegunBy,
    OperationKind,
    OperationPhase,
    Outcome,
    TaskMove,
    job_and_rank,
)
from core.nouns.preemption import PREEMPTION_REQUESTER, promised_to
from core.nouns.quantities import Amount

Finding = tuple[int, str]
"""The number of a broken rule in DESIGN §11, and a description."""
Texts = Iterable[str]
OF_ATTEMPTS = (
    OperationsRequested,
    ControlAnswered,
    AcksExpired,
    OperationsBegun,
    OperationsDone,
    TasksDown,
    TasksGone,
    TasksUp,
    ClaimRevised,
)


def check_control_fact(fact: Fact, before: RegionImage) -> list[Finding]:
    """Return violations of rule 6 at a fact of a region, and of rules 1 and 2 where a task gets new capacity.

    No operation without acknowledgement begins before its time, maintenance keeps to its window, and budgets hold.
    """
    event = fact.event
    if isinstance(event, StopOrdered):
        return [(6, text) for text in check_stop(event, fact.at, before)]
    if not isinstance(event, OF_ATTEMPTS):
        return [(6, text) for text in check_node_fact(fact, before)]
    key, name = (event.workload, event.epoch), f"{event.workload}.{event.epoch}"
    row = before.control.spec_of(*key)
    if row is None:
        return [(6, f"{name}: {type(event).__name__}, and it has no tasks here")]
    attempt = _Attempt(key, row, before, fact.at)
    found = [(6, f"{name}: {text}") for text in _texts(event, attempt)]
    if isinstance(event, ClaimRevised):
        found.extend((rule, f"{name}: {text}") for rule, text in attempt.room(event))
    return found


def check_control(image: RegionImage) -> list[str]:
    """Return violations over all attempts and nodes of an image.

    Attempts with tasks hold capacity for each where the task is, no task has two operations, and closures are counted right.
    """
    found = []
    holds = {(workload, epoch): held for workload, epoch, held in image.capacity.live()}
    known = {
        (workload, epoch): row
        for rows in (image.control.specs, image.control.rows)
        for workload, epochs in rows.items()
        for epoch, row in epochs.items()
    }
    for (workload, epoch), held in holds.items():
        name, row = f"{workload}.{epoch}", known.get((workload, epoch))
        if row is None or row.is_ended:
            found.append(f"{name}: holds room, and nothing is known of its tasks")
            continue
        if row.claim_revision != held.claim.revision:
            found.append(
                f"{name}: revision {row.claim_revision} of a claim of revision {held.claim.revision}"
            )
        places = Counter((job_and_rank(t)[0], one.node) for t, one in row.tasks.items() if one.node >= 0)
        spreads = {
            (job, node): tasks
            for job, spread in enumerate(held.claim.spreads)
            for node, tasks in zip(spread.nodes, spread.tasks, strict=True)
        }
        if row.stands_alone and dict(places) != spreads:
            found.append(f"{name}: its tasks are not where it holds room")
    for (workload, epoch), row in known.items():
        if not row.is_ended and (workload, epoch) not in holds:
            found.append(f"{workload}.{epoch}: has tasks, and holds no room")
        taken = [one for one in row.operations.values() if one.is_live and not one.is_left_alone]
        live = Counter(operation.task for operation in taken)
        found.extend(
            f"{workload}.{epoch}: {n} operations on task {task}" for task, n in live.items() if n > 1
        )
    return [*found, *check_closures(image)]


def _texts(
    event: OperationsRequested
    | ControlAnswered
    | AcksExpired
    | OperationsBegun
    | OperationsDone
    | TasksDown
    | TasksGone
    | TasksUp
    | ClaimRevised,
    attempt: "_Attempt",
) -> Texts:
    match event:
        case OperationsRequested():
            return attempt.requested(event)
        case ControlAnswered():
            return attempt.answered(event)
        case AcksExpired():
            return attempt.expired(event)
        case OperationsBegun():
            return attempt.begun(event)
        case OperationsDone():
            return attempt.done(event)
        case TasksDown():
            return attempt.entered(event, (TaskPhase.UP, TaskPhase.STARTING))
        case TasksGone():
            return attempt.entered(event, (TaskPhase.DOWN,))
        case TasksUp():
            return attempt.entered(event, (TaskPhase.STARTING,))
        case ClaimRevised():
            return attempt.revised(event)


class _Attempt:
    """One attempt before a fact, with the fact's own time. The methods yield violations by one kind of fact."""

    def __init__(self, key: AttemptKey, row: AttemptControl, before: RegionImage, at: int) -> None:
        self.key, self.row, self.before, self.at = key, row, before, at
        attempt = before.attempts.row(*key)
        self.runs = attempt is not None and attempt.phase.is_live and not attempt.stop_cause

    # Operations.

    def requested(self, event: OperationsRequested) -> Texts:
        """Yield violations by a request: out of sequence, of an attempt that does not run, or on a task that is busy or of another
        sort.
        """
        row = self.row
        if event.first != row.next_operation:
            yield f"operation {event.first} after {row.next_operation - 1}"
        if not self.runs:
            yield f"{event.kind} asked for, and it does not run"
        busy = set(row.busy())
        for task in event.tasks:
            if task in busy:
                yield f"{event.kind} of task {task}, which has an operation"
            if (task == WHOLE) == (row.stands_alone and event.kind is not OperationKind.PREEMPT):
                yield f"{event.kind} of task {task}, which is not touched like that"
        if event.deadline < 0:
            yield f"{event.kind} with a deadline of {event.deadline}"

    def answered(self, event: ControlAnswered) -> Texts:
        """Yield violations by an answer: to an older request, or on an operation that awaits no answer or not one of this kind."""
        if event.sequence not in (self.row.changed, self.row.answered):
            yield f"answer to request {event.sequence} taken, and the newest is {self.row.changed}"
        for ack in event.acks:
            operation = self.row.operations.get(ack.operation)
            if operation is None or operation.phase is not OperationPhase.ASKED:
                yield f"ack of operation {ack.operation}, which waits for none"
            elif not self._knows(ack, operation):
                yield f"ack of operation {ack.operation} by {ack.answer}, which it does not know"

    def _knows(self, ack: Ack, operation: OperationRow) -> bool:
        if ack.after_checkpoint and self.row.stands_alone:
            return False
        if operation.kind is OperationKind.PREEMPT:
            is_for_promise = promised_to(operation.source) is not None
            return ack.answer is Answer.PROCEED or (ack.answer is Answer.INSTEAD and is_for_promise)
        if ack.answer is Answer.PROCEED:
            return True
        planned = self.before.maintenance.rows.get(operation.source)
        if operation.kind is not OperationKind.MOVE or not operation.source:
            return False
        if ack.answer is Answer.IGNORE:
            return planned is not None and not planned.kind.needs_empty
        return ack.answer is Answer.MOVE or planned is not None

    def expired(self, event: AcksExpired) -> Texts:
        """Yield violations by acknowledgements that expire before the end of their lease."""
        for number in event.operations:
            operation = self.row.operations.get(number)
            if operation is None or operation.phase is not OperationPhase.ACKED:
                yield f"ack of operation {number} expired, and there is none"
            elif not self._is_stale(operation):
                yield f"ack of operation {number} expired too soon"

    def _is_stale(self, operation: OperationRow) -> bool:
        lease = self.before.destruction.settings.get("ack_lease", 0)
        keeps = operation.answer in (Answer.IGNORE, Answer.STOP_AND_RETURN) or operation.after_step >= 0
        keeps = keeps or operation.within > 0
        return not keeps and self.at - operation.acked_at >= lease > 0

    def begun(self, event: OperationsBegun) -> Texts:
        """Yield violations by operations that begin.

        Each begins by a valid acknowledgement, by the job's own limits or at its deadline; together they keep to limits and budget.
        """
        row = self.row
        if not self.runs:
            yield "operations begin, and it does not run"
        stopped: Counter[int] = Counter()
        ended = own = 0
        for number in event.operations:
            operation = row.operations.get(number)
            task = row.tasks.get(operation.task) if operation is not None else None
            if operation is None or (task is None and operation.task != WHOLE):
                yield f"operation {number} begins, and was not asked for"
                continue
            yield from (f"operation {number} {text}" for text in self._too_soon(event.by, operation))
            is_own = operation.kind is OperationKind.PREEMPT and not operation.source
            if task is None:
                ended += 1  # All tasks of a service at once.
                own += is_own
            elif operation.kind is not OperationKind.START and task.phase in (
                TaskPhase.UP,
                TaskPhase.STARTING,
            ):
                ended += 1
                own += is_own
                stopped[job_and_rank(operation.task)[0]] += task.phase is TaskPhase.UP
        if event.by is not BegunBy.DEADLINE:
            yield from self._over_limit(stopped)
        has_budget = not event.requester.startswith("user:") and event.requester not in (
            PREEMPTION_REQUESTER,
            ROUNDS,
        )
        # Operations that begin at their deadline are charged to no budget, except preemptions that a requester asked for.
        bearing = ended if event.by is not BegunBy.DEADLINE else own
        if event.charged != (bearing if has_budget else 0):
            yield f"{event.charged} charged to {event.requester}, and {ended} runs end"
        elif event.charged:
            yield from over_budget(event.requester, event.charged, self.at, self.before)

    def _too_soon(self, by: BegunBy, operation: OperationRow) -> Texts:
        is_acked, is_asked = (
            operation.phase is phase for phase in (OperationPhase.ACKED, OperationPhase.ASKED)
        )
        if not is_acked and not is_asked:
            yield f"begins, and is {operation.phase}"
        if is_acked and operation.answer is Answer.IGNORE:
            yield "begins, and nothing was to be done"
        if by is BegunBy.DEADLINE and not 0 < operation.deadline <= self.at - operation.requested_at:
            yield "begins by its deadline, which has not come"
        if by is BegunBy.LIMITS and (self.row.spec.controller or not is_asked):
            yield f"begins unasked, and {self.row.spec.controller or 'nobody'} decides"
        if by is BegunBy.ACK:
            yield from self._not_acked(operation) if is_acked else ("begins without its ack",)
        source = operation.source
        if source.startswith((DRAIN, MAINTENANCE)) and source not in self.before.capacity.closures:
            yield f"begins for {source}, which closes nothing"
        promised = promised_to(source)
        promise = self.before.capacity.promise(*promised) if promised is not None else None
        if promised is not None and (promise is None or self.key not in promise.victims):
            yield f"begins for {source}, and no promise waits for it"
        if source.startswith(CHANGE) and source != f"{CHANGE}{self.row.revision}":
            yield f"begins for {source}, and it was changed since"

    def _not_acked(self, operation: OperationRow) -> Texts:
        if self._is_stale(operation):
            yield "begins by an ack that is stale"
        is_early = not operation.within or self.at < operation.acked_at + operation.within
        if operation.after_step >= 0 and self.row.saved_step <= operation.after_step and is_early:
            yield "begins before the checkpoint that it waits for"
        if operation.after_step < 0 and operation.within and is_early:
            yield "begins before the time that its controller said"
        if operation.answer is Answer.INSTEAD:
            yield "begins, and another was offered in its place"
        planned = self.before.maintenance.rows.get(operation.source)
        is_open = planned is not None and planned.phase is MaintenancePhase.OPEN
        if operation.answer is Answer.STOP_AND_RETURN and not is_open:
            yield "begins outside its window"

    def _over_limit(self, stopped: Counter[int]) -> Texts:
        """Yield violations by operations that begin while too many tasks of a job are unavailable, for any cause."""
        row = self.row
        for job, more in stopped.items() if row.stands_alone else ():
            tasks = [one for number, one in row.tasks.items() if job_and_rank(number)[0] == job]
            down = sum(one.is_missed for one in tasks)
            allowed = row.spec.unavailable_max or max(1, row.jobs[job].tasks // 10)
            if more and down + more > allowed:
                yield f"{down} tasks of job {job} are unavailable, {more} more begin, and {allowed} may be"

    def done(self, event: OperationsDone) -> Texts:
        """Yield violations by operations that are recorded as done with an outcome that does not fit their phase and task."""
        for number in event.operations:
            operation = self.row.operations.get(number)
            if operation is None or not operation.is_live:
                yield f"operation {number} is over, and was not under way"
                continue
            has_begun = operation.phase is OperationPhase.BEGUN
            task = self.row.tasks.get(operation.task)
            match event.outcome:
                case Outcome.HEALTHY:
                    is_so = has_begun and (task.phase is TaskPhase.UP if task else self.row.is_ended)
                case Outcome.GONE:
                    is_so = has_begun and task is None
                case Outcome.IGNORED:
                    is_so = operation.phase is OperationPhase.ACKED and operation.answer is Answer.IGNORE
                case Outcome.WITHDRAWN:
                    is_so = not has_begun or (task is not None and task.run < 0)
            if not is_so:
                yield f"operation {number} is over as {event.outcome}, and it is {operation.phase}"

    # Runs of tasks.

    def entered(self, event: TasksDown | TasksGone | TasksUp, phases: tuple[TaskPhase, ...]) -> Texts:
        """Yield violations by tasks that enter a phase out of order, or are up on a lost node."""
        for number in event.tasks:
            task = self.row.tasks.get(number)
            if task is None or task.phase not in phases:
                yield f"{type(event).__name__} of task {number}, which is {task.phase if task else 'unknown'}"
            elif isinstance(event, TasksUp) and task.node >= 0 and self.before.capacity.is_lost[task.node]:
                yield f"TasksUp of task {number} on node {task.node}, which is lost"

    def revised(self, event: ClaimRevised) -> Texts:
        """Yield violations by new runs: only a task that is gone gets one, only one, and only by an operation that has begun."""
        row = self.row
        if event.revision != row.claim_revision + 1:
            yield f"revision {event.revision} after {row.claim_revision}"
        begun = {o.task: o for o in row.operations.values() if o.phase is OperationPhase.BEGUN}
        for number, count in Counter(move.task for move in event.moves).items():
            if count > 1:
                yield f"task {number} has {count} new runs at once"
        for move in event.moves:
            task, operation = row.tasks.get(move.task), begun.get(move.task)
            if task is None or task.phase is not TaskPhase.GONE or task.node != move.node_from:
                yield f"task {move.task} has a new run, and is {task.phase if task else 'unknown'}"
            if operation is None:
                yield f"task {move.task} has a new run, and nothing has begun on it"
            elif (operation.kind is OperationKind.STOP) != (move.node_to < 0 and move.task != WHOLE):
                yield f"task {move.task} has node {move.node_to} by {operation.kind}"

    def room(self, event: ClaimRevised) -> Iterable[Finding]:
        """Yield violations by the capacity of new runs.

        New capacity must be free, of the right type and on open nodes. A task that stays holds its capacity already: its node must
        not be lost, drained without its patience having passed, or under work that needs the node empty.
        """
        capacity = self.before.capacity
        held = capacity.holding(*self.key)
        if held is None:
            yield 1, "a claim is revised, and it holds nothing"
            return
        wanted: dict[int, Amount] = {}
        parts: dict[int, list[int]] = {}
        for move in event.moves:
            stays = move.node_from == move.node_to
            for node in self._starts_on(move):
                job = None if move.task == WHOLE else held.claim.jobs[job_and_rank(move.task)[0]]
                if not capacity.has_node(node) or (job and not job.takes(capacity.node_type[node])):
                    yield 2, f"task {move.task} starts on node {node}, which is none for it"
                elif capacity.is_lost[node] or (capacity.closed[node] and not stays):
                    yield 2, f"task {move.task} starts on node {node}, which is not open"
                elif stays and self._returns_too_soon(move.task, node):
                    yield 6, f"task {move.task} returns to node {node}, which is drained"
                elif self._is_worked_on(node):
                    yield 6, f"task {move.task} starts on node {node} while that is worked on"
                elif job and not stays:
                    wanted[node] = wanted.get(node, Amount()).plus(job.need)
                    parts.setdefault(node, []).extend(filter(None, [part_of(job.need.gpu_milli)]))
        if all(
            capacity.has_node(node) for move in event.moves for node in self._starts_on(move)
        ) and mixed_by(capacity, held.claim, event.moves):
            yield 2, "tasks of one job are on nodes of several types"
        for node, need in wanted.items():
            if not has_capacity(capacity, node, need, parts[node]):
                yield 1, f"tasks start without room on node {node}"

    def _returns_too_soon(self, task: int, node: int) -> bool:
        """Return whether a task that was to stop and return is back on a drained node too soon.

        That is before the term's `move_patience`, in which the task looks for another node, has passed, or after the drain's
        deadline; for a gang, always.
        """
        answers = [
            o.answer
            for o in self.row.operations.values()
            if o.task == task and o.phase is OperationPhase.BEGUN
        ]
        if Answer.STOP_AND_RETURN not in answers:
            return False
        patience = self.before.destruction.settings.get("move_patience", 0)
        gone_at = self.row.tasks[task].since
        return any(
            task == WHOLE or self.at < max(gone_at, one.at) + patience or 0 < one.deadline <= self.at - one.at
            for one in self.before.capacity.closures.values()
            if one.kind is ClosureKind.DRAIN and any(first <= node <= last for first, last in one.nodes)
        )

    def _is_worked_on(self, node: int) -> bool:
        """Return whether the node is in the open window of a maintenance that needs the node empty."""
        return any(
            row.phase is MaintenancePhase.OPEN and row.kind.needs_empty
            for row in self.before.maintenance.rows.values()
            if any(first <= node <= last for first, last in row.nodes)
        )

    def _starts_on(self, move: TaskMove) -> list[int]:
        held = self.before.capacity.holding(*self.key)
        if move.task == WHOLE and held is not None:
            return [node for spread in held.claim.spreads for node in spread.nodes]
        return [move.node_to] if move.node_to >= 0 else []
