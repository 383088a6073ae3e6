"""Announcements that wait for facts before them: in order, few enough, and none twice."""

import pytest

from core.messages.logs import FactsTold, ToldFact
from core.nouns.ids import GLOBAL_LOG
from core.nouns.limits import FOLLOW_BUFFER_BYTES_MAX, FOLLOW_BUFFER_MAX
from runtime.catch_up.ahead import Ahead
from tests.runtime.aids import START


def told(first: int, facts: int = 1, size: int = 10) -> FactsTold:
    """An announcement of so many facts of so many bytes each."""
    fact = ToldFact(START, "", "", b"x" * size)
    return FactsTold(GLOBAL_LOG, "log", 1, first, b"", b"", (fact,) * facts)


def test_taken_in_order_of_sequence() -> None:
    """Whatever the order in which they came, the one that follows is taken, and what lies before it is forgotten."""
    ahead = Ahead()
    for first in (9, 3, 7, 5):
        assert 0 == ahead.put(told(first, 2))
    assert 3 == ahead.first
    assert ahead.take(2) is None
    assert told(3, 2) == ahead.take(3)
    assert ahead.take(6) is None
    assert 2 == len(ahead)
    assert told(7, 2) == ahead.take(7)
    assert told(9, 2) == ahead.take(9)
    assert (0, 0) == (len(ahead), ahead.bytes_held)
    assert ahead.take(100) is None


def test_the_same_twice_counts_once() -> None:
    """A repeat replaces what came before."""
    ahead = Ahead()
    ahead.put(told(5, 1))
    ahead.put(told(5, 3))
    assert (1, 30) == (len(ahead), ahead.bytes_held)
    assert told(5, 3) == ahead.take(5)
    assert 0 == ahead.bytes_held


@pytest.mark.parametrize(("size", "held"), [(1, FOLLOW_BUFFER_MAX), (1 << 18, FOLLOW_BUFFER_BYTES_MAX >> 18)])
def test_bounded_by_number_and_by_bytes(size: int, held: int) -> None:
    """Beyond either the one that came first is dropped, and counted."""
    ahead = Ahead()
    dropped = sum(ahead.put(told(first, 1, size)) for first in range(2, held + 12))
    assert (10, held, 12) == (dropped, len(ahead), ahead.first)
    assert held * size == ahead.bytes_held
    ahead.clear()
    assert (0, 0) == (len(ahead), ahead.bytes_held)
    assert ahead.first is None
