"""The memory that a job's GPUs must have."""

from core.nouns.cluster import Cluster
from core.nouns.reasons import Reason
from core.rules.placement.rule import ClusterValidator, Request


class GpuMemory(ClusterValidator):
    """A job that says nothing of memory runs anywhere. One that does runs where it is known that there is enough.

    Where nobody said what the GPUs have, it is not: who asks would rather wait than find out by running out of memory.
    """

    name = "gpu_memory"
    traits = frozenset({"gpu_memory"})
    reason = Reason.GPU_MEMORY_SHORT

    def admits(self, cluster: Cluster, request: Request) -> bool:
        """Whether each GPU has as much; an amount that nobody said is 0."""
        return request.gpu_memory <= cluster.gpu_memory
