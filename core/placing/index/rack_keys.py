"""The least key of each rack in one class of requests: what a search of some racks reads instead of all their nodes.

Equals `least_of_racks` of the class; only racks with rows that changed are computed again.
"""

import numpy as np

from core.placing.index.table import NodeTable
from core.rules.placement.rule import Codes, Numbers


def least_of_racks(key: Codes, rack_slots: int, mask: np.uint32) -> Codes:
    """Return (racks,) the least masked key of each rack of slots.

    A masked key of a node without capacity keeps its highest bit, so it is at least NO_KEY of core/rules/placement/plan.py.
    """
    least: Codes = (key.reshape(-1, rack_slots) & mask).min(axis=1, initial=np.uint32(0xFFFFFFFF))
    return least


class RackKeys:
    """Of one class, with one mask."""

    def __init__(self, table: NodeTable, mask: np.uint32) -> None:
        self.mask = mask
        self.least: Codes = np.zeros(0, dtype=np.uint32)
        """(racks,) least masked key of each rack."""
        self._table = table
        self._seen = -1

    def update(self, key: Codes) -> None:
        """Update to the keys of an up-to-date class."""
        table, size = self._table, self._table.layout.rack_slots
        if self._seen == table.revision:
            return
        at = table.changed_since(self._seen) if self._seen >= 0 else None
        self._seen = table.revision
        if at is None:
            self.least = least_of_racks(key, size, self.mask)
            return
        racks: slice | Numbers
        if isinstance(at, slice):
            if at.stop <= at.start:
                return
            racks = slice(at.start // size, (at.stop - 1) // size + 1)
        else:
            of_slots = at >> size.bit_length() - 1
            if not len(of_slots):
                return
            is_first = np.ones(len(of_slots), dtype=bool)
            np.not_equal(of_slots[1:], of_slots[:-1], out=is_first[1:])
            racks = of_slots[is_first]  # The slots ascend.
        self.least[racks] = (key.reshape(-1, size)[racks] & self.mask).min(axis=1)
