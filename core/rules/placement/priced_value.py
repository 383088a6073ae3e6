"""Priced value: the node on which a task takes the least from what the tasks to come could earn there.

source    packing beyond FGD on openb (fluid prices): 95.0 % of GPUs allocated over thirteen lists, where the fragmentation
          gradient comes to 93.4; with what was learned on the way 94.8
"""

import numpy as np
from numpy.typing import NDArray

from core.nouns.prices import NO_PRICES, Prices
from core.nouns.quantities import MILLI, Amount
from core.pricing.worth import Worth
from core.rules.placement.rule import NodePreference, Numbers, Request, Rows

STEP = 1_000
"""Millionths of a GPU in a step: a thousandth of one. A quarter of it came out alike; a fiftieth of a GPU 0.1 points worse, the source says."""
FEW = 64
"""Of no more nodes their rooms are looked up one by one, for the arithmetic of arrays takes as long for one as for fifty."""
KNOWN_MAX = 256
"""Requests whose scores are remembered, and rooms of each: more than are alike in a region at a time."""
GPUS_MAX = 8
"""Of a task that is told apart so finely; of more they are told apart in coarser steps, or all would be the last one."""

Asked = tuple[tuple[str, ...], Amount, int]
"""Node types by number, what is needed, and for how many tasks at once."""
Room = tuple[int, int, tuple[int, ...], int, int]
"""On one node: its type, and what is free of whole and shared devices, cores and memory."""


class PricedValue(NodePreference):
    """What the room that is left is worth less than the room that was there."""

    name = "priced_value"
    traits = frozenset({"need", "together"})
    reads_prices = True
    is_dear = True

    def __init__(self, steps: int, prices: Prices = NO_PRICES) -> None:
        super().__init__(steps)
        self._worth = Worth(prices)
        self._known: dict[Asked, dict[Room, int]] = {}
        """A memo: scores of rooms that were looked at before."""

    def knowing(self, prices: Prices) -> "PricedValue":
        """The same by these prices."""
        return PricedValue(self.steps, prices)

    def score(self, rows: Rows, request: Request) -> Numbers:
        """What is lost, in steps; the last step for whatever is more."""
        node_type = rows.node_type
        if len(node_type) > FEW:
            return self._score(rows, request)
        columns = (
            rows.whole.tolist(),
            map(tuple, rows.shared.tolist()),
            rows.cpu.tolist(),
            rows.memory.tolist(),
        )
        rooms: list[Room] = list(zip(node_type.tolist(), *columns, strict=True))
        known = self._scores_of((rows.node_types, request.need, request.together))
        found = [known.get(room, -1) for room in rooms]
        if -1 not in found:
            return np.asarray(found, dtype=np.int64)
        score = self._score(rows, request)
        if len(known) > KNOWN_MAX:
            known.clear()
        known.update(zip(rooms, score.tolist(), strict=True))
        return score

    def _scores_of(self, asked: Asked) -> dict[Room, int]:
        """As far as they are known."""
        known = self._known.get(asked)
        if known is None:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            known = self._known[asked] = {}
        return known

    def _score(self, rows: Rows, request: Request) -> Numbers:
        node_type, whole, shared = rows.node_type, rows.whole // MILLI, rows.shared
        cpu, memory = rows.cpu.astype(np.int64), rows.memory
        count, need = len(whole), request.need
        left, parts = _left_of(whole, shared, request)
        before = np.zeros((count, parts.shape[1]), dtype=np.int64)
        before[:, : shared.shape[1]] = shared
        worth = self._worth.on(rows.node_types).of(
            np.concatenate([node_type, node_type]),
            np.concatenate([whole, np.maximum(left, 0)]),
            np.concatenate([before, parts]),
            np.concatenate([cpu, np.maximum(cpu - need.cpu_milli, 0)]),
            np.concatenate([memory, np.maximum(memory - need.memory_bytes, 0)]),
        )
        lost = worth[:count] - worth[count:]
        coarser = max(1, -(-need.gpu_milli // (GPUS_MAX * MILLI)))
        score: Numbers = np.clip(lost // (STEP * coarser), 0, self.steps - 1)
        return score


def _left_of(whole: Numbers, shared: Numbers, request: Request) -> tuple[Numbers, NDArray[np.int64]]:
    """Whole devices, and milli on shared ones, once the tasks are there: each part on the fullest device that holds it."""
    part, together = request.part, request.together
    gpus = (
        request.need.gpu_milli // MILLI
        if not part
        else request.need.gpu_milli // together // MILLI * together
    )
    left = whole - gpus
    most = shared.shape[1]
    parts = np.zeros((len(whole), most + (together if part else 0)), dtype=np.int64)
    parts[:, :most] = shared
    every = np.arange(len(whole))
    for number in range(most, parts.shape[1]):
        room = np.where(parts >= part, parts, MILLI + 1)
        device = room.argmin(axis=1)
        is_new = room[every, device] > MILLI
        device[is_new] = number
        left = left - is_new
        parts[every, device] += is_new * MILLI
        parts[every, device] -= part
    return left, parts
