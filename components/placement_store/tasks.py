"""The placement store's records of operations on tasks: requests, answers of controllers, and each operation's beginning and end.

The store judges each command against its own log, regardless of the sender. An optional operation begins only with its controller's
consent, an involuntary one without consent not before its deadline, and stops keep to the limits of the job and the budget of the
requester (`_begin` has the exceptions). Task control and the broker only choose the time of each command.
"""

from collections.abc import Callable, Iterable
from itertools import islice

from components.placement_store.preemption import offer_taken
from components.placement_store.state import StoreState
from components.placement_store.task_runs import leaves
from components.replies import answered, refused
from core.component import NOTHING, Decision
from core.events.control import (
    AcksExpired,
    AttemptChanged,
    ControlAnswered,
    ControlForgotten,
    DestructionHalted,
    OperationsBegun,
    OperationsDone,
    OperationsRequested,
    OperationsStuck,
)
from core.events.region import StopOrdered
from core.fact import Event
from core.images.control import AttemptControl, OperationRow, TaskPhase
from core.messages.base import Envelope, Message
from core.messages.control import (
    BeginOperations,
    ChangeAttempt,
    ExpireAcks,
    FinishOperations,
    ForgetControl,
    MarkStuck,
    OperateTasks,
    OperationsAccepted,
    RecordAnswer,
)
from core.nouns.ids import WorkloadId
from core.nouns.instant import Instant
from core.nouns.limits import (
    CONTROL_RETENTION,
    NAME_LENGTH_MAX,
    OPERATIONS_AT_ONCE_MAX,
    REASON_LENGTH_MAX,
)
from core.nouns.operation import CHANGE, ROUND, TRANSFER, WHOLE, Ack, Answer, BegunBy, OperationKind, Outcome
from core.nouns.preemption import PREEMPTION, PREEMPTION_REQUESTER, promised_to
from core.nouns.quantities import Amount
from core.nouns.reasons import Reason
from core.nouns.workload import JobSpec, Kind
from core.rules.disruption_budget import HEALTH, USER, bears_budget, budget_of, is_limited
from core.rules.operations import (
    cause_of,
    counts,
    destroys,
    gives_way,
    is_called_for,
    is_stale,
    is_stuck,
    may_begin,
    may_finish,
    returns_here,
    tasks_meant,
    within_limits,
)
from core.rules.preemption import is_called_for as is_victim

HEARD_OF_TASKS: tuple[type[Message], ...] = (
    OperateTasks,
    RecordAnswer,
    BeginOperations,
    ExpireAcks,
    MarkStuck,
    FinishOperations,
    ForgetControl,
    ChangeAttempt,
)


class TaskRecords:
    """The store's deciders for operations on tasks."""

    def __init__(self) -> None:
        self.deciders: dict[type[Message], Callable[[StoreState, Envelope], Decision]] = {
            OperateTasks: self._operate,
            RecordAnswer: self._answer,
            BeginOperations: self._begin,
            ExpireAcks: self._expire,
            MarkStuck: self._mark_stuck,
            FinishOperations: self._finish,
            ForgetControl: self._forget,
            ChangeAttempt: self._change,
        }

    # Requests.

    def _operate(self, state: StoreState, envelope: Envelope) -> Decision:
        """Record the requested operations, with at most one live operation for each task.

        An operation that has not begun is withdrawn for a request of another source with an earlier deadline, and an optional one for any
        request with a deadline (`gives_way`); otherwise the answer has its number. At most `OPERATIONS_AT_ONCE_MAX` are recorded.
        """
        message = envelope.message
        assert isinstance(message, OperateTasks)
        problems = _problems(message)
        if problems:
            return refused(Reason.INVALID, problems)
        row = state.image.control.spec_of(message.workload, message.epoch)
        attempt = state.image.attempts.row(message.workload, message.epoch)
        if row is None or attempt is None or not attempt.phase.is_live or attempt.stop_cause:
            return refused(Reason.NOT_RUNNING)
        tasks = tasks_meant(row, message.kind, message.tasks)
        if tasks is None:
            kind = "tasks that stand alone" if row.stands_alone else "a gang, which is touched whole"
            return refused(Reason.NOT_ALLOWED, (f"{message.kind}: it has {kind}",))
        held = state.image.capacity.holding(message.workload, message.epoch)
        if message.kind is OperationKind.PREEMPT and held is not None and held.claim.kind == Kind.INTERACTIVE:
            return refused(Reason.NOT_ALLOWED, ("preempt: interactive work is never preempted; requeue it",))
        refusal = self._is_called_for(state, row, message, tasks)
        if refusal is not None:
            return refusal
        deadline = self._deadline(state, message, envelope.at)
        live = row.busy()
        about = (message.workload, message.epoch)
        replaced, wanted, answer = [], [], []
        for task in tasks:
            number = live.get(task)
            if not is_called_for(state.image, about, row, message.kind, task, message.source):
                continue
            if number is not None:
                if not gives_way(row.operations[number], message.source, deadline, envelope.at):
                    answer.append(number)
                    continue
                replaced.append(number)
            wanted.append(task)
            if len(wanted) == OPERATIONS_AT_ONCE_MAX:
                break  # The requester repeats the request for the other tasks.
        if not wanted:
            return answered(OperationsAccepted(tuple(answer)))
        events: list[Event] = []
        if replaced:
            events.append(OperationsDone(*about, tuple(replaced), Outcome.WITHDRAWN))
        first = row.next_operation
        requester = message.requester or envelope.sender
        if message.source.startswith(PREEMPTION) or requester == PREEMPTION_REQUESTER:
            requester = PREEMPTION_REQUESTER if message.source.startswith(PREEMPTION) else envelope.sender
        events.append(
            OperationsRequested(
                *about,
                first,
                message.kind,
                tuple(wanted),
                message.reason,
                message.source,
                deadline,
                requester,
            )
        )
        answer.extend(range(first, first + len(wanted)))
        return answered(OperationsAccepted(tuple(answer)), *events)

    def _deadline(self, state: StoreState, message: OperateTasks, now: Instant) -> int:
        """Return the deadline in nanoseconds from now; 0: the operation is optional.

        For a drain, a maintenance or a promise, this log and this clock decide, regardless of the requester's figure and clock; for
        a workload's move, the queue's log does.
        """
        planned = state.image.maintenance.rows.get(message.source)
        if planned is not None:
            return max(1, planned.starts_at - now)
        closure = state.image.capacity.closures.get(message.source)
        if closure is not None:
            return max(1, closure.at + closure.deadline - now) if closure.deadline else 0
        by = promised_to(message.source)
        promise = state.image.preemption.promise(*by) if by is not None else None
        if promise is not None:
            return max(1, promise.asked_until - now)
        if message.source.startswith((TRANSFER, ROUND)):
            return state.awards.awards.rows[message.workload].move_deadline
        # Besides, only preemption, replacement of failed tasks and the own user, within the job's limits, may force an operation.
        is_preempted = message.kind is OperationKind.PREEMPT
        may_force = is_preempted or message.requester == HEALTH or message.requester.startswith(USER)
        return message.deadline if may_force else 0

    def _is_called_for(
        self, state: StoreState, row: AttemptControl, message: OperateTasks, tasks: tuple[int, ...]
    ) -> Decision | None:
        """Return the refusal of an outdated request, if the request is outdated.

        The source of a request must still call for it, and tasks to be replaced must still be unavailable. Any other request must
        name the attempt's next operation: its requester has then seen this state, not an older one.
        """
        if message.source.startswith(CHANGE):
            is_so = message.source == f"{CHANGE}{row.revision}"
        elif message.source.startswith((TRANSFER, ROUND)):
            award = state.awards.awards.rows.get(message.workload)
            is_so = award is not None and (award.epoch, award.moving) == (message.epoch, message.source)
        elif message.source.startswith(PREEMPTION):
            key = (message.workload, message.epoch)
            is_so = message.kind is OperationKind.PREEMPT and is_victim(
                state.image.capacity, key, message.source
            )
        elif message.source:
            is_so = message.source in state.image.capacity.closures
        elif message.requester == HEALTH:
            is_so = set(row.unavailable()).issuperset(tasks)
        else:
            is_so = message.first == row.next_operation
        if is_so:
            return None
        return refused(Reason.SUPERSEDED, (f"first: the next operation is {row.next_operation} now",))

    def _change(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, ChangeAttempt)
        row = state.image.control.spec_of(message.workload, message.epoch)
        if row is None or row.is_ended or message.revision <= row.revision:
            return NOTHING
        if [_shape(job) for job in row.jobs] != [_shape(job) for job in message.jobs]:
            return NOTHING  # The capacity was granted for the old shape.
        changed = AttemptChanged(message.workload, message.epoch, message.revision, message.jobs)
        return Decision(events=(changed,))

    # Answers.

    def _answer(self, state: StoreState, envelope: Envelope) -> Decision:
        """Record a controller's answer to the newest request. Answers to older ones are dropped: these lack the changes since."""
        message = envelope.message
        assert isinstance(message, RecordAnswer)
        row = state.image.control.row(message.workload, message.epoch)
        if row is None or message.sequence != row.changed:
            return NOTHING
        acks = {ack.operation: ack for ack in message.acks if counts(row, ack, state.image.maintenance)}
        has_heard = any(not operation.is_live for operation in row.operations.values())
        if not acks and not has_heard:
            return NOTHING
        key = (message.workload, message.epoch)
        offers = [ack for ack in acks.values() if ack.answer is Answer.INSTEAD]
        taken = offer_taken(state.image, key, offers, envelope.at)
        for ack in offers if not taken else ():
            del acks[ack.operation]
        if not acks and not has_heard:
            return NOTHING
        parts = _parts(acks.values()) or [()]
        return Decision(events=(*(ControlAnswered(*key, message.sequence, part) for part in parts), *taken))

    def _expire(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, ExpireAcks)
        row = state.image.control.row(message.workload, message.epoch)
        stale = _those(row, message.operations, lambda one: is_stale(one, envelope.at))
        expired = AcksExpired(message.workload, message.epoch, stale)
        return Decision(events=(expired,)) if stale else NOTHING

    # Beginning.

    def _begin(self, state: StoreState, envelope: Envelope) -> Decision:
        """Record that the named operations begin, as far as they may for the given reason: consent, the job's limits or a deadline.

        With consent or by the limits, operations keep to the limits of the job and the budget of the requester. At a deadline, only
        a user's own requests keep to the limits, and only other requesters' preemptions without a source to the budget.
        """
        message = envelope.message
        assert isinstance(message, BeginOperations)
        row = state.image.control.row(message.workload, message.epoch)
        attempt = state.image.attempts.row(message.workload, message.epoch)
        if row is None or attempt is None or not attempt.phase.is_live or attempt.stop_cause:
            return NOTHING
        about = (message.workload, message.epoch)
        maintenance = state.image.maintenance
        numbers = [
            number
            for number in dict.fromkeys(message.operations)
            if may_begin(row, number, message.by, maintenance, envelope.at)
            and is_called_for(state.image, about, row, *_what(row.operations[number]))
        ][:OPERATIONS_AT_ONCE_MAX]
        events: list[Event] = []
        if message.by is BegunBy.DEADLINE:
            by_user = [n for n in numbers if row.operations[n].requester.startswith(USER)]
            held_back = set(by_user) - set(within_limits(row, by_user))
            numbers = [number for number in numbers if number not in held_back]
            own = [n for n in numbers if bears_budget(row.operations[n], message.by)]
            allowed, halted = self._within_budget(state, row, own, envelope.at)
            events.extend(halted)
            numbers = [number for number in numbers if number not in own or number in allowed]
        else:
            numbers = within_limits(row, numbers)
            numbers, halted = self._within_budget(state, row, numbers, envelope.at)
            events.extend(halted)
        for requester, mine in self._by_requester(row, numbers):
            bearing = [row.operations[n] for n in mine if bears_budget(row.operations[n], message.by)]
            charged = sum(destroys(row, operation) for operation in bearing)
            events.append(OperationsBegun(*about, tuple(mine), message.by, requester, charged))
        whole = next((one for one in map(row.operations.__getitem__, numbers) if one.task == WHOLE), None)
        if whole is not None and whole.kind.ends_gang and not returns_here(whole):
            by = promised_to(whole.source)
            events.append(StopOrdered(*about, cause_of(whole), by[0] if by is not None else WorkloadId("")))
        stops = [number for number in numbers if row.operations[number].kind is OperationKind.STOP]
        gone = {row.operations[n].task: n for n in stops if _is_gone(row, row.operations[n].task)}
        events.extend(leaves(row, *about, gone))
        return Decision(events=tuple(events)) if events else NOTHING

    def _by_requester(self, row: AttemptControl, numbers: Iterable[int]) -> Iterable[tuple[str, list[int]]]:
        found: dict[str, list[int]] = {}
        for number in numbers:
            found.setdefault(row.operations[number].requester, []).append(number)
        return found.items()

    def _within_budget(
        self, state: StoreState, row: AttemptControl, numbers: list[int], now: Instant
    ) -> tuple[list[int], list[Event]]:
        """Return the operations within their requesters' disruption budgets, and an event for each requester newly over budget."""
        destruction, budget = state.image.destruction, budget_of(state.image.hardware)
        allowed: list[int] = []
        halted: list[Event] = []
        for requester, mine in self._by_requester(row, numbers):
            if not is_limited(requester):
                allowed.extend(mine)
                continue
            stops = [number for number in mine if destroys(row, row.operations[number])]
            left = max(0, budget - destruction.spent(requester, now))
            if len(stops) > left and not destruction.is_told(requester, now):
                halted.append(DestructionHalted(requester, len(stops), budget))
            too_many = set(stops[left:])
            allowed.extend(number for number in mine if number not in too_many)
        return allowed, halted

    # Ending.

    def _mark_stuck(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, MarkStuck)
        row = state.image.control.row(message.workload, message.epoch)
        stuck = _those(row, message.operations, lambda one: is_stuck(one, envelope.at))
        event = OperationsStuck(message.workload, message.epoch, stuck)
        return Decision(events=(event,)) if stuck else NOTHING

    def _finish(self, state: StoreState, envelope: Envelope) -> Decision:
        """Record the outcome of live operations that can have this outcome, each once.

        An operation that has begun is not withdrawn, unless its task never had a run. Once the attempt has ended, the queue's log
        must show the outcome.
        """
        message = envelope.message
        assert isinstance(message, FinishOperations)
        row = state.image.control.row(message.workload, message.epoch)
        if row is None:
            return NOTHING
        if row.is_ended and not self._became(state, message):
            return NOTHING
        over = _those(
            row, message.operations, lambda one: one.is_live and may_finish(row, one, message.outcome)
        )
        event = OperationsDone(message.workload, message.epoch, over, message.outcome)
        return Decision(events=(event,)) if over else NOTHING

    def _became(self, state: StoreState, message: FinishOperations) -> bool:
        """Return whether the queue's log shows this outcome for a gang that ended here: up again as a later attempt, or over."""
        award = state.awards.awards.rows.get(message.workload)
        if award is None:
            return False
        if message.outcome is Outcome.HEALTHY:
            return award.epoch > message.epoch and award.is_bound
        return message.outcome is Outcome.GONE and award.is_over

    def _forget(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, ForgetControl)
        row = state.image.control.row(message.workload, message.epoch)
        if row is None or not row.is_ended or row.ended_at + CONTROL_RETENTION > envelope.at:
            return NOTHING
        return Decision(events=(ControlForgotten(message.workload, message.epoch),))


def _problems(message: OperateTasks) -> tuple[str, ...]:
    found = []
    if message.deadline < 0:
        found.append("deadline: it must not be negative")
    if len(message.reason) > REASON_LENGTH_MAX:
        found.append(f"reason: {REASON_LENGTH_MAX} characters are the most")
    for field, name in (("source", message.source), ("requester", message.requester)):
        if len(name) > NAME_LENGTH_MAX:
            found.append(f"{field}: {NAME_LENGTH_MAX} characters are the most")
    return tuple(found)


def _shape(job: JobSpec) -> tuple[str, tuple[str, ...], Amount]:
    return job.name, job.node_types, job.need


def _what(operation: OperationRow) -> tuple[OperationKind, int, str]:
    return operation.kind, operation.task, operation.source


def _those(
    row: AttemptControl | None, numbers: Iterable[int], holds: Callable[[OperationRow], bool]
) -> tuple[int, ...]:
    """Return the known operations for which `holds` is true, each once, at most as many as one fact holds."""
    known = row.operations if row is not None else {}
    found = (number for number in dict.fromkeys(numbers) if number in known and holds(known[number]))
    return tuple(islice(found, OPERATIONS_AT_ONCE_MAX))


def _parts(acks: Iterable[Ack]) -> list[tuple[Ack, ...]]:
    listed = tuple(acks)
    size = OPERATIONS_AT_ONCE_MAX
    return [listed[at : at + size] for at in range(0, len(listed), size)]


def _is_gone(row: AttemptControl, task: int) -> bool:
    return row.tasks[task].phase is TaskPhase.GONE
