"""Best fit as published beside FGD: the node with the least left over, CPUs and GPUs weighed equally.

source    Weng et al., "Beware of Fragmentation", ATC'23, as in the simulator of that paper: half of free CPU over 128
          cores plus half of free GPU over 8 devices, after the task is placed; scores are whole numbers from 0 to 100
"""

import numpy as np

from core.rules.placement.rule import NodePreference, Numbers, Request, Rows

BEST = 100
CPU_MILLI, GPU_MILLI = 128_000, 8_000
"""Capacity of a whole node in the paper; a larger node that is empty has the worst score."""
_PER_POINT = 2 * CPU_MILLI // BEST
_GPU_WEIGHT = CPU_MILLI // GPU_MILLI


class BestFitPublished(NodePreference):
    """The published score: with 101 steps each step is one point, with fewer steps several points."""

    name = "best_fit_published"
    traits = frozenset({"need"})

    def score(self, rows: Rows, request: Request) -> Numbers:
        """Return the remainder in points, rounded up: the published score is rounded down, and higher is better there."""
        need = request.need
        left: Numbers = rows.cpu + _GPU_WEIGHT * rows.gpu
        left += _PER_POINT - 1 - need.cpu_milli - _GPU_WEIGHT * need.gpu_milli
        left //= _PER_POINT
        np.clip(left, 0, BEST, out=left)
        if self.steps <= BEST:
            left = left * (self.steps - 1) // BEST
        return left
