"""NVLink islands: a task that need not break a whole island does not.

The number of free GPUs on a node is known, but not which GPUs. The rule assumes that at most one island of a node is partly
used, which is so as long as devices are given out island by island.
"""

import numpy as np

from core.nouns.quantities import MILLI
from core.rules.placement.rule import NodePreference, Numbers, Request, Rows


class Islands(NodePreference):
    """1 where a task would break a whole island: its GPUs beyond whole islands exceed the free ones of the broken island."""

    name = "islands"
    traits = frozenset({"need"})

    def is_idle(self, rows: Rows) -> bool:
        """Return whether no node is known to have several islands."""
        return not rows.has_islands

    def score(self, rows: Rows, request: Request) -> Numbers:
        """Return 1 or 0 for each row; 0 where the islands are unknown, and where one island is the whole node or more."""
        island = rows.island
        wanted = -(-request.need.gpu_milli // MILLI)
        has_several = (island > 0) & (island * MILLI < rows.gpu_total)
        size = np.where(has_several, island, 1)
        breaks: Numbers = has_several & (wanted % size > rows.gpu // MILLI % size)
        return breaks.astype(np.int32)
