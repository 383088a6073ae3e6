"""Round robin: one message of each sender in turn."""

from core.dispatch.policy import PolicyOfDispatch, Rank, Waiting
from core.nouns.dispatch import DispatchSettings

SENDERS_MAX = 1024
"""Senders from which those whose turns are over are forgotten, each time that there are twice as many."""


class RoundRobin(PolicyOfDispatch):
    """A sender's messages are in turns that follow each other, so that a sender with many delays nobody with one."""

    has_classes = False

    def __init__(self, settings: DispatchSettings) -> None:
        """As operators set it."""
        self._turn = 0
        """Of the newest message that was taken."""
        self._prune_at = SENDERS_MAX
        self._next: dict[str, int] = {}
        """By sender, the turn of the next message."""

    def rank(self, waiting: Waiting) -> Rank:
        """The sender's next turn, and the order of arrival within it."""
        turn = max(self._next.get(waiting.sender, 0), self._turn)
        if len(self._next) > self._prune_at:
            self._next = {sender: next_ for sender, next_ in self._next.items() if next_ > self._turn}
            self._prune_at = max(SENDERS_MAX, 2 * len(self._next))
        self._next[waiting.sender] = turn + 1
        return turn, waiting.tick

    def taken(self, waiting: Waiting) -> None:
        """A turn may be over."""
        self._turn = max(self._turn, waiting.rank[0])
