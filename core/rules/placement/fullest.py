"""Full racks, pods and zones before empty ones, so that whole ones stay free for gangs."""

from typing import Any

from core.rules.placement.rule import Level, UnitPreference


class FullestRack(UnitPreference):
    """The free share of a rack, in steps."""

    name = "fullest_rack"
    level = Level.RACK

    def score(self, free: Any, total: Any) -> Any:
        """Return 0 for a full unit, `steps` - 1 for an empty one."""
        return free * (self.steps - 1) // total


class FullestPod(FullestRack):
    """The free share of a pod, in steps."""

    name = "fullest_pod"
    level = Level.POD


class FullestZone(FullestRack):
    """The free share of a cluster (the nodes of one type in one zone), in steps."""

    name = "fullest_zone"
    level = Level.CLUSTER
