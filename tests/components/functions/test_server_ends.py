"""How calls end whose executor is ended, what their callers are told, and what a server forgets afterwards."""

from typing import Any

import pytest

from core.calls.lives import life_of
from core.effects import ForgetCode, KeepCode
from core.messages.base import Message
from core.messages.executors import CallsEnded, CodeKept, EndedCall, ExecutorChanged
from core.messages.functions import AskCalls, CallsAnswered, CodeSent, CodeWanted, Run, RunCalls
from core.nouns.function import Call, CallAnswer, CallOutcome, FunctionSpec, WarmLevel
from core.nouns.function_limits import (
    CALL_BATCH_BYTES,
    CALL_TRIES_MAX,
    CALLS_AT_ONCE_MAX,
    CODE_SPAN,
    KEEP_ALIVE_MAX,
    SERVER_GONE,
)
from core.nouns.instant import SECOND, Nanoseconds, after, seconds
from core.nouns.quantities import NOTHING
from tests.builders import EU, START
from tests.components.support.functions import (
    HELD,
    ML,
    a_function,
    a_server,
    answers,
    calls,
    comes_up,
    ends,
    given,
    sized,
    started,
    stopped,
)
from tests.matching import begun, said, said_once

LIFE, NEXT_LIFE = life_of(START), life_of(after(START, seconds(1)))


def words(
    server: Any,
    *said_calls: Call,
    first: int = 0,
    life: str = LIFE,
    function: FunctionSpec | None = None,
) -> RunCalls:
    """A router says runs of these calls, numbered as the calls are, or from a number on."""
    runs = tuple(
        Run(first + place if first else one.number, "c1", ML, one) for place, one in enumerate(said_calls)
    )
    return RunCalls(EU, "w0", server.state.life, "r0", life, 1, function or a_function(), runs)


def warm(server: Any) -> None:
    """A call has run on executor 1, in no time: the next ones are given in windows."""
    server.hear(words(server, *calls(1)))
    comes_up(server, *started(server.wake()))
    server.wake()
    ends(server, 1, 1, ran=1)


def is_gone(executor: int) -> Message:
    """An executor is."""
    return ExecutorChanged(executor, WarmLevel.COLD, is_gone=True)


# Executors that are ended.


@pytest.mark.parametrize("is_told", [True, False])
def test_calls_behind_the_one_that_runs_are_not_lost(start: Any, is_told: bool) -> None:
    """The server became smaller: one call may have begun, whether that is told or not; the others go back to their router."""
    server = a_server(start, cores=1)
    warm(server)
    server.hear(words(server, *calls(2, 3, 4, once=True)))
    assert {1: [2, 3, 4]} == given(server.wake())
    server.hear(sized(NOTHING))
    decision = server.wake()
    assert ([1], {}) == (stopped(decision), answers(decision))
    assert {2: "done"} == answers(ends(server, 1, 2)), "just before its end"
    if is_told:
        lost, unbegun = CallAnswer(0, CallOutcome.LOST), CallAnswer(0, CallOutcome.REFUSED)
        told = server.hear(CallsEnded((EndedCall(1, 3, lost), EndedCall(1, 4, unbegun))))
        assert {} == answers(server.hear(is_gone(1)))
    else:
        told = server.hear(is_gone(1))
    assert {3: "lost"} == answers(told)
    server.wake()
    assert {} == server.state.runs
    ended = {one.number: one.outcome for one in server.state.place(HELD).links["r0"].ended.values()}
    assert (CallOutcome.LOST, CallOutcome.REFUSED) == (ended[3], ended[4])


def test_calls_that_come_too_late_for_an_executor_were_not_begun(start: Any) -> None:
    """It was gone by itself."""
    server = a_server(start, cores=1)
    warm(server)
    server.hear(words(server, *calls(2, 3, once=True)))
    assert {1: [2, 3]} == given(server.wake())
    assert {} == answers(server.hear(is_gone(1)))
    comes_up(server, *started(server.wake()))
    assert {2: [2, 3]} == given(server.wake())


def test_call_that_never_began_is_given_any_number_of_times(start: Any) -> None:
    """Executors die of the calls before, or are taken with them; the call itself was not tried."""
    server = a_server(start, cores=1)
    warm(server)
    lost, unbegun = CallAnswer(0, CallOutcome.LOST), CallAnswer(0, CallOutcome.REFUSED)
    server.hear(words(server, *calls(2, 3)))
    executor = 1
    for _ in range(2 * CALL_TRIES_MAX):
        assert {executor: [2, 3]} == given(server.wake())
        server.hear(CallsEnded((EndedCall(executor, 2, unbegun), EndedCall(executor, 3, unbegun))))
        server.hear(is_gone(executor))
        (executor,) = started(server.wake())
        comes_up(server, executor)
    for tried in range(1, CALL_TRIES_MAX + 1):
        assert {executor: [2, 3]} == given(server.wake())
        said_ends = (EndedCall(executor, 2, lost), EndedCall(executor, 3, unbegun))
        told = answers(server.hear(CallsEnded(said_ends)))
        assert ({2: "failed"} if tried == CALL_TRIES_MAX else {}) == told
    assert {executor: [3]} == given(server.wake())


# Answers.


@pytest.mark.parametrize("size", [0, 4_096, CALL_BATCH_BYTES // 2, CALL_BATCH_BYTES + 1])
@pytest.mark.parametrize("way", ["end", "come again", "are asked for"])
def test_answers_go_in_messages_that_are_not_too_large(start: Any, size: int, way: str) -> None:
    """Many of one caller at once: each is told once, and in order."""
    count = CALLS_AT_ONCE_MAX + 1
    server = a_server(start, cores=1)
    warm(server)
    numbers = tuple(range(2, 2 + count))
    server.hear(words(server, *calls(*numbers)))
    server.wake()
    answer = CallAnswer(0, CallOutcome.DONE, bytes(size), ran=Nanoseconds(1))
    first, last = numbers[:-1], numbers[-1:]
    told = server.hear(CallsEnded(tuple(EndedCall(1, ticket, answer) for ticket in first)))
    server.wake()
    server.hear(CallsEnded((EndedCall(1, last[0], answer),)))
    if way == "come again":
        told = server.hear(words(server, *calls(*numbers), first=1_000))
    elif way == "are asked for":
        told = server.hear(AskCalls(EU, ML, "c1", numbers), tenant=ML)
    batches = [message.answers for message in said(told, CallsAnswered)]
    assert (numbers if way != "end" else first) == tuple(one.number for batch in batches for one in batch)
    assert CALLS_AT_ONCE_MAX >= max(len(batch) for batch in batches)
    sizes = [sum(len(one.value) for one in batch) for batch in batches]
    assert all(
        len(batch) == 1 or total <= CALL_BATCH_BYTES for batch, total in zip(batches, sizes, strict=True)
    )
    most = max(1, min(CALLS_AT_ONCE_MAX, CALL_BATCH_BYTES // size if size else CALLS_AT_ONCE_MAX))
    assert all(len(batch) == most for batch in batches[:-1]), "and in no more than needed"


# Lives of routers.


def test_late_word_of_an_earlier_life_of_a_router_is_ignored(start: Any) -> None:
    """Else runs of the life that is heard would be taken anew, and a call begun twice when its kept answer is gone."""
    server = a_server(start, cores=1)
    first = words(server, *calls(1, once=True), life=NEXT_LIFE)
    server.hear(first)
    comes_up(server, *started(server.wake()))
    server.wake()
    ends(server, 1, 1)
    server.wait(seconds(61))
    server.hear(words(server, *calls(2), life=NEXT_LIFE))
    server.wake()
    ends(server, 1, 2)
    assert () == server.hear(words(server, *calls(3), life=LIFE)).events
    server.hear(first)
    assert {} == given(server.wake())


def test_life_whose_clock_has_stepped_back_is_heard_later(start: Any) -> None:
    """Once the other one is silent for so long that it must be gone."""
    server = a_server(start, cores=1)
    server.hear(words(server, *calls(1), life=NEXT_LIFE))
    server.wait(Nanoseconds(SERVER_GONE - 1))
    assert () == server.hear(words(server, *calls(2), life=LIFE)).events
    server.wait(Nanoseconds(1))
    server.hear(words(server, *calls(2), life=LIFE))
    assert (LIFE, 2) == (server.state.place(HELD).links["r0"].life, len(server.state.runs))


# Functions.


def test_function_that_is_not_used_is_forgotten(start: Any) -> None:
    """Ten minutes after its last call, once no executor is left; when called again, its code is asked for again."""
    pickled = a_function(is_pickled=True)
    server = a_server(start, cores=1)

    def run(number: int) -> None:
        server.hear(words(server, *calls(number), function=pickled))
        assert pickled.id == said_once(server.wake(), CodeWanted).function
        server.hear(CodeSent(EU, "w0", ML, pickled.id, b"code"), tenant=ML)
        server.hear(CodeKept(pickled.id))
        (executor,) = started(server.wake())
        comes_up(server, executor)
        server.wake()
        ends(server, executor, number)

    run(1)
    decision = server.wait(KEEP_ALIVE_MAX)
    assert [1] == stopped(decision)
    server.wait(seconds(120))
    assert [pickled.id] == list(server.state.functions), "its executor is not gone yet"
    server.hear(is_gone(1))
    assert [ForgetCode((pickled.id,))] == begun(server.wait(seconds(60)), ForgetCode)
    assert {} == server.state.functions
    run(2)


def test_code_that_comes_too_late_is_not_kept(start: Any) -> None:
    """Its calls have failed; the function may be forgotten meanwhile, and its code be deleted. The next call asks for it again."""
    pickled = a_function(is_pickled=True)
    server = a_server(start, cores=1)
    server.hear(words(server, *calls(1), function=pickled))
    server.wake()
    server.wait(Nanoseconds(CODE_SPAN + SECOND))
    code = CodeSent(EU, "w0", ML, pickled.id, b"code")
    assert [] == begun(server.hear(code, tenant=ML), KeepCode)
    server.hear(words(server, *calls(2), function=pickled))
    assert [KeepCode(pickled.id, b"code")] == begun(server.hear(code, tenant=ML), KeepCode)


def test_named_code_is_not_deleted(start: Any) -> None:
    """It is a file of the tenant's, and no copy."""
    server = a_server(start, cores=1)
    warm(server)
    server.wait(KEEP_ALIVE_MAX)
    server.hear(is_gone(1))
    decision = server.wait(seconds(120))
    assert {} == server.state.functions
    assert [] == begun(decision, ForgetCode)


def test_function_that_is_called_or_waits_is_not_forgotten(start: Any) -> None:
    """One is called; the executor of another does not come up."""
    server = a_server(start, cores=2)
    server.hear(words(server, *calls(1), function=a_function("slow")))
    server.hear(words(server, *calls(2), function=a_function("often")))
    server.wake()
    server.hear(is_gone(2))
    for number in range(3, 15):
        server.wait(seconds(60))
        server.hear(words(server, *calls(number), function=a_function("often")))
        server.hear(sized(NOTHING))
        server.wake()
    assert {a_function("slow").id, a_function("often").id} == {*server.state.functions}
