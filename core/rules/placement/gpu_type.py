"""The GPU types that will do for a job, on nodes that run programs or on emulated ones."""

from core.nouns.cluster import Cluster
from core.nouns.fleet import will_do
from core.nouns.reasons import Reason
from core.rules.placement.rule import ClusterValidator, Request


class GpuType(ClusterValidator):
    """A job names one type, several or any, and runs on no other. That its tasks are all on one the search sees to."""

    name = "gpu_type"
    traits = frozenset({"node_type", "or_types", "need"})
    reason = Reason.WRONG_GPU_TYPE

    def admits(self, cluster: Cluster, request: Request) -> bool:
        """Whether the nodes are of a type that will do."""
        asked = (request.node_type, *request.or_types)
        return will_do(cluster.node_type, asked, is_for_gpus=request.need.gpu_milli > 0)
