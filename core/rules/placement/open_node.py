"""Nodes that are lost, suspected, drained, in quarantine or under maintenance take no new tasks."""

import numpy as np

from core.nouns.reasons import Reason
from core.rules.placement.rule import Flags, NodeValidator, Present, Request, Rows


class OpenNode(NodeValidator):
    """Health and cordons. The table has no capacity available on such a node either, so counts of capacity leave the node out."""

    name = "open_node"
    reason = Reason.NODE_CLOSED

    def is_idle(self, rows: Rows) -> bool:
        """Return true always: a closed node has no capacity. The rule is shown when a choice is explained."""
        return True

    def allows(self, rows: Rows, request: Request) -> Flags:
        """Return where nodes are open."""
        return np.not_equal(rows.is_open, 0)

    def allows_at(self, present: Present, node: int, request: Request) -> bool:
        """Return whether the node is open."""
        return present.capacity.is_open(node)
