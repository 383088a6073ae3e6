"""Task control and the store together: nothing happens to a task without its application's word (Twine §2.4-2.5)."""

from typing import Any

import pytest
from msgspec.structs import replace

from core.events.control import (
    AcksExpired,
    ControlAnswered,
    OperationsBegun,
    OperationsDone,
    OperationsRequested,
    OperationsStuck,
)
from core.events.queue import AttemptClosed, WorkloadAwarded, WorkloadBound, WorkloadCancelled
from core.events.region import StopOrdered
from core.messages.base import Refused
from core.messages.control import ChangeAttempt, ControllersShown, ShowControllers, TaskControlResponse
from core.messages.nodes import CancelMaintenance, DrainNodes, PlanMaintenance, UndrainNodes
from core.messages.store import RecordCheckpoint, RecordLoss, RecordReturn
from core.nouns.ids import TenantName, WorkerName, WorkloadId
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import (
    ACK_LEASE,
    CONTROL_ASK_AGAIN,
    CONTROL_RETENTION,
    CONTROL_SAY_AGAIN,
    FAILURE_DEADLINE,
    STUCK_SPAN,
)
from core.nouns.maintenance import MaintenanceKind, MaintenancePhase, Scope, ScopeKind
from core.nouns.operation import WHOLE, Answer, BegunBy, ControlSpec, OperationKind, OperationPhase, Outcome
from core.nouns.workload import EndCause, Phase
from tests.builders import EU, EU_LOG
from tests.components.controlling import ALONE, SHARDS, TENANT, W1, Pair, Start, a_gang, a_service, t
from tests.matching import facts, said_once

FIVE_MINUTES, IN_TEN_MINUTES = seconds(300), seconds(600)


def drain(pair: Pair, *nodes: int, deadline: int = 0) -> None:
    """An operator wants these nodes empty."""
    scope = Scope(ScopeKind.NODE, tuple(map(str, nodes)))
    revision = pair.store.state.image.maintenance.revision
    pair.hear(DrainNodes(EU, scope, "new cables", revision, deadline, "olga"))


def plan(
    pair: Pair,
    *nodes: int,
    kind: MaintenanceKind = MaintenanceKind.POWER,
    starts_in: Nanoseconds = IN_TEN_MINUTES,
    lead: Nanoseconds = FIVE_MINUTES,
) -> None:
    """Work on these nodes for a quarter of an hour."""
    scope = Scope(ScopeKind.NODE, tuple(map(str, nodes)))
    planned = pair.store.state.image.maintenance.planned
    pair.hear(PlanMaintenance(EU, scope, kind, starts_in, seconds(900), lead, planned, "switchboard", "olga"))


def phases(pair: Pair) -> list[OperationPhase]:
    """Of all operations of `w-1`, in order."""
    return [operation.phase for _, operation in sorted(pair.row().operations.items())]


# Asking.


def test_six_fields(start: Start) -> None:
    """T10: a request has the job's handle, what waits, what is completed, notices, the unhealthy and a sequence."""
    pair = Pair(start)
    pair.grant(a_service())
    pair.operate(OperationKind.RESTART, t(0), t(1))
    drain(pair, 3)
    request = pair.request()
    assert (EU, W1, 1) == (request.job.region, request.job.workload, request.job.epoch)
    assert [(1, "restart", t(0)), (2, "restart", t(1)), (3, "move", t(3))] == [
        (asked.operation, asked.kind, asked.task) for asked in request.requests
    ]
    assert [("d-1", (t(3),))] == [(notice.notice, notice.tasks) for notice in request.notices]
    assert ((), ()) == (request.completed, request.unhealthy)
    assert request.sequence == pair.row().changed


def test_sequence_grows_with_news_alone(start: Start) -> None:
    """T10: each request that says something new has a higher number; one that is said again has the same."""
    pair = Pair(start)
    pair.grant(a_service())
    pair.operate(OperationKind.RESTART, t(0))
    pair.wait(Nanoseconds(CONTROL_SAY_AGAIN + 1))
    same = [request.sequence for request in pair.requests()]
    assert len(same) >= 2
    assert 1 == len(set(same))
    pair.operate(OperationKind.RESTART, t(1))
    pair.ack(1)
    pair.failed(t(2))
    found = [(request.sequence, replace_remaining(request)) for request in pair.requests()]
    assert found == sorted(found, key=lambda pair_: pair_[0])
    contents: dict[int, Any] = {}
    for sequence, content in found:
        assert contents.setdefault(sequence, content) == content


def replace_remaining(request: Any) -> Any:
    """The same request without the time that is left, which passes."""
    asked = tuple(replace(one, deadline=min(one.deadline, 1)) for one in request.requests)
    notices = tuple(replace(one, starts_in=min(one.starts_in, 1)) for one in request.notices)
    return replace(request, requests=asked, notices=notices)


def test_only_the_acknowledged_proceed(start: Start) -> None:
    """T11: one of two is acknowledged: that one begins, and the other is in the next request."""
    pair = Pair(start)
    pair.grant(a_service())
    pair.operate(OperationKind.RESTART, t(0), t(1))
    pair.ack(2)
    assert [(2,)] == [event.operations for event in pair.recorded(OperationsBegun)]
    assert [1] == [asked.operation for asked in pair.request().requests]
    assert (t(1),) == pair.request().unhealthy


def test_published_example(start: Start) -> None:
    """T11, T12: asked for t0 and t1, it acknowledges t1; t1 is completed and t0 asked again; t0 is acknowledged and completed (Twine fig. 8)."""
    pair = Pair(start)
    pair.grant(a_service(2))
    pair.operate(OperationKind.RESTART, t(0), t(1))
    pair.ack(2)
    pair.done(t(1))
    request = pair.request()
    assert [t(1)] == [done.task for done in request.completed]
    assert [t(0)] == [asked.task for asked in request.requests]
    pair.ack(1)
    pair.done(t(0))
    request = pair.request()
    assert [t(0)] == [done.task for done in request.completed]
    assert () == request.requests
    pair.ack()
    before = len(pair.requests())
    pair.wait(seconds(60))
    assert before == len(pair.requests())


def test_completed_is_told_once_the_task_is_healthy(start: Start) -> None:
    """T12: neither the stop nor the new run completes a restart; the healthy task does, and an answer ends the telling."""
    pair = Pair(start)
    pair.grant(a_service())
    pair.operate(OperationKind.RESTART, t(0))
    pair.ack(1)
    pair.stopped(t(0))
    pair.again(t(0))
    assert () == pair.request().completed
    pair.up(t(0))
    assert [(1, Outcome.HEALTHY)] == [(done.operation, done.outcome) for done in pair.request().completed]
    pair.wait(Nanoseconds(CONTROL_SAY_AGAIN + 1))
    assert 1 == len(pair.request().completed)
    pair.ack()
    assert {} == pair.row().operations
    pair.operate(OperationKind.RESTART, t(1))
    assert () == pair.request().completed


def test_unhealthy_is_the_full_set(start: Start) -> None:
    """T13: tasks that failed by themselves, those of lost nodes and those under an operation, all of them, each time."""
    pair = Pair(start)
    pair.grant(a_service(6))
    pair.operate(OperationKind.RESTART, t(0))
    pair.ack(1)
    pair.failed(t(1))
    pair.hear(RecordLoss(EU, WorkerName("w1"), pair.store.sequence(EU_LOG)))
    assert (t(0), t(1), t(4), t(5)) == pair.request().unhealthy
    pair.wait(CONTROL_SAY_AGAIN)
    assert (t(0), t(1), t(4), t(5)) == pair.request().unhealthy


# Answers that do not count.


def test_stale_answer(start: Start) -> None:
    """T14: a word given before a loss was known does not count: the controller did not know what it was about."""
    pair = Pair(start)
    pair.grant(a_service())
    pair.operate(OperationKind.RESTART, t(0))
    old = pair.request().sequence
    pair.failed(t(1))
    pair.ack(1, sequence=old)
    assert [] == pair.recorded(OperationsBegun)
    assert 1 == ignored(pair)
    pair.ack(1)
    assert [(1,)] == [event.operations for event in pair.recorded(OperationsBegun)]


def ignored(pair: Pair) -> int:
    """What controllers said that counted for nothing."""
    shown = said_once(pair.control.hear(ShowControllers(EU)), ControllersShown)
    return sum(one.ignored for one in shown.controllers)


@pytest.mark.parametrize(
    ("operations", "count"),
    [((7,), 1), ((1, 1), 1), ((0, -1, 1 << 62), 3)],
    ids=["unknown", "repeated", "garbage"],
)
def test_acks_of_what_was_never_asked(start: Start, operations: tuple[int, ...], count: int) -> None:
    """T14: they are ignored and counted, and what stands beside them counts."""
    pair = Pair(start)
    pair.grant(a_service())
    pair.operate(OperationKind.RESTART, t(0))
    pair.ack(*operations)
    begun = [event.operations for event in pair.recorded(OperationsBegun)]
    assert ([(1,)] if 1 in operations else []) == begun
    assert count == ignored(pair)


def test_duplicate_answer(start: Start) -> None:
    """T14: the same answer twice begins nothing twice."""
    pair = Pair(start)
    pair.grant(a_service())
    pair.operate(OperationKind.RESTART, t(0))
    on = pair.request().sequence
    pair.ack(1, sequence=on)
    pair.ack(1, sequence=on)
    assert 1 == len(pair.recorded(OperationsBegun))
    assert 1 == len(pair.recorded(ControlAnswered))


@pytest.mark.parametrize(("tenant", "controller"), [("others", "shards"), (TENANT, "leaders")])
def test_answers_for_anothers_job(start: Start, tenant: str, controller: str) -> None:
    """T14: who is not named as the job's controller, in the job's tenant, says nothing about it."""
    pair = Pair(start)
    pair.grant(a_service())
    pair.operate(OperationKind.RESTART, t(0))
    pair.ack(1, tenant=tenant, controller=controller)
    assert [] == pair.recorded(OperationsBegun)
    assert 2 == ignored(pair)


def test_a_flood_of_names_is_not_remembered(start: Start) -> None:
    """Answers about nothing from names that nobody knows leave nothing behind."""
    pair = Pair(start)
    pair.grant(a_service())
    for number in range(100):
        name = TenantName(f"t-{number}")
        pair.control.hear(TaskControlResponse(EU, name, "x", WorkloadId("w-99"), 1, 1, ()))
        pair.control.hear(TaskControlResponse(EU, name, "x", W1, 1, 1, ()))
    assert [(TENANT, "shards")] == list(pair.control.state.controllers)
    [shown] = said_once(pair.control.hear(ShowControllers(EU)), ControllersShown).controllers
    assert (100, -1) == (shown.ignored, shown.heard_ago)


def test_answers_that_a_kind_does_not_know(start: Start) -> None:
    """T16: a restart can proceed or not; it is not ignored, and nobody returns from it."""
    pair = Pair(start)
    pair.grant(a_service())
    pair.operate(OperationKind.RESTART, t(0))
    for answer in (Answer.IGNORE, Answer.STOP_AND_RETURN, Answer.MOVE):
        pair.ack(1, answer=answer)
    assert [OperationPhase.ASKED] == phases(pair)
    assert 3 == ignored(pair)


# Controllers that are not there.


def test_optional_operations_wait_for_ever(start: Start) -> None:
    """T17, T20: nobody answers for hours: the release has not begun, and is asked for still."""
    pair = Pair(start)
    pair.grant(a_service())
    pair.operate(OperationKind.UPDATE, t(0))
    pair.wait(seconds(3 * 3600))
    assert [] == pair.recorded(OperationsBegun)
    assert [1] == [asked.operation for asked in pair.request().requests]


def test_a_controller_that_holds_is_asked_less_often(start: Start) -> None:
    """It has answered, and holds the operation: it is asked again, but not as fast as one that has not."""
    pair = Pair(start)
    pair.grant(a_service())
    pair.operate(OperationKind.UPDATE, t(0))
    pair.ack()
    before = len(pair.requests())
    pair.wait(Nanoseconds(4 * CONTROL_ASK_AGAIN))
    assert 4 == len(pair.requests()) - before


def test_maintenance_does_not_wait(start: Start) -> None:
    """T15, T17, T20: at its deadline the rest is stopped, whoever is silent, and not a moment before."""
    pair = Pair(start)
    pair.grant(a_service())
    plan(pair, 1, 2)
    pair.wait(seconds(599))
    assert [] == pair.recorded(OperationsBegun)
    pair.wait(seconds(3))
    begun = pair.recorded(OperationsBegun)
    assert [((1, 2), BegunBy.DEADLINE)] == [(event.operations, event.by) for event in begun]
    assert (t(1), t(2)) == tuple(pair.row().unavailable())


def test_notice_has_its_lead(start: Start) -> None:
    """T15, T22: nothing is asked before the lead begins; then the notice tells how long is left."""
    pair = Pair(start)
    pair.grant(a_service())
    plan(pair, 1)
    pair.wait(seconds(299))
    assert [] == pair.requests()
    pair.wait(seconds(2))
    request = pair.request()
    [notice] = request.notices
    assert ("m-1", MaintenanceKind.POWER, (t(1),), "switchboard") == (
        notice.notice,
        notice.kind,
        notice.tasks,
        notice.reason,
    )
    assert seconds(290) < notice.starts_in <= seconds(301)
    assert seconds(900) == notice.lasts
    assert seconds(290) < request.requests[0].deadline <= seconds(301)


# The three answers.


def test_move_before_the_window(start: Start) -> None:
    """T16: it moves at once, long before the window."""
    pair = Pair(start)
    pair.grant(a_service())
    plan(pair, 1)
    pair.wait(seconds(301))
    pair.ack(1, answer=Answer.MOVE)
    assert [((1,), BegunBy.ACK)] == [(e.operations, e.by) for e in pair.recorded(OperationsBegun)]
    pair.stopped(t(1))
    pair.again(t(1), node=5)
    pair.up(t(1))
    assert 5 == pair.row().tasks[t(1)].node
    assert [Outcome.HEALTHY] == [event.outcome for event in pair.recorded(OperationsDone)]


def test_stop_when_it_begins_and_return(start: Start) -> None:
    """T16: it runs until the window opens, and may not come back before the window is over."""
    pair = Pair(start)
    pair.grant(a_service())
    plan(pair, 1)
    pair.wait(seconds(301))
    pair.ack(1, answer=Answer.STOP_AND_RETURN)
    pair.wait(seconds(290))
    assert [] == pair.recorded(OperationsBegun)
    pair.wait(seconds(12))
    assert [(1,)] == [event.operations for event in pair.recorded(OperationsBegun)]
    pair.stopped(t(1))
    pair.again(t(1))
    assert "gone" == pair.row().tasks[t(1)].phase
    pair.wait(seconds(905))
    pair.again(t(1))
    pair.up(t(1))
    assert (1, 1) == (pair.row().tasks[t(1)].node, pair.row().tasks[t(1)].run)
    assert [Outcome.HEALTHY] == [event.outcome for event in pair.recorded(OperationsDone)]


def test_ignore(start: Start) -> None:
    """T16: while a switch is worked on it stays as it is, through the whole window; then the operation is over."""
    pair = Pair(start)
    pair.grant(a_service())
    plan(pair, 1, kind=MaintenanceKind.NETWORK)
    pair.wait(seconds(301))
    pair.ack(1, answer=Answer.IGNORE)
    pair.wait(seconds(1300))
    assert [] == pair.recorded(OperationsBegun)
    assert [Outcome.IGNORED] == [event.outcome for event in pair.recorded(OperationsDone)]


def test_ignore_where_nodes_must_be_empty(start: Start) -> None:
    """T15, T16: to leave tasks where the power is cut is no answer: they are stopped at the deadline."""
    pair = Pair(start)
    pair.grant(a_service())
    plan(pair, 1)
    pair.wait(seconds(301))
    pair.ack(1, answer=Answer.IGNORE)
    assert [OperationPhase.ASKED] == phases(pair)
    pair.wait(seconds(302))
    assert [BegunBy.DEADLINE] == [event.by for event in pair.recorded(OperationsBegun)]


def test_two_works_on_one_rack_ask_once(start: Start) -> None:
    """A second maintenance of the same nodes asks for nothing more while the first one's word is given."""
    pair = Pair(start)
    pair.grant(a_service())
    plan(pair, 1)
    plan(pair, 1, starts_in=seconds(700), lead=seconds(350))
    pair.wait(seconds(400))
    assert 1 == sum(len(event.tasks) for event in pair.recorded(OperationsRequested))
    pair.ack(1, answer=Answer.MOVE)
    pair.stopped(t(1))
    pair.again(t(1), node=6)
    pair.up(t(1))
    pair.wait(seconds(2000))
    assert 1 == sum(len(event.tasks) for event in pair.recorded(OperationsRequested))


def test_sooner_work_takes_the_place_of_a_later_one(start: Start) -> None:
    """T15: a drain that may take hours does not keep a window from being kept that begins before."""
    pair = Pair(start)
    pair.grant(a_service())
    drain(pair, 1, deadline=seconds(7200))
    plan(pair, 1, starts_in=seconds(60), lead=seconds(60))
    pair.settle()
    assert ["m-1"] == [asked.notice for asked in pair.request().requests]
    pair.wait(seconds(63))
    assert [BegunBy.DEADLINE] == [event.by for event in pair.recorded(OperationsBegun)]


def test_ignoring_one_work_is_no_word_on_another(start: Start) -> None:
    """T15, T16: a switch may be worked on beside it; when the power is to be cut it is asked again, and leaves."""
    pair = Pair(start)
    pair.grant(a_service())
    plan(pair, 1, kind=MaintenanceKind.NETWORK, starts_in=seconds(100), lead=seconds(100))
    pair.settle()
    pair.ack(1, answer=Answer.IGNORE)
    plan(pair, 1, starts_in=seconds(300), lead=seconds(250))
    pair.wait(seconds(60))
    assert ["m-2"] == [asked.notice for asked in pair.request().requests]
    pair.wait(seconds(243))
    assert [((2,), BegunBy.DEADLINE)] == [(e.operations, e.by) for e in pair.recorded(OperationsBegun)]


@pytest.mark.parametrize("answer", [None, Answer.STOP_AND_RETURN])
def test_failure_during_a_notice_is_replaced(start: Start, answer: Answer | None) -> None:
    """T19: a task that fails while work is planned on its node does not wait for the window to be started again."""
    pair = Pair(start)
    pair.grant(a_service())
    plan(pair, 1, starts_in=seconds(7200), lead=seconds(7200))
    pair.settle()
    if answer is not None:
        pair.ack(1, answer=answer)
    pair.failed(t(1))
    pair.wait(Nanoseconds(FAILURE_DEADLINE + seconds(3)))
    assert [((2,), BegunBy.DEADLINE)] == [(e.operations, e.by) for e in pair.recorded(OperationsBegun)]


def test_what_is_done_is_nobodys_loss(start: Start) -> None:
    """T13, T18: a task that completed is not unhealthy, and takes nobody's place among those that may be down."""
    pair = Pair(start)
    pair.grant(a_service(control=ALONE))
    pair.failed(t(3), cause=EndCause.COMPLETED)
    pair.operate(OperationKind.RESTART, t(0))
    assert [(1,)] == [event.operations for event in pair.recorded(OperationsBegun)]
    assert [t(0)] == pair.row().unavailable()


def test_cancelled_maintenance_is_withdrawn(start: Start) -> None:
    """What was asked because of it is taken back; what has begun goes on."""
    pair = Pair(start)
    pair.grant(a_service())
    plan(pair, 1, 2)
    pair.wait(seconds(301))
    pair.ack(1, answer=Answer.MOVE)
    pair.hear(CancelMaintenance(EU, "m-1"))
    assert [((2,), Outcome.WITHDRAWN)] == [
        (event.operations, event.outcome) for event in pair.recorded(OperationsDone)
    ]
    assert [((t(2), Outcome.WITHDRAWN))] == [(d.task, d.outcome) for d in pair.request().completed]
    pair.wait(seconds(600))
    assert 1 == len(pair.recorded(OperationsBegun))


def test_drain_and_its_end(start: Start) -> None:
    """A drain waits for consent, for ever; lifted, it leaves nothing to be asked."""
    pair = Pair(start)
    pair.grant(a_service())
    drain(pair, 0)
    pair.wait(seconds(3600))
    assert [] == pair.recorded(OperationsBegun)
    revision = pair.store.state.image.maintenance.revision
    pair.hear(UndrainNodes(EU, Scope(ScopeKind.NODE, ("0",)), revision))
    assert [Outcome.WITHDRAWN] == [event.outcome for event in pair.recorded(OperationsDone)]
    assert () == pair.request().requests


def test_drain_with_a_deadline(start: Start) -> None:
    """T15: a drain may have one too."""
    pair = Pair(start)
    pair.grant(a_service())
    drain(pair, 0, deadline=seconds(120))
    pair.wait(seconds(119))
    assert [] == pair.recorded(OperationsBegun)
    pair.wait(seconds(3))
    assert [BegunBy.DEADLINE] == [event.by for event in pair.recorded(OperationsBegun)]


def test_deadline_takes_the_place_of_patience(start: Start) -> None:
    """A restart that waits gives way to a maintenance on the same task; the user is told that it was withdrawn."""
    pair = Pair(start)
    pair.grant(a_service())
    pair.operate(OperationKind.RESTART, t(1))
    plan(pair, 1, lead=seconds(600))
    pair.settle()
    done = pair.recorded(OperationsDone)
    assert [((1,), Outcome.WITHDRAWN)] == [(event.operations, event.outcome) for event in done]
    assert [(2, "move")] == [(asked.operation, asked.kind) for asked in pair.request().requests]


# Limits.


def test_pacing_counts_every_cause(start: Start) -> None:
    """T18: two of four may be unavailable; one failed, so one release begins and the other waits though it was acknowledged."""
    pair = Pair(start)
    pair.grant(a_service(control=ControlSpec("shards", unavailable_max=2)))
    pair.operate(OperationKind.RESTART, t(0), t(1))
    pair.failed(t(3))
    pair.ack(1, 2)
    assert [(1,)] == [event.operations for event in pair.recorded(OperationsBegun)]
    pair.done(t(0))
    assert [(1,), (2,)] == [
        event.operations for event in pair.recorded(OperationsBegun) if event.by is BegunBy.ACK
    ]


def test_without_a_controller_the_limits_decide(start: Start) -> None:
    """T18: nobody is asked; one after the other, because the job allows one at a time."""
    pair = Pair(start)
    pair.grant(a_service(control=ALONE))
    pair.operate(OperationKind.RESTART)
    assert [] == pair.requests()
    for number in range(4):
        begun = pair.recorded(OperationsBegun)
        assert number + 1 == len(begun)
        assert BegunBy.LIMITS == begun[-1].by
        pair.done(t(number))
    assert {} == pair.row().operations


def test_a_word_is_good_for_a_while(start: Start) -> None:
    """An ack that pacing holds back until its lease is over is void, and asked for again."""
    pair = Pair(start)
    pair.grant(a_service(control=ControlSpec("shards", unavailable_max=1)))
    pair.operate(OperationKind.RESTART, t(0), t(1))
    pair.ack(1, 2)
    assert [(1,)] == [event.operations for event in pair.recorded(OperationsBegun)]
    pair.wait(Nanoseconds(ACK_LEASE + seconds(1)))
    assert [(2,)] == [event.operations for event in pair.recorded(AcksExpired)]
    assert [2] == [asked.operation for asked in pair.request().requests]
    pair.done(t(0))
    assert 1 == len(pair.recorded(OperationsBegun))


def test_stuck_alarm(start: Start) -> None:
    """What was begun and is not over after a long while is told once."""
    pair = Pair(start)
    pair.grant(a_service())
    pair.operate(OperationKind.RESTART, t(0))
    pair.ack(1)
    pair.wait(Nanoseconds(STUCK_SPAN - seconds(2)))
    assert [] == pair.recorded(OperationsStuck)
    pair.wait(seconds(3600))
    assert [(1,)] == [event.operations for event in pair.recorded(OperationsStuck)]


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


# Gangs.


def test_gang_hears_which_ranks_are_concerned(start: Start) -> None:
    """T10: it is asked as a whole, and its notice names the ranks on the nodes that are to be empty."""
    pair = Pair(start)
    pair.grant(a_gang(4))
    drain(pair, 1, 2)
    request = pair.request()
    assert [WHOLE] == [asked.task for asked in request.requests]
    assert [(t(1), t(2))] == [notice.tasks for notice in request.notices]


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


def test_what_nobody_takes_is_forgotten(start: Start) -> None:
    """A controller that never comes back does not make the region remember for ever."""
    pair = Pair(start)
    pair.grant(a_gang())
    drain(pair, 0)
    pair.ack(1)
    pair.end(EndCause.DRAINED)
    pair.wait(Nanoseconds(CONTROL_RETENTION + seconds(3)))
    assert pair.store.state.image.control.row(W1, 1) is None


def test_gang_stops_and_returns(start: Start) -> None:
    """T16: a gang keeps its room, stands still through the window, and starts again where it was."""
    pair = Pair(start)
    pair.grant(a_gang())
    plan(pair, 0)
    pair.wait(seconds(301))
    pair.ack(1, answer=Answer.STOP_AND_RETURN)
    pair.wait(seconds(301))
    assert [(1,)] == [event.operations for event in pair.recorded(OperationsBegun)]
    assert [] == pair.recorded(StopOrdered)
    pair.stopped(WHOLE)
    pair.again(WHOLE)
    assert "gone" == pair.row().tasks[WHOLE].phase
    pair.wait(seconds(905))
    pair.again(WHOLE)
    pair.up(WHOLE)
    assert ("up", 1) == (pair.row().tasks[WHOLE].phase, pair.row().tasks[WHOLE].run)
    assert [Outcome.HEALTHY] == [event.outcome for event in pair.recorded(OperationsDone)]


def test_late_repeat_of_a_users_word(start: Start) -> None:
    """A restart that was done long ago and is heard again is refused: the user saw another number."""
    pair = Pair(start)
    pair.grant(a_service())
    pair.operate(OperationKind.RESTART, t(0))
    pair.ack(1)
    pair.done(t(0))
    pair.ack()
    again = pair.operate(OperationKind.RESTART, t(0), first=1)
    assert [] == facts(again)
    assert "superseded" == said_once(again, Refused).reason


def test_operations_of_gangs(start: Start) -> None:
    """A gang is touched whole: single tasks of it are not, and to stop it for good is to cancel it."""
    pair = Pair(start)
    pair.grant(a_gang())
    assert [] == facts(pair.operate(OperationKind.RESTART, t(0)))
    assert [] == facts(pair.operate(OperationKind.STOP))
    assert 1 == len(facts(pair.operate(OperationKind.CHECKPOINT_AND_STOP)))


# Starting anew.


def test_task_control_starts_anew(start: Start) -> None:
    """Its notes are gone: it asks again with the same sequence, and a deadline is where it was."""
    pair = Pair(start)
    pair.grant(a_service())
    plan(pair, 1, lead=seconds(600))
    pair.operate(OperationKind.RESTART, t(0))
    before = pair.request()
    pair.wait(seconds(400))
    pair.control = pair.control.restart()
    pair.settle()
    assert before.sequence == pair.request().sequence
    pair.wait(seconds(198))
    assert [] == pair.recorded(OperationsBegun)
    pair.wait(seconds(5))
    assert [BegunBy.DEADLINE] == [event.by for event in pair.recorded(OperationsBegun)]


def test_unknown_maintenance_phase_is_left(start: Start) -> None:
    """Phases follow the clock: planned, noticed, open, over."""
    pair = Pair(start)
    plan(pair, 1)
    rows = pair.store.state.image.maintenance.rows
    seen = []
    for _ in range(4):
        seen.append(rows["m-1"].phase if "m-1" in rows else MaintenancePhase.OVER)
        pair.wait(seconds(302) if len(seen) < 3 else seconds(1000))
    assert ["planned", "noticed", "open", "over"] == seen


def test_controllers_are_shown(start: Start) -> None:
    """Who was heard when, and what waits for whom."""
    pair = Pair(start)
    pair.grant(a_service())
    pair.operate(OperationKind.RESTART, t(0), t(1))
    shown = said_once(pair.control.hear(ShowControllers(EU)), ControllersShown).controllers
    assert [(TENANT, "shards", -1, 2)] == [(c.tenant, c.controller, c.heard_ago, c.waiting) for c in shown]
    pair.ack(1)
    pair.wait(seconds(3))
    [one] = said_once(pair.control.hear(ShowControllers(EU)), ControllersShown).controllers
    assert (seconds(3), 1) == (one.heard_ago, one.waiting)


def test_specs_that_nobody_named() -> None:
    """The pair's two ways to decide differ in what they say they do."""
    assert SHARDS.controller
    assert not ALONE.controller
