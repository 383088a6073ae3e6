"""Fragmentation gradient descent as published: the node where the task adds least to the GPUs that expected tasks cannot use.

The fragmentation of a node for one shape of task is all free GPU milli, where the shape does not fit by GPUs, CPUs or GPU type,
or needs no GPU; otherwise the milli free on devices that have less than the shape needs. The weighted sum over a mix of shapes
is compared before and after the task: the score is 100 x sigmoid(decrease in devices), rounded down.

The rounding is part of the policy, which packs less well without rounding. All arithmetic is in whole numbers: the sigmoid is a
table of the decreases at which the score reaches 1, 2, 3 and so on.

A part of a GPU goes to the fullest shared device that holds the part, as everywhere (docs/decisions/0018-shared-devices.md); the
published policy tries each device of the node and takes the one with the best score.

source    Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
          ATC'23, §4, as in the simulator of that paper
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from core.nouns.mix import Mix, TypicalShape
from core.nouns.prices import Prices
from core.nouns.quantities import MILLI
from core.pricing.shapes import may_run_on
from core.rules.placement.rule import NodePreference, Numbers, Request, Rows

BEST = 100
DEFAULT_MIX = Mix(
    tuple(TypicalShape(gpus=gpus, weight=10_000 * of) for gpus, of in ((1, 40), (8, 30), (2, 15), (4, 15)))
)
"""The mix of a region without prices, and of all experiments here that have no trace of their own."""
_UNIT = 1_000_000 * MILLI
"""One device, in milli times weights of a million."""
_LOSSES = np.asarray(
    [math.ceil(_UNIT * math.log(point / (BEST - point))) for point in range(1, BEST)], dtype=np.int64
)
"""Decreases of the fragmentation that score 1 to 99 points, in milli times weights of a million."""
Totals = NDArray[np.int64]
_NOWHERE = 1 << 30
_TABLES_MAX = 16


class _Shapes:
    """Weights of a mix, summed by node type and by the number of CPU levels that fit.

    levels   (levels,) CPU milli that shapes need, ascending
    index    (1001,) by milli free on a device: how many of the part sizes of shapes fit there
    parts    (node types, levels + 1, sizes + 1) the weight of shapes that need a part of one of the so many smallest sizes
    whole    (node types, levels + 1, most + 1) the weight of shapes that need so many whole devices, or fewer
    """

    def __init__(self, mix: Mix, node_types: Sequence[str]) -> None:
        shapes = [shape for shape in mix.shapes if shape.gpu_milli]
        self.weight = sum(shape.weight for shape in mix.shapes)
        self.levels = np.asarray(sorted({shape.cpu_milli for shape in shapes}), dtype=np.int64)
        sizes = sorted({shape.part_milli for shape in shapes if not shape.gpus})
        self.index = np.searchsorted(np.asarray(sizes), np.arange(MILLI + 1), side="right")
        most = max((shape.gpus + bool(shape.part_milli) for shape in shapes), default=0)
        levels = len(self.levels) + 1
        self.parts = np.zeros((len(node_types), levels, len(sizes) + 1), dtype=np.int64)
        self.whole = np.zeros((len(node_types), levels, most + 1), dtype=np.int64)
        for number, node_type in enumerate(node_types):
            for shape in shapes:
                if not may_run_on(shape, node_type):
                    continue
                level = int(self.levels.searchsorted(shape.cpu_milli)) + 1
                if shape.gpus:
                    # A part beside whole devices counts as one more whole device.
                    self.whole[number, level:, shape.gpus + bool(shape.part_milli) :] += shape.weight
                else:
                    self.parts[number, level:, sizes.index(shape.part_milli) + 1 :] += shape.weight

    def useful(self, node_type: Numbers, cpu: Numbers, devices: Numbers, shared: Numbers) -> Totals:
        """Return (rows,) GPU milli that each shape could use times the weight of the shape, summed over shapes.

        devices   free whole devices; shared (rows, most) milli free on the others
        """
        level = self.levels.searchsorted(cpu, side="right")
        most = self.whole.shape[2] - 1
        found: Totals = (
            self.whole[node_type, level, np.minimum(devices, most)] + self.parts[node_type, level, -1]
        )
        found *= devices * MILLI
        if shared.shape[1]:
            weight = self.parts[node_type[:, None], level[:, None], self.index[shared]]
            found += (weight * shared).sum(axis=1)
        return found


class Fgd(NodePreference):
    """The published score: with 101 steps each step is one point, with fewer steps several points."""

    name = "fgd"
    traits = frozenset({"need", "together"})
    reads_prices = True
    is_dear = True

    def __init__(self, steps: int, mix: Mix = DEFAULT_MIX) -> None:
        super().__init__(steps)
        self.mix = mix
        self._shapes: list[tuple[tuple[str, ...], _Shapes]] = []
        """Memo: summed weights by the node types of a pool."""

    def knowing(self, prices: Prices) -> "Fgd":
        """Return the rule for the mix of these prices; the rule reads only the mix."""
        return Fgd(self.steps, prices.mix)

    def score(self, rows: Rows, request: Request) -> Numbers:
        """Return 100 less the published score, scaled to the rule's steps if they are fewer than 101."""
        shapes = self._shapes_for(rows.node_types)
        node_type, cpu, devices = rows.node_type, rows.cpu, rows.whole // MILLI
        shared = rows.shared.astype(np.int32)
        less = shapes.useful(node_type, cpu, devices, shared)
        need = request.need
        devices, shared = with_tasks(devices, shared, request)
        less -= shapes.useful(node_type, cpu - need.cpu_milli, devices, shared)
        # GPUs that the task takes are no longer free, so they are no fragmentation either.
        less -= shapes.weight * need.gpu_milli
        score: Numbers = BEST - _LOSSES.searchsorted(-less, side="right")
        if self.steps <= BEST:
            score = score * (self.steps - 1) // BEST
        return score

    def _shapes_for(self, node_types: tuple[str, ...]) -> _Shapes:
        for known, shapes in self._shapes:
            if known == node_types:
                return shapes
        shapes = _Shapes(self.mix, node_types)
        self._shapes = [(node_types, shapes), *self._shapes[: _TABLES_MAX - 1]]
        return shapes


def with_tasks(devices: Numbers, shared: Numbers, request: Request) -> tuple[Numbers, Numbers]:
    """Return the free whole devices, and the milli free on the others, after the tasks are placed.

    source    core/device_shares.py, which chooses devices in the same way
    """
    each = request.need.gpu_milli // request.together
    devices = devices - each // MILLI * request.together
    part = request.part
    if part:
        every = np.arange(len(devices))
        shared = np.pad(shared, ((0, 0), (0, request.together)))
        for task in range(request.together):
            room = np.where(shared >= part, shared, _NOWHERE)
            fullest = room.argmin(axis=1)
            is_there = room[every, fullest] < _NOWHERE
            fullest[~is_there] = shared.shape[1] - request.together + task
            shared[every, fullest] += np.where(is_there, -part, MILLI - part)
            devices = devices - ~is_there
    return np.maximum(devices, 0), shared
