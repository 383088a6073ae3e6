"""Least laxity first: by when the decision should begin.

The start deadline of a message is when its chain should be over, less the cost of its decision here and of the costliest way onward.

source    Cameo (NSDI'21)
"""

from core.dispatch.policy import PolicyOfDispatch, Rank, Waiting


class LeastLaxityFirst(PolicyOfDispatch):
    """By the start deadline."""

    has_deadlines = True

    def rank(self, waiting: Waiting) -> Rank:
        """The start deadline."""
        return waiting.heard if waiting.is_lost else waiting.deadline - waiting.cost - waiting.way, 0
