"""What a node's room is worth to the tasks that are expected to come, by tables.

A core of a node is worth one of several prices. At each of them, what a task pays for its devices is its GPUs, less its rent, less
its cores; the best such tasks that a device has room for are what the device is worth, whatever else is on the node. Devices and
free cores together come to a bound on what the node could still earn, and the least of the bounds is the tightest. Two things are
added: GPUs that few others can stand in for are worth more, and a node is worth something for how many tasks of each shape fit on
it all at once, for devices by themselves know nothing of tasks of several, nor of cores that run out.

All of it is in whole numbers, so that any two machines come to the same.

source    packing beyond FGD on openb (fluid prices): steps 3 to 5 of the rule; measured there, each part is worth 0.2 to 0.5
          points of allocated GPUs, and 18 prices of a core are enough
"""

from collections.abc import Sequence
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.nouns.mix import Mix, TypicalShape
from core.nouns.prices import Prices
from core.nouns.quantities import MILLI
from core.pricing.shapes import may_run_on, share_of

Numbers = NDArray[Any]  # Any: whole numbers of whatever width

CORE_PRICES = (0, 1, 2, 4, 7, 10, 15, 20, 30, 40, 55, 70, 90, 120, 160, 220, 300, 450)
"""Milli of a GPU for a core, which is millionths of a GPU for a thousandth of a core."""
SCARCITY_TENTHS = 3
"""How much scarcity adds to a GPU, in tenths. 3 to 6 came out alike."""
COPIES_PART = 10
"""One in so many is what GPUs that copies would fill are worth beside the rest. 5 came out alike, none 0.5 points worse."""
DEVICES_MAX = 64
"""Of a node with more whole devices free, so many are seen where copies are counted."""
ROWS_AT_ONCE = 4_096
EXPECTED = Mix(
    (
        TypicalShape(gpus=1, weight=360_000),
        TypicalShape(gpus=8, weight=270_000),
        TypicalShape(gpus=2, weight=135_000),
        TypicalShape(gpus=4, weight=135_000),
        TypicalShape(part_milli=500, weight=100_000),
    )
)
"""Before anything was seen: as all experiments here that have no trace of their own, and a tenth of halves."""
_MIB = 20
"""Bits. Memory is compared in MiB, which floats divide without an error."""


class Worth:
    """What prices say of rooms, on nodes of whichever types."""

    def __init__(self, prices: Prices) -> None:
        self._shapes = (prices.mix or EXPECTED).shapes
        rents = prices.rents if prices.mix else ()
        self._rents = np.asarray(rents or [(0,) * len(self._shapes)], dtype=np.int64)
        self._scarcity = dict(prices.scarcity)
        self._copies = _Copies(self._shapes)
        self._tables: dict[tuple[bool, ...], Numbers] = {}
        self._on: dict[tuple[str, ...], NodeWorth] = {}

    def on(self, node_types: tuple[str, ...]) -> "NodeWorth":
        """For nodes that name their types by their places in this."""
        found = self._on.get(node_types)
        if found is None:
            tables = [self._table(name) for name in node_types]
            found = self._on[node_types] = NodeWorth(np.concatenate(tables), self._copies)
        return found

    def _table(self, node_type: str) -> Numbers:
        may = tuple(may_run_on(shape, node_type) for shape in self._shapes)
        if may not in self._tables:
            self._tables[may] = self._of_devices(may)
        milli = np.arange(MILLI + 1, dtype=np.int64)
        scarcity = milli * self._scarcity.get(node_type, 0) * SCARCITY_TENTHS // (10 * MILLI)
        return (self._tables[may] + scarcity[:, None]).astype(np.int32)

    def _of_devices(self, may: Sequence[bool]) -> Numbers:
        """What a device is worth to shapes that may be there.

        returns   (milli free, core prices): millionths of a GPU, the mean over the levels of demand
        """
        core = np.asarray(CORE_PRICES, dtype=np.int64)
        pays: dict[int, Numbers] = {}
        for index, shape in enumerate(self._shapes):
            if not may[index]:
                continue
            total = shape.gpu_milli * MILLI - self._rents[:, index, None] - core * shape.cpu_milli
            for share, _ in share_of(shape):
                pay = np.maximum(total, 0) * share // shape.gpu_milli
                pays[share] = np.maximum(pays[share], pay) if share in pays else pay
        shares = sorted(pays)
        best = best_fillings(shares, np.asarray([pays[share] for share in shares], dtype=np.int64))
        mean: Numbers = best.sum(axis=1) // best.shape[1]
        return mean


def best_fillings(shares: Sequence[int], pays: NDArray[np.int64]) -> NDArray[np.int64]:
    """What the best shares that fit into a device come to, each as often as there is room for it.

    shares    milli, ascending
    pays      (shares, ...): what each is worth
    returns   (MILLI + 1, ...): by milli free
    """
    step = gcd(MILLI, *shares)
    best = np.zeros(
        (MILLI // step + 1, *(pays.shape[1:] if shares else (1, len(CORE_PRICES)))), dtype=np.int64
    )
    sizes = np.asarray(shares, dtype=np.int64) // step
    for room in range(1, len(best)):
        count = int(np.searchsorted(sizes, room, side="right"))
        if count:
            filled = (best[room - sizes[:count]] + pays[:count]).max(axis=0)
            best[room] = np.maximum(best[room - 1], filled)
    return best[np.arange(MILLI + 1) // step]


class _Copies:
    """GPUs that tasks of each shape would fill, if a node took only those, weighted by how often they come.

    On which types they may run is not asked, so that shapes that are alike but for that are one here.
    """

    def __init__(self, shapes: Sequence[TypicalShape]) -> None:
        alike: dict[tuple[int, int, int], tuple[int, int]] = {}
        for shape in shapes:
            if shape.gpu_milli:
                key = (shape.gpus, shape.part_milli, shape.cpu_milli)
                before = alike.get(key, (0, 0))
                mib = shape.weight * -(-shape.memory_bytes >> _MIB)
                alike[key] = before[0] + shape.weight, before[1] + mib
        gpus, part, cpu = np.asarray([*alike], dtype=np.int64).reshape(-1, 3).T
        weight, all_mib = np.asarray([*alike.values()], dtype=np.int64).reshape(-1, 2).T
        devices = np.arange(DEVICES_MAX + 1)[:, None]
        taken, on_one = np.maximum(gpus + (part > 0), 1), MILLI // np.maximum(part, 1)
        self.on_whole = np.where(gpus, devices // taken, devices * on_one).astype(np.float64)
        """(whole devices, shapes)"""
        milli = np.arange(MILLI + 1)[:, None]
        self.on_shared = np.where(gpus, 0, milli // np.maximum(part, 1)).astype(np.float64)
        """(milli free on a shared device, shapes)"""
        with np.errstate(divide="ignore"):
            self._per_cpu = 1.0 / cpu
            self._per_mib = 1.0 / (all_mib // np.maximum(weight, 1))
        self._weight = (weight * (gpus * MILLI + part)).astype(np.float64)

    def of(self, whole: Numbers, shared: Numbers, cpu: Numbers, memory: Numbers) -> NDArray[np.int64]:
        """(rows,) Millionths of a GPU. The floats are whole numbers below 2**53, so that no order of adding them matters."""
        count = self.on_whole[np.minimum(whole, DEVICES_MAX)]
        for device in range(shared.shape[1]):
            count += self.on_shared[shared[:, device]]
        # Half of one more, or a product that should be whole might come out just below.
        np.minimum(count, (cpu + 0.5)[:, None] * self._per_cpu, out=count)
        np.minimum(count, ((memory >> _MIB) + 0.5)[:, None] * self._per_mib, out=count)
        np.floor(count, out=count)
        filled: NDArray[np.int64] = (count @ self._weight).astype(np.int64)
        return filled // (MILLI * COPIES_PART)


class NodeWorth:
    """What rooms are worth on nodes of a few types."""

    def __init__(self, table: Numbers, copies: _Copies) -> None:
        self._table, self._copies = table, copies
        """The table has MILLI + 1 rows for each type."""
        self._core = np.asarray(CORE_PRICES, dtype=np.int64)

    def of(
        self, node_type: Numbers, whole: Numbers, shared: Numbers, cpu: Numbers, memory: Numbers
    ) -> NDArray[np.int64]:
        """Of so much room on each of some nodes.

        node_type     (rows,) places in the names that these were made for
        whole         (rows,) devices of which nothing is held
        shared        (rows, most) milli free on each other device
        cpu, memory   (rows,) milli, and bytes
        returns       (rows,) millionths of a GPU, 0 or more
        """
        worth = [
            self._of_some(
                *(column[first : first + ROWS_AT_ONCE] for column in (node_type, whole, shared, cpu, memory))
            )
            for first in range(0, max(1, len(whole)), ROWS_AT_ONCE)
        ]
        return worth[0] if len(worth) == 1 else np.concatenate(worth)

    def _of_some(
        self, node_type: Numbers, whole: Numbers, shared: Numbers, cpu: Numbers, memory: Numbers
    ) -> NDArray[np.int64]:
        first = node_type.astype(np.int64) * (MILLI + 1)
        at_prices = cpu[:, None] * self._core
        at_prices += whole[:, None] * self._table[first + MILLI]
        for device in range(shared.shape[1]):
            at_prices += self._table[first + shared[:, device]]
        least: NDArray[np.int64] = at_prices.min(axis=1)
        return least + self._copies.of(whole, shared, cpu, memory)
