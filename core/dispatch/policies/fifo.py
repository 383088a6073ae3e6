"""First in, first out, as one queue would have it: the baseline."""

from core.dispatch.policy import PolicyOfDispatch, Rank, Waiting


class FirstInFirstOut(PolicyOfDispatch):
    """By arrival alone."""

    has_classes = False

    def rank(self, waiting: Waiting) -> Rank:
        """The order of arrival."""
        return waiting.tick, 0
