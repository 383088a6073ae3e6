"""Task control and the store together, when tasks fail, and when their user changes or resizes the job."""

import pytest
from msgspec.structs import replace

from core.events.control import OperationsBegun
from core.messages.control import ChangeAttempt
from core.messages.store import RecordLoss, RecordReturn
from core.nouns.ids import WorkerName
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import FAILURE_DEADLINE
from core.nouns.operation import Answer, BegunBy
from core.nouns.workload import EndCause
from tests.builders import EU, EU_LOG
from tests.components.support.operators import plan
from tests.components.support.task_control import W1, Pair, Start, a_service, t

# Failures.


def test_replacement_is_asked_for_and_does_not_wait_for_ever(start: Start) -> None:
    """T19, T20: a task of a lost node is out of discovery, its controller is asked, and after a while it goes on without it."""
    pair = Pair(start)
    pair.grant(a_service(6))
    pair.hear(RecordLoss(EU, WorkerName("w1"), pair.store.sequence(EU_LOG)))
    assert [t(4), t(5)] == pair.row().unavailable()
    assert [("move", t(4)), ("move", t(5))] == [(a.kind, a.task) for a in pair.request().requests]
    assert [] == pair.recorded(OperationsBegun)
    pair.wait(Nanoseconds(FAILURE_DEADLINE + seconds(3)))
    assert [((1, 2), BegunBy.DEADLINE)] == [(e.operations, e.by) for e in pair.recorded(OperationsBegun)]


def test_replacement_with_consent(start: Start) -> None:
    """T19: failure, discovery, consent, new room, start, discovery: in that order in the log."""
    pair = Pair(start)
    pair.grant(a_service(6))
    pair.hear(RecordLoss(EU, WorkerName("w1"), pair.store.sequence(EU_LOG)))
    pair.ack(1)
    pair.stopped(t(4))
    pair.hear(RecordReturn(EU, WorkerName("w1"), pair.store.sequence(EU_LOG)))
    pair.again(t(4), node=7)
    pair.up(t(4))
    kinds = [type(event).__name__ for event in pair.facts]
    wanted = ["NodesLost", "OperationsRequested", "ControlAnswered", "OperationsBegun", "TasksGone"]
    at = [kinds.index(kind) for kind in [*wanted, "ClaimRevised", "TasksUp"]]
    assert at == sorted(at)


def test_a_failed_task_starts_where_it_was(start: Start) -> None:
    """Its node is well: a start is asked for, not a move."""
    pair = Pair(start)
    pair.grant(a_service())
    pair.failed(t(2))
    assert [("start", t(2))] == [(asked.kind, asked.task) for asked in pair.request().requests]


def test_completed_tasks_are_not_started_again(start: Start) -> None:
    """A task that is done is done."""
    pair = Pair(start)
    pair.grant(a_service())
    pair.failed(t(2), cause=EndCause.COMPLETED)
    assert [] == pair.requests()


@pytest.mark.parametrize("answer", [None, Answer.STOP_AND_RETURN])
def test_failure_during_a_notice_is_replaced(start: Start, answer: Answer | None) -> None:
    """A task that fails while work is planned on its node does not wait for the window to be started again."""
    pair = Pair(start)
    pair.grant(a_service())
    plan(pair, 1, starts_in=seconds(7200), lead=seconds(7200))
    pair.settle()
    if answer is not None:
        pair.ack(1, answer=answer)
    pair.failed(t(1))
    pair.wait(Nanoseconds(FAILURE_DEADLINE + seconds(3)))
    assert [((2,), BegunBy.DEADLINE)] == [(e.operations, e.by) for e in pair.recorded(OperationsBegun)]


# Changes.


def test_changed_job_is_updated_task_by_task(start: Start) -> None:
    """Each task needs its controller's word; once updated it is not asked for again."""
    pair = Pair(start)
    claim = pair.grant(a_service(2))
    job = replace(claim.jobs[0], emulation=replace(claim.jobs[0].emulation, work=5))  # type: ignore[type-var]
    pair.hear(ChangeAttempt(EU, W1, 1, 1, (job,)))
    assert [("update", t(0)), ("update", t(1))] == [(a.kind, a.task) for a in pair.request().requests]
    pair.ack(1, 2)
    pair.done(t(0), t(1))
    pair.ack()
    assert {} == pair.row().operations
    assert [1, 1] == [task.revision for task in pair.row().tasks.values()]


def test_job_grows_and_shrinks(start: Start) -> None:
    """New tasks start, and surplus ones stop for good once their controller says so; the others are left alone."""
    pair = Pair(start)
    claim = pair.grant(a_service(3))
    pair.hear(ChangeAttempt(EU, W1, 1, 1, (replace(claim.jobs[0], tasks=4),)))
    assert [("start", t(3))] == [(asked.kind, asked.task) for asked in pair.request().requests]
    pair.ack(1)
    pair.again(t(3), node=6)
    pair.up(t(3))
    held = pair.store.state.image.capacity.holding(W1, 1)
    assert held is not None
    assert 4 == held.claim.jobs[0].tasks
    pair.hear(ChangeAttempt(EU, W1, 1, 2, (replace(claim.jobs[0], tasks=2),)))
    pair.ack()
    assert [("stop", t(2)), ("stop", t(3))] == [(a.kind, a.task) for a in pair.request().requests]
    pair.ack(2, 3)
    pair.stopped(t(2), t(3))
    assert [t(0), t(1)] == sorted(pair.row().tasks)
    assert [2] == [held.claim.jobs[0].tasks for _, _, held in pair.store.state.image.capacity.live()]


def test_task_that_comes_again_goes_on_counting(start: Start) -> None:
    """A share of its first life that somebody still reports is not taken for one of its second."""
    pair = Pair(start)
    claim = pair.grant(a_service(2))
    for revision, tasks in enumerate((1, 2), 1):
        pair.hear(ChangeAttempt(EU, W1, 1, revision, (replace(claim.jobs[0], tasks=tasks),)))
        pair.ack(*(asked.operation for asked in pair.request().requests))
        if tasks == 1:
            pair.stopped(t(1))
    pair.again(t(1), node=5)
    assert 1 == pair.row().tasks[t(1)].run
