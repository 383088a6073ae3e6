"""A call ends once for its caller, whatever becomes of routers, servers, executors and messages."""

import random
from contextlib import ExitStack
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.calls.caller import Caller
from core.messages.base import Message
from core.messages.functions import CallFunction, CallsAnswered, CallsKnown, CallsRefused, RouterHere
from core.nouns.function import CallOutcome
from core.nouns.function_limits import CALLER_SILENCE_MAX, NO_SERVER_SPAN
from core.nouns.instant import SECOND, Instant, Nanoseconds, after, seconds
from core.nouns.reasons import Reason
from tests.builders import EU, START, US
from tests.core.calls.world import (
    FUNCTIONS,
    ML,
    ROUTER_NAMES,
    SERVER_NAMES,
    SIZE,
    Fault,
    Made,
    Wanted,
    World,
)
from tests.core.properties import PROPERTY

CALLS_SECONDS, FAULTS_SECONDS = 20.0, 40.0
QUIET_SECONDS = 150.0
"""Within which all calls end once there are no faults any more: a server is taken for gone, a call is said again, servers are asked."""
HELD_MAX = 6
"""Calls that a router holds here, so that routers are full at times."""
FORGETFUL = {
    "function_server.state.ANSWERS_KEPT_SPAN": seconds(4),
    "function_router.component.CALLER_SILENCE_MAX": seconds(20),
    "function_router.taking.FORGETS_FROM": seconds(10),
}
SORTS = ("dies", "dies", "is cut off", "loses an executor", "shrinks", "has nothing")


def drawn(seed: int, *, with_times: bool = False) -> World:
    """A world with calls and misfortunes from a seed."""
    dice = random.Random(seed)
    calls = [
        Wanted(
            round(CALLS_SECONDS * dice.random(), 1),
            dice.choice("ab"),
            dice.randrange(2),
            dice.choice([0.0, 0.2, 1.0, 4.0]),
            dice.random() < 0.5,
            dice.choice([0.0, 1.0, 10.0]) if with_times else 0.0,
        )
        for _ in range(dice.choice([5, 30, 60]))
    ]
    faults = [
        Fault(
            (FAULTS_SECONDS - 5) * dice.random(),
            dice.choice([*ROUTER_NAMES, *SERVER_NAMES]),
            dice.randrange(4),
            dice.choice([0.001, 0.5, 3.0, 12.0]),
            dice.choice(SORTS),
        )
        for _ in range(dice.randrange(20))
    ]
    return World(seed, calls, faults, FAULTS_SECONDS)


def played(world: World) -> list[Made]:
    """All calls, long after the last misfortune. Routers and servers of every other world are as forgetful as these few calls allow."""
    limits = {"function_router.taking.CALLS_HELD_MAX": HELD_MAX}
    if world.seed % 2:
        limits |= FORGETFUL
    with ExitStack() as stack:
        for name, limit in limits.items():
            stack.enter_context(patch(f"components.{name}", limit))
        world.run(FAULTS_SECONDS)
        world.run(QUIET_SECONDS)
    return list(world.made.values())


@pytest.mark.timeout(240)
@settings(PROPERTY, max_examples=100)
@given(st.integers(0, 2**32))
def test_call_ends_once_for_its_caller(seed: int) -> None:
    """Each call ends exactly once; one to be begun once is never begun twice, and none of the others is ever lost."""
    for made in played(drawn(seed)):
        assert 1 == len(made.answers), made
        (answer,) = made.answers
        assert made.begun <= 1 or not made.wanted.is_once, made
        assert answer.outcome is not CallOutcome.LOST or made.wanted.is_once, made
        if answer.outcome is CallOutcome.DONE:
            assert made.begun, made
            assert made.arguments == answer.value, made
        if answer.outcome is CallOutcome.REFUSED:
            assert not made.begun, made


@pytest.mark.timeout(120)
@settings(PROPERTY, max_examples=25)
@given(st.integers(0, 2**32))
def test_call_with_a_time_ends_once(seed: int) -> None:
    """One that was begun is waited for; one that was not is refused, and nobody can tell of one whose router or server is gone."""
    for made in played(drawn(seed, with_times=True)):
        assert 1 == len(made.answers), made
        (answer,) = made.answers
        assert made.begun <= 1 or not made.wanted.is_once, made
        if answer.outcome is CallOutcome.LOST:
            assert made.wanted.is_once or made.wanted.within, made
        if answer.outcome is CallOutcome.REFUSED:
            assert not made.begun or (made.wanted.within and not made.wanted.is_once), made


def test_call_that_began_in_time_is_waited_for() -> None:
    """It runs for longer than twice the time for which it might wait; others find all executors busy, and are refused in time."""
    calls = [Wanted(10.0, "a", 0, 9.0, is_once, 3.0) for is_once in (True, False)]
    late = [Wanted(12.0, "a", 0, 9.0, is_once, 3.0) for is_once in (True, False) for _ in range(8)]
    made = played(World(2, [*calls, *late], [], 0.0))
    assert [CallOutcome.DONE] * 2 == [one.answers[0].outcome for one in made[:2]]
    refused = [one for one in made if one.answers[0].outcome is CallOutcome.REFUSED]
    assert refused
    for one in refused:
        assert one.ended_at is not None
        assert one.ended_at - one.made_at <= seconds(5), one


def test_misfortunes_happen() -> None:
    """A property over a world in which all goes well would say little."""
    calls = [made for seed in range(12) for made in played(drawn(seed))]
    assert any(made.begun > 1 for made in calls)
    assert any(made.answers[0].outcome is CallOutcome.LOST and made.begun for made in calls)
    assert any(made.answers[0].outcome is CallOutcome.LOST and not made.begun for made in calls)


# Found by the property.


class Plane:
    """A caller, and routers that are played by hand."""

    def __init__(self, *, is_once: bool) -> None:
        self.caller = Caller(ML, "a")
        self.now: Instant = START
        self.here(EU, US)
        self.caller.add(FUNCTIONS[0], b"", self.now, is_once=is_once)

    def here(self, *regions: object) -> None:
        """Routers of these regions live."""
        for region in (EU, US):
            if region in regions:
                self.caller.hear(RouterHere(region, "r0", "a", ("r0",), 0, SIZE), self.now)

    def say(self, span: float = 0.0) -> list[CallFunction]:
        """What the caller says after so many seconds."""
        self.now = after(self.now, seconds(span))
        return [one for one in self.caller.take(self.now) if isinstance(one, CallFunction)]

    def refuse(self, said: CallFunction, reason: Reason) -> None:
        """The router takes the calls not, for now."""
        numbers = tuple(one.number for one in said.calls)
        again_in = Nanoseconds(SECOND)
        refused = CallsRefused(
            ML, "a", said.region, said.router, numbers, said.word, reason, again_in=again_in
        )
        self.caller.hear(refused, self.now)


@pytest.mark.parametrize("reason", [Reason.ROUTER_FULL, Reason.NO_FUNCTION_SERVER])
def test_once_stays_with_its_router_until_the_newest_word_is_refused(reason: Reason) -> None:
    """The router may have taken the call by a newer word than the one that it refused."""
    plane = Plane(is_once=True)
    (first,) = plane.say()
    (again,) = plane.say(2.0)
    plane.here(EU, US)
    plane.refuse(first, reason)
    assert [] == plane.say(1.0)
    plane.refuse(again, reason)
    (elsewhere,) = plane.say()
    assert first.region == again.region != elsewhere.region


def test_late_refusal_of_a_call_that_is_asked_for() -> None:
    """Its router is gone: servers are asked on."""
    plane = Plane(is_once=True)
    (first,) = plane.say()
    plane.caller.hear(RouterHere(first.region, "r0", "b", ("r0",), 0, SIZE), plane.now)
    plane.refuse(first, Reason.ROUTER_FULL)
    plane.say(1.0)
    plane.caller.hear(CallsKnown(ML, "a", first.region, "w0", (1,)), plane.now)
    plane.say(3.0)
    assert [] == plane.caller.ended(), "a server has the call"
    plane.say(3.0)
    assert [CallOutcome.LOST] == [one.outcome for one in plane.caller.ended()]


@pytest.mark.parametrize("once", [True, False])
def test_call_that_is_refused_again_and_again_ends(once: bool) -> None:
    """Regions have enough in all, but no server has; after half a minute the call ends as refused, to be begun once or not."""
    plane = Plane(is_once=once)
    for _ in range(3 * NO_SERVER_SPAN // SECOND):
        for said in plane.say(0.5):
            plane.refuse(said, Reason.NO_FUNCTION_SERVER)
        plane.here(EU, US)
        ended = plane.caller.ended()
        if ended:
            break
    assert [CallOutcome.REFUSED] == [one.outcome for one in ended]
    assert seconds(30) <= plane.now - START <= seconds(35)


class OneWay(World):
    """A world in which a caller is heard by nobody for a while, and gets no answers, while it hears that routers live."""

    is_cut = False

    def send(self, message: Message, sender: str) -> None:
        """Lose what the caller says, and what is answered."""
        if not (self.is_cut and isinstance(message, CallFunction | CallsAnswered)):
            super().send(message, sender)


def test_caller_that_was_forgotten_begins_no_call_twice() -> None:
    """Of many calls in several messages, of which the first lets its router know the caller again."""
    world = OneWay(1, [Wanted(0.5, "a", 0, 0.5, is_once=True) for _ in range(300)], [], 0.0)
    world.run(4.0)
    world.is_cut = True
    world.run(2 * CALLER_SILENCE_MAX / SECOND)
    world.is_cut = False
    world.run(QUIET_SECONDS)
    made = world.made.values()
    assert {1} == {len(one.answers) for one in made}
    assert 1 == max(one.begun for one in made)
    assert {one.answers[0].outcome for one in made} <= {CallOutcome.DONE, CallOutcome.LOST}
