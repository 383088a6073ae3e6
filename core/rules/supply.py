"""A region's room and what was asked of it, summed up for whoever solves for prices.

Pools are not told apart: what one kind of work may not use is room for another, and prices are of the region.
"""

from collections import Counter

from core.images.capacity import Capacity
from core.images.demand import Demand
from core.nouns.ids import RegionName
from core.nouns.pricing import NodeClass, PricingProblem, ShapeCount
from core.nouns.quantities import MILLI, Amount


class _Sums:
    """Of one class of nodes."""

    def __init__(self) -> None:
        self.nodes = self.gpu = self.cpu = self.memory = 0
        self.devices: Counter[int] = Counter()
        self.whole: Counter[int] = Counter()


def problem_of(demand: Demand, capacity: Capacity, region: RegionName) -> PricingProblem:
    """What is free on open nodes, and the tasks asked for that could run there at all. Reads every node."""
    classes = classes_of(capacity)
    node_types = {one.node_type for one in classes}
    counted: Counter[tuple[Amount, tuple[str, ...]]] = Counter()
    for row in demand.rows.values():
        possible = tuple(one for one in row.node_types if one in node_types)
        if (possible or not row.node_types) and (not row.regions or region in row.regions):
            counted[row.need, possible] += row.count
    shapes = (ShapeCount(need, possible, count) for (need, possible), count in counted.items())
    return PricingProblem(tuple(sorted(shapes)), classes)


def classes_of(capacity: Capacity) -> tuple[NodeClass, ...]:
    """Open nodes by type and size."""
    gpu, cpu, memory = capacity.gpu, capacity.cpu, capacity.memory
    shared = capacity.devices.by_node
    found: dict[tuple[str, int, int, int], _Sums] = {}
    for node, node_type in enumerate(capacity.node_type):
        if not node_type or not capacity.is_open(node):
            continue
        sums = found.setdefault((node_type, gpu.total[node], cpu.total[node], memory.total[node]), _Sums())
        gpu_free = max(0, gpu.free[node] - gpu.reserved[node])
        sums.nodes += 1
        sums.gpu += gpu_free
        sums.cpu += max(0, cpu.free[node] - cpu.reserved[node])
        sums.memory += max(0, memory.free[node] - memory.reserved[node])
        whole = gpu_free // MILLI
        if node in shared:
            room = capacity.room(node)
            whole = max(0, room.whole)
            sums.devices.update(milli for milli in room.shared.values() if milli > 0)
        if whole:
            sums.whole[whole] += 1
            sums.devices[MILLI] += whole
    classes = (
        NodeClass(
            node_type,
            Amount(*total),
            sums.nodes,
            Amount(sums.gpu, sums.cpu, sums.memory),
            tuple(sorted(sums.devices.items())),
            tuple(sorted(sums.whole.items())),
        )
        for (node_type, *total), sums in found.items()
    )
    return tuple(sorted(classes))
