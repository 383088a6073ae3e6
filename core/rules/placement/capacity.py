"""Capacity for one task on an empty node."""

from core.nouns.cluster import Cluster
from core.nouns.reasons import Reason
from core.rules.placement.rule import ClusterValidator, Request


class Capacity(ClusterValidator):
    """A task fits on one node or nowhere.

    Available capacity is counted apart from the rules: `cap` in core/placing/index/request_classes.py. Columns of nodes hold what
    nodes have, so a need that no node of the cluster has must not reach them: it could be wider than a column.
    """

    name = "capacity"
    traits = frozenset({"need"})
    reason = Reason.TASK_TOO_LARGE

    def admits(self, cluster: Cluster, request: Request) -> bool:
        """Return whether nodes of the cluster have the capacity for one task when empty, in each resource by itself."""
        need = request.need
        return (
            need.gpu_milli <= cluster.gpu_milli
            and need.cpu_milli <= cluster.cpu_milli
            and need.memory_bytes <= cluster.memory_bytes
        )
