"""Some rows of a table, as rules read them: columns cut when they are asked for."""

import numpy as np

from core.placing.table import Changed, NodeTable
from core.rules.placement.rule import Numbers


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
    def island(self) -> Numbers:
        """GPUs of an NVLink island."""
        return self._table.island[self.at]


def units_of(table: NodeTable, at: Changed) -> tuple[Changed, Changed]:
    """The racks and the pods of some slots: a slice of one where a slice of slots lies in one, or one index a slot."""
    layout = table.layout
    if isinstance(at, slice):
        first, last = at.start, at.stop - 1
        rack, pod = first // layout.rack_slots, first // layout.pod_slots
        if rack == last // layout.rack_slots:
            return slice(rack, rack + 1), slice(pod, pod + 1)
        at = np.arange(at.start, at.stop, dtype=np.int32)
    return at // layout.rack_slots, at // layout.pod_slots
