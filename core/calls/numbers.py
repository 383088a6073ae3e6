"""Numbers that count from 1 on and come in any order, some of them more than once: which have come."""

from bisect import bisect_right
from collections.abc import Iterable

Range = tuple[int, int]
"""First and last."""


class Numbers:
    """All numbers up to one, and ranges above. Memory goes by the count of gaps."""

    def __init__(self) -> None:
        self.taken = 0
        """All up to this one have come, or are of no interest any more."""
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def __contains__(self, number: int) -> bool:
        if number <= self.taken:
            return True
        place = bisect_right(self._firsts, number) - 1
        return place >= 0 and number <= self._lasts[place]

    def ranges(self, most: int, begin: int = 0) -> tuple[Range, ...]:
        """Return ranges above `taken`, ascending, so many at most, without the lowest ones up to `begin`."""
        part = slice(begin, begin + most)
        return tuple(zip(self._firsts[part], self._lasts[part], strict=True))

    @property
    def gaps(self) -> int:
        """Return how many ranges there are above `taken`."""
        return len(self._firsts)

    def add(self, number: int) -> None:
        """Remember a number."""
        self.add_range(number, number)

    def add_ranges(self, ranges: Iterable[Range]) -> None:
        """Remember all numbers of ranges."""
        for first, last in ranges:
            self.add_range(first, last)

    def add_range(self, first: int, last: int) -> None:
        """Remember the numbers from the first to the last."""
        if last <= self.taken or last < first:
            return
        if first <= self.taken + 1:
            self.take_up_to(last)
            return
        # Every range that overlaps or touches becomes part of this one.
        begin = bisect_right(self._firsts, first) - 1
        if begin < 0 or self._lasts[begin] < first - 1:
            begin += 1
        end = bisect_right(self._firsts, last + 1)
        if begin < end:
            first = min(first, self._firsts[begin])
            last = max(last, self._lasts[end - 1])
        self._firsts[begin:end] = [first]
        self._lasts[begin:end] = [last]

    def take_up_to(self, number: int) -> None:
        """Count all numbers up to one as come."""
        if number <= self.taken:
            return
        self.taken = number
        while self._firsts and self._firsts[0] <= self.taken + 1:
            self.taken = max(self.taken, self._lasts[0])
            del self._firsts[0], self._lasts[0]
