"""How the broker stops a gang where it is, and brings it up again there."""

import pytest
from msgspec.structs import replace

from core.events.control import (
    ClaimRevised,
    MaintenanceMoved,
    MaintenancePlanned,
    NodesClosed,
    NodesOpened,
    TasksGone,
    TasksUp,
)
from core.events.region import (
    AttemptEnded,
    CheckpointCommitted,
    ClaimGranted,
    NodesLost,
    NodesReturned,
    StopOrdered,
)
from core.fact import Event
from core.messages.control import RecordTasksGone, RecordTasksUp, ReviseClaim
from core.messages.store import OrderStop, RecordCheckpoint, RecordEnd, RecordStarted
from core.messages.workers import EndRecorded, PrepareTasks, StartTasks, StopTasks
from core.nouns.ids import WorkerName
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import COMMAND_SAY_AGAIN, GRACE, START_SPAN
from core.nouns.maintenance import ClosureKind, MaintenanceKind, MaintenancePhase, Scope, ScopeKind
from core.nouns.operation import WHOLE, Answer, ControlSpec, OperationKind, TaskMove
from core.nouns.workload import EndCause
from tests.builders import EU, EU_LOG, attempt, granted, joined
from tests.components.support.region_broker import (
    ENDED,
    GANG,
    NEVER,
    PREPARED,
    RUNNING,
    STOPPING,
    W0,
    W1,
    Broker,
    Start,
    running,
    with_gang,
    words,
)
from tests.matching import said, said_once

W2 = WorkerName("w2")
STOPPED = replace(ENDED, exit_code=143)
HERE = TaskMove(WHOLE, -1, -1)
PLANNED = MaintenancePlanned(
    "m-1",
    MaintenanceKind.REBOOT,
    Scope(ScopeKind.NODE, ("2", "3")),
    ((2, 3),),
    seconds(600),
    seconds(300),
    seconds(300),
)


def restarting(start: Start, *before: Event) -> Broker:
    """It is to be restarted where it is."""
    broker = running(start)
    broker.machine.fact(EU_LOG, *before)
    broker.begin(OperationKind.RESTART)
    return broker


def gone(broker: Broker) -> Broker:
    """It is stopped, nothing of it runs, and the log shows it."""
    broker.machine.wake()
    broker.both(STOPPED)
    broker.machine.fact(EU_LOG, TasksGone(*attempt(), (WHOLE,)))
    return broker


def revised(broker: Broker, revision: int = 1) -> Broker:
    """The log shows its next run."""
    broker.machine.wake()
    broker.machine.fact(EU_LOG, ClaimRevised(*attempt(), revision, (HERE,)))
    return broker


def maintained(start: Start, gang: ClaimGranted | None = None) -> Broker:
    """It stopped for a maintenance of its second worker's nodes, to return after it; the worker is there."""
    closed = NodesClosed("m-1", ClosureKind.MAINTENANCE, ((2, 3),), "reboot")
    noticed = MaintenanceMoved("m-1", MaintenancePhase.NOTICED)
    broker = running(start, gang)
    broker.machine.fact(EU_LOG, PLANNED, noticed, closed, MaintenanceMoved("m-1", MaintenancePhase.OPEN))
    broker.begin(OperationKind.MOVE, source="m-1", answer=Answer.STOP_AND_RETURN)
    return gone(broker)


def over(broker: Broker) -> None:
    """The maintenance is over."""
    opened = NodesOpened("m-1", ClosureKind.MAINTENANCE, ((2, 3),))
    broker.machine.fact(EU_LOG, MaintenanceMoved("m-1", MaintenancePhase.OVER), opened)


# Down.


def test_gang_that_is_restarted_stops_whole(start: Start) -> None:
    """Every share, until it says that it heard; when none runs that is recorded, and nothing ends."""
    broker = restarting(start)
    assert [(W0, 0), (W1, 0)] == [(one.worker, one.run) for one in said(broker.machine.wake(), StopTasks)]
    broker.report(W0, STOPPING)
    assert {W1} == {one.worker for one in said(broker.wait(COMMAND_SAY_AGAIN, W0, W1), StopTasks)}
    broker.report(W0, STOPPED)
    assert NEVER == words(broker.machine.wake(), RecordTasksGone)
    broker.report(W1, STOPPED)
    record = RecordTasksGone(EU, *attempt(), ((WHOLE, 0),))
    assert [record] == words(broker.machine.wake())
    assert record in words(broker.wait(COMMAND_SAY_AGAIN, W0, W1))


def test_checkpoint_of_a_gang_that_is_restarted(start: Start) -> None:
    """Written as it stopped: recorded before anything makes its worker forget it."""
    broker = restarting(start)
    broker.machine.wake()
    broker.report(W1, STOPPED)
    broker.report(W0, replace(STOPPED, saved_step=90))
    assert [RecordCheckpoint(EU, *attempt(), 90)] == words(broker.machine.wake())
    broker.machine.fact(EU_LOG, CheckpointCommitted(*attempt(), 90))
    assert [RecordTasksGone(EU, *attempt(), ((WHOLE, 0),))] == words(broker.machine.wake())


def test_gang_that_fails_or_loses_a_node_while_it_stops(start: Start) -> None:
    """It stops, and comes back: what befalls it meanwhile is for then."""
    broker = restarting(start)
    broker.machine.wake()
    broker.report(W0, replace(ENDED, exit_code=1))
    broker.machine.fact(EU_LOG, NodesLost(W1, (2, 3)))
    assert [RecordTasksGone(EU, *attempt(), ((WHOLE, 0),))] == words(broker.machine.wake())


def test_strict_gang_that_loses_a_node_while_it_stops(start: Start) -> None:
    """T26: it is gone once what was cut off has stopped by itself, not before."""
    broker = running(
        start, granted(replace(GANG, control=ControlSpec(is_strict=True, isolation=seconds(40))))
    )
    broker.begin(OperationKind.RESTART)
    broker.machine.fact(EU_LOG, NodesLost(W1, (2, 3)))
    broker.machine.wake()
    broker.report(W0, STOPPED)
    sure = Nanoseconds(seconds(40) + GRACE)
    assert NEVER == words(broker.wait(Nanoseconds(sure - seconds(1)), W0), RecordTasksGone, RecordEnd)
    assert said(broker.wait(seconds(1), W0), RecordTasksGone)


def test_gang_that_is_to_stop_for_good_while_it_stops(start: Start) -> None:
    """The order counts: its end is recorded."""
    broker = restarting(start)
    broker.machine.fact(EU_LOG, StopOrdered(*attempt(), EndCause.CANCELLED))
    broker.machine.wake()
    told = broker.both(STOPPED)
    assert EndCause.CANCELLED == said_once(told, RecordEnd).cause
    assert NEVER == words(told, RecordTasksGone)


def test_gang_that_is_restarted_with_a_checkpoint_that_is_not_recorded(start: Start) -> None:
    """It is told to stop at once, and its step is recorded beside that."""
    broker = restarting(start)
    broker.report(W0, replace(RUNNING, saved_step=90))
    told = broker.machine.wake()
    assert [RecordCheckpoint(EU, *attempt(), 90)] == words(told, RecordCheckpoint, RecordTasksGone)
    assert [W0, W1] == [one.worker for one in said(told, StopTasks)]


def test_next_run_of_a_gang_is_stopped_as_the_first_is(start: Start) -> None:
    """By its number: an order for the run before stops nothing."""
    broker = revised(gone(restarting(start)))
    broker.machine.fact(EU_LOG, TasksUp(*attempt(), (WHOLE,)), StopOrdered(*attempt(), EndCause.CANCELLED))
    assert [1, 1] == [one.run for one in said(broker.machine.wake(), StopTasks)]


# Gone.


def test_gang_that_is_restarted_is_given_its_next_run(start: Start) -> None:
    """Once nothing of it runs; its workers may forget the run before. Said until the log shows it."""
    broker = gone(restarting(start))
    decision = broker.machine.wake()
    assert [(W0, 0), (W1, 0)] == [(one.worker, one.run) for one in said(decision, EndRecorded)]
    revise = ReviseClaim(EU, *attempt(), 1, (HERE,))
    assert [revise] == words(decision, ReviseClaim)
    assert revise in words(broker.wait(COMMAND_SAY_AGAIN))
    broker.machine.fact(EU_LOG, ClaimRevised(*attempt(), 1, (HERE,)))
    assert NEVER == words(broker.wait(COMMAND_SAY_AGAIN), ReviseClaim, RecordTasksGone)


def test_gang_that_stopped_for_a_maintenance_returns_after_it(start: Start) -> None:
    """T16: it stops when the work begins, and starts again on the same nodes when it is over; not before."""
    broker = maintained(start)
    assert NEVER == words(broker.wait(seconds(300), W0, W1, every=seconds(5)), ReviseClaim, RecordEnd)
    over(broker)
    assert ReviseClaim(EU, *attempt(), 1, (HERE,)) == said_once(broker.machine.wake(), ReviseClaim)


def test_paused_gang_outlives_the_loss_of_its_nodes(start: Start) -> None:
    """T16: they are rebooted, after all. It waits until they are back, though the maintenance is over before."""
    broker = maintained(start)
    broker.machine.wake()
    broker.machine.fact(EU_LOG, NodesLost(W1, (2, 3)))
    assert NEVER == words(broker.wait(seconds(300), W0, every=seconds(5)), ReviseClaim, RecordEnd, OrderStop)
    elsewhere = [joined("w2", 4, 1), NodesLost(W2, (4,)), NodesReturned(W2, (4,))]
    broker.machine.fact(EU_LOG, *elsewhere)
    assert NEVER == words(broker.machine.wake(), ReviseClaim, RecordEnd, OrderStop)
    over(broker)
    assert NEVER == words(broker.wait(seconds(30), W0), ReviseClaim, RecordEnd, OrderStop)
    broker.machine.fact(EU_LOG, NodesReturned(W1, (2, 3)))
    assert said(broker.machine.wake(), ReviseClaim)


def test_paused_gang_with_nodes_that_do_not_come_back(start: Start) -> None:
    """A while after the maintenance it ends, and goes elsewhere: an unplanned loss."""
    broker = maintained(start)
    broker.machine.fact(EU_LOG, NodesLost(W1, (2, 3)))
    broker.wait(seconds(300), W0, every=seconds(5))
    over(broker)
    assert NEVER == words(broker.wait(Nanoseconds(START_SPAN - seconds(1)), W0), RecordEnd)
    told = said(broker.wait(seconds(2), W0), RecordEnd)
    assert {RecordEnd(EU, *attempt(), EndCause.NODE_LOST)} == set(told)


def test_paused_gang_with_nodes_in_quarantine(start: Start) -> None:
    """They are not given to it again: it is not started there in vain, and goes elsewhere as for the maintenance."""
    broker = maintained(start)
    over(broker)
    broker.machine.fact(EU_LOG, NodesClosed("quarantine", ClosureKind.QUARANTINE, ((2, 2),), "ill"))
    assert NEVER == words(broker.wait(Nanoseconds(START_SPAN - seconds(1)), W0, W1), ReviseClaim, RecordEnd)
    told = said(broker.wait(seconds(2), W0, W1), RecordEnd)
    assert {RecordEnd(EU, *attempt(), EndCause.MAINTENANCE)} == set(told)


@pytest.mark.parametrize("is_over", [False, True])
def test_paused_gang_of_which_a_node_is_drained_meanwhile(start: Start, *, is_over: bool) -> None:
    """T16: it is not started where somebody wants nothing left: it goes elsewhere at once, by the drain."""
    broker = maintained(start)
    if is_over:
        over(broker)
    broker.machine.fact(EU_LOG, NodesClosed("d-1", ClosureKind.DRAIN, ((2, 2),), "new PDU"))
    told = broker.machine.wake()
    assert [RecordEnd(EU, *attempt(), EndCause.DRAINED)] == words(told, ReviseClaim, RecordEnd)


def test_paused_gang_that_restarts_on_a_drained_node(start: Start) -> None:
    """It agreed to be restarted and not to leave: that is asked for by an operation of its own."""
    broker = gone(restarting(start, NodesClosed("d-1", ClosureKind.DRAIN, ((2, 2),), "new PDU")))
    assert [ReviseClaim(EU, *attempt(), 1, (HERE,))] == words(broker.machine.wake(), ReviseClaim, RecordEnd)


def test_paused_gang_that_is_cancelled(start: Start) -> None:
    """Nothing runs: its end is recorded at once, however long ago its workers forgot it."""
    broker = maintained(start)
    broker.beat(W0)
    broker.beat(W1)
    broker.machine.fact(EU_LOG, StopOrdered(*attempt(), EndCause.CANCELLED))
    assert [RecordEnd(EU, *attempt(), EndCause.CANCELLED)] == words(broker.machine.wake())


def test_paused_gangs_duration_goes_on(start: Start) -> None:
    """What it may last counts from its first start: a pause is not given back."""
    broker = running(start, granted(replace(GANG, max_duration=seconds(100))))
    broker.wait(seconds(50), W0, W1)
    broker.begin(OperationKind.RESTART)
    revised(gone(broker))
    broker.machine.fact(EU_LOG, TasksUp(*attempt(), (WHOLE,)))
    again = replace(RUNNING, run=1)
    for worker in (W0, W1):
        broker.beat(worker, again)
    assert NEVER == words(broker.wait(seconds(49), W0, W1), OrderStop)
    assert {OrderStop(EU, *attempt(), EndCause.TIMEOUT)} == set(
        said(broker.wait(seconds(1), W0, W1), OrderStop)
    )


def test_gang_with_a_duration_that_ends_in_its_pause(start: Start) -> None:
    """Its end is recorded then: it does not hold its nodes for a run that it may not have."""
    limited = granted(replace(GANG, max_duration=seconds(100)))
    broker = maintained(start, limited)
    assert NEVER == words(broker.wait(seconds(99), W0, W1), RecordEnd)
    told = said(broker.wait(seconds(2), W0, W1), RecordEnd)
    assert {RecordEnd(EU, *attempt(), EndCause.TIMEOUT)} == set(told)


# Starting.


def test_gang_comes_up_again_from_its_own_checkpoint(start: Start) -> None:
    """T16: under its next run; when all run that is recorded, and no start of the attempt."""
    broker = revised(gone(restarting(start, CheckpointCommitted(*attempt(), 70))))
    told = said(broker.machine.wake(), PrepareTasks)
    assert [(W0, 1, 1, 70), (W1, 1, 1, 70)] == [
        (one.worker, one.run, one.resume_epoch, one.resume_step) for one in told
    ]
    started = said(broker.both(replace(PREPARED, run=1)), StartTasks)
    assert [(W0, 1), (W1, 1)] == [(one.worker, one.run) for one in started]
    broker.report(W0, replace(RUNNING, run=1))
    assert NEVER == words(broker.machine.wake(), RecordTasksUp)
    broker.report(W1, replace(RUNNING, run=1))
    record = RecordTasksUp(EU, *attempt(), ((WHOLE, 1),))
    assert [record] == words(broker.machine.wake())
    assert record in words(broker.wait(COMMAND_SAY_AGAIN, W0, W1))
    broker.machine.fact(EU_LOG, TasksUp(*attempt(), (WHOLE,)))
    assert NEVER == words(
        broker.wait(Nanoseconds(2 * START_SPAN), W0, W1), RecordTasksUp, RecordStarted, OrderStop
    )


def test_gang_without_a_checkpoint_of_its_own(start: Start) -> None:
    """It resumes what its award named."""
    broker = running(start, granted(replace(GANG, resume_epoch=4, resume_step=40)))
    broker.begin(OperationKind.RESTART)
    revised(gone(broker))
    assert {(4, 40)} == {
        (one.resume_epoch, one.resume_step) for one in said(broker.machine.wake(), PrepareTasks)
    }


def test_gang_that_does_not_come_up_again(start: Start) -> None:
    """In its time, counted from its next run: it stops, and goes back to the queue."""
    broker = revised(gone(restarting(start)))
    assert NEVER == words(broker.wait(Nanoseconds(START_SPAN - seconds(1)), W0, W1), OrderStop)
    assert {OrderStop(EU, *attempt(), EndCause.START_FAILED)} == set(
        said(broker.wait(seconds(1), W0, W1), OrderStop)
    )


def test_end_of_a_gang_that_came_back(start: Start) -> None:
    """It names the run that ended: heard late, it is not about another."""
    broker = revised(gone(restarting(start)))
    broker.machine.fact(EU_LOG, TasksUp(*attempt(), (WHOLE,)))
    told = broker.both(replace(ENDED, run=1))
    assert RecordEnd(EU, *attempt(), EndCause.COMPLETED, run=1) == said_once(told, RecordEnd)
    again = gone(restarting(start))
    again.machine.fact(EU_LOG, StopOrdered(*attempt(), EndCause.CANCELLED))
    assert 0 == said_once(again.machine.wake(), RecordEnd).run


@pytest.mark.parametrize("has_failed", [False, True])
def test_gang_that_fails_as_it_comes_up_again(start: Start, *, has_failed: bool) -> None:
    """Or loses a node then: it is like any other."""
    broker = revised(gone(restarting(start)))
    broker.machine.wake()
    if has_failed:
        broker.report(W1, replace(ENDED, run=1, exit_code=1))
    else:
        broker.machine.fact(EU_LOG, NodesLost(W1, (2, 3)))
    cause = EndCause.TASK_FAILED if has_failed else EndCause.NODE_LOST
    assert [OrderStop(EU, *attempt(), cause)] == words(broker.machine.wake(), OrderStop)


def test_gang_that_was_restarted_before_it_had_started(start: Start) -> None:
    """It is up first, as its operation waits for, and then it has started."""
    broker = with_gang(start)
    broker.machine.wake()
    broker.both(PREPARED)
    broker.both(RUNNING)
    broker.begin(OperationKind.RESTART)
    revised(gone(broker))
    broker.machine.wake()
    broker.both(replace(PREPARED, run=1))
    assert [RecordTasksUp(EU, *attempt(), ((WHOLE, 1),))] == words(
        broker.both(replace(RUNNING, run=1)), RecordTasksUp, RecordStarted
    )
    broker.machine.fact(EU_LOG, TasksUp(*attempt(), (WHOLE,)))
    assert [RecordStarted(EU, *attempt())] == words(broker.machine.wake())


# Runs before.


def test_run_before_is_over(start: Start) -> None:
    """Whoever still has it stops it, and may forget it once it ended; it says nothing of the run that counts."""
    broker = revised(gone(restarting(start)))
    broker.machine.wake()
    told = said_once(broker.report(W0, RUNNING), StopTasks)
    assert (W0, WHOLE, 0) == (told.worker, told.task, told.run)
    assert 0 == said_once(broker.report(W0, STOPPED), EndRecorded).run
    assert 5 == said_once(broker.report(W0, replace(RUNNING, run=5)), StopTasks).run
    assert NEVER == words(broker.machine.wake(), OrderStop, RecordEnd)
    broker.machine.fact(EU_LOG, TasksUp(*attempt(), (WHOLE,)), AttemptEnded(*attempt(), EndCause.COMPLETED))
    assert 1 == said_once(broker.report(W0, replace(RUNNING, run=1)), StopTasks).run


def test_broker_that_starts_again_finds_where_a_paused_gang_is(start: Start) -> None:
    """In each phase it goes on with what is to be done next; what it has waited for counts from then."""
    down = restarting(start).restart()
    assert [W0, W1] == [one.worker for one in said(down.woken, StopTasks)]
    paused = gone(restarting(start)).restart()
    assert said(paused.woken, ReviseClaim)
    starting = revised(gone(restarting(start))).restart()
    assert [1, 1] == [one.run for one in said(starting.woken, PrepareTasks)]
    for worker in (W0, W1):
        starting.beat(worker, replace(PREPARED, run=1))
    assert [1, 1] == [one.run for one in said(starting.machine.wake(), StartTasks)]


def test_share_that_no_gang_has(start: Start) -> None:
    """A run or a task that its attempt never had: whoever has it stops it."""
    broker = running(start)
    assert 1 == said_once(broker.report(W0, replace(RUNNING, run=1)), StopTasks).run
    assert 3 == said_once(broker.report(W0, replace(RUNNING, task=3)), StopTasks).task
    assert NEVER == words(broker.machine.wake())


def test_run_of_a_gang_that_is_gone(start: Start) -> None:
    """It comes back from a worker that was lost: it is stopped, though no newer run is there."""
    broker = maintained(start)
    assert 0 == said_once(broker.report(W1, RUNNING), StopTasks).run


def test_broker_that_starts_again_while_a_gang_is_to_come_up(start: Start) -> None:
    """Workers that have nothing of its next run yet have lost nothing."""
    again = revised(gone(restarting(start))).restart()
    for worker in (W0, W1):
        again.beat(worker)
    told = again.machine.wake()
    assert NEVER == words(told, OrderStop, RecordEnd)


def test_broker_that_starts_again_before_a_maintenance_is_over(start: Start) -> None:
    """It brings the gang back all the same when it is."""
    again = maintained(start).restart()
    assert NEVER == words(again.wait(seconds(60), W0, W1), ReviseClaim)
    over(again)
    assert said(again.machine.wake(), ReviseClaim)


def test_broker_that_starts_again_while_a_gang_is_gone(start: Start) -> None:
    """Workers that have nothing of it have lost nothing."""
    again = maintained(start).restart()
    for worker in (W0, W1):
        again.beat(worker)
    assert NEVER == words(again.wait(seconds(60), W0, W1), OrderStop, RecordEnd)


def test_gang_that_is_up_again_and_vanishes(start: Start) -> None:
    """At a worker's first whole report its newest run is looked for, and no other."""
    broker = revised(gone(restarting(start)))
    broker.machine.fact(EU_LOG, TasksUp(*attempt(), (WHOLE,)))
    again = broker.restart()
    again.beat(W0, replace(RUNNING, run=1))
    again.beat(W1, RUNNING)
    assert [OrderStop(EU, *attempt(), EndCause.NODE_FAILED)] == words(again.machine.wake(), OrderStop)
