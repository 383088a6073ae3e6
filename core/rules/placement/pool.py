"""Which kinds of work a pool takes, and which pool each kind tries first.

source    DESIGN §4: training (by priority), shared (time-shared by a policy), harvest (lent, evictable), service, free
"""

from core.nouns.cluster import Cluster
from core.nouns.reasons import Reason
from core.nouns.workload import Kind
from core.rules.placement.rule import ClusterValidator, Request

KINDS_OF = {
    "service": frozenset({Kind.SERVICE}),
    "harvest": frozenset({Kind.FUNCTION, Kind.BATCH}),
    "shared": frozenset({Kind.TRAINING, Kind.INTERACTIVE, Kind.BATCH}),
}
"""All other pools take every kind."""
OWN = {
    Kind.TRAINING: "training",
    Kind.INTERACTIVE: "training",
    Kind.SERVICE: "service",
    Kind.BATCH: "harvest",
    Kind.FUNCTION: "harvest",
}
FREE = "free"
"""Nodes that no pool was given yet."""


class Pool(ClusterValidator):
    """Lent nodes take only what may be evicted, a service's nodes only services."""

    name = "pool"
    traits = frozenset({"kind"})
    reason = Reason.WRONG_POOL

    def admits(self, cluster: Cluster, request: Request) -> bool:
        """Whether the pool takes such work."""
        return cluster.pool not in KINDS_OF or request.kind in KINDS_OF[cluster.pool]


def pool_rank(pool: str, kind: Kind) -> int:
    """0 of the pool that is there for this kind, 2 of free nodes, which others may be waiting for, 1 of the rest."""
    if pool == FREE:
        return 2
    return int(pool != OWN[kind])
