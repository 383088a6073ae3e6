"""Best fit: the node with the fewest GPUs left over."""

import numpy as np

from core.rules.placement.rule import NodePreference, Numbers, Request, Rows

_ABOUT_A_GPU = 10
"""Bits: 1024 milli count as one GPU, because a shift costs less than a division."""


class BestFit(NodePreference):
    """GPUs left over after one task; the last step also for all larger remainders."""

    name = "best_fit"
    traits = frozenset({"need"})

    def score(self, rows: Rows, request: Request) -> Numbers:
        """Return the GPUs left over, rounded up, `steps` - 1 at most."""
        spare = (1 << _ABOUT_A_GPU) - 1 - request.need.gpu_milli
        left: Numbers = (rows.gpu + spare) >> _ABOUT_A_GPU
        np.maximum(left, 0, out=left)
        np.minimum(left, self.steps - 1, out=left)
        return left
