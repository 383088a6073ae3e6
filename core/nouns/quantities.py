"""Amounts of what nodes have and tasks need: whole numbers with their units."""

from msgspec import Struct

MILLI = 1000
"""GPU milli in one device, CPU milli in one core."""


class Amount(Struct, frozen=True, order=True, forbid_unknown_fields=True, gc=False):
    """So much of each resource."""

    gpu_milli: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0

    def times(self, count: int) -> "Amount":
        """This much `count` times over."""
        return Amount(self.gpu_milli * count, self.cpu_milli * count, self.memory_bytes * count)

    def plus(self, other: "Amount") -> "Amount":
        """Both together."""
        return Amount(
            self.gpu_milli + other.gpu_milli,
            self.cpu_milli + other.cpu_milli,
            self.memory_bytes + other.memory_bytes,
        )

    def minus(self, other: "Amount") -> "Amount":
        """What is left; may be negative."""
        return Amount(
            self.gpu_milli - other.gpu_milli,
            self.cpu_milli - other.cpu_milli,
            self.memory_bytes - other.memory_bytes,
        )

    def largest(self, other: "Amount") -> "Amount":
        """Return the larger amount of each resource."""
        return Amount(
            max(self.gpu_milli, other.gpu_milli),
            max(self.cpu_milli, other.cpu_milli),
            max(self.memory_bytes, other.memory_bytes),
        )

    def smallest(self, other: "Amount") -> "Amount":
        """Return the smaller amount of each resource."""
        return Amount(
            min(self.gpu_milli, other.gpu_milli),
            min(self.cpu_milli, other.cpu_milli),
            min(self.memory_bytes, other.memory_bytes),
        )

    def covers(self, other: "Amount") -> bool:
        """Whether the other fits into this."""
        return (
            self.gpu_milli >= other.gpu_milli
            and self.cpu_milli >= other.cpu_milli
            and self.memory_bytes >= other.memory_bytes
        )


NOTHING = Amount()
