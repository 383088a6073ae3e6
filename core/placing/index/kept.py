"""Nodes that agents with partitions leave alone, because rows cannot tell for which work they are.

A promised start keeps some nodes for one workload and for work that surely ends before; a tenant's work that is alone on a node
keeps others away. Agents that fold every fact know both, and place tasks there.
"""

from core.images.reservations import Starts
from core.placing.index.owners import Owners


class Kept:
    """The kept nodes of a region, at the time of the call."""

    def __init__(self, starts: Starts, owners: Owners) -> None:
        self._nodes = {node for row in starts.rows.values() for node in row.nodes()} if starts.rows else set()
        self._owners = owners if owners.alone else None

    def __contains__(self, node: object) -> bool:
        return node in self._nodes or (self._owners is not None and self._owners.has_alone(node))
