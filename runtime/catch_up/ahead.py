"""Announcements that a follower has heard and cannot hand on yet, because facts before them are missing.

Bounded by number and by bytes: beyond either, the announcement that came first is dropped, and its facts are read from the log.
"""

from collections import OrderedDict
from heapq import heappop, heappush

from core.messages.logs import FactsTold
from core.nouns.limits import FOLLOW_BUFFER_BYTES_MAX, FOLLOW_BUFFER_MAX


class Ahead:
    """Announcements beyond a gap, by their first sequence."""

    def __init__(self) -> None:
        self.bytes_held = 0
        self._told: OrderedDict[int, FactsTold] = OrderedDict()
        """By first sequence, in the order in which they came."""
        self._firsts: list[int] = []
        """A heap of the first sequences, also of some that were dropped."""

    def __len__(self) -> int:
        return len(self._told)

    @property
    def first(self) -> int | None:
        """The lowest sequence of all."""
        while self._firsts and self._firsts[0] not in self._told:
            heappop(self._firsts)
        return self._firsts[0] if self._firsts else None

    def needed_before(self, sequence: int) -> int:
        """Return up to which sequence facts must be read after this one until an announcement follows; 0: none are missing.

        An announcement that begins before and ends after is of no use: all that it holds is to be read.
        """
        self._forget_until(sequence)
        missing = 0
        for told in self._told.values():
            last = told.first + len(told.facts) - 1
            if told.first <= sequence < last:
                missing = max(missing, last)
        first = self.first
        if missing or first is None or first == sequence + 1:
            return missing
        return min(one for one in self._told if one > sequence) - 1

    def _forget_until(self, sequence: int) -> None:
        """Forget announcements that end at this sequence or before."""
        for first in [one for one, told in self._told.items() if one + len(told.facts) - 1 <= sequence]:
            self._drop(first)

    def put(self, told: FactsTold) -> int:
        """Keep one more; return how many were dropped for it."""
        self._drop(told.first)
        self._told[told.first] = told
        self.bytes_held += _bytes_of(told)
        heappush(self._firsts, told.first)
        count = len(self._told)
        while len(self._told) > FOLLOW_BUFFER_MAX or self.bytes_held > FOLLOW_BUFFER_BYTES_MAX:
            self._drop(next(iter(self._told)))
        return count - len(self._told)

    def take(self, sequence: int) -> FactsTold | None:
        """Return the announcement that begins at this sequence, and forget it with all that begin before."""
        while (first := self.first) is not None and first <= sequence:
            told = self._told[first]
            self._drop(first)
            if first == sequence:
                return told
        return None

    def clear(self) -> None:
        """Forget them all."""
        self._told.clear()
        self._firsts.clear()
        self.bytes_held = 0

    def _drop(self, first: int) -> None:
        told = self._told.pop(first, None)
        if told is not None:
            self.bytes_held -= _bytes_of(told)


def _bytes_of(told: FactsTold) -> int:
    return len(told.rows or b"") + sum(
        len(fact.event) + len(fact.cause) + len(fact.actor) for fact in told.facts
    )
