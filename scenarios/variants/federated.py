"""A federation: each workload is bound, when it is submitted, to the region of whose GPU type the least is asked, and waits there.

source    MAST (OSDI'24) §5.6: the heuristic with which the paper compares itself, least demand / supply
"""

from scenarios.schema.fleet import FleetSpec
from scenarios.variant import Binder, EarlyBinder, Variant, each_alone


class Federated(Variant, frozen=True):
    """All that was bound to a region and has not ended is its demand."""

    def binder(self, fleet: FleetSpec) -> Binder:
        """To one region."""
        return EarlyBinder(fleet, each_alone(fleet))
