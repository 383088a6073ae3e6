"""Priced value: the node on which a task takes the least from the value that expected tasks could earn there.

source    packing beyond FGD on openb (fluid prices), which allocates more GPUs than the fragmentation gradient
"""

import numpy as np
from numpy.typing import NDArray

from core.nouns.prices import NO_PRICES, Prices
from core.nouns.quantities import MILLI, Amount
from core.pricing.worth import Worth
from core.rules.placement.rule import NodePreference, Numbers, Request, Rows

STEP = 1_000
"""Millionths of a GPU in a step. Finer steps pack no better; far coarser ones pack slightly worse, by the source."""
FEW = 64
"""Up to so many nodes, scores are looked up one by one: arithmetic on arrays takes as long for one node as for dozens."""
KNOWN_MAX = 256
"""The most requests in the memo, and the most entries of each: more than a region has at a time."""
GPUS_MAX = 8
"""The largest task scored in steps of `STEP`; larger tasks have coarser steps, or all losses would be the last step."""

Asked = tuple[tuple[str, ...], Amount, int]
"""Node types by number, the need, and the number of tasks placed together."""
Room = tuple[int, int, tuple[int, ...], int, int]
"""Free capacity of one node: type, milli of whole devices, milli on each shared one, CPU milli, bytes."""


class PricedValue(NodePreference):
    """The value that a task takes from a node's free capacity."""

    name = "priced_value"
    traits = frozenset({"need", "together"})
    reads_prices = True
    is_dear = True

    def __init__(self, steps: int, prices: Prices = NO_PRICES) -> None:
        super().__init__(steps)
        self._worth = Worth(prices)
        self._known: dict[Asked, dict[Room, int]] = {}
        """Memo: scores by request and room."""

    def knowing(self, prices: Prices) -> "PricedValue":
        """Return the rule with these prices."""
        return PricedValue(self.steps, prices)

    def score(self, rows: Rows, request: Request) -> Numbers:
        """Return the lost value in steps; the last step also for all larger losses."""
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
        """Return the memo of one request: scores by room."""
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
    """Return whole devices, and milli on shared ones, after the tasks: each part on the fullest device that holds the part."""
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
