"""Earliest deadline first: by when the decision should be over, if the way onward takes what it is known to take.

source    Cameo (NSDI'21): least laxity first without the message's own cost
"""

from core.dispatch.policy import LATE_TARGETS, PolicyOfDispatch, Rank, Waiting


class EarliestDeadlineFirst(PolicyOfDispatch):
    """By the deadline less the way onward."""

    late_targets: int | None = LATE_TARGETS

    def rank(self, waiting: Waiting) -> Rank:
        """The instant at which the decision should be over."""
        return waiting.deadline - waiting.way, 0
