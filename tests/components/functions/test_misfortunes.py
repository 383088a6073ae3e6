"""Misfortunes that tests/core/calls/test_callers.py has found, one by one."""

from typing import Any

from components.function_server.component import FunctionServer
from core.messages.executors import CallsEnded, EndedCall
from core.messages.functions import RunCalls, ServerReport
from core.nouns.function import CallAnswer, CallOutcome
from core.nouns.function_limits import CALL_TRIES_MAX
from core.nouns.instant import SECOND, Nanoseconds, after
from core.nouns.quantities import Amount
from tests.builders import EU
from tests.components.support.functions import (
    ML,
    ROUTERS,
    a_router,
    a_server,
    answers,
    call,
    calls,
    carry_reports,
    carry_runs,
    comes_up,
    given,
    reports,
    sized,
    started,
)
from tests.matching import said

ROOM = Amount(0, 2_000, 64 << 30)


def next_life(start: Any, server: Any) -> Any:
    """The same server, started again."""
    again = start(FunctionServer(EU, "w0", ROUTERS), at=after(server.now, Nanoseconds(1)))
    again.wake()
    again.hear(sized(ROOM))
    return again


def test_lost_call_that_is_said_again_is_lost_again(start: Any) -> None:
    """Its caller has not heard the answer; another server must not begin the call."""
    server, router = a_server(start), a_router(start)
    carry_reports(server, router)
    call(router, calls(1, once=True))
    carry_runs(router, server)
    again = next_life(start, server)
    carry_reports(again, router)
    decision = call(router, calls(1, once=True))
    assert {1: "lost"} == answers(decision)
    assert [] == said(router.wake(), RunCalls)
    call(router, calls(2), floor=2)
    assert router.state.call((ML, "c1", 1)) is None, "its caller has heard it"


def test_run_that_never_came_takes_no_room_for_ever(start: Any) -> None:
    """Its call has ended otherwise; the server's two cores are free for others."""
    server, router = a_server(start), a_router(start)
    carry_reports(server, router)
    call(router, calls(1, 2))
    assert 1 == len(said(router.wake(), RunCalls)), "lost on the way"
    call(router, calls(3, 4), floor=3)
    for _ in range(4):
        server.now = router.now = after(router.now, Nanoseconds(SECOND // 2))
        carry_reports(server, router)
        sent = said(router.wake(), RunCalls)
        if any(message.runs for message in sent):
            break
    assert [3, 4] == [run.call.number for message in sent for run in message.runs]


def test_late_report_of_an_earlier_life_repeats_no_number(start: Any) -> None:
    """A server takes each number of a router's life for one run."""
    server, router = a_server(start), a_router(start)
    (late,) = reports(server)
    carry_reports(server, router)
    router.hear(late)
    again = next_life(start, server)
    carry_reports(again, router)
    call(router, calls(1))
    (first,) = carry_runs(router, again)
    router.hear(late)
    again.now = router.now = after(router.now, Nanoseconds(SECOND))
    whole = said(again.wake(), ServerReport)[-1]
    router.hear(whole)
    call(router, calls(2))
    sent = carry_runs(router, again)
    numbers = [run.number for message in (first, *sent) for run in message.runs]
    assert len(numbers) == len(set(numbers))
    assert {1, 2} == {run.key[2] for run in again.state.runs.values()}


def test_call_whose_executors_are_taken_fails(start: Any) -> None:
    """After some tries; only a call that may be begun once only is ever lost."""
    server, router = a_server(start, cores=1), a_router(start)
    carry_reports(server, router)
    call(router, calls(1))
    carry_runs(router, server)
    comes_up(server, *started(server.wake()))
    taken = CallsEnded((EndedCall(1, 1, CallAnswer(0, CallOutcome.LOST, problem="taken")),))
    for _ in range(CALL_TRIES_MAX - 1):
        assert {1: [1]} == given(server.wake())
        assert {} == answers(server.hear(taken))
    server.wake()
    assert {1: "failed"} == answers(server.hear(taken))
