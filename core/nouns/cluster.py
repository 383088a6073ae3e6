"""A cluster: like nodes of one pool in one zone, which rules judge once for all of them."""

from msgspec import Struct

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
    """Of its largest node."""


def cluster_of(group: NodeGroup) -> Cluster:
    """The cluster of a group's nodes, as if it had no others."""
    return Cluster(
        group.pool, group.zone, group.node_type, group.gpu_memory, group.island, group.total.gpu_milli
    )
