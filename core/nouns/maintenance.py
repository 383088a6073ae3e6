"""Planned work on nodes: which nodes, when, and whether their tasks may stay."""

from enum import StrEnum

from msgspec import Struct


class ScopeKind(StrEnum):
    """By what nodes are named."""

    NODE = "node"
    RACK = "rack"
    POWER_DOMAIN = "power_domain"
    ZONE = "zone"
    POOL = "pool"
    WORKER = "worker"


class Scope(Struct, frozen=True):
    """Some of a region's nodes."""

    kind: ScopeKind
    names: tuple[str, ...]
    """Of nodes and racks, their numbers."""

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.kind} {','.join(self.names)}"


class MaintenanceKind(StrEnum):
    """What is to be done to the nodes."""

    NETWORK = "network"
    """Work on the nodes' switch: for a few minutes the nodes are unreachable."""
    REBOOT = "reboot"
    HARDWARE = "hardware"
    POWER = "power"

    @property
    def needs_empty(self) -> bool:
        """Whether whatever still runs there would be killed by it."""
        return self is not MaintenanceKind.NETWORK


class MaintenancePhase(StrEnum):
    """Where a maintenance is in its life."""

    PLANNED = "planned"
    """Nothing is touched yet."""
    NOTICED = "noticed"
    """Its lead has begun: nothing new is placed there, and controllers are asked."""
    OPEN = "open"
    """Its window: whatever had to leave has been told to stop."""
    OVER = "over"
    CANCELLED = "cancelled"

    @property
    def is_active(self) -> bool:
        """Whether the nodes are kept free for it."""
        return self in (MaintenancePhase.NOTICED, MaintenancePhase.OPEN)


class ClosureKind(StrEnum):
    """Why nothing new is placed on a node."""

    DRAIN = "drain"
    """An operator wants it empty."""
    MAINTENANCE = "maintenance"
    QUARANTINE = "quarantine"
    """It failed again and again, or reports that its hardware is ill."""
    SUSPECT = "suspect"
    """Its worker has missed beats."""
    DISPUTED = "disputed"
    """Agents claimed it again and again, and the store found no room there, though both had seen the same."""

    @property
    def empties(self) -> bool:
        """Whether what runs there is to leave."""
        return self in (ClosureKind.DRAIN, ClosureKind.MAINTENANCE)
