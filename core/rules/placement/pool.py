"""The kinds of work that a pool takes, and the pool that each kind tries first.

source    DESIGN §4: training (by priority), shared (time-shared by a policy), harvest (lent, evictable), service, free
"""

from core.nouns.cluster import Cluster
from core.nouns.pool import FREE_POOL, SHARED_POOL
from core.nouns.reasons import Reason
from core.nouns.workload import Kind
from core.rules.placement.rule import ClusterValidator, Request

KINDS_OF = {
    "service": frozenset({Kind.SERVICE}),
    "harvest": frozenset({Kind.FUNCTION, Kind.BATCH}),
    SHARED_POOL: frozenset({Kind.SHARED}),
}
"""Kinds by pool; all other pools take every kind but `shared`."""
OWN = {
    Kind.TRAINING: "training",
    Kind.INTERACTIVE: "training",
    Kind.SERVICE: "service",
    Kind.BATCH: "harvest",
    Kind.FUNCTION: "harvest",
    Kind.SHARED: SHARED_POOL,
}


class Pool(ClusterValidator):
    """Pools in `KINDS_OF` take only the kinds named there: lent nodes evictable work, service nodes services, shared ones shared work."""

    name = "pool"
    traits = frozenset({"kind"})
    reason = Reason.WRONG_POOL

    def admits(self, cluster: Cluster, request: Request) -> bool:
        """Return whether the pool takes work of the request's kind."""
        return takes_kind(cluster.pool, request.kind)


def takes_kind(pool: str, kind: Kind) -> bool:
    """Return whether a pool takes work of a kind."""
    return kind in KINDS_OF[pool] if pool in KINDS_OF else kind is not Kind.SHARED


def pool_rank(pool: str, kind: Kind) -> int:
    """Return 0 for the kind's own pool, 2 for free nodes, which other work may be waiting for, and 1 for other pools."""
    if pool == FREE_POOL:
        return 2
    return int(pool != OWN[kind])
