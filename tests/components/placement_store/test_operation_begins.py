"""What a store lets begin: only what was acknowledged, allowed by limits or has come to its deadline."""

import pytest
from msgspec.structs import replace

from core.component import NOTHING
from core.events.control import (
    AttemptChanged,
    ClaimRevised,
    OperationsBegun,
    OperationsDone,
    TasksGone,
    TasksUp,
)
from core.events.region import StopOrdered
from core.messages.control import BeginOperations, ChangeAttempt, FinishOperations
from core.messages.nodes import CancelMaintenance, MoveMaintenance
from core.messages.store import RecordCheckpoint, RecordJoin, RecordLoss, RecordReturn
from core.nouns.ids import WorkerName
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.limits import MOVE_PATIENCE
from core.nouns.maintenance import MaintenanceKind, MaintenancePhase
from core.nouns.operation import WHOLE, Answer, BegunBy, ControlSpec, OperationKind, Outcome, TaskMove
from core.nouns.workload import Emulation, EndCause, Kind
from tests.builders import EU, EU_LOG, a_job, a_spread, an_inventory, attempt
from tests.components.support.placement_store import (
    Start,
    a_store,
    begin,
    consent,
    end,
    fail,
    gone,
    operate,
    revise,
    serve,
    stop,
    up,
)
from tests.components.support.store_requests import (
    ALONE,
    MOVE,
    RESTART,
    UPDATE,
    begun,
    drain,
    kinds,
    plan,
    undrain,
)
from tests.matching import facts


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


@pytest.mark.parametrize("kind", [Kind.SERVICE, Kind.TRAINING])
def test_stop_and_return_to_a_node_that_is_drained_meanwhile(start: Start, kind: Kind) -> None:
    """T16: whoever says it, nothing starts there again; a task of a service may go elsewhere, also before the work is over."""
    machine = a_store(start)
    serve(machine, kind=kind)
    name = plan(machine, 0, kind=MaintenanceKind.NETWORK, starts_in=60)
    is_gang = kind is Kind.TRAINING
    task = WHOLE if is_gang else 0
    operate(machine, MOVE, *([] if is_gang else [0]), source=name)
    consent(machine, 1, answer=Answer.STOP_AND_RETURN)
    machine.wait(seconds(60))
    machine.hear(MoveMaintenance(EU, name, MaintenancePhase.OPEN))
    begin(machine, 1)
    gone(machine, task)
    machine.wait(Nanoseconds(1))
    drain(machine, 0)
    here = (WHOLE, -1, -1) if is_gang else (0, 0, 0)
    assert NOTHING == revise(machine, here, agent="")
    machine.wait(Nanoseconds(MOVE_PATIENCE - 1))
    machine.hear(MoveMaintenance(EU, name, MaintenancePhase.OVER))
    assert NOTHING == revise(machine, here, agent="")
    if not is_gang:
        assert [ClaimRevised(*attempt(), 1, (TaskMove(0, 0, 3),))] == facts(revise(machine, (0, 0, 3)))
        return
    machine.wait(MOVE_PATIENCE)
    assert NOTHING == revise(machine, here, agent=""), "a gang goes back to the queue"
    undrain(machine, 0)
    assert [ClaimRevised(*attempt(), 1, (TaskMove(*here),))] == facts(revise(machine, here, agent=""))


@pytest.mark.parametrize(
    ("deadline", "may"), [(0, True), (MOVE_PATIENCE + seconds(1), True), (MOVE_PATIENCE, False)]
)
def test_stop_and_return_where_no_other_place_is(start: Start, deadline: int, *, may: bool) -> None:
    """T16, T17: it looked elsewhere for long, and nobody agreed that it leaves: it returns, unless the drain's deadline has come."""
    machine = a_store(start)
    serve(machine)
    name = plan(machine, 0, kind=MaintenanceKind.NETWORK, starts_in=60)
    operate(machine, MOVE, 0, source=name)
    consent(machine, 1, answer=Answer.STOP_AND_RETURN)
    machine.wait(seconds(60))
    machine.hear(MoveMaintenance(EU, name, MaintenancePhase.OPEN))
    begin(machine, 1)
    gone(machine, 0)
    drain(machine, 0, deadline=deadline)
    machine.wait(MOVE_PATIENCE)
    assert NOTHING == revise(machine, (0, 0, 0), agent=""), "the work goes on"
    machine.hear(MoveMaintenance(EU, name, MaintenancePhase.OVER))
    returned = [ClaimRevised(*attempt(), 1, (TaskMove(0, 0, 0),))]
    assert (returned if may else []) == facts(revise(machine, (0, 0, 0), agent=""))


def test_stop_and_return_for_a_cancelled_maintenance(start: Start) -> None:
    """T16: the window never comes, so nothing stops, at no requester's word."""
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


def test_pacing_does_not_hold_tasks_that_are_down_already(start: Start) -> None:
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


def test_begin_of_an_operation_that_is_not_there(start: Start) -> None:
    """It is unknown, begun already, over, or of an attempt that is told to stop."""
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
