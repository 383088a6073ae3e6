"""What a store lets happen to tasks: only what was acknowledged, allowed by limits or has come to its deadline; and by whose word."""

from typing import Any

import pytest
from msgspec.structs import replace

from core.component import NOTHING, Decision
from core.events.control import (
    AcksExpired,
    AttemptChanged,
    ClaimRevised,
    ControlAnswered,
    ControlForgotten,
    OperationsBegun,
    OperationsDone,
    OperationsRequested,
    OperationsStuck,
    TasksDown,
    TasksGone,
    TasksUp,
)
from core.events.queue import AttemptClosed, WorkloadAwarded, WorkloadBound, WorkloadCancelled
from core.events.region import GangStarted, StopOrdered
from core.fact import Event
from core.images.control import TaskPhase
from core.messages.base import Refused
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
    RecordTasksDown,
    RecordTasksUp,
)
from core.messages.nodes import (
    CancelMaintenance,
    DrainNodes,
    MoveMaintenance,
    PlanMaintenance,
    UndrainNodes,
)
from core.messages.store import RecordCheckpoint, RecordJoin, RecordLoss, RecordReturn, RecordStarted
from core.nouns.ids import GLOBAL_LOG, WorkerName
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.limits import (
    ACK_LEASE,
    CONTROL_RETENTION,
    OPERATIONS_AT_ONCE_MAX,
    REASON_LENGTH_MAX,
    STUCK_SPAN,
)
from core.nouns.maintenance import MaintenanceKind, MaintenancePhase, Scope, ScopeKind
from core.nouns.operation import WHOLE, Ack, Answer, BegunBy, ControlSpec, OperationKind, Outcome, TaskMove
from core.nouns.reasons import Reason
from core.nouns.workload import Emulation, EndCause, Kind, Phase
from tests.builders import EU, EU_LOG, US, a_job, a_spread, an_inventory, attempt
from tests.components.machine import Machine
from tests.components.storing import (
    W1,
    Start,
    a_store,
    agreed,
    begin,
    close,
    consent,
    end,
    fail,
    gone,
    operate,
    revise,
    row_of,
    runs,
    serve,
    stop,
    up,
)
from tests.matching import facts, said_once

RESTART, MOVE, UPDATE = OperationKind.RESTART, OperationKind.MOVE, OperationKind.UPDATE
START, STOP = OperationKind.START, OperationKind.STOP
ALONE = ControlSpec(unavailable_max=1)
"""Nobody is asked, and one of its tasks may be unavailable."""


def kinds(decision: Decision) -> list[type[Event]]:
    """What sorts of facts are recorded."""
    return [type(event) for event in facts(decision)]


def begun(decision: Decision) -> list[int]:
    """Which operations begin."""
    return [n for event in facts(decision) if isinstance(event, OperationsBegun) for n in event.operations]


def why_not(decision: Decision) -> Reason:
    """Why a request was refused."""
    return Reason(said_once(decision, Refused).reason)


def drain(machine: Machine[Any], *nodes: int, deadline: int = 0) -> Decision:
    """An operator wants these nodes empty."""
    scope = Scope(ScopeKind.NODE, tuple(map(str, nodes)))
    revision = machine.state.image.maintenance.revision
    return machine.hear(DrainNodes(EU, scope, "new cables", revision, deadline, "olga"))


def undrain(machine: Machine[Any], *nodes: int) -> Decision:
    """And not any more."""
    scope = Scope(ScopeKind.NODE, tuple(map(str, nodes)))
    return machine.hear(UndrainNodes(EU, scope, machine.state.image.maintenance.revision, "olga"))


def plan(
    machine: Machine[Any], *nodes: int, kind: MaintenanceKind = MaintenanceKind.POWER, starts_in: float = 60
) -> str:
    """Work on these nodes, of which notice is given at once. Returns its name."""
    planned = machine.state.image.maintenance.planned
    scope = Scope(ScopeKind.NODE, tuple(map(str, nodes)))
    span = seconds(starts_in)
    machine.hear(PlanMaintenance(EU, scope, kind, span, seconds(60), span, planned, "switchboard", "olga"))
    name = f"m-{planned + 1}"
    machine.hear(MoveMaintenance(EU, name, MaintenancePhase.NOTICED))
    return name


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
def test_operation_on_what_does_not_run(start: Start, phase: str) -> None:
    """There is nothing to touch."""
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


# Beginning.


def test_begin_by_a_checkpoint(start: Start) -> None:
    """T11, T18: a gang that agreed on condition of one is stopped once it has saved another than it had, whole."""
    machine = a_store(start)
    serve(machine, kind=Kind.TRAINING)
    machine.hear(RecordCheckpoint(EU, *attempt(), 70))
    operate(machine, MOVE)
    consent(machine, 1, after_checkpoint=True)
    assert NOTHING == begin(machine, 1)
    machine.hear(RecordCheckpoint(EU, *attempt(), 71))
    wanted = [
        OperationsBegun(*attempt(), (1,), BegunBy.ACK, "user:ada", 0),
        StopOrdered(*attempt(), EndCause.MOVED),
    ]
    assert wanted == facts(begin(machine, 1))


def test_begin_by_deadline(start: Start) -> None:
    """T15, T17: an involuntary one begins unasked, and not a moment before its time; an optional one never does."""
    machine = a_store(start)
    serve(machine)
    operate(machine, MOVE, 0, deadline=30 * SECOND)
    operate(machine, RESTART, 1)
    machine.wait(Nanoseconds(30 * SECOND - 1))
    assert NOTHING == begin(machine, 1, 2, by=BegunBy.DEADLINE)
    machine.wait(Nanoseconds(1))
    assert [1] == begun(begin(machine, 1, 2, by=BegunBy.DEADLINE))


def test_deadline_counts_neither_limits_nor_budgets(start: Start) -> None:
    """T15: at the deadline whatever remains is stopped regardless; an ack that came is as good as none."""
    machine = a_store(start)
    serve(machine, control=ControlSpec("shards", unavailable_max=1))
    plan(machine, 0, 1, starts_in=60)
    operate(machine, MOVE, source="m-1", by="operator:olga")
    consent(machine, 4)
    machine.wait(seconds(60))
    decision = begin(machine, 1, 2, 3, 4, by=BegunBy.DEADLINE)
    assert [OperationsBegun(*attempt(), (1, 2, 3, 4), BegunBy.DEADLINE, "operator:olga", 0)] == facts(
        decision
    )


def test_ignored_operation_is_left_alone(start: Start) -> None:
    """T16: its controller wants nothing done, and nothing is: not by its word, not at the deadline."""
    machine = a_store(start)
    serve(machine)
    name = plan(machine, 0, kind=MaintenanceKind.NETWORK, starts_in=60)
    operate(machine, MOVE, 0, source=name)
    consent(machine, 1, answer=Answer.IGNORE)
    machine.wait(seconds(60))
    machine.hear(MoveMaintenance(EU, name, MaintenancePhase.OPEN))
    for by in BegunBy:
        assert NOTHING == begin(machine, 1, by=by)
    ignored = FinishOperations(EU, *attempt(), (1,), Outcome.IGNORED)
    assert [OperationsDone] == kinds(machine.hear(ignored))


def test_stop_and_return(start: Start) -> None:
    """T16: it stops when the window opens, not before; keeps its room; and starts there again when it is over, not before."""
    machine = a_store(start)
    serve(machine)
    name = plan(machine, 0, kind=MaintenanceKind.NETWORK, starts_in=60)
    operate(machine, MOVE, 0, source=name)
    consent(machine, 1, answer=Answer.STOP_AND_RETURN)
    assert NOTHING == begin(machine, 1), "its window has not come"
    machine.wait(seconds(60))
    machine.hear(MoveMaintenance(EU, name, MaintenancePhase.OPEN))
    assert [1] == begun(begin(machine, 1))
    gone(machine, 0)
    assert NOTHING == revise(machine, (0, 0, 0), agent=""), "the work goes on"
    machine.wait(seconds(60))
    machine.hear(MoveMaintenance(EU, name, MaintenancePhase.OVER))
    assert [ClaimRevised(*attempt(), 1, (TaskMove(0, 0, 0),))] == facts(revise(machine, (0, 0, 0), agent=""))
    assert [TasksUp, OperationsDone] == kinds(up(machine, 0))


def test_stop_and_return_of_what_is_cancelled(start: Start) -> None:
    """T16: the window never comes, so nothing stops, by nobody's word."""
    machine = a_store(start)
    serve(machine)
    name = plan(machine, 0, starts_in=60)
    operate(machine, MOVE, 0, source=name)
    consent(machine, 1, answer=Answer.STOP_AND_RETURN)
    machine.hear(CancelMaintenance(EU, name))
    machine.wait(seconds(120))
    for by in BegunBy:
        assert NOTHING == begin(machine, 1, by=by)


def test_operation_of_a_drain_that_was_lifted(start: Start) -> None:
    """T17: wholly or for this node: it does not begin, though it was acknowledged or its time has come."""
    machine = a_store(start)
    serve(machine)
    drain(machine, 0, 1, deadline=seconds(60))
    operate(machine, MOVE, 0, 2, source="d-1")
    consent(machine, 1, 2)
    undrain(machine, 0)
    machine.wait(seconds(60))
    assert [2] == begun(begin(machine, 1, 2, by=BegunBy.DEADLINE))


def test_operation_of_a_change_that_was_changed_again(start: Start) -> None:
    """What it was to become is not what is wanted now."""
    machine = a_store(start)
    claim = serve(machine)
    for revision in (1, 2):
        job = replace(claim.jobs[0], emulation=Emulation(work=seconds(revision)))
        assert [AttemptChanged] == kinds(machine.hear(ChangeAttempt(EU, *attempt(), revision, (job,))))
        operate(machine, UPDATE, revision - 1, source=f"r-{revision}")
    consent(machine, 1, 2)
    assert [2] == begun(begin(machine, 1, 2))


def test_limits_decide_where_no_controller_is_named(start: Start) -> None:
    """T18: nobody is asked, and nobody's word counts; with a controller the limits alone let nothing begin."""
    machine = a_store(start)
    serve(machine, control=ALONE)
    operate(machine, RESTART)
    assert NOTHING == begin(machine, 1, by=BegunBy.ACK)
    assert [1] == begun(begin(machine, 1, 2, 3, 4, by=BegunBy.LIMITS))
    assert [] == begun(begin(machine, 2, 3, 4, by=BegunBy.LIMITS))
    gone(machine, 0)
    revise(machine, (0, 0, 0), agent="")
    assert [] == begun(begin(machine, 2, 3, 4, by=BegunBy.LIMITS)), "it is not up yet"
    up(machine, 0)
    assert [3] == begun(begin(machine, 3, 4, by=BegunBy.LIMITS))


@pytest.mark.parametrize("cause", ["a release", "a failure", "a lost node"])
def test_pacing_counts_whatever_is_unavailable(start: Start, cause: str) -> None:
    """T18: too many tasks are unavailable, whatever the cause: releases halt even if acknowledged."""
    machine = a_store(start)
    machine.hear(RecordJoin(EU, an_inventory("w1", 4, 1)))
    serve(machine, {0: 2, 4: 1}, control=ControlSpec("shards", unavailable_max=1))
    operate(machine, RESTART, 0)
    if cause == "a release":
        operate(machine, RESTART, 1)
        consent(machine, 2)
        begin(machine, 2)
    elif cause == "a failure":
        fail(machine, 1)
    else:
        machine.hear(RecordLoss(EU, WorkerName("w1"), machine.sequence(EU_LOG)))
    consent(machine, 1)
    assert NOTHING == begin(machine, 1)


def test_pacing_does_not_hold_what_is_down_already(start: Start) -> None:
    """T18: a restart of a task that is not up takes nothing more away."""
    machine = a_store(start)
    serve(machine, control=ControlSpec("shards", unavailable_max=1))
    fail(machine, 0)
    fail(machine, 1)
    operate(machine, RESTART, 0, 2)
    consent(machine, 1, 2)
    assert [1] == begun(begin(machine, 1, 2))


def test_pacing_of_each_job_by_itself(start: Start) -> None:
    """T18: a tenth of a job's tasks, at least one, unless it says how many."""
    machine = a_store(start)
    jobs = (a_job(20, 0.25), a_job(2, 0.25, name="eval"))
    spreads = (a_spread({0: 10, 1: 10}), a_spread({2: 2}))
    serve(machine, control=ControlSpec("shards"), jobs=jobs, spreads=spreads)
    operate(machine, RESTART)
    consent(machine, *range(1, 23))
    assert [1, 2, 21] == begun(begin(machine, *range(1, 23)))


def test_begin_of_what_is_not_there(start: Start) -> None:
    """Unknown, begun already, over, or of what is told to stop."""
    machine = a_store(start)
    serve(machine)
    operate(machine, RESTART, 0, 1)
    consent(machine, 1, 2)
    assert NOTHING == begin(machine, 99, 0, -1)
    assert [1] == begun(begin(machine, 1, 1, 1))
    assert NOTHING == begin(machine, 1)
    stop(machine)
    assert NOTHING == begin(machine, 2)
    end(machine)
    assert NOTHING == begin(machine, 2)
    assert NOTHING == machine.hear(BeginOperations(EU, *attempt("w-9"), (1,), BegunBy.ACK))


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        (MOVE, EndCause.MOVED),
        (UPDATE, EndCause.CHANGED),
        (OperationKind.RESIZE, EndCause.CHANGED),
        (OperationKind.CHECKPOINT_AND_STOP, EndCause.MOVED),
    ],
)
def test_gang_that_goes_back_to_the_queue(start: Start, kind: OperationKind, cause: EndCause) -> None:
    """Whole, in the batch of the begin, with its cause."""
    machine = a_store(start)
    serve(machine, kind=Kind.TRAINING)
    operate(machine, kind)
    consent(machine, 1)
    if kind is OperationKind.CHECKPOINT_AND_STOP:
        assert [] == facts(begin(machine, 1)), "not before a checkpoint is written"
        machine.hear(RecordCheckpoint(EU, *attempt(), 7))
    assert [cause] == [event.cause for event in facts(begin(machine, 1)) if isinstance(event, StopOrdered)]


def test_gang_that_is_drained_or_worked_on(start: Start) -> None:
    """Its cause is the operator's."""
    for source, cause in (("d-1", EndCause.DRAINED), ("m-1", EndCause.MAINTENANCE)):
        machine = a_store(start)
        serve(machine, kind=Kind.TRAINING)
        drain(machine, 0)
        plan(machine, 0)
        operate(machine, MOVE, source=source)
        consent(machine, 1)
        assert [cause] == [e.cause for e in facts(begin(machine, 1)) if isinstance(e, StopOrdered)]


def test_gang_that_stops_and_returns(start: Start) -> None:
    """T16: its attempt lives on, paused; its worker may even be lost and back; then it starts where it was."""
    machine = a_store(start)
    serve(machine, kind=Kind.TRAINING)
    name = plan(machine, 0, starts_in=60)
    operate(machine, MOVE, source=name)
    consent(machine, 1, answer=Answer.STOP_AND_RETURN)
    machine.wait(seconds(60))
    machine.hear(MoveMaintenance(EU, name, MaintenancePhase.OPEN))
    assert [OperationsBegun] == kinds(begin(machine, 1))
    assert [TasksGone(*attempt(), (WHOLE,))] == facts(gone(machine, WHOLE))
    machine.hear(RecordLoss(EU, WorkerName("w0"), machine.sequence(EU_LOG)))
    assert NOTHING == revise(machine, (WHOLE, -1, -1), agent=""), "its nodes are away"
    assert facts(machine.hear(RecordReturn(EU, WorkerName("w0"), machine.sequence(EU_LOG))))
    assert NOTHING == revise(machine, (WHOLE, -1, -1), agent=""), "the work goes on"
    machine.wait(seconds(60))
    machine.hear(MoveMaintenance(EU, name, MaintenancePhase.OVER))
    assert [ClaimRevised] == kinds(revise(machine, (WHOLE, -1, -1), agent=""))
    assert [TasksUp, OperationsDone] == kinds(up(machine, WHOLE))
    held = machine.state.image.capacity.holding(*attempt())
    assert held is not None
    assert (1, (0, 1)) == (held.claim.revision, held.claim.spreads[0].nodes)


# Ending.


def test_stuck_alarm(start: Start) -> None:
    """Told once, and not before it has taken long."""
    machine = a_store(start)
    serve(machine)
    agreed(machine, RESTART, 0)
    mark = MarkStuck(EU, *attempt(), (1, 1, 9))
    machine.wait(Nanoseconds(STUCK_SPAN - 1))
    assert NOTHING == machine.hear(mark)
    machine.wait(Nanoseconds(1))
    assert [OperationsStuck(*attempt(), (1,))] == facts(machine.hear(mark))
    assert NOTHING == machine.hear(mark)


def test_what_an_operation_cannot_come_to(start: Start) -> None:
    """T12: healthy only when its task is up after it; withdrawn only before it begins; ignored only at its controller's word."""
    machine = a_store(start)
    serve(machine)
    operate(machine, RESTART, 0, 1)

    def finish(outcome: Outcome) -> Decision:
        return machine.hear(FinishOperations(EU, *attempt(), (1,), outcome))

    for outcome in (Outcome.HEALTHY, Outcome.GONE, Outcome.IGNORED):
        assert NOTHING == finish(outcome), "asked"
    consent(machine, 1)
    for outcome in (Outcome.HEALTHY, Outcome.GONE, Outcome.IGNORED):
        assert NOTHING == finish(outcome), "acked"
    begin(machine, 1)
    for outcome in Outcome:
        assert NOTHING == finish(outcome), "begun"
    withdrawn = FinishOperations(EU, *attempt(), (2, 2, 9), Outcome.WITHDRAWN)
    assert [OperationsDone(*attempt(), (2,), Outcome.WITHDRAWN)] == facts(machine.hear(withdrawn))
    assert NOTHING == machine.hear(withdrawn)


def test_start_of_a_task_that_is_not_wanted_any_more(start: Start) -> None:
    """It was to be, and has no room yet: it is withdrawn though it has begun, and nothing is left of it."""
    machine = a_store(start)
    claim = serve(machine)
    machine.hear(ChangeAttempt(EU, *attempt(), 1, (replace(claim.jobs[0], tasks=5),)))
    agreed(machine, START, 4)
    assert 4 in row_of(machine).tasks
    machine.hear(FinishOperations(EU, *attempt(), (1,), Outcome.WITHDRAWN))
    assert [0, 1, 2, 3] == sorted(row_of(machine).tasks)


def ended_gang(start: Start) -> Machine[Any]:
    """A gang that was moved, and has ended here."""
    machine = a_store(start)
    serve(machine, kind=Kind.TRAINING)
    agreed(machine, MOVE)
    end(machine, cause=EndCause.MOVED)
    return machine


def test_gang_operation_is_over_once_the_queue_shows_it(start: Start) -> None:
    """T12: not by its end here; up elsewhere, it is healthy; ended for good, gone: by the queue's log, whoever says so."""
    healthy = FinishOperations(EU, *attempt(), (1,), Outcome.HEALTHY)
    over = FinishOperations(EU, *attempt(), (1,), Outcome.GONE)
    machine = ended_gang(start)
    close(machine)
    for said in (healthy, over):
        assert NOTHING == machine.hear(said)
    machine.fact(GLOBAL_LOG, WorkloadAwarded(W1, 2, US, 0, ()))
    assert NOTHING == machine.hear(healthy)
    machine.fact(GLOBAL_LOG, WorkloadBound(W1, 2, US, 1))
    assert NOTHING == machine.hear(over)
    assert [OperationsDone(*attempt(), (1,), Outcome.HEALTHY)] == facts(machine.hear(healthy))
    machine = ended_gang(start)
    machine.fact(
        GLOBAL_LOG, AttemptClosed(W1, 1, EndCause.MOVED, Phase.PENDING, EU, 1), WorkloadCancelled(W1)
    )
    assert NOTHING == machine.hear(healthy)
    assert [OperationsDone(*attempt(), (1,), Outcome.GONE)] == facts(machine.hear(over))


def test_what_is_to_be_told_is_not_forgotten_too_soon(start: Start) -> None:
    """An hour, in which a controller may come back."""
    machine = ended_gang(start)
    forget = ForgetControl(EU, *attempt())
    machine.wait(Nanoseconds(CONTROL_RETENTION - 1))
    assert NOTHING == machine.hear(forget)
    machine.wait(Nanoseconds(1))
    assert [ControlForgotten(*attempt())] == facts(machine.hear(forget))
    assert NOTHING == machine.hear(forget)
    serve(machine, {2: 1}, workload="w-2")
    assert NOTHING == machine.hear(ForgetControl(EU, *attempt("w-2")))


# Changes.


def test_change_counts_when_it_is_newer(start: Start) -> None:
    """And of the same shape: its room was granted for that."""
    machine = a_store(start)
    job = serve(machine).jobs[0]
    other = replace(job, emulation=Emulation(work=seconds(5)))

    def change(revision: int, *jobs: object) -> Decision:
        return machine.hear(ChangeAttempt(EU, *attempt(), revision, jobs))  # type: ignore[arg-type]  # jobs

    assert [AttemptChanged(*attempt(), 2, (other,))] == facts(change(2, other))
    assert NOTHING == change(2, job)
    assert NOTHING == change(1, job)
    for wrong in (
        (),
        (other, other),
        (replace(other, name="x"),),
        (replace(other, gpu_type="A100"),),
        (a_job(4, 2),),
    ):
        assert NOTHING == change(3, *wrong)
    end(machine)
    assert NOTHING == change(4, other)


# Runs.


def test_words_on_older_runs(start: Start) -> None:
    """A newer run is not taken down by what became of the one before it, nor called up."""
    machine = a_store(start)
    serve(machine)
    old = runs(machine, (0,))
    agreed(machine, RESTART, 0)
    gone(machine, 0)
    revise(machine, (0, 0, 0), agent="")
    assert NOTHING == machine.hear(
        RecordTasksDown(EU, *attempt(), old, EndCause.TASK_FAILED, 1, is_gone=True)
    )
    assert NOTHING == machine.hear(RecordTasksUp(EU, *attempt(), old))
    assert [TasksUp] == kinds(up(machine, 0))[:1]
    assert NOTHING == up(machine, 0)
    assert NOTHING == gone(machine, 0), "it is up"
    for is_gone in (False, True):
        fail(machine, 0, is_gone=is_gone)
        assert NOTHING == up(machine, 0), "nothing was started"


def test_task_that_fails(start: Start) -> None:
    """T13: out of discovery first; what is left of it is told later, or at once."""
    machine = a_store(start)
    serve(machine)
    assert [TasksDown] == kinds(fail(machine, 0, is_gone=False))
    assert NOTHING == fail(machine, 0, is_gone=False)
    assert [TasksGone] == kinds(fail(machine, 0))
    assert NOTHING == fail(machine, 0)
    assert [TasksDown] == kinds(fail(machine, 1))
    assert TaskPhase.GONE == row_of(machine).tasks[1].phase
    assert [0, 1] == row_of(machine).unavailable()


def test_task_that_stops_for_good(start: Start) -> None:
    """Its room is free in the batch in which it is gone; so it is if it was gone before, or its node was lost and is back."""
    machine = a_store(start)
    serve(machine)
    agreed(machine, STOP, 0)
    assert [TasksGone, ClaimRevised, OperationsDone] == kinds(gone(machine, 0))
    fail(machine, 1)
    assert [OperationsBegun, ClaimRevised, OperationsDone] == kinds(agreed(machine, STOP, 1))
    agreed(machine, STOP, 2)
    machine.hear(RecordLoss(EU, WorkerName("w0"), machine.sequence(EU_LOG)))
    back = machine.hear(RecordReturn(EU, WorkerName("w0"), machine.sequence(EU_LOG)))
    assert [ClaimRevised, OperationsDone] == kinds(back)[1:]
    assert [3] == sorted(row_of(machine).tasks)
    assert [8_000, 7_000, 8_000, 8_000] == machine.state.image.capacity.gpu.free


def test_started_gang_of_single_tasks(start: Start) -> None:
    """T12: one that was replaced before all were up is healthy with the rest; what was begun on it is over."""
    machine = a_store(start)
    serve(machine, {0: 1, 1: 1}, is_started=False)
    assert [TaskPhase.STARTING] * 2 == [task.phase for task in row_of(machine).tasks.values()]
    fail(machine, 1, cause=EndCause.NODE_FAILED)
    agreed(machine, START, 1)
    assert [ClaimRevised] == kinds(revise(machine, (1, 1, 2)))
    assert [GangStarted, OperationsDone] == kinds(machine.hear(RecordStarted(EU, *attempt())))
    assert {TaskPhase.UP} == {task.phase for task in row_of(machine).tasks.values()}


def test_gang_that_was_restarted_before_it_was_up(start: Start) -> None:
    """It counts as started once it is up for the first time, whichever run that is; and its operation is over."""
    machine = a_store(start)
    serve(machine, kind=Kind.TRAINING, is_started=False)
    agreed(machine, RESTART)
    gone(machine, WHOLE)
    revise(machine, (WHOLE, -1, -1), agent="")
    assert [GangStarted, OperationsDone] == kinds(up(machine, WHOLE))
    assert (TaskPhase.UP, 1) == (row_of(machine).tasks[WHOLE].phase, row_of(machine).tasks[WHOLE].run)
    assert NOTHING == machine.hear(RecordStarted(EU, *attempt()))
