"""Regional queues and regional allocation (MAST's design 5), which are told apart by what stands ahead of a workload in each."""

from scenarios.schema.fleet import FleetSpec
from scenarios.variant import Binder, EarlyBinder, Variant, each_alone


class RegionalQueues(Variant, frozen=True):
    """Each workload is bound to the region in which the least is of no lower a level than it; of equals, in which the least is asked."""

    def binder(self, fleet: FleetSpec) -> Binder:
        """To one region."""
        return EarlyBinder(fleet, each_alone(fleet), counts_ahead=True)
