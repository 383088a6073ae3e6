"""The GPU fragmentation gradient: the node where a task adds least to the GPUs that expected tasks could not use.

source    Weng et al., Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent,
          ATC'23, §4: F_n(M) = sum over task types m of p_m * F_n(m), and the node with the least growth of F_n is taken.
          F_n(m) is all that is free where m does not fit, else the parts of GPUs that m cannot use. Here only GPUs count.
"""

import numpy as np

from core.nouns.quantities import MILLI
from core.rules.placement.rule import Numbers, Refinement, Request, Rows

Mix = tuple[tuple[int, int], ...]
"""Expected tasks: GPU milli of one task, and the permille of tasks of that size."""
PUBLIC_TRACE: Mix = ((1_000, 400), (2_000, 150), (4_000, 150), (8_000, 300))
"""1, 2, 4 and 8 GPUs by 40, 15, 15 and 30 % (the mix of all experiments here that have no trace of their own)."""


class Fragmentation(Refinement):
    """Growth of the expected fragmentation, in GPU milli times a thousand."""

    name = "fragmentation"
    traits = frozenset({"need"})

    def __init__(self, mix: Mix = PUBLIC_TRACE) -> None:
        self.mix = mix

    def cost(self, rows: Rows, request: Request) -> Numbers:
        """Return the fragmentation after the task is placed, less that before."""
        free = rows.gpu.astype(np.int64)
        growth: Numbers = self._of_no_use(free - request.need.gpu_milli) - self._of_no_use(free)
        return growth

    def _of_no_use(self, free: Numbers) -> Numbers:
        total = np.zeros(len(free), dtype=np.int64)
        parts = free % MILLI
        for gpu_milli, permille in self.mix:
            rest = parts if gpu_milli >= MILLI else parts % gpu_milli
            total += permille * np.where(free >= gpu_milli, rest, free)
        return total
