"""Task control and the store together: nothing happens to a task without its application's word (Twine §2.4-2.5)."""

from typing import Any

import pytest
from msgspec.structs import replace

from core.events.control import AcksExpired, ControlAnswered, OperationsBegun, OperationsStuck
from core.messages.base import Refused
from core.messages.control import ControllersShown, ShowControllers, TaskControlResponse
from core.messages.store import RecordLoss
from core.nouns.ids import TenantName, WorkerName, WorkloadId
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import ACK_LEASE, CONTROL_ASK_AGAIN, CONTROL_SAY_AGAIN, STUCK_SPAN
from core.nouns.maintenance import MaintenancePhase
from core.nouns.operation import Answer, BegunBy, ControlSpec, OperationKind, OperationPhase, Outcome
from core.nouns.workload import EndCause
from tests.builders import EU, EU_LOG
from tests.components.support.operators import drain, phases, plan, undrain
from tests.components.support.task_control import ALONE, SHARDS, TENANT, W1, Pair, Start, a_service, t
from tests.matching import facts, said_once

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


def test_answer_of_several_facts_ends_one_telling(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """T12: what had no room among what was told as completed is told in the next request."""
    for limit in (
        "components.task_control.requests.CONTROL_ASKED_MAX",
        "core.images.control.CONTROL_ASKED_MAX",
    ):
        monkeypatch.setattr(limit, 2)
    monkeypatch.setattr("components.placement_store.tasks.OPERATIONS_AT_ONCE_MAX", 1)
    pair = Pair(start)
    pair.grant(a_service())
    drain(pair, 0, 1, 2, 3)
    undrain(pair, 0, 1, 2, 3)
    drain(pair, 0, 1)
    assert [1, 2] == [done.operation for done in pair.request().completed]
    pair.ack(5, 6)
    assert [1, 1] == [len(event.acks) for event in pair.recorded(ControlAnswered)]
    assert [3, 4] == [done.operation for done in pair.request().completed]
    pair.ack()
    assert {5, 6} == set(pair.row().operations)


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
def test_acks_of_unknown_operations(start: Start, operations: tuple[int, ...], count: int) -> None:
    """T14: they are ignored and counted, and a valid ack beside them counts."""
    pair = Pair(start)
    pair.grant(a_service())
    pair.operate(OperationKind.RESTART, t(0))
    pair.ack(*operations)
    begun = [event.operations for event in pair.recorded(OperationsBegun)]
    assert ([(1,)] if 1 in operations else []) == begun
    assert count == ignored(pair)


def test_duplicate_answer(start: Start) -> None:
    """T14: the same answer twice begins nothing twice, and the second is counted."""
    pair = Pair(start)
    pair.grant(a_service())
    pair.operate(OperationKind.RESTART, t(0))
    on = pair.request().sequence
    pair.ack(1, sequence=on)
    pair.ack(1, sequence=on)
    assert 1 == len(pair.recorded(OperationsBegun))
    assert 1 == len(pair.recorded(ControlAnswered))
    assert 1 == ignored(pair)


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


def test_completed_task_is_not_counted_as_down(start: Start) -> None:
    """T13, T18: a task that completed is not unhealthy, and takes no other's place among those that may be down."""
    pair = Pair(start)
    pair.grant(a_service(control=ALONE))
    pair.failed(t(3), cause=EndCause.COMPLETED)
    pair.operate(OperationKind.RESTART, t(0))
    assert [(1,)] == [event.operations for event in pair.recorded(OperationsBegun)]
    assert [t(0)] == pair.row().unavailable()


# Starting anew.


def test_task_control_starts_again(start: Start) -> None:
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


def test_specs_with_and_without_a_controller() -> None:
    """The pair's two ways to decide differ in their controller."""
    assert SHARDS.controller
    assert not ALONE.controller
