"""Calls from callers to a router, to a server, and back: each ends once, and what may be begun once is never begun twice."""

from typing import Any

from components.function_server.component import FunctionServer
from core.messages.executors import ExecutorChanged
from core.messages.functions import AskCalls, CallsAnswered, CallsKnown, CallsRefused, RouterHere, RunCalls
from core.nouns.function import CallOutcome, WarmLevel
from core.nouns.instant import SECOND, Nanoseconds, after, seconds
from core.nouns.quantities import Amount
from tests.builders import EU
from tests.components.support.functions import (
    ML,
    ROUTERS,
    a_function,
    a_router,
    a_server,
    answers,
    call,
    calls,
    carry_reports,
    carry_runs,
    comes_up,
    ends,
    given,
    reports,
    sized,
    started,
    stopped,
)
from tests.matching import said, said_once


def joined(start: Any, cores: int = 2, gib: int = 64) -> tuple[Any, Any]:
    """A router and a server that know each other."""
    server, router = a_server(start, cores=cores, gib=gib), a_router(start)
    carry_reports(server, router)
    return router, server


def test_call_runs_and_is_answered(start: Any) -> None:
    """From the caller over the router to an executor, and straight back."""
    router, server = joined(start)
    call(router, calls(1))
    (sent,) = carry_runs(router, server)
    assert [1] == [run.call.number for run in sent.runs]
    assert [1] == started(server.wake())
    comes_up(server, 1)
    assert {1: [1]} == given(server.wake())
    ended = ends(server, 1, 1)
    answer = said_once(ended, CallsAnswered)
    assert ("ml", "c1") == (answer.tenant, answer.caller)
    assert {1: "done"} == answers(ended)
    carry_reports(server, router)
    assert router.state.call((ML, "c1", 1)).is_over


def test_call_without_a_server_waits(start: Any) -> None:
    """It is sent when one is heard."""
    router = a_router(start)
    call(router, calls(1))
    assert [] == said(router.wake(), RunCalls)
    server = a_server(start)
    carry_reports(server, router)
    assert 1 == len(carry_runs(router, server))


def test_nothing_is_sent_beyond_the_size(start: Any) -> None:
    """Two of five run; the others wait in the router, and go when one has ended."""
    router, server = joined(start)
    call(router, calls(1, 2, 3, 4, 5))
    sent = carry_runs(router, server)
    assert [1, 2] == [run.call.number for message in sent for run in message.runs]
    comes_up(server, *started(server.wake()))
    assert {1: [1], 2: [2]} == given(server.wake())
    ends(server, 1, 1, ran=SECOND)
    carry_reports(server, router)
    sent = carry_runs(router, server)
    assert [3] == [run.call.number for message in sent for run in message.runs]


def test_short_calls_are_given_in_windows(start: Any) -> None:
    """A call takes 10 µs: the executor gets as many as it does in 50 ms, 256 at most."""
    router, server = joined(start, cores=1)
    call(router, calls(1))
    carry_runs(router, server)
    comes_up(server, *started(server.wake()))
    server.wake()
    ends(server, 1, 1, ran=10_000)
    carry_reports(server, router)
    call(router, calls(*range(2, 202)))
    carry_runs(router, server)
    assert 200 == len(given(server.wake())[1])


# Repeats.


def test_repeat_of_a_call_that_runs_starts_no_other(start: Any) -> None:
    """Nor does a run that the network says twice."""
    router, server = joined(start)
    call(router, calls(1))
    sent = carry_runs(router, server)
    assert [] == said(call(router, calls(1)), RunCalls)
    assert [] == said(router.wake(), RunCalls)
    server.hear(sent[0])
    assert 1 == len(server.state.runs)


def test_repeat_of_a_call_that_ended_gets_the_same_answer(start: Any) -> None:
    """From the server that ran it; it runs no more."""
    router, server = joined(start)
    call(router, calls(1))
    carry_runs(router, server)
    comes_up(server, *started(server.wake()))
    server.wake()
    ends(server, 1, 1)
    carry_reports(server, router)
    (again,) = said(call(router, calls(1)), RunCalls)
    assert {1: "done"} == answers(server.hear(again))
    assert {} == server.state.runs
    carry_reports(server, router)
    assert router.state.call((ML, "c1", 1)).is_over


def test_floor_forgets_what_has_an_answer(start: Any) -> None:
    """A call below it is known no more, and one that comes late is not begun."""
    router, server = joined(start)
    call(router, calls(1))
    carry_runs(router, server)
    call(router, calls(2), floor=2)
    router.wait(seconds(1))
    assert router.state.call((ML, "c1", 1)) is None
    call(router, calls(1))
    assert router.state.call((ML, "c1", 1)) is None


def test_run_that_did_not_come_is_said_again(start: Any) -> None:
    """After a second, under the same number."""
    router, server = joined(start)
    call(router, calls(1))
    (lost,) = said(router.wake(), RunCalls)
    for _ in range(3):
        server.wake(after(server.now, Nanoseconds(SECOND // 2)))
        carry_reports(server, router)
    router.now = server.now
    (again,) = said(router.wake(after(router.now, Nanoseconds(SECOND // 2))), RunCalls)
    assert lost.runs == again.runs
    server.hear(again)
    server.hear(lost)
    assert 1 == len(server.state.runs)


# Servers and routers that die.


def restarted_server(start: Any, router: Any, server: Any) -> Any:
    """The next life of a server, of which the router hears."""
    again = start(FunctionServer(EU, "w0", ROUTERS), at=after(server.now, Nanoseconds(1)))
    again.wake()
    again.hear(sized(Amount(0, 2_000, 64 << 30)))
    carry_reports(again, router)
    return again


def test_calls_of_a_dead_server_run_again(start: Any) -> None:
    """All but those that may be begun once only, which are lost."""
    router, server = joined(start)
    call(router, calls(1))
    call(router, calls(2, once=True))
    carry_runs(router, server)
    again = start(FunctionServer(EU, "w0", ROUTERS), at=after(server.now, Nanoseconds(1)))
    again.wake()
    again.hear(sized(Amount(0, 2_000, 64 << 30)))
    router.now = again.now
    decisions = [router.hear(report) for report in reports(again)]
    assert {2: "lost"} == answers(decisions[0])
    (sent,) = carry_runs(router, again)
    assert [1] == [run.call.number for run in sent.runs]


def test_silent_server_gets_nothing_and_then_is_gone(start: Any) -> None:
    """H-4: a report older than 3 s says nothing; after 10 s its calls run elsewhere."""
    router, server = joined(start)
    call(router, calls(1))
    carry_runs(router, server)
    router.wait(seconds(3.5))
    call(router, calls(2))
    assert [] == said(router.wake(), RunCalls)
    other = a_server(start, "w1")
    other.now = router.now
    carry_reports(other, router)
    (sent,) = carry_runs(router, other)
    assert [2] == [run.call.number for run in sent.runs]
    for _ in range(8):
        router.wait(Nanoseconds(SECOND))
        other.now = router.now
        carry_reports(other, router)
    assert "w0/0" not in router.state.servers
    assert ["w1/0"] == [router.state.call((ML, "c1", 1)).server]


def test_call_to_be_begun_once_is_for_one_life_of_a_router(start: Any) -> None:
    """The next life does not begin it: the caller asks the servers."""
    router, server = joined(start)
    refused = said_once(call(router, calls(1, once=True), life="another"), CallsRefused)
    assert ("other_router", (1,)) == (refused.reason, refused.numbers)
    call(router, calls(2, once=True))
    carry_runs(router, server)
    known = said_once(server.hear(AskCalls(EU, ML, "c1", (1, 2, 3)), tenant=ML), CallsKnown)
    assert (2,) == known.numbers
    comes_up(server, *started(server.wake()))
    server.wake()
    ends(server, 1, 1)
    assert {2: "done"} == answers(server.hear(AskCalls(EU, ML, "c1", (1, 2, 3)), tenant=ML))


def test_once_is_not_run_again_by_a_server_that_forgot_it(start: Any) -> None:
    """Its answer was lost, and a minute later nobody knows it: it is lost."""
    router, server = joined(start)
    call(router, calls(1, once=True))
    carry_runs(router, server)
    comes_up(server, *started(server.wake()))
    server.wake()
    ends(server, 1, 1)
    carry_reports(server, router)
    server.now = after(server.now, seconds(61))
    server.hear(sized(Amount(0, 2_000, 64 << 30)))
    call(router, calls(2))
    carry_runs(router, server)
    server.wake()
    ends(server, 1, 2)
    (again,) = said(call(router, calls(1, once=True)), RunCalls)
    carry_reports(server, router)
    repeated = said(router.wait(seconds(1.5)), RunCalls)[-1]
    assert again.runs == repeated.runs, "the first did not come"
    assert {1: "lost"} == answers(server.hear(repeated))


# Executors.


def test_dead_executor_loses_no_call_but_its_own(start: Any) -> None:
    """The call under way failed by it; those behind it run in another one."""
    router, server = joined(start, cores=1)
    call(router, calls(1))
    carry_runs(router, server)
    comes_up(server, *started(server.wake()))
    server.wake()
    ends(server, 1, 1, ran=10_000)
    carry_reports(server, router)
    call(router, calls(2, 3))
    carry_runs(router, server)
    assert {1: [2, 3]} == given(server.wake())
    ended = ends(server, 1, 2, outcome=CallOutcome.FAILED)
    assert {2: "failed"} == answers(ended)
    assert {} == answers(ends(server, 1, 3, outcome=CallOutcome.LOST))
    server.hear(ExecutorChanged(1, WarmLevel.COLD, is_gone=True, problem="exit code 1"))
    comes_up(server, *started(server.wake()))
    assert {2: [3]} == given(server.wake())


def test_function_that_cannot_start_fails_its_calls(start: Any) -> None:
    """After the second executor that came to nothing, with the reason."""
    router, server = joined(start, cores=1)
    call(router, calls(1))
    carry_runs(router, server)
    assert [1] == started(server.wake())
    server.hear(ExecutorChanged(1, WarmLevel.COLD, is_gone=True, problem="no module named work"))
    assert [2] == started(server.wake())
    gone = server.hear(ExecutorChanged(2, WarmLevel.COLD, is_gone=True, problem="no module named work"))
    assert {1: "failed"} == answers(gone)
    assert [] == started(server.wake())


def test_idle_executors_make_room_for_other_functions(start: Any) -> None:
    """The one that was idle for longest, if there is no memory for all."""
    router, server = joined(start, cores=1, gib=1)
    call(router, calls(1))
    carry_runs(router, server)
    comes_up(server, *started(server.wake()))
    server.wake()
    ends(server, 1, 1)
    carry_reports(server, router)
    call(router, calls(2), function=a_function("other"))
    carry_runs(router, server)
    decision = server.wake()
    assert ([1], [2]) == (stopped(decision), started(decision))


def test_executors_without_calls_hold_no_cores(start: Any) -> None:
    """As many functions stay warm as there is memory for, and so many calls run as there are cores."""
    router, server = joined(start, cores=1)
    for number, name in enumerate(("score", "other"), 1):
        call(router, calls(number), function=a_function(name))
        carry_runs(router, server)
        comes_up(server, *started(server.wake()))
        server.wake()
        ends(server, number, number)
        carry_reports(server, router)
    call(router, calls(3))
    call(router, calls(4), function=a_function("other"))
    sent = carry_runs(router, server)
    assert [[3]] == [[run.call.number for run in message.runs] for message in sent]
    decision = server.wake()
    assert ({1: [3]}, [], []) == (given(decision), started(decision), stopped(decision))


def test_smaller_server_ends_executors(start: Any) -> None:
    """Idle ones first, for memory; what runs in the others goes back to its router, unheard by its caller."""
    router, server = joined(start, gib=2)
    call(router, calls(1, 2))
    carry_runs(router, server)
    comes_up(server, *started(server.wake()))
    server.wake()
    ends(server, 1, 1)
    server.hear(sized(Amount(0, 1_000, 2 << 30)))
    assert [] == stopped(server.wake()), "one call runs, on one core"
    server.hear(sized(Amount(0, 1_000, 1 << 30)))
    assert [1] == stopped(server.wake())
    server.hear(sized(Amount()))
    assert [2] == stopped(server.wake())
    assert {} == answers(server.hear(ExecutorChanged(2, WarmLevel.COLD, is_gone=True)))
    assert {} == answers(server.wake())
    assert {} == server.state.runs


def test_router_says_that_it_lives(start: Any) -> None:
    """Every two seconds, with what is warm."""
    router, server = joined(start)
    call(router, calls(1))
    carry_runs(router, server)
    comes_up(server, *started(server.wake()))
    carry_reports(server, router)
    here = said(router.wait(seconds(2)), RouterHere)
    assert [a_function().id] == list(here[-1].warm)


def test_expired_call_is_refused(start: Any) -> None:
    """It waited for longer than its caller does."""
    router = a_router(start)
    call(router, calls(1, within=SECOND))
    assert {1: "refused"} == answers(router.wait(seconds(2)))


def test_strangers_call_nothing(start: Any) -> None:
    """Of another tenant."""
    router, _ = joined(start)
    from core.messages.functions import CallFunction

    message = CallFunction(EU, "r0", router.state.life, ML, "c1", 1, 1, a_function(), calls(1))
    router.hear(message, tenant="vision")
    assert {} == router.state.callers
