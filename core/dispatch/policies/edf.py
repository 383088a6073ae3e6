"""Earliest deadline first: by when the decision should be over, if the way onward takes what it is known to take.

source    Cameo (NSDI'21): least laxity first without the message's own cost
"""

from core.dispatch.policy import PolicyOfDispatch, Rank, Waiting


class EarliestDeadlineFirst(PolicyOfDispatch):
    """By the deadline less the way onward."""

    has_deadlines = True

    def rank(self, waiting: Waiting) -> Rank:
        """The instant at which the decision should be over."""
        return waiting.heard if waiting.is_lost else waiting.deadline - waiting.way, 0
