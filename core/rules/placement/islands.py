"""NVLink islands: a task that need not break one does not.

Only how many GPUs are free on a node is known, not which. It is taken for granted that at most one island of a node is
partly used, which is so as long as devices are given out island by island.
"""

import numpy as np

from core.nouns.quantities import MILLI
from core.rules.placement.rule import NodePreference, Numbers, Request, Rows


class Islands(NodePreference):
    """1 where a task would break into a whole island: what does not fill islands fits in none that is broken already."""

    name = "islands"
    traits = frozenset({"need"})

    def is_idle(self, rows: Rows) -> bool:
        """Whether every node is one island, or nobody said."""
        return not rows.has_islands

    def score(self, rows: Rows, request: Request) -> Numbers:
        """0 where nobody said what the islands are, and where one is the whole node or more."""
        island = rows.island
        wanted = -(-request.need.gpu_milli // MILLI)
        has_several = (island > 0) & (island * MILLI < rows.gpu_total)
        size = np.where(has_several, island, 1)
        breaks: Numbers = has_several & (wanted % size > rows.gpu // MILLI % size)
        return breaks.astype(np.int32)
