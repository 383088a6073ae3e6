"""What tasks are expected to come: typical shapes with their weights.

Rules that judge what a task leaves to those after it ask this. An operator sets it of a pool, or it is learned from what was
seen; both say it in the same words.
"""

from msgspec import Struct

from core.nouns.quantities import MILLI, Amount

WEIGHT = 1_000_000
"""The weights of a mix sum to so much, or a little less by rounding."""


class TypicalShape(Struct, frozen=True, order=True):
    """One sort of task."""

    gpus: int = 0
    """Whole devices."""
    part_milli: int = 0
    """Of one more device, 0 to 999."""
    cpu_milli: int = 0
    memory_bytes: int = 0
    """CPU milli and bytes are means over the shape's tasks; 0: not considered."""
    node_types: tuple[str, ...] = ()
    """On which it may run, ascending; empty: on any."""
    weight: int = 0
    """Of a million tasks to come, how many are like this."""

    @property
    def gpu_milli(self) -> int:
        """All GPU milli of one task."""
        return self.gpus * MILLI + self.part_milli

    @property
    def need(self) -> Amount:
        """Of one task."""
        return Amount(self.gpu_milli, self.cpu_milli, self.memory_bytes)


class Mix(Struct, frozen=True):
    """Tasks to come, the most frequent shape first."""

    shapes: tuple[TypicalShape, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.shapes)


NO_MIX = Mix()
