"""A cluster: like nodes of one pool in one zone, which rules judge once for all of them."""

from msgspec import Struct
from msgspec.structs import replace

from core.nouns.fleet import NodeGroup


class Cluster(Struct, frozen=True, order=True):
    """Like nodes of one pool in one zone: whatever is the same for all of them is judged once for all."""

    pool: str
    zone: str
    node_type: str
    gpu_memory: int = 0
    """Bytes of one GPU; 0: unknown."""
    island: int = 0
    """GPUs joined by NVLink; 0: unknown."""
    gpu_milli: int = 0
    """GPU milli of the node with most GPUs."""
    cpu_milli: int = 0
    """CPU milli of the node with most CPUs."""
    memory_bytes: int = 0
    """Bytes of the node with most memory."""


def cluster_of(group: NodeGroup) -> Cluster:
    """The cluster of a group's nodes, as if it had no others."""
    total = group.total
    return Cluster(
        group.pool,
        group.zone,
        group.node_type,
        group.gpu_memory,
        group.island,
        total.gpu_milli,
        total.cpu_milli,
        total.memory_bytes,
    )


def joined(one: Cluster, other: Cluster) -> Cluster:
    """Return the cluster of the nodes of both, which differ in nothing but their sizes."""
    return replace(
        one,
        gpu_milli=max(one.gpu_milli, other.gpu_milli),
        cpu_milli=max(one.cpu_milli, other.cpu_milli),
        memory_bytes=max(one.memory_bytes, other.memory_bytes),
    )
