"""Some rows of a table, as rules read them: columns cut when they are asked for."""

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
        """Of these, milli of free whole devices."""
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
        """1 where something may be placed."""
        return self._table.is_open[self.at]

    @property
    def upkeep(self) -> Numbers:
        """How near planned work on the node is."""
        return self._table.upkeep[self.at]

    @property
    def owner(self) -> Numbers:
        """Whose the node is."""
        return self._table.owner[self.at]

    @property
    def start(self) -> Numbers:
        """The reserved start that the node is kept for."""
        return self._table.start[self.at]

    @property
    def has_starts(self) -> bool:
        """Whether any node was ever kept for one."""
        return self._table.has_starts

    @property
    def has_owners(self) -> bool:
        """Whether anybody was ever said to own a node."""
        return self._table.has_owners

    @property
    def has_plans(self) -> bool:
        """Whether work was ever planned on a node."""
        return self._table.has_plans

    @property
    def has_islands(self) -> bool:
        """Whether there are nodes of several islands."""
        return self._table.has_islands

    @property
    def island(self) -> Numbers:
        """GPUs of an NVLink island."""
        return self._table.island[self.at]

    @property
    def node_types(self) -> tuple[str, ...]:
        """Of all nodes of the pool."""
        return self._table.layout.node_types

    @property
    def node_type(self) -> Numbers:
        """Places in them."""
        return self._table.layout.node_type[self.at]


def codes_of(codes: Codes, size: int, at: Changed) -> Codes:
    """For each of some slots, the code of its rack or pod, which has `size` slots; one code where all lie in one of them."""
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
