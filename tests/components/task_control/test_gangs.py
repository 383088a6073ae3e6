"""Task control and the store together: a gang is asked as a whole, leaves whole and may return whole."""

from msgspec.structs import replace

from core.events.control import OperationsBegun, OperationsDone
from core.events.queue import AttemptClosed, WorkloadAwarded, WorkloadBound, WorkloadCancelled
from core.events.region import AttemptEnded, StopOrdered
from core.messages.store import RecordCheckpoint, RecordEnd
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import ACK_LEASE, CONTROL_RETENTION
from core.nouns.operation import WHOLE, Answer, OperationKind, Outcome
from core.nouns.workload import EndCause, Phase
from tests.builders import EU
from tests.components.support.operators import drain, plan, undrain
from tests.components.support.task_control import W1, Pair, Start, a_gang, t
from tests.matching import facts


def test_gang_hears_which_ranks_are_concerned(start: Start) -> None:
    """T10: it is asked as a whole, and its notice names the ranks on the nodes that are to be empty."""
    pair = Pair(start)
    pair.grant(a_gang(4))
    drain(pair, 1, 2)
    request = pair.request()
    assert [WHOLE] == [asked.task for asked in request.requests]
    assert [(t(1), t(2))] == [notice.tasks for notice in request.notices]


def test_gang_leaves_after_its_word(start: Start) -> None:
    """T11, T15: a drained gang is stopped once its controller says so, whole, and in the batch of its begin."""
    pair = Pair(start)
    pair.grant(a_gang())
    drain(pair, 0)
    assert [WHOLE] == [asked.task for asked in pair.request().requests]
    assert [] == pair.recorded(StopOrdered)
    pair.ack(1)
    assert [EndCause.DRAINED] == [event.cause for event in pair.recorded(StopOrdered)]


def test_gang_leaves_after_its_checkpoint(start: Start) -> None:
    """T21: it agreed on condition that a checkpoint is written first: the one before its word is none."""
    pair = Pair(start)
    pair.grant(a_gang())
    pair.hear(RecordCheckpoint(EU, W1, 1, 10))
    drain(pair, 0)
    pair.ack(1, after_checkpoint=True)
    pair.wait(Nanoseconds(2 * ACK_LEASE))
    assert [] == pair.recorded(OperationsBegun)
    pair.hear(RecordCheckpoint(EU, W1, 1, 20))
    assert [(1,)] == [event.operations for event in pair.recorded(OperationsBegun)]
    assert [EndCause.DRAINED] == [event.cause for event in pair.recorded(StopOrdered)]


def test_checkpoint_and_stop_waits_for_one_by_itself(start: Start) -> None:
    """T21: whatever its controller said, and not on the checkpoint that it had before."""
    pair = Pair(start)
    pair.grant(a_gang())
    pair.hear(RecordCheckpoint(EU, W1, 1, 10))
    pair.operate(OperationKind.CHECKPOINT_AND_STOP)
    pair.ack(1)
    assert [] == pair.recorded(StopOrdered)
    pair.hear(RecordCheckpoint(EU, W1, 1, 20))
    assert 1 == len(pair.recorded(StopOrdered))


def test_gang_operation_is_completed_once_it_runs_again(start: Start) -> None:
    """T12: its end in this region does not complete it; being up elsewhere does."""
    pair = Pair(start)
    pair.grant(a_gang())
    drain(pair, 0)
    pair.ack(1)
    pair.end(EndCause.DRAINED)
    assert () == pair.request().completed
    pair.queue(AttemptClosed(W1, 1, EndCause.DRAINED, Phase.PENDING, EU, 1))
    pair.queue(WorkloadAwarded(W1, 2, EU, 0, ()))
    pair.settle()
    assert [] == pair.recorded(OperationsDone)
    pair.queue(WorkloadBound(W1, 2, EU, 1))
    pair.settle()
    assert [Outcome.HEALTHY] == [event.outcome for event in pair.recorded(OperationsDone)]
    assert [(1, Outcome.HEALTHY)] == [(d.operation, d.outcome) for d in pair.request().completed]
    pair.ack()
    assert pair.store.state.image.control.row(W1, 1) is None


def test_gang_operation_of_a_workload_that_ended(start: Start) -> None:
    """T12: cancelled meanwhile, it is gone, and its controller hears that."""
    pair = Pair(start)
    pair.grant(a_gang())
    drain(pair, 0)
    pair.ack(1)
    pair.end(EndCause.DRAINED)
    pair.queue(AttemptClosed(W1, 1, EndCause.DRAINED, Phase.PENDING, EU, 1), WorkloadCancelled(W1))
    pair.settle()
    assert [(1, Outcome.GONE)] == [(d.operation, d.outcome) for d in pair.request().completed]


def test_outcomes_without_a_controller_are_forgotten(start: Start) -> None:
    """A controller that never comes back does not make the region remember for ever."""
    pair = Pair(start)
    pair.grant(a_gang())
    drain(pair, 0)
    pair.ack(1)
    pair.end(EndCause.DRAINED)
    pair.wait(Nanoseconds(CONTROL_RETENTION + seconds(3)))
    assert pair.store.state.image.control.row(W1, 1) is None


def stopped_to_return(start: Start) -> Pair:
    """A gang that stopped as the work on a node of its began, and comes back after it."""
    pair = Pair(start)
    pair.grant(a_gang())
    plan(pair, 0)
    pair.wait(seconds(301))
    pair.ack(1, answer=Answer.STOP_AND_RETURN)
    pair.wait(seconds(301))
    pair.stopped(WHOLE)
    return pair


def test_gang_stops_and_returns(start: Start) -> None:
    """T16: a gang keeps its room, stands still through the window, and starts again where it was."""
    pair = stopped_to_return(start)
    assert [(1,)] == [event.operations for event in pair.recorded(OperationsBegun)]
    assert [] == pair.recorded(StopOrdered)
    pair.again(WHOLE)
    assert "gone" == pair.row().tasks[WHOLE].phase
    pair.wait(seconds(905))
    pair.again(WHOLE)
    pair.up(WHOLE)
    assert ("up", 1) == (pair.row().tasks[WHOLE].phase, pair.row().tasks[WHOLE].run)
    assert [Outcome.HEALTHY] == [event.outcome for event in pair.recorded(OperationsDone)]


def test_gang_that_came_back_before_its_end_was_heard(start: Start) -> None:
    """T16: the drain that was to move it was lifted, and the word of its end is late: it ends no run but its own."""
    pair = stopped_to_return(start)
    drain(pair, 0)
    late = RecordEnd(EU, W1, 1, EndCause.DRAINED)
    undrain(pair, 0)
    pair.hear(late)
    assert "gone" == pair.row().tasks[WHOLE].phase
    pair.wait(seconds(905))
    pair.again(WHOLE)
    pair.up(WHOLE)
    drain(pair, 0)
    for cause in (EndCause.DRAINED, EndCause.NODE_LOST, EndCause.COMPLETED):
        pair.hear(replace(late, cause=cause))
    assert ([], "up") == (pair.recorded(AttemptEnded), pair.row().tasks[WHOLE].phase)
    pair.hear(RecordEnd(EU, W1, 1, EndCause.COMPLETED, run=1))
    assert [EndCause.COMPLETED] == [event.cause for event in pair.recorded(AttemptEnded)]


def test_gang_that_is_drained_while_it_is_to_return(start: Start) -> None:
    """T16: its end is recorded while the drain stands."""
    pair = stopped_to_return(start)
    drain(pair, 0)
    pair.end(EndCause.DRAINED)
    assert [EndCause.DRAINED] == [event.cause for event in pair.recorded(AttemptEnded)]


def test_operations_of_gangs(start: Start) -> None:
    """A gang is touched whole: single tasks of it are not, and to stop it for good is to cancel it."""
    pair = Pair(start)
    pair.grant(a_gang())
    assert [] == facts(pair.operate(OperationKind.RESTART, t(0)))
    assert [] == facts(pair.operate(OperationKind.STOP))
    assert 1 == len(facts(pair.operate(OperationKind.CHECKPOINT_AND_STOP)))
