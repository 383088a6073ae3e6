"""Capacity for one task on an empty node."""

from core.nouns.cluster import Cluster
from core.nouns.reasons import Reason
from core.rules.placement.rule import ClusterValidator, Request


class Capacity(ClusterValidator):
    """A task fits on one node or nowhere.

    Available capacity is counted apart from the rules: `cap` in core/placing/index/request_classes.py.
    """

    name = "capacity"
    traits = frozenset({"need"})
    reason = Reason.TASK_TOO_LARGE

    def admits(self, cluster: Cluster, request: Request) -> bool:
        """Return whether the cluster's largest node has the GPUs for one task when empty."""
        return request.need.gpu_milli <= cluster.gpu_milli
