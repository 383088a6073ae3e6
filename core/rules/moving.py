"""What it costs to move a workload to another region, and whether that pays within the time that it has left."""

from core.nouns.instant import SECOND, Nanoseconds
from core.nouns.limits import GRACE, SHIP_BYTES_PER_SECOND, START_ALLOWANCE
from core.nouns.moving import MoveCost
from core.nouns.placement import gpu_milli_of
from core.nouns.quantities import MILLI
from core.nouns.workload import WorkloadSpec


def cost_of(spec: WorkloadSpec, left: Nanoseconds | None) -> MoveCost:
    """What a move takes.

    left      how much longer it would run where it is; None: nobody can say
    """
    ship = Nanoseconds(spec.checkpoint_bytes * SECOND // SHIP_BYTES_PER_SECOND)
    pause = Nanoseconds((spec.grace or GRACE) + ship + START_ALLOWANCE)
    gpu_seconds = gpu_milli_of(spec.jobs) * pause // (MILLI * SECOND)
    return MoveCost(pause, ship, gpu_seconds, -1 if left is None else left)
