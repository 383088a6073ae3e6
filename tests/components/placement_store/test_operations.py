"""What a store lets be asked for, and which words about it count: on the newest request, of what was asked, by who may."""

import pytest
from msgspec.structs import replace

from core.component import NOTHING
from core.events.control import AcksExpired, ControlAnswered, OperationsDone, OperationsRequested, TasksUp
from core.images.control import TaskPhase
from core.messages.base import Refused
from core.messages.control import ChangeAttempt, ExpireAcks, OperateTasks, OperationsAccepted, RecordAnswer
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import ACK_LEASE, OPERATIONS_AT_ONCE_MAX, REASON_LENGTH_MAX
from core.nouns.maintenance import MaintenanceKind
from core.nouns.operation import WHOLE, Ack, Answer, BegunBy, OperationKind, Outcome
from core.nouns.reasons import Reason
from core.nouns.workload import Kind
from tests.builders import EU, a_job, attempt
from tests.components.support.placement_store import (
    Start,
    a_store,
    agreed,
    begin,
    consent,
    end,
    fail,
    gone,
    operate,
    revise,
    row_of,
    serve,
    stop,
    up,
)
from tests.components.support.store_requests import (
    MOVE,
    RESTART,
    START,
    STOP,
    UPDATE,
    begun,
    drain,
    kinds,
    plan,
    undrain,
    why_not,
)
from tests.matching import facts, said_once

# Asking.


def test_operation_is_asked_for_and_waits(start: Start) -> None:
    """T11, T17: nothing happens by it alone, however long it takes."""
    machine = a_store(start)
    serve(machine)
    decision = operate(machine, RESTART, 0, 2)
    wanted = OperationsRequested(*attempt(), 1, RESTART, (0, 2), "because", "", 0, "user:ada")
    assert [wanted] == facts(decision)
    assert OperationsAccepted((1, 2)) == said_once(decision, OperationsAccepted)
    machine.wait(seconds(30 * 24 * 3600))
    for by in BegunBy:
        assert NOTHING == begin(machine, 1, 2, by=by)


def test_operation_on_all_tasks(start: Start) -> None:
    """None named means each."""
    machine = a_store(start)
    serve(machine)
    assert (1, 2, 3, 4) == said_once(operate(machine, RESTART), OperationsAccepted).operations


def test_task_has_one_operation_at_a_time(start: Start) -> None:
    """Who asks for another is told of the one that is there."""
    machine = a_store(start)
    serve(machine)
    operate(machine, RESTART, 0)
    decision = operate(machine, MOVE, 0, 1)
    assert (1, 2) == said_once(decision, OperationsAccepted).operations
    assert [(1,)] == [event.tasks for event in facts(decision) if isinstance(event, OperationsRequested)]
    assert [] == facts(operate(machine, RESTART, 0))


def test_patience_gives_way_to_a_deadline(start: Start) -> None:
    """What waits for ever is withdrawn for what does not; the sooner deadline for another cause counts; what has begun stays."""
    machine = a_store(start)
    serve(machine)
    operate(machine, RESTART, 0)
    drain(machine, 0, deadline=seconds(600))
    decision = operate(machine, MOVE, 0, source="d-1", by="operator:olga")
    assert [OperationsDone, OperationsRequested] == kinds(decision)
    assert (2,) == said_once(decision, OperationsAccepted).operations
    assert [] == facts(operate(machine, MOVE, 0, source="d-1", by="operator:olga")), "asked for again"
    plan(machine, 0, starts_in=60)
    assert [OperationsDone, OperationsRequested] == kinds(operate(machine, MOVE, 0, source="m-1"))
    assert [] == facts(operate(machine, MOVE, 0, source="d-1")), "that one comes later"
    consent(machine, 3)
    begin(machine, 3)
    drain(machine, 0, deadline=seconds(1))
    assert [] == facts(operate(machine, MOVE, 0, source="d-2"))


@pytest.mark.parametrize(
    ("kind", "tasks"),
    [
        (RESTART, (9,)),
        (RESTART, (-7,)),
        (RESTART, (WHOLE,)),
        (START, (1 << 40,)),
        (START, (4,)),
        (OperationKind.RESIZE, ()),
        (OperationKind.CHECKPOINT_AND_STOP, (0,)),
    ],
)
def test_operation_that_a_service_cannot_have(
    start: Start, kind: OperationKind, tasks: tuple[int, ...]
) -> None:
    """Tasks that it does not have, and what is done to gangs: answered, and nothing is recorded."""
    machine = a_store(start)
    serve(machine)
    assert Reason.NOT_ALLOWED == why_not(operate(machine, kind, *tasks))
    assert {} == row_of(machine).operations


@pytest.mark.parametrize(("kind", "tasks"), [(STOP, ()), (START, ()), (RESTART, (0,)), (MOVE, (0, 1))])
def test_operation_that_a_gang_cannot_have(start: Start, kind: OperationKind, tasks: tuple[int, ...]) -> None:
    """It is touched whole; and to stop it for good is to cancel it."""
    machine = a_store(start)
    serve(machine, kind=Kind.TRAINING)
    assert Reason.NOT_ALLOWED == why_not(operate(machine, kind, *tasks))


def test_operation_that_is_not_well_formed(start: Start) -> None:
    """A deadline in the past, and texts without end: every problem at once."""
    machine = a_store(start)
    serve(machine)
    asked = OperateTasks(EU, *attempt(), RESTART, (), "x" * (REASON_LENGTH_MAX + 1), "s" * 200, -1, "r" * 200)
    refused = said_once(machine.hear(asked), Refused)
    assert Reason.INVALID == refused.reason
    assert ["deadline", "reason", "source", "requester"] == [text.split(":")[0] for text in refused.problems]


@pytest.mark.parametrize("phase", ["unknown", "stopping", "ended"])
def test_operation_on_an_attempt_that_does_not_run(start: Start, phase: str) -> None:
    """It has no task to touch."""
    machine = a_store(start)
    if phase != "unknown":
        serve(machine)
        stop(machine)
    if phase == "ended":
        end(machine)
    asked = OperateTasks(EU, *attempt(), RESTART, (), "because", first=1)
    assert Reason.NOT_RUNNING == why_not(machine.hear(asked))


def test_operation_that_was_asked_for_on_an_older_state(start: Start) -> None:
    """Heard late, it asks for nothing twice: who asked saw that other operation, and this one is not what follows it."""
    machine = a_store(start)
    serve(machine)
    asked = OperateTasks(EU, *attempt(), RESTART, (0,), "because", requester="user:ada", first=1)
    assert [OperationsRequested] == kinds(machine.hear(asked))
    consent(machine, 1)
    begin(machine, 1)
    gone(machine, 0)
    revise(machine, (0, 0, 0), agent="")
    up(machine, 0)
    assert Reason.SUPERSEDED == why_not(machine.hear(asked))


def test_more_tasks_than_a_fact_holds(start: Start) -> None:
    """The rest is asked for by asking again."""
    machine = a_store(start)
    count = OPERATIONS_AT_ONCE_MAX + 2
    serve(machine, {0: count}, gpus=0)
    assert OPERATIONS_AT_ONCE_MAX == len(said_once(operate(machine, RESTART), OperationsAccepted).operations)
    [event] = facts(operate(machine, RESTART))
    assert isinstance(event, OperationsRequested)
    assert (count - 2, count - 1) == event.tasks
    asked = range(1, count + 1)
    decision = consent(machine, *asked)
    assert [OPERATIONS_AT_ONCE_MAX, 2] == [
        len(e.acks) for e in facts(decision) if isinstance(e, ControlAnswered)
    ]
    assert {"acked"} == {operation.phase for operation in row_of(machine).operations.values()}


def test_deadline_is_counted_by_the_store(start: Start) -> None:
    """T15: what a drain or a window leaves is told by this log and clock, whatever whoever asks believes."""
    machine = a_store(start)
    serve(machine)
    drain(machine, 0, deadline=seconds(600))
    plan(machine, 1, starts_in=60)
    machine.wait(seconds(10))
    operate(machine, MOVE, 0, source="d-1", deadline=1)
    operate(machine, MOVE, 2, source="m-1", deadline=seconds(9999))
    left = [operation.deadline for operation in row_of(machine).operations.values()]
    assert [seconds(590), seconds(50)] == left
    undrain(machine, 0)
    drain(machine, 0)
    operate(machine, MOVE, 1, source="d-2", deadline=1)
    assert 0 == row_of(machine).operations[3].deadline, "a drain without a deadline waits for ever"


def test_operation_that_nothing_calls_for(start: Start) -> None:
    """A late repeat moves no task from a node that nobody drains, starts none that is up, updates none that is up to date."""
    machine = a_store(start)
    serve(machine)
    drain(machine, 0)
    assert [] == facts(operate(machine, MOVE, 2, source="d-1")), "it is on another node"
    assert Reason.SUPERSEDED == why_not(operate(machine, MOVE, 0, source="d-9"))
    assert [] == facts(operate(machine, START, 0))
    machine.hear(ChangeAttempt(EU, *attempt(), 1, (replace(a_job(4), tasks=3),)))
    assert [] == facts(operate(machine, UPDATE, 0, source="r-1")), "only how many there are has changed"
    assert [] == facts(operate(machine, STOP, 0, source="r-1")), "it is still wanted"
    assert [OperationsRequested] == kinds(operate(machine, STOP, 3, source="r-1"))
    assert Reason.SUPERSEDED == why_not(operate(machine, STOP, 3, source="r-2"))


# Answers.


def test_acks_of_any_subset(start: Start) -> None:
    """T11: what is acknowledged may begin, and nothing else does; the rest waits on."""
    machine = a_store(start)
    serve(machine)
    operate(machine, RESTART)
    assert [ControlAnswered] == kinds(consent(machine, 3, 1))
    assert [1, 3] == begun(begin(machine, 1, 2, 3, 4, 5))
    assert ["begun", "asked", "begun", "asked"] == [o.phase for o in row_of(machine).operations.values()]
    assert {0: TaskPhase.DOWN, 2: TaskPhase.DOWN} == {
        number: task.phase for number, task in row_of(machine).tasks.items() if task.phase != TaskPhase.UP
    }


def test_answers_that_count_for_nothing(start: Start) -> None:
    """T14: on an older request, on one that never was, of what is unknown, not asked, or acknowledged already."""
    machine = a_store(start)
    serve(machine)
    operate(machine, RESTART, 0)
    first = row_of(machine).changed
    operate(machine, RESTART, 1)
    for sequence in (first, 0, first + 99):
        assert NOTHING == consent(machine, 1, 2, sequence=sequence)
    assert NOTHING == consent(machine, 99, -1, 0)
    assert NOTHING == consent(machine)
    assert [(Ack(1),)] == [
        e.acks for e in facts(consent(machine, 1, 1, 99)) if isinstance(e, ControlAnswered)
    ]
    assert NOTHING == consent(machine, 1), "it has its word"
    assert NOTHING == machine.hear(RecordAnswer(EU, *attempt("w-9"), first, (Ack(1),)))


def test_word_that_was_given_without_knowing_of_a_loss(start: Start) -> None:
    """T13, T14: a task failed since it was asked, so the request is another; on that one the word counts."""
    machine = a_store(start)
    serve(machine)
    operate(machine, RESTART, 0)
    before = row_of(machine).changed
    fail(machine, 1)
    assert NOTHING == consent(machine, 1, sequence=before)
    assert [ControlAnswered] == kinds(consent(machine, 1))


def test_completed_is_told_once(start: Start) -> None:
    """T12: once the task is healthy again it is told, and when the telling is answered, told no more."""
    machine = a_store(start)
    serve(machine)
    agreed(machine, RESTART, 0)
    gone(machine, 0)
    revise(machine, (0, 0, 0), agent="")
    assert "begun" == row_of(machine).operations[1].phase
    assert [TasksUp, OperationsDone] == kinds(up(machine, 0))
    assert ("done", Outcome.HEALTHY) == (
        row_of(machine).operations[1].phase,
        row_of(machine).operations[1].outcome,
    )
    assert [ControlAnswered] == kinds(consent(machine))
    assert {} == row_of(machine).operations
    assert NOTHING == consent(machine), "nothing is left to be told"


@pytest.mark.parametrize(
    ("answer", "source", "kind", "counts"),
    [
        (Answer.MOVE, "m-1", MaintenanceKind.POWER, True),
        (Answer.MOVE, "d-1", MaintenanceKind.POWER, True),
        (Answer.MOVE, "", MaintenanceKind.POWER, False),
        (Answer.STOP_AND_RETURN, "m-1", MaintenanceKind.POWER, True),
        (Answer.STOP_AND_RETURN, "m-1", MaintenanceKind.NETWORK, True),
        (Answer.STOP_AND_RETURN, "d-1", MaintenanceKind.POWER, False),
        (Answer.STOP_AND_RETURN, "", MaintenanceKind.POWER, False),
        (Answer.IGNORE, "m-1", MaintenanceKind.NETWORK, True),
        (Answer.IGNORE, "m-1", MaintenanceKind.POWER, False),
        (Answer.IGNORE, "m-1", MaintenanceKind.REBOOT, False),
        (Answer.IGNORE, "m-1", MaintenanceKind.HARDWARE, False),
        (Answer.IGNORE, "d-1", MaintenanceKind.NETWORK, False),
    ],
)
def test_answers_that_an_operation_knows(
    start: Start, answer: Answer, source: str, kind: MaintenanceKind, *, counts: bool
) -> None:
    """T16: to move is always possible; to return needs a window that ends; to do nothing, work that kills nothing."""
    machine = a_store(start)
    serve(machine)
    drain(machine, 0)
    plan(machine, 0, kind=kind)
    operate(machine, MOVE, 0, source=source)
    assert counts == (consent(machine, 1, answer=answer) != NOTHING)


def test_task_that_stands_alone_waits_for_no_checkpoint(start: Start) -> None:
    """What a task of a service has saved, nobody is told."""
    machine = a_store(start)
    serve(machine)
    operate(machine, RESTART, 0)
    assert NOTHING == consent(machine, 1, after_checkpoint=True)


def test_ack_lease(start: Start) -> None:
    """A word that was not followed while it was fresh is void, not before; and only then may it be asked for again."""
    machine = a_store(start)
    serve(machine)
    operate(machine, RESTART, 0)
    consent(machine, 1)
    machine.wait(Nanoseconds(ACK_LEASE - 1))
    assert NOTHING == machine.hear(ExpireAcks(EU, *attempt(), (1,)))
    machine.wait(Nanoseconds(1))
    assert NOTHING == begin(machine, 1)
    assert [AcksExpired(*attempt(), (1,))] == facts(machine.hear(ExpireAcks(EU, *attempt(), (1, 1, 9))))
    assert NOTHING == begin(machine, 1)
    consent(machine, 1)
    assert [1] == begun(begin(machine, 1))


def test_acks_that_wait_do_not_expire(start: Start) -> None:
    """For a window, for a checkpoint, or because nothing is to be done."""
    machine = a_store(start)
    serve(machine)
    serve(machine, {2: 1}, workload="w-2", kind=Kind.TRAINING)
    plan(machine, 0, kind=MaintenanceKind.NETWORK, starts_in=9999)
    operate(machine, MOVE, 0, 1, source="m-1")
    consent(machine, 1, answer=Answer.STOP_AND_RETURN)
    consent(machine, 2, answer=Answer.IGNORE)
    operate(machine, MOVE, workload="w-2")
    consent(machine, 1, workload="w-2", after_checkpoint=True)
    machine.wait(Nanoseconds(2 * ACK_LEASE))
    assert NOTHING == machine.hear(ExpireAcks(EU, *attempt(), (1, 2)))
    assert NOTHING == machine.hear(ExpireAcks(EU, *attempt("w-2"), (1,)))
