"""The GPU type that a job asks for, on nodes that run programs or on emulated ones."""

from core.nouns.reasons import Reason
from core.placing.layout import Cluster
from core.rules.placement.rule import ClusterValidator, Request


class GpuType(ClusterValidator):
    """A job names one type, and runs on no other."""

    name = "gpu_type"
    traits = frozenset({"node_type"})
    reason = Reason.WRONG_GPU_TYPE

    def admits(self, cluster: Cluster, request: Request) -> bool:
        """Whether the nodes are of its type."""
        return cluster.node_type == request.node_type
