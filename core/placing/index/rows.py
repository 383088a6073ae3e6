"""Some rows of a table, as rules read them: each column is cut when read."""

import numpy as np

from core.placing.index.table import Changed, NodeTable
from core.rules.placement.rule import Codes, Numbers


class TableRows:
    """The rows of a slice or of an array of slots."""

    __slots__ = ("_table", "at")

    def __init__(self, table: NodeTable, at: Changed) -> None:
        self._table, self.at = table, at

    @property
    def gpu(self) -> Numbers:
        """GPU milli available."""
        return self._table.gpu[self.at]

    @property
    def whole(self) -> Numbers:
        """GPU milli available on wholly free devices."""
        return self._table.whole[self.at]

    @property
    def shared(self) -> Numbers:
        """(rows, most) milli free on each shared device."""
        return self._table.shared[self.at]

    @property
    def cpu(self) -> Numbers:
        """CPU milli available."""
        return self._table.cpu[self.at]

    @property
    def memory(self) -> Numbers:
        """Bytes available."""
        return self._table.memory[self.at]

    @property
    def gpu_total(self) -> Numbers:
        """GPU milli that the node has."""
        return self._table.gpu_total[self.at]

    @property
    def is_open(self) -> Numbers:
        """1 where tasks may be placed."""
        return self._table.is_open[self.at]

    @property
    def upkeep(self) -> Numbers:
        """1 where work on the node is planned."""
        return self._table.upkeep[self.at]

    @property
    def owner(self) -> Numbers:
        """The node's owner, coded as in core/placing/index/owners.py."""
        return self._table.owner[self.at]

    @property
    def start(self) -> Numbers:
        """The reservation that the node is kept for; 0: no reservation."""
        return self._table.start[self.at]

    @property
    def has_starts(self) -> bool:
        """True if a node was ever kept for a reservation."""
        return self._table.has_starts

    @property
    def has_owners(self) -> bool:
        """True if a node ever had an owner."""
        return self._table.has_owners

    @property
    def has_plans(self) -> bool:
        """True if work was ever planned on a node."""
        return self._table.has_plans

    @property
    def has_islands(self) -> bool:
        """True if some nodes have several islands."""
        return self._table.has_islands

    @property
    def island(self) -> Numbers:
        """GPUs of an NVLink island."""
        return self._table.island[self.at]

    @property
    def node_types(self) -> tuple[str, ...]:
        """Node types of the pool, ascending."""
        return self._table.layout.node_types

    @property
    def node_type(self) -> Numbers:
        """Index into `node_types`."""
        return self._table.layout.node_type[self.at]


def codes_of(codes: Codes, size: int, at: Changed) -> Codes:
    """Return for each slot the code of its rack or pod, which has `size` slots; a single code if all slots lie in one unit."""
    if not isinstance(at, slice):
        of_each: Codes = codes[
            at >> size.bit_length() - 1
        ]  # Sizes are powers of two, and a division costs more.
        return of_each
    first, last = at.start // size, (at.stop - 1) // size
    if first == last:
        return codes[first : first + 1]
    every = np.repeat(codes[first : last + 1], size)
    return every[at.start - first * size : at.stop - first * size]
