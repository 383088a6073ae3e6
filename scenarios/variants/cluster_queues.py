"""Cluster queues and cluster allocation (MAST's design 1): as Borg, Hydra and Yugong have it."""

from scenarios.schema.fleet import FleetSpec
from scenarios.schema.parts import Positive
from scenarios.variant import Binder, EarlyBinder, Variant, cut, each_alone


class ClusterQueues(Variant, frozen=True):
    """Each workload is bound to the cluster in which the least is of no lower a level than it."""

    cluster_nodes: Positive = 32
    """Of one cluster at most."""

    def served(self, fleet: FleetSpec) -> FleetSpec:
        """Each cluster is a region."""
        return cut(fleet, self.cluster_nodes)[0]

    def binder(self, fleet: FleetSpec) -> Binder:
        """To one cluster."""
        served = self.served(fleet)
        return EarlyBinder(served, each_alone(served), counts_ahead=True)
