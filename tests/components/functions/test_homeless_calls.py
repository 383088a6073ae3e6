"""Calls that no server of a region could run: they go back to their caller, who looks for another region, and gives up aloud."""

from typing import Any

from core.calls.caller import Caller
from core.messages.functions import CallFunction, CallsAnswered, CallsRefused, RouterHere, RoutersWanted
from core.nouns.function import CallAnswer, CallOutcome
from core.nouns.function_limits import NO_SERVER_SPAN
from core.nouns.ids import RegionName
from core.nouns.instant import SECOND, Instant, Nanoseconds, after, seconds
from core.nouns.quantities import NOTHING, Amount
from core.nouns.reasons import Reason
from tests.builders import EU, START
from tests.components.support.functions import (
    CORE,
    ML,
    a_function,
    a_router,
    a_server,
    call,
    calls,
    carry_reports,
    sized,
)
from tests.matching import said, said_once

US = RegionName("us")
AT_ONCE = Nanoseconds(0)
ROOM = Amount(0, 8_000, 64 << 30)


def test_call_beyond_all_servers_is_refused(start: Any) -> None:
    """It needs three cores, and the only server has two."""
    router = a_router(start)
    carry_reports(a_server(start), router)
    router.wait(seconds(4))
    refused = said_once(call(router, calls(1), function=a_function(need=CORE.times(3))), CallsRefused)
    assert ("no_function_server", (1,)) == (refused.reason, refused.numbers)
    assert refused.again_in > 0
    assert not refused.gives_back
    assert [] == said(call(router, calls(2)), CallsRefused)


def test_waiting_calls_go_back_when_capacity_goes(start: Any) -> None:
    """What serves functions was cancelled."""
    router, server = a_router(start), a_server(start, cores=1)
    carry_reports(server, router)
    router.wait(seconds(4))
    server.now = router.now
    carry_reports(server, router)
    call(router, calls(1, 2))
    router.wake()
    server.hear(sized(NOTHING))
    carry_reports(server, router)
    refused = said(router.wait(seconds(1)), CallsRefused)
    assert [((2,), True)] == [(one.numbers, one.gives_back) for one in refused]
    assert router.state.call((ML, "c1", 2)) is None
    assert router.state.call((ML, "c1", 1)) is not None


class Plane:
    """A caller, with routers that are played by hand."""

    def __init__(self) -> None:
        self.caller = Caller(ML, "c1")
        self.now: Instant = START

    def here(self, *regions: RegionName, size: Amount = ROOM) -> None:
        """Routers of these regions say that they are there."""
        for region in regions:
            self.caller.hear(RouterHere(region, "r0", "a", ("r0",), 0, size), self.now)

    def say(self, span: Nanoseconds = AT_ONCE) -> list[CallFunction]:
        """What the caller says after a span."""
        self.now = after(self.now, span)
        return [one for one in self.caller.take(self.now) if isinstance(one, CallFunction)]

    def refuse(self, said_calls: CallFunction, *, gives_back: bool = False) -> None:
        """No server of the region could run them, from the beginning or any more."""
        numbers = tuple(one.number for one in said_calls.calls)
        reason, word, again = Reason.NO_FUNCTION_SERVER, said_calls.word, seconds(2)
        refused = CallsRefused(
            ML,
            "c1",
            said_calls.region,
            "r0",
            numbers,
            word,
            reason,
            again_in=again,
            gives_back=gives_back,
        )
        self.caller.hear(refused, self.now)


def test_caller_goes_to_another_region() -> None:
    """At once; and comes back when the region may have capacity again."""
    plane = Plane()
    plane.here(EU, US)
    plane.caller.add(a_function(), b"", plane.now)
    (first,) = plane.say()
    plane.refuse(first)
    (second,) = plane.say()
    assert {EU, US} == {first.region, second.region}
    plane.refuse(second)
    assert [] == plane.say()
    assert 1 == len(plane.say(seconds(2)))


def test_caller_gives_up_aloud() -> None:
    """No region could run a function that never ran: after half a minute each call ends as refused, with what to do about it."""
    plane = Plane()
    plane.here(EU, size=NOTHING)
    plane.caller.add(a_function(), b"", plane.now)
    for _ in range(NO_SERVER_SPAN // SECOND - 1):
        assert [] == plane.say(seconds(1))
        plane.here(EU, size=NOTHING)
        assert [] == plane.caller.ended()
    plane.say(seconds(2))
    (answer,) = plane.caller.ended()
    assert CallOutcome.REFUSED is answer.outcome
    assert "mizzen functions serve" in answer.problem


def test_caller_waits_on_while_capacity_comes_and_goes() -> None:
    """It is recalled every few seconds, and a call takes a minute: there was capacity all the same."""
    plane = Plane()
    plane.here(EU)
    plane.caller.add(a_function(), b"", plane.now)
    for _ in range(NO_SERVER_SPAN // SECOND):
        for said_calls in plane.say(seconds(2)):
            plane.refuse(said_calls, gives_back=True)
        plane.here(EU)
    assert [] == plane.caller.ended()
    for _ in range(NO_SERVER_SPAN // SECOND):
        for said_calls in plane.say(seconds(2)):
            plane.refuse(said_calls)
        plane.here(EU)
    assert [CallOutcome.REFUSED] == [one.outcome for one in plane.caller.ended()]


def test_caller_waits_on_for_a_function_that_ran() -> None:
    """Its capacity is away for a while: a map goes on when it is back."""
    plane = Plane()
    plane.here(EU)
    plane.caller.add(a_function(), b"", plane.now)
    plane.say()
    answer = CallAnswer(1, CallOutcome.DONE)
    plane.caller.hear(CallsAnswered(ML, "c1", EU, "w0", (answer,)), plane.now)
    plane.caller.ended()
    plane.here(EU, size=NOTHING)
    plane.caller.add(a_function(), b"", plane.now)
    for _ in range(2 * NO_SERVER_SPAN // SECOND):
        assert [] == plane.say(seconds(1))
        plane.here(EU, size=NOTHING)
    assert [] == plane.caller.ended()
    plane.here(EU)
    assert 1 == len(plane.say(seconds(1)))


def test_caller_asks_for_routers() -> None:
    """Until it has heard one; it need not wait for the two seconds between their words."""
    caller = Caller(ML, "c1")
    assert [] == caller.take(START), "it has no call"
    caller.add(a_function(), b"", START)
    assert [RoutersWanted(ML)] == caller.take(START)
    assert [] == caller.take(after(START, Nanoseconds(1)))
    later = after(START, seconds(1))
    assert [RoutersWanted(ML)] == caller.take(later)
    caller.hear(RouterHere(EU, "r0", "a", ("r0",), 0, ROOM), later)
    assert [CallFunction] == [type(one) for one in caller.take(later)]


def test_router_tells_of_itself_when_asked(start: Any) -> None:
    """At once, but ten times a second at most."""
    router = a_router(start)
    assert [] == said(router.wait(seconds(1)), RouterHere)
    router.hear(RoutersWanted(ML), tenant=ML)
    assert 1 == len(said(router.wake(), RouterHere))
    router.hear(RoutersWanted(ML), tenant=ML)
    assert [] == said(router.wake(), RouterHere)
