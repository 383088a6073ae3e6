"""A workload's move from one region to another: what it costs, and how far it is."""

from msgspec import Struct

from core.nouns.ids import RegionName
from core.nouns.instant import Nanoseconds


class MoveCost(Struct, frozen=True):
    """What a move takes, and what there is to gain by it."""

    pause: Nanoseconds
    """From its stop until it runs again: its grace, its checkpoint's way, its start."""
    ship: Nanoseconds
    """Of that, what its checkpoint is on its way."""
    gpu_seconds: int
    """That its GPUs do nothing for it."""
    left: int = -1
    """Nanoseconds that the workload would still run where it is, as predicted; -1: unknown."""

    @property
    def pays(self) -> bool:
        """Whether it would not have ended before it ran again."""
        return self.left < 0 or self.left > self.pause


class PlannedMove(Struct):
    """A move that is under way."""

    revision: int
    """Of the workload's moves: it grows with each."""
    region: RegionName
    """Where it goes."""
    epoch: int
    """The attempt that stops for it."""
    planned_at: int
    cost: MoveCost
    is_begun: bool = False
    """Its room is kept, and it was told to stop."""
    stopped_at: int = 0
    """0: it has not yet."""

    @property
    def arrives_at(self) -> int:
        """When its checkpoint is there, once it has stopped."""
        return self.stopped_at + self.cost.ship
