"""The GPU types that a job accepts, on nodes that run programs or on emulated ones."""

from core.nouns.cluster import Cluster
from core.nouns.fleet import will_do
from core.nouns.reasons import Reason
from core.rules.placement.rule import ClusterValidator, Request


class GpuType(ClusterValidator):
    """A job names one type, several or any, and runs on no other. The search places all tasks of a job on one type."""

    name = "gpu_type"
    traits = frozenset({"node_type", "or_types", "need"})
    reason = Reason.WRONG_GPU_TYPE

    def admits(self, cluster: Cluster, request: Request) -> bool:
        """Return whether the job accepts the cluster's node type."""
        asked = (request.node_type, *request.or_types)
        return will_do(cluster.node_type, asked, is_for_gpus=request.need.gpu_milli > 0)
