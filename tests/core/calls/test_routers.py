"""Which router a caller says its calls to, whatever it hears in which order."""

from core.calls.caller import Caller
from core.calls.lives import life_of
from core.messages.functions import CallFunction, CallsAnswered, RouterHere
from core.nouns.function import CallAnswer, CallOutcome
from core.nouns.function_limits import RANGES_TOLD_MAX, ROUTER_SILENCE_MAX
from core.nouns.instant import SECOND, Instant, Nanoseconds, after
from core.routing.ring import router_of
from tests.builders import EU, START
from tests.core.calls.world import FUNCTIONS, ML, SIZE

SCORE = FUNCTIONS[0]
LIFE = life_of(START)
OWNER = router_of(SCORE.id, ("r0", "r1"))
OTHER = "r1" if OWNER == "r0" else "r0"


def here(caller: Caller, name: str, now: Instant, life: str = LIFE) -> None:
    """A router of two says that it lives."""
    caller.hear(RouterHere(EU, name, life, ("r0", "r1"), 0, SIZE), now)


def said(caller: Caller, now: Instant) -> list[CallFunction]:
    """Calls that the caller says now."""
    return [one for one in caller.take(now) if isinstance(one, CallFunction)]


def test_calls_go_to_the_router_to_which_their_function_belongs() -> None:
    """Also if another one is heard first: rates would be split. One that is never heard lives no more."""
    caller = Caller(ML, "a")
    caller.add(SCORE, b"", START)
    here(caller, OTHER, START)
    assert [] == said(caller, START)
    here(caller, OWNER, START)
    assert [OWNER] == [one.router for one in said(caller, START)]
    alone = Caller(ML, "b")
    alone.add(SCORE, b"", START)
    for second in range(ROUTER_SILENCE_MAX // SECOND + 1):
        now = after(START, Nanoseconds(second * SECOND))
        here(alone, OTHER, now)
        found = said(alone, now)
    assert [OTHER] == [one.router for one in found]


def test_late_word_of_an_earlier_life_is_ignored() -> None:
    """Calls that may be begun once would be asked for, and lost."""
    caller = Caller(ML, "a")
    later = life_of(after(START, Nanoseconds(1)))
    for name in ("r0", "r1"):
        here(caller, name, START, later)
    caller.add(SCORE, b"", START, is_once=True)
    assert 1 == len(said(caller, START))
    here(caller, OWNER, START, LIFE)
    assert {later} == {row.life for row in caller.routers.values()}


def test_all_answered_calls_are_told_in_the_end() -> None:
    """However many ranges there are: a router would else remember calls that have ended."""
    caller = Caller(ML, "a")
    for name in ("r0", "r1"):
        here(caller, name, START)
    for _ in range(6 * RANGES_TOLD_MAX):
        caller.add(SCORE, b"", START)
    said(caller, START)
    ended = tuple(range(2, 6 * RANGES_TOLD_MAX, 2))
    answers = tuple(CallAnswer(number, CallOutcome.DONE) for number in ended)
    caller.hear(CallsAnswered(ML, "a", EU, "w0", answers), START)
    told: set[int] = set()
    for _ in range(4):
        caller.add(SCORE, b"", START)
        for message in said(caller, START):
            assert len(message.answered) <= RANGES_TOLD_MAX
            told |= {number for first, last in message.answered for number in range(first, last + 1)}
    assert set(ended) == told
