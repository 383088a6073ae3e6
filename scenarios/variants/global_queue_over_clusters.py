"""One global queue and cluster allocation (MAST's design 3): every cluster looks for a place within itself."""

from scenarios.schema.fleet import FleetSpec
from scenarios.schema.parts import Positive
from scenarios.variant import Variant, cut


class GlobalQueueOverClusters(Variant, frozen=True):
    """Work is bound to a cluster when it can start there."""

    cluster_nodes: Positive = 32
    """Of one cluster at most."""

    def served(self, fleet: FleetSpec) -> FleetSpec:
        """Each cluster is a region."""
        return cut(fleet, self.cluster_nodes)[0]
