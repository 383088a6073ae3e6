"""The cost of a workload's move to another region, and whether the move pays within the workload's remaining time."""

from core.nouns.instant import SECOND, Nanoseconds
from core.nouns.limits import GRACE, SHIP_BYTES_PER_SECOND, START_ALLOWANCE
from core.nouns.moving import MoveCost
from core.nouns.placement import gpu_milli_of
from core.nouns.quantities import MILLI
from core.nouns.workload import WorkloadSpec


def ship_span(spec: WorkloadSpec) -> Nanoseconds:
    """Return how long the copy of a checkpoint to another region takes."""
    return Nanoseconds(spec.checkpoint_bytes * SECOND // SHIP_BYTES_PER_SECOND)


def cost_of(spec: WorkloadSpec, left: Nanoseconds | None) -> MoveCost:
    """Return the cost of a move.

    left      nanoseconds that the workload would still run in its present region; None: unknown
    """
    ship = ship_span(spec)
    pause = Nanoseconds((spec.grace or GRACE) + ship + START_ALLOWANCE)
    gpu_seconds = gpu_milli_of(spec.jobs) * pause // (MILLI * SECOND)
    return MoveCost(pause, ship, gpu_seconds, -1 if left is None else left)
