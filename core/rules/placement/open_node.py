"""Nodes that are lost, suspected, drained, in quarantine or under maintenance take nothing new."""

import numpy as np

from core.nouns.reasons import Reason
from core.rules.placement.rule import Flags, NodeValidator, Present, Request, Rows


class OpenNode(NodeValidator):
    """Health and cordon. The table has nothing available on such a node either, so that whoever counts room finds none."""

    name = "open_node"
    reason = Reason.NODE_CLOSED

    def is_idle(self, rows: Rows) -> bool:
        """Always: a node that is closed has no room. What it forbids is told when a choice is explained."""
        return True

    def allows(self, rows: Rows, request: Request) -> Flags:
        """Whether it is open."""
        return np.not_equal(rows.is_open, 0)

    def allows_at(self, present: Present, node: int, request: Request) -> bool:
        """Whether it is open."""
        return present.capacity.is_open(node)
