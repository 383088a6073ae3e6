"""Nodes that are kept for a start which was promised take only who surely ends before it, or is of a higher level.

Which starts bar a request is worked out before it is looked for (core/claims/reservations.py), so that requests which may use
the same nodes share what was worked out for one.
"""

import numpy as np

from core.nouns.reasons import Reason
from core.rules.placement.rule import PASSING_TRAITS, Flags, NodeValidator, Present, Request, Rows


class ReservedStart(NodeValidator):
    """Reads for which start a node is kept."""

    name = "reserved_start"
    traits = PASSING_TRAITS
    reason = Reason.START_RESERVED

    def is_idle(self, rows: Rows) -> bool:
        """Whether no node was ever kept for a start."""
        return not rows.has_starts

    def allows(self, rows: Rows, request: Request) -> Flags:
        """Where no start is reserved that bars it."""
        if not request.barred:
            return np.ones(len(rows.start), dtype=np.bool_)
        return ~np.isin(rows.start, request.barred)

    def allows_at(self, present: Present, node: int, request: Request) -> bool:
        """Whether none is."""
        return not present.is_barred(node)
