"""Room for a task on an empty node."""

from core.nouns.cluster import Cluster
from core.nouns.reasons import Reason
from core.rules.placement.rule import ClusterValidator, Request


class Capacity(ClusterValidator):
    """A task fits on one node or nowhere. What is free there now is counted beside all rules: `cap` in core/placing/index/request_classes.py."""

    name = "capacity"
    traits = frozenset({"need"})
    reason = Reason.TASK_TOO_LARGE

    def admits(self, cluster: Cluster, request: Request) -> bool:
        """Whether an empty node has the GPUs for one task."""
        return request.need.gpu_milli <= cluster.gpu_milli
