"""Nodes that are alike: of one type, with equal available GPUs, CPUs and memory, and equal shared devices. A memo of a table.

Many nodes of a large region are alike; an expensive score is computed once for all of them.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from core.rules.placement.rule import Numbers

SORTS_PER_SLOT = 2
"""Sorts without nodes stay in the memo until there are more than so many sorts per slot."""
CODES_MAX = 1 << 62
"""The most combinations of column values that are coded in one integer."""


class Alike:
    """Sorts of nodes by number: nodes of one sort are alike.

    number    (slots,) int32
    seen      the revision of the table for which the numbers hold; -1: not used yet
    """

    def __init__(self, slots: int) -> None:
        self.number = np.zeros(slots, dtype=np.int32)
        self.seen = -1
        self._known: dict[tuple[object, ...], int] = {}

    def update(self, columns: Sequence[Numbers], shared: Numbers, at: slice | Numbers | None) -> None:
        """Number these rows again; None: all rows, at the first use or if the changes are unknown."""
        if at is None or len(self._known) > SORTS_PER_SLOT * len(self.number):
            self._known.clear()
            at = slice(0, len(self.number))
        known = self._known
        parts = map(tuple, np.sort(shared[at], axis=1).tolist()) if shared.shape[1] else None
        plain = zip(*(column[at].tolist() for column in columns), strict=True)
        rows = plain if parts is None else zip(plain, map(_without_full, parts), strict=True)
        self.number[at] = [known.setdefault(row, len(known)) for row in rows]

    def samples(self, slots: Numbers) -> tuple[NDArray[np.int64], Numbers]:
        """Return one slot of each sort among these slots, and for each of these slots the index of the sort."""
        sorts = self.number[slots]
        sample = np.full(len(self._known), -1, dtype=np.int64)
        sample[sorts] = slots
        place = np.cumsum(sample >= 0, dtype=np.int32)
        place -= 1
        return sample[sample >= 0], place[sorts]


def _without_full(parts: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(milli for milli in parts if milli)


def samples_among(columns: Sequence[Numbers], shared: Numbers) -> tuple[Numbers, Numbers]:
    """Return one row of each sort, and for each row the index of the sort; without a memo, for a single use.

    columns   (rows,) each, of whole numbers; shared (rows, most), in any order
    """
    if shared.shape[1]:
        columns = [*columns, *np.sort(shared, axis=1).T]
    code = np.zeros(len(columns[0]), dtype=np.int64)
    size = 1
    for column in columns:
        least, most = int(column.min()), int(column.max())
        values = column.astype(np.int64) - least
        if size * (most - least + 1) > CODES_MAX:
            known, code = np.unique(code, return_inverse=True)
            others, values = np.unique(values, return_inverse=True)
            size, least, most = len(known), 0, len(others) - 1
        size *= most - least + 1
        code = code * (most - least + 1) + values
    _, sample, place = np.unique(code, return_index=True, return_inverse=True)
    return sample, place
