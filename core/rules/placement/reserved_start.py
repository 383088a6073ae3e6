"""Nodes of a reservation take only its own workload, backfill that is guaranteed to end before it, and work of a higher level.

The reservations that bar a request are found before the search (core/claims/reservations.py), so that requests which may use
the same nodes share one class.
"""

import numpy as np

from core.nouns.reasons import Reason
from core.rules.placement.rule import PASSING_TRAITS, Flags, NodeValidator, Present, Request, Rows


class ReservedStart(NodeValidator):
    """A hard rule on the reservation that a node is kept for."""

    name = "reserved_start"
    traits = PASSING_TRAITS
    reason = Reason.START_RESERVED

    def is_idle(self, rows: Rows) -> bool:
        """Return whether no node was ever kept for a reservation."""
        return not rows.has_starts

    def allows(self, rows: Rows, request: Request) -> Flags:
        """Return where no reservation bars the request."""
        if not request.barred:
            return np.ones(len(rows.start), dtype=np.bool_)
        return ~np.isin(rows.start, request.barred)

    def allows_at(self, present: Present, node: int, request: Request) -> bool:
        """Return whether no reservation of the node bars the request."""
        return not present.is_barred(node)
