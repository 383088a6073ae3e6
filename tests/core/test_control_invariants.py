"""What must always hold of tasks, operations, closed nodes and budgets: each check finds exactly what was broken on purpose."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from core.events.control import (
    AcksExpired,
    AttemptChanged,
    ClaimRevised,
    ControlAnswered,
    MaintenanceMoved,
    MaintenancePlanned,
    NodesClosed,
    NodesOpened,
    OperationsBegun,
    OperationsDone,
    OperationsRequested,
    TasksDown,
    TasksGone,
    TasksUp,
)
from core.events.region import (
    CheckpointCommitted,
    GangStarted,
    NodesLost,
    StopOrdered,
)
from core.fact import Event
from core.images import RegionImage
from core.invariants.control import check_control, check_control_fact
from core.nouns.ids import WorkerName
from core.nouns.instant import SECOND, Instant
from core.nouns.limits import ACK_LEASE, DESTRUCTION_MIN
from core.nouns.maintenance import ClosureKind, MaintenanceKind, MaintenancePhase, Scope, ScopeKind
from core.nouns.operation import WHOLE, Ack, Answer, BegunBy, ControlSpec, OperationKind, Outcome, TaskMove
from core.nouns.preemption import PREEMPTION_REQUESTER
from core.nouns.workload import EndCause, Kind
from tests.builders import (
    START,
    a_claim,
    a_fact,
    a_job,
    a_region,
    attempt,
    granted,
    joined,
    opened,
    promised,
)

W1 = attempt()
NAME = "w-1.1: "
MOVE, RESTART = OperationKind.MOVE, OperationKind.RESTART
SERVICE = replace(
    a_claim("w-1", placed={0: 2, 1: 1}, kind=Kind.SERVICE), control=ControlSpec("shards", unavailable_max=2)
)
GANG = replace(a_claim("w-1", placed={0: 2}), control=ControlSpec("trainer"))
BEFORE: tuple[Event, ...] = (opened(), joined(), granted(SERVICE), GangStarted(*W1))
"""Three tasks that stand alone are up; two may be unavailable. Four facts, a second apart."""
OF_GANG: tuple[Event, ...] = (opened(), joined(), granted(GANG), GangStarted(*W1))


def broken(
    event: Event, *history: Event, before: tuple[Event, ...] = BEFORE, after: int = 0, actor: str = "actor"
) -> list[str]:
    """What a fact breaks of rule 6, so many nanoseconds after the facts before it."""
    image = a_region(*before, *history)
    sequence = len(before) + len(history) + 1
    at = Instant(START + (sequence - 1) * SECOND + (after or SECOND))
    found = check_control_fact(replace(a_fact(event, sequence, at=at), actor=actor), image)
    return [text for _, text in found]


def asked(
    kind: OperationKind = RESTART,
    *tasks: int,
    source: str = "",
    deadline: int = 0,
    first: int = 1,
    by: str = "user:ada",
) -> Event:
    """Something is to happen to these tasks."""
    return OperationsRequested(*W1, first, kind, tasks or (0,), "because", source, deadline, by)


def begun(
    *operations: int, by: BegunBy = BegunBy.ACK, requester: str = "user:ada", charged: int = 0
) -> Event:
    """These begin."""
    return OperationsBegun(*W1, operations or (1,), by, requester, charged)


def answered(*operations: int, sequence: int = 5, answer: Answer = Answer.PROCEED) -> Event:
    """Acknowledged, on the request that the fifth fact made."""
    return ControlAnswered(*W1, sequence, tuple(Ack(one, answer) for one in operations or (1,)))


def planned(kind: MaintenanceKind = MaintenanceKind.POWER, starts_in: int = 60 * SECOND) -> Event:
    """Work on the first node."""
    return MaintenancePlanned(
        "m-1", kind, Scope(ScopeKind.NODE, ("0",)), ((0, 0),), starts_in, SECOND, starts_in // 2, "fan"
    )


NOTICED, OPEN = (
    MaintenanceMoved("m-1", phase) for phase in (MaintenancePhase.NOTICED, MaintenancePhase.OPEN)
)
CLOSED = NodesClosed("m-1", ClosureKind.MAINTENANCE, ((0, 0),), "fan")
DRAINED = NodesClosed("d-1", ClosureKind.DRAIN, ((0, 0),), "fan")
WORK: tuple[Event, ...] = (planned(), NOTICED, CLOSED)


# Beginning.


def test_begin_that_was_acknowledged() -> None:
    """T11: it breaks nothing."""
    assert [] == broken(begun(), asked(), answered())


def test_begin_without_a_word() -> None:
    """T11: by nobody's ack, or by that of another."""
    assert [f"{NAME}operation 1 begins without its ack"] == broken(begun(), asked())
    wanted = [f"{NAME}operation 2 begins without its ack"]
    assert wanted == broken(begun(1, 2), asked(RESTART, 0, 1), answered(1))


def test_begin_by_a_stale_word() -> None:
    """A word is good for as long as the log says that its term keeps to."""
    assert [] == broken(begun(), asked(), answered(), after=ACK_LEASE - 1)
    wanted = [f"{NAME}operation 1 begins by an ack that is stale"]
    assert wanted == broken(begun(), asked(), answered(), after=ACK_LEASE)


def test_begin_of_an_operation_that_was_not_requested() -> None:
    """Unknown, or begun, or over."""
    assert [f"{NAME}operation 7 begins, and was not asked for"] == broken(begun(7), asked())
    history = (asked(), answered(), begun())
    assert f"{NAME}operation 1 begins, and is begun" in broken(begun(), *history)
    withdrawn = OperationsDone(*W1, (1,), Outcome.WITHDRAWN)
    assert f"{NAME}operation 1 begins, and is done" in broken(begun(), asked(), withdrawn)


def test_preemption_before_the_time_of_its_word() -> None:
    """N4: a controller may take its time, or offer another in its place; and without its promise nothing is to begin."""
    promise = promised(replace(a_claim("w-9", placed={0: 8}, priority=5), victims=(W1,)))
    asking = asked(OperationKind.PREEMPT, WHOLE, source="p-w-9.1", by=PREEMPTION_REQUESTER)
    begins = begun(requester=PREEMPTION_REQUESTER)

    def told(ack: Ack, *, after: int = 0) -> list[str]:
        said = ControlAnswered(*W1, 6, (ack,))
        return broken(begins, promise, asking, said, before=OF_GANG, after=after)

    later = Ack(1, within=10 * SECOND)
    assert [f"{NAME}operation 1 begins before the time that its controller said"] == told(later)
    assert [] == told(later, after=10 * SECOND)
    offered = [f"{NAME}operation 1 begins, and another was offered in its place"]
    assert offered == told(Ack(1, Answer.INSTEAD, instead="w-2"))
    unasked = broken(begins, asking, ControlAnswered(*W1, 5, (Ack(1),)), before=OF_GANG)
    assert [f"{NAME}operation 1 begins for p-w-9.1, and no promise waits for it"] == unasked


def test_begin_of_an_ignored_operation() -> None:
    """T16: by the controller's ack, and at its deadline."""
    history = (planned(MaintenanceKind.NETWORK), NOTICED, CLOSED, asked(MOVE, source="m-1", deadline=1))
    ignored = answered(sequence=8, answer=Answer.IGNORE)
    wanted = f"{NAME}operation 1 begins, and nothing was to be done"
    for by in (BegunBy.ACK, BegunBy.DEADLINE):
        assert wanted in broken(begun(by=by), *history, ignored)


def test_begin_by_limits() -> None:
    """T18: only where no controller is named, and only what nobody has acknowledged."""
    alone = (*BEFORE[:2], granted(replace(SERVICE, control=ControlSpec(unavailable_max=1))), GangStarted(*W1))
    by = BegunBy.LIMITS
    assert [] == broken(begun(by=by), asked(), before=alone)
    assert [f"{NAME}operation 1 begins unasked, and shards decides"] == broken(begun(by=by), asked())


def test_begin_by_deadline() -> None:
    """T15, T17: not a moment before it, by the fact's own time; and what has none waits for ever."""
    by = BegunBy.DEADLINE
    assert [] == broken(begun(by=by), asked(deadline=9), after=9)
    wanted = [f"{NAME}operation 1 begins by its deadline, which has not come"]
    assert wanted == broken(begun(by=by), asked(deadline=9), after=8)
    assert wanted == broken(begun(by=by), asked(), after=1 << 60)


def test_begin_before_a_checkpoint() -> None:
    """T21: it agreed on condition of a newer one."""
    waits = ControlAnswered(*W1, 5, (Ack(1, after_checkpoint=True),))
    saved = CheckpointCommitted(*W1, 70)
    stop = begun()
    assert [] == broken(stop, asked(MOVE, WHOLE), waits, saved, before=OF_GANG)
    wanted = [f"{NAME}operation 1 begins before the checkpoint that it waits for"]
    assert wanted == broken(stop, asked(MOVE, WHOLE), waits, before=OF_GANG)


def test_begin_outside_its_window() -> None:
    """T16: it agreed to stop when the work begins, and to come back."""
    history = (*WORK, asked(MOVE, source="m-1"), answered(sequence=8, answer=Answer.STOP_AND_RETURN))
    assert [f"{NAME}operation 1 begins outside its window"] == broken(begun(), *history)
    assert [] == broken(begun(), *history, OPEN)


def test_begin_of_an_operation_without_a_source() -> None:
    """The drain was lifted, or the job was changed again."""
    history = (DRAINED, asked(MOVE, source="d-1"), answered(sequence=6))
    lifted = NodesOpened("d-1", ClosureKind.DRAIN, ((0, 0),))
    assert [] == broken(begun(), *history)
    assert [f"{NAME}operation 1 begins for d-1, which closes nothing"] == broken(begun(), *history, lifted)
    changed = AttemptChanged(*W1, 1, (a_job(3),))
    update = (changed, asked(OperationKind.UPDATE, source="r-1"), answered(sequence=6))
    assert [] == broken(begun(), *update)
    again = AttemptChanged(*W1, 2, (a_job(3),))
    assert [f"{NAME}operation 1 begins for r-1, and it was changed since"] == broken(begun(), *update, again)


def test_begin_on_an_attempt_that_is_told_to_stop() -> None:
    """Nothing begins on an attempt that ends."""
    stop = StopOrdered(*W1, EndCause.CANCELLED)
    assert [f"{NAME}operations begin, and it does not run"] == broken(begun(), asked(), answered(), stop)


def test_pacing() -> None:
    """T18: two may be unavailable, whatever the cause; what is down already takes nothing away."""
    every = (asked(RESTART, 0, 1, 2), answered(1, 2, 3))
    assert [] == broken(begun(1, 2), *every)
    text = "{} tasks of job 0 are unavailable, {} more begin, and 2 may be"
    assert [NAME + text.format(0, 3)] == broken(begun(1, 2, 3), *every)
    failed = TasksDown(*W1, (2,), EndCause.TASK_FAILED)
    assert [NAME + text.format(1, 2)] == broken(begun(1, 2), *every, failed)
    assert [] == broken(begun(1, 3), *every, failed)
    by = BegunBy.DEADLINE
    assert [] == broken(begun(1, 2, 3, by=by), asked(RESTART, 0, 1, 2, deadline=1))


# Budgets.


def crowd(spent: int) -> tuple[Event, ...]:
    """A hundred tasks, and somebody who has had so many stopped in one fact."""
    many = replace(
        a_claim("w-1", placed={0: 100}, gpus=0, kind=Kind.SERVICE),
        control=ControlSpec("shards", unavailable_max=999),
    )
    tasks = tuple(range(100))
    ask = OperationsRequested(*W1, 1, RESTART, tasks, "because", "", 0, "rebalancer")
    acks = ControlAnswered(*W1, 5, tuple(Ack(number) for number in range(1, 101)))
    first = OperationsBegun(*W1, tuple(range(1, spent + 1)), BegunBy.ACK, "rebalancer", spent)
    return (opened(), joined(), granted(many), GangStarted(*W1), ask, acks, first)


def test_budget_of_a_requester() -> None:
    """T27: no more in a minute than the log has; after that it may go on."""
    history = crowd(DESTRUCTION_MIN - 1)
    one, two = DESTRUCTION_MIN, DESTRUCTION_MIN + 1
    last = OperationsBegun(*W1, (one,), BegunBy.ACK, "rebalancer", 1)
    both = OperationsBegun(*W1, (one, two), BegunBy.ACK, "rebalancer", 2)
    assert [] == broken(last, before=history)
    wanted = f"{NAME}rebalancer stops 2 more after {DESTRUCTION_MIN - 1} in a minute, and {DESTRUCTION_MIN} is its budget"
    assert [wanted] == broken(both, before=history)
    assert [wanted] == broken(both, before=history, after=60 * SECOND - 1)
    assert [] == broken(both, before=history, after=60 * SECOND)


def test_charge_that_differs_from_the_cost() -> None:
    """T27: each run that ends counts, unless a user wants it or its deadline has come; a task that is down costs nothing."""
    history = (asked(RESTART, 0, 1, by="rebalancer"), answered(1, 2))

    def charged(count: int, *more: Event, by: BegunBy = BegunBy.ACK, who: str = "rebalancer") -> list[str]:
        return broken(OperationsBegun(*W1, (1, 2), by, who, count), *history, *more)

    assert [] == charged(2)
    assert [f"{NAME}0 charged to rebalancer, and 2 runs end"] == charged(0)
    assert [f"{NAME}2 charged to user:ada, and 2 runs end"] == charged(2, who="user:ada")
    failed = TasksDown(*W1, (0,), EndCause.TASK_FAILED)
    assert [] == charged(1, failed)
    assert [f"{NAME}2 charged to rebalancer, and 1 runs end"] == charged(2, failed)


STOP_CAUSES: list[tuple[EndCause, bool]] = [
    (EndCause.TASK_FAILED, False),
    (EndCause.START_FAILED, False),
    (EndCause.REQUEUED, False),
    (EndCause.NODE_LOST, False),
    (EndCause.NODE_FAILED, False),
    (EndCause.TIMEOUT, False),
    (EndCause.DRAINED, False),
    (EndCause.MAINTENANCE, False),
    (EndCause.MOVED, False),
    (EndCause.CHANGED, False),
    (EndCause.ROUND_OVER, False),
    (EndCause.COMPLETED, False),
    (EndCause.CANCELLED, True),
    (EndCause.PREEMPTED, True),
    (EndCause.ABANDONED, True),
]


@pytest.mark.parametrize(("cause", "is_free"), STOP_CAUSES)
def test_stop_at_nobodys_charge(cause: EndCause, *, is_free: bool) -> None:
    """T27: the queue's log has a user's word, and rule 5 looks at preemption; whatever else is free must show why."""
    wanted = [] if is_free else [f"w-1.1: stopped by {cause} at nobody's charge"]
    assert wanted == broken(StopOrdered(*W1, cause), before=OF_GANG)
    assert [] == broken(StopOrdered(*W1, cause), before=OF_GANG[1:]), "an old term was held to nothing"
    assert {cause for cause, _ in STOP_CAUSES} == set(EndCause)


def test_stop_that_has_to_be() -> None:
    """A node is lost or closed; its time is up; an operation of it has begun."""
    lost = NodesLost(WorkerName("w0"), (0, 1, 2, 3))
    for cause in (EndCause.NODE_LOST, EndCause.NODE_FAILED):
        assert [] == broken(StopOrdered(*W1, cause), lost, before=OF_GANG)
        assert [] == broken(StopOrdered(*W1, cause), DRAINED, before=OF_GANG)
    limited = (*OF_GANG[:2], granted(replace(GANG, max_duration=9)), GangStarted(*W1))
    timeout = StopOrdered(*W1, EndCause.TIMEOUT)
    assert [] == broken(timeout, before=limited, after=9)
    assert ["w-1.1: stopped by timeout at nobody's charge"] == broken(timeout, before=limited, after=8)
    moved = StopOrdered(*W1, EndCause.MOVED)
    assert [] == broken(moved, asked(MOVE, WHOLE), answered(), begun(), before=OF_GANG)
    restart = (asked(RESTART, WHOLE), answered(), begun())
    assert ["w-1.1: stopped by moved at nobody's charge"] == broken(moved, *restart, before=OF_GANG)


def test_stops_beyond_a_budget() -> None:
    """T27: each order counts against whoever gave it."""
    gangs = [granted(a_claim(f"w-{n}", placed={0: 1}, gpus=0)) for n in range(DESTRUCTION_MIN + 1)]
    image = a_region(opened(), joined(), *gangs)
    for number in range(DESTRUCTION_MIN + 1):
        stop = StopOrdered(*attempt(f"w-{number}"), EndCause.TASK_FAILED, requester="broker.eu")
        fact = a_fact(stop, 200 + number, at=Instant(START + 200 * SECOND + number))
        found = check_control_fact(fact, image)
        image.fold(fact)
        if number < DESTRUCTION_MIN:
            assert [] == found
    assert [(6, "broker.eu stops 1 more after 60 in a minute, and 60 is its budget")] == found


# Asking and answering.


def test_request_that_cannot_be() -> None:
    """One operation a task, numbered through, of what runs and is touched like that, with no deadline in the past."""
    assert [] == broken(asked())
    assert [f"{NAME}operation 2 after 0"] == broken(asked(first=2))
    assert [f"{NAME}restart of task 0, which has an operation"] == broken(asked(first=2), asked())
    assert [f"{NAME}restart of task -1, which is not touched like that"] == broken(asked(RESTART, WHOLE))
    wanted = [f"{NAME}restart of task 0, which is not touched like that"]
    assert wanted == broken(asked(RESTART, 0), before=OF_GANG)
    assert [f"{NAME}restart with a deadline of -1"] == broken(asked(deadline=-1))
    stop = StopOrdered(*W1, EndCause.CANCELLED)
    assert [f"{NAME}restart asked for, and it does not run"] == broken(asked(), stop)
    assert ["w-1.1: OperationsRequested, and it has no tasks here"] == broken(
        asked(), before=(opened(), joined())
    )


def test_answer_that_does_not_count() -> None:
    """T10, T14: to another request, of what does not wait, or in a way that it does not know."""
    assert [] == broken(answered(), asked())
    wanted = [f"{NAME}answer to request 4 taken, and the newest is 5"]
    assert wanted == broken(answered(sequence=4), asked())
    assert [f"{NAME}ack of operation 9, which waits for none"] == broken(answered(9), asked())
    acked = broken(answered(sequence=6), asked(), answered())
    assert [f"{NAME}ack of operation 1, which waits for none"] == acked
    for answer in (Answer.MOVE, Answer.STOP_AND_RETURN, Answer.IGNORE):
        text = f"{NAME}ack of operation 1 by {answer}, which it does not know"
        assert [text] == broken(answered(answer=answer), asked())
    drain = (DRAINED, asked(MOVE, source="d-1"))
    assert [] == broken(answered(sequence=6, answer=Answer.MOVE), *drain)
    assert 1 == len(broken(answered(sequence=6, answer=Answer.STOP_AND_RETURN), *drain))
    work = (*WORK, asked(MOVE, source="m-1"))
    assert [] == broken(answered(sequence=8, answer=Answer.STOP_AND_RETURN), *work)
    assert 1 == len(broken(answered(sequence=8, answer=Answer.IGNORE), *work)), "it needs the node empty"
    waits = ControlAnswered(*W1, 5, (Ack(1, after_checkpoint=True),))
    assert 1 == len(broken(waits, asked())), "a task has no checkpoint"


def test_ack_that_expires() -> None:
    """Not before its lease, and only where there is one that does not wait."""
    expired = AcksExpired(*W1, (1,))
    assert [] == broken(expired, asked(), answered(), after=ACK_LEASE)
    too_soon = [f"{NAME}ack of operation 1 expired too soon"]
    assert too_soon == broken(expired, asked(), answered(), after=ACK_LEASE - 1)
    assert [f"{NAME}ack of operation 1 expired, and there is none"] == broken(expired, asked())
    waits = (*WORK, asked(MOVE, source="m-1"), answered(sequence=8, answer=Answer.STOP_AND_RETURN))
    assert too_soon == broken(expired, *waits, after=ACK_LEASE)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_end_of_an_operation_that_cannot_be(outcome: Outcome) -> None:
    """T12: healthy once its task is up after it, gone with its task, withdrawn before it begins, ignored by its controller's word."""

    def over(*history: Event) -> list[str]:
        return broken(OperationsDone(*W1, (1,), outcome), *history)

    asking, acked = (asked(),), (asked(), answered())
    begins = (*acked, begun())
    healthy = (*begins, TasksGone(*W1, (0,)), ClaimRevised(*W1, 1, (TaskMove(0, 0, 0),)), TasksUp(*W1, (0,)))
    text = f"{NAME}operation 1 is over as {outcome}, and it is "
    may = outcome is Outcome.WITHDRAWN
    assert ([] if may else [f"{text}asked"]) == over(*asking)
    assert ([] if may else [f"{text}acked"]) == over(*acked)
    assert [f"{text}begun"] == over(*begins)
    assert ([] if outcome is Outcome.HEALTHY else [f"{text}begun"]) == over(*healthy)
    assert [f"{NAME}operation 1 is over, and was not under way"] == over()


# Over all.


def changed(change: Callable[[RegionImage], None]) -> list[str]:
    """What is found once something was changed by hand."""
    image = a_region(*BEFORE, asked(RESTART, 0, 1), *WORK)
    assert [] == check_control(image)
    change(image)
    return check_control(image)


def test_images_that_do_not_agree() -> None:
    """Tasks and room, operations, closures: each is counted anew from the others."""

    def set_node(image: RegionImage) -> None:
        image.control.rows[W1[0]][1].tasks[0].node = 2

    def set_revision(image: RegionImage) -> None:
        image.control.rows[W1[0]][1].claim_revision = 5

    def drop_row(image: RegionImage) -> None:
        del image.control.rows[W1[0]]

    def drop_holding(image: RegionImage) -> None:
        del image.capacity.holdings[W1[0]]

    def double(image: RegionImage) -> None:
        image.control.rows[W1[0]][1].operations[2].task = 0

    def close(image: RegionImage) -> None:
        image.capacity.closed[2] = 1

    def forget(image: RegionImage) -> None:
        image.maintenance.rows.clear()

    assert ["w-1.1: its tasks are not where it holds room"] == changed(set_node)
    assert ["w-1.1: revision 5 of a claim of revision 0"] == changed(set_revision)
    assert ["w-1.1: holds room, and nothing is known of its tasks"] == changed(drop_row)
    assert ["w-1.1: has tasks, and holds no room"] == changed(drop_holding)
    assert ["w-1.1: 2 operations on task 0"] == changed(double)
    assert ["node 2: closed 1 times, by 0"] == changed(close)
    assert ["m-1: closes nodes, and is over"] == changed(forget)
