"""Shortest job first: by the cost of the decision alone."""

from core.dispatch.policy import PolicyOfDispatch, Rank, Waiting


class ShortestJobFirst(PolicyOfDispatch):
    """By cost."""

    def rank(self, waiting: Waiting) -> Rank:
        """The cost of the decision here."""
        return waiting.cost, 0
