"""The memory that a job's GPUs must have."""

from core.nouns.cluster import Cluster
from core.nouns.reasons import Reason
from core.rules.placement.rule import ClusterValidator, Request


class GpuMemory(ClusterValidator):
    """A job that names no GPU memory runs on any node; a job that does runs only where enough memory is known to be there.

    Unknown memory counts as 0, because such a job would rather wait than fail by running out of memory.
    """

    name = "gpu_memory"
    traits = frozenset({"gpu_memory"})
    reason = Reason.GPU_MEMORY_SHORT

    def admits(self, cluster: Cluster, request: Request) -> bool:
        """Return whether each GPU has the memory that the job needs."""
        return request.gpu_memory <= cluster.gpu_memory
