"""How much of the tasks to come a region could hold at best, if tasks could be cut: a linear programme whose duals are rents.

Tasks of each shape go to nodes of each class of like nodes, as many as there is room for in all of a class together: cores, memory,
and devices. Devices are filled by sets of shares that fit into one; of these there are too many to write down, so that the programme
is solved with few, and those sets are added that would earn more by its duals, until there are none (column generation). Tasks of
several devices are bounded by the nodes that have as many.

All nodes count, empty. What is free at the moment changes with each task, and prices by it came out no better.

source    packing beyond FGD on openb (fluid prices): steps 1 and 2 of the rule; Gilmore & Gomory, A linear programming approach to
          the cutting-stock problem, 1961
"""

from collections.abc import Iterator, Sequence
from math import gcd
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from core.nouns.mix import Mix, TypicalShape
from core.nouns.prices import MICRO, Prices
from core.nouns.quantities import MILLI
from core.pricing.shapes import gpu_milli_of, may_run_on, share_of

LEVELS_OF_DEMAND = (1.0, 1.1, 1.3)
"""Of what all GPUs together hold. Rents at one level alone jump when the mix hardly changes; of several the tables take the mean."""
CORE_WORTH = 0.01
"""GPUs that a core held by a task without GPUs counts for. Where a quarter of all tasks are such (openb's list cpu250, five orders): at
0 5.3 % of them find no room, at 0.005 4.7 %, at 0.01 4.5 %, at 0.02 4.2 %; GPUs held are 95.3, 95.7, 95.9 and 95.4 %, for cores that cost
nothing in the programme are cheap to everybody."""
SCARCITY_MAX = 2 * MICRO
GIB = float(1 << 30)


class NodeClass(Struct, frozen=True, order=True):
    """Like nodes of a region."""

    node_type: str
    gpus: int
    """Of one node, as the two below."""
    cpu_milli: int
    memory_bytes: int
    count: int


class Columns(NamedTuple):
    """Of a programme's matrix: what each earns, and its entries."""

    earns: NDArray[np.float64]
    starts: NDArray[np.int32]
    """Where each column's entries begin."""
    rows: NDArray[np.int32]
    values: NDArray[np.float64]


class FluidProblem:
    """Earn the most with columns of amounts that are 0 or more, and no row above its bound.

    bounds    (rows,): demand by shape at level 1; then by class cores, GiB, and devices; then by class and share what is filled less what is
              taken, which is 0; then by class and number of devices the tasks that need so many on one node
    """

    def __init__(self, classes: Sequence[NodeClass], mix: Mix) -> None:
        self.classes, self.shapes = tuple(classes), mix.shapes
        self._shares = sorted({share for shape in self.shapes for share, _ in share_of(shape)})
        self._blocks = sorted({_devices(shape) for shape in self.shapes if _devices(shape) > 1})
        self._step = gcd(MILLI, *self._shares)
        count, shapes = len(self.classes), len(self.shapes)
        self._cpu, self._memory, self._device = (shapes + count * kind for kind in range(3))
        self._share = self._device + count
        self._block = self._share + count * len(self._shares)
        gpus = sum(one.count * one.gpus for one in self.classes)
        tasks = gpus * MILLI / max(1, gpu_milli_of(self.shapes))
        held = [
            [one.count * one.cpu_milli / MILLI for one in self.classes],
            [one.count * one.memory_bytes / GIB for one in self.classes],
            [float(one.count * one.gpus) for one in self.classes],
            [0.0] * (count * len(self._shares)),
            [float(one.count * (one.gpus // block)) for one in self.classes for block in self._blocks],
        ]
        self.bounds = np.asarray(
            [shape.weight * tasks for shape in self.shapes] + [bound for bounds in held for bound in bounds]
        )
        self._known: set[tuple[int, tuple[tuple[int, int], ...]]] = set()

    def demand(self, level: float) -> NDArray[np.float64]:
        """(shapes,) The bounds of the first rows, if so many tasks come: at 1 they want what all GPUs together hold."""
        demand: NDArray[np.float64] = level * self.bounds[: len(self.shapes)]
        return demand

    def first_columns(self) -> Columns:
        """Tasks on classes, and devices filled by one sort of share."""
        tasks = [
            (self._earns(index), self._task(index, number))
            for index, shape in enumerate(self.shapes)
            for number, one in enumerate(self.classes)
            if may_run_on(shape, one.node_type) and _devices(shape) <= one.gpus
        ]
        fillings = [
            (number, ((position, MILLI // share),))
            for number, one in enumerate(self.classes)
            if one.gpus
            for position, share in enumerate(self._shares)
        ]
        self._known.update(fillings)
        return _columns([*tasks, *((0.0, self._filling(*filling)) for filling in fillings)])

    def more_columns(self, duals: NDArray[np.float64]) -> Columns | None:
        """Sets of shares that earn more than the devices cost by these duals, the best for each class; None: there are none.

        duals     (rows,): what one more of each bound would earn, 0 or more
        """
        if not self._shares:
            return None
        pays = duals[self._share : self._block].reshape(len(self.classes), -1)
        best, taken = self._fillings(pays)
        found = []
        for number, one in enumerate(self.classes):
            if one.gpus and best[number] > duals[self._device + number] + 1e-7:
                shares, counts = np.unique(list(taken(number)), return_counts=True)
                filling = (number, tuple(zip(shares.tolist(), counts.tolist(), strict=True)))
                if filling not in self._known:
                    self._known.add(filling)
                    found.append((0.0, self._filling(*filling)))
        return _columns(found) if found else None

    def _fillings(self, pays: NDArray[np.float64]) -> tuple[NDArray[np.float64], "_Taken"]:
        """The best set of shares in a whole device, by class: what it comes to, and which they are."""
        sizes = np.asarray(self._shares) // self._step
        rooms, classes = MILLI // self._step, np.arange(len(pays))
        best = np.zeros((rooms + 1, len(pays)))
        last = np.full((rooms + 1, len(pays)), -1)
        for room in range(1, rooms + 1):
            fit = int(np.searchsorted(sizes, room, side="right"))
            best[room] = best[room - 1]
            if fit:
                filled = best[room - sizes[:fit]] + pays[:, :fit].T
                top = filled.argmax(axis=0)
                is_better = filled[top, classes] > best[room] + 1e-12
                best[room] = np.where(is_better, filled[top, classes], best[room])
                last[room] = np.where(is_better, top, -1)
        return best[rooms], _Taken(last, sizes)

    def _earns(self, index: int) -> float:
        shape = self.shapes[index]
        return shape.gpu_milli / MILLI if shape.gpu_milli else CORE_WORTH * shape.cpu_milli / MILLI

    def _task(self, index: int, number: int) -> list[tuple[int, float]]:
        shape = self.shapes[index]
        entries = [
            (index, 1.0),
            (self._cpu + number, shape.cpu_milli / MILLI),
            (self._memory + number, shape.memory_bytes / GIB),
        ]
        first = self._share + number * len(self._shares)
        entries += [(first + self._shares.index(share), float(count)) for share, count in share_of(shape)]
        if _devices(shape) > 1:
            block = self._blocks.index(_devices(shape))
            entries.append((self._block + number * len(self._blocks) + block, 1.0))
        return [(row, value) for row, value in entries if value]

    def _filling(self, number: int, shares: Sequence[tuple[int, int]]) -> list[tuple[int, float]]:
        first = self._share + number * len(self._shares)
        return [(self._device + number, 1.0), *((first + share, -float(count)) for share, count in shares)]


class _Taken:
    """Which shares the best set was made of."""

    def __init__(self, last: NDArray[np.int64], sizes: NDArray[np.int64]) -> None:
        self._last, self._sizes = last, sizes

    def __call__(self, number: int) -> Iterator[int]:
        room = len(self._last) - 1
        while room > 0:
            share = int(self._last[room, number])
            if share < 0:
                room -= 1
            else:
                yield share
                room -= int(self._sizes[share])


def _devices(shape: TypicalShape) -> int:
    return sum(count for _, count in share_of(shape))


def _columns(columns: Sequence[tuple[float, Sequence[tuple[int, float]]]]) -> Columns:
    lengths = [len(entries) for _, entries in columns]
    return Columns(
        np.asarray([earns for earns, _ in columns]),
        np.cumsum([0, *lengths[:-1]]).astype(np.int32),
        np.asarray([row for _, entries in columns for row, _ in entries], dtype=np.int32),
        np.asarray([value for _, entries in columns for _, value in entries]),
    )


def prices_of(
    classes: Sequence[NodeClass], mix: Mix, rents: Sequence[Sequence[float]], revision: int, arrivals: int
) -> Prices:
    """What was solved for, in whole numbers.

    rents     by level of demand and shape: the duals of demand, in GPUs
    """
    return Prices(
        revision,
        mix,
        tuple(tuple(max(0, round(rent * MICRO)) for rent in level) for level in rents),
        scarcity_of(classes, mix),
        arrivals,
    )


def scarcity_of(classes: Sequence[NodeClass], mix: Mix) -> tuple[tuple[str, int], ...]:
    """By node type: of those who can run on few types, the share in all that is wanted, over the share of all GPUs that they can
    have; in millionths, 2 at most.
    """
    gpus: dict[str, int] = {}
    for one in classes:
        gpus[one.node_type] = gpus.get(one.node_type, 0) + one.count * one.gpus
    wanted, total = gpu_milli_of(mix.shapes), sum(gpus.values())
    found = []
    for node_type in sorted(gpus):
        scarcity = 0
        for shape in mix.shapes:
            theirs = sum(gpus.get(name, 0) for name in shape.node_types)
            if node_type in shape.node_types and wanted and theirs:
                scarcity += MICRO * shape.weight * shape.gpu_milli * total // (wanted * theirs)
        if scarcity:
            found.append((node_type, min(scarcity, SCARCITY_MAX)))
    return tuple(found)
