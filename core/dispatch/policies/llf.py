"""Least laxity first: by when the decision should begin.

The start deadline of a message is when its chain should be over, less the cost of its decision here and of the costliest way onward.

source    Cameo (NSDI'21)
"""

from core.dispatch.policy import LATE_TARGETS, PolicyOfDispatch, Rank, Waiting


class LeastLaxityFirst(PolicyOfDispatch):
    """By the start deadline."""

    late_targets: int | None = LATE_TARGETS

    def rank(self, waiting: Waiting) -> Rank:
        """The start deadline."""
        return waiting.deadline - waiting.cost - waiting.way, 0
