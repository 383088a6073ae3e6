"""Regional queues and cluster allocation (MAST's design 2)."""

from scenarios.schema.fleet import FleetSpec
from scenarios.schema.parts import Positive
from scenarios.variant import Binder, EarlyBinder, Variant, cut


class RegionalQueuesOverClusters(Variant, frozen=True):
    """Each workload is bound to a region, and to the cluster of it in which it can start."""

    cluster_nodes: Positive = 32
    """Of one cluster at most."""

    def served(self, fleet: FleetSpec) -> FleetSpec:
        """Each cluster is a region."""
        return cut(fleet, self.cluster_nodes)[0]

    def binder(self, fleet: FleetSpec) -> Binder:
        """To the clusters of one region."""
        served, scopes = cut(fleet, self.cluster_nodes)
        return EarlyBinder(served, scopes, counts_ahead=True)
