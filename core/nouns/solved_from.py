"""What prices were solved from: enough to tell when they are old."""

from msgspec import Struct


class SolvedFrom(Struct, frozen=True):
    """One region, and what was asked of it."""

    arrived: int = 0
    """Tasks ever submitted, by the queue's log as far as it was read."""
    queue_sequence: int = 0
    """How far that was."""
    sequence: int = 0
    """Of the region's own log, as far as it was read."""
    gpu_milli: int = 0
    """Of all its nodes that were open."""
