"""Full racks, pods and zones before empty ones, so that whole ones stay free for who needs them."""

from typing import Any

from core.rules.placement.rule import Level, UnitPreference


class FullestRack(UnitPreference):
    """How much of a rack is free."""

    name = "fullest_rack"
    level = Level.RACK

    def score(self, free: Any, total: Any) -> Any:
        """0 of a full one."""
        return free * (self.steps - 1) // total


class FullestPod(FullestRack):
    """How much of a pod is free."""

    name = "fullest_pod"
    level = Level.POD


class FullestZone(FullestRack):
    """How much of a cluster is free: of the nodes of one type in one zone."""

    name = "fullest_zone"
    level = Level.CLUSTER
