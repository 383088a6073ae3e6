"""The racks of one pool by partition, as its picks read them."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from core.rules.placement.rule import Codes, Numbers


class PoolPartitions:
    """Of one pool.

    count      partitions of the region
    of_row     (rows,) the partition of each row of slots; -1 for padding
    """

    def __init__(self, count: int, of_row: NDArray[np.int16]) -> None:
        self.count, self.of_row = count, of_row
        order = np.argsort(of_row, kind="stable")
        order = order[of_row[order] >= 0]
        self._rows = order
        firsts = np.searchsorted(of_row[order], np.arange(count + 1))
        self._firsts = firsts
        self._there = np.flatnonzero(np.diff(firsts))
        """Partitions that have racks in this pool."""
        self.within = lru_cache(maxsize=None)(self._within)

    def _within(self, partition: int) -> Numbers:
        """Return the rows of one partition, ascending."""
        rows: Numbers = np.sort(self._rows[self._firsts[partition] : self._firsts[partition + 1]])
        return rows

    def least(self, by_row: Codes) -> Codes:
        """Return (partitions,) the least value of each partition's rows; the largest number where a partition has no row."""
        found = np.full(self.count, 0xFFFFFFFF, dtype=np.uint32)
        if len(self._there):
            found[self._there] = np.minimum.reduceat(by_row[self._rows], self._firsts[self._there])
        return found
