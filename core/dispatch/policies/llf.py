"""Least laxity first: by when the decision should begin.

The start deadline of a message is when its chain should be over, less the cost of its decision here and of the costliest way onward. A
chain that is late by twice its target on arrival goes by arrival, so that one that is lost anyway makes no other one late.

source    Cameo (NSDI'21)
"""

from core.dispatch.policy import PolicyOfDispatch, Rank, Waiting

LATE_TARGETS = 2


class LeastLaxityFirst(PolicyOfDispatch):
    """By the start deadline."""

    def rank(self, waiting: Waiting) -> Rank:
        """The start deadline, or the time of arrival of what is too late."""
        if waiting.deadline + LATE_TARGETS * waiting.within < waiting.heard:
            return waiting.heard, 0
        return waiting.deadline - waiting.cost - waiting.way, 0
