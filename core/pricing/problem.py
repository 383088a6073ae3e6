"""What a region's prices are solved from: its nodes in classes of like ones, and the tasks that were asked for as a mix.

Pools are not told apart: what one kind of work may not use is room for another, and prices are of the region.
"""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from core.images.capacity import Capacity
from core.images.demand import Demand, DemandRow
from core.nouns.fleet import will_do
from core.nouns.ids import RegionName
from core.nouns.mix import NO_MIX, Mix, TypicalShape
from core.nouns.quantities import MILLI
from core.pricing.fluid import NodeClass
from core.pricing.shapes import mix_of


class PricingProblem(Struct, frozen=True):
    """Of one region."""

    classes: tuple[NodeClass, ...] = ()
    """Of its open nodes."""
    mix: Mix = NO_MIX
    arrivals: int = 0
    """Tasks that the mix was counted from."""

    @property
    def gpu_milli(self) -> int:
        """Of all nodes."""
        return MILLI * sum(one.count * one.gpus for one in self.classes)


def problem_of(demand: Demand, capacity: Capacity, region: RegionName) -> PricingProblem:
    """As it is now. Tasks that could never run there are left out. Reads every node."""
    classes = classes_of(capacity)
    node_types = sorted({one.node_type for one in classes})
    counts: dict[TypicalShape, tuple[int, int]] = {}
    for row in demand.rows.values():
        shape = _shape_of(row, node_types, region)
        if shape is not None:
            count, memory = counts.get(shape, (0, 0))
            counts[shape] = (count + row.count, memory + row.count * row.need.memory_bytes)
    arrivals = sum(count for count, _ in counts.values())
    return PricingProblem(classes, mix_of(counts), arrivals)


def classes_of(capacity: Capacity) -> tuple[NodeClass, ...]:
    """Open nodes by type and size."""
    found: Counter[tuple[str, int, int, int]] = Counter()
    gpu, cpu, memory = capacity.gpu.total, capacity.cpu.total, capacity.memory.total
    for node, node_type in enumerate(capacity.node_type):
        if node_type and capacity.is_open(node):
            found[node_type, gpu[node], cpu[node], memory[node]] += 1
    return tuple(
        NodeClass(node_type, gpu_milli // MILLI, cpu_milli, memory_bytes, count)
        for (node_type, gpu_milli, cpu_milli, memory_bytes), count in sorted(found.items())
    )


def _shape_of(row: DemandRow, node_types: Sequence[str], region: RegionName) -> TypicalShape | None:
    """What the mix counts it as; None: it cannot run there."""
    is_for_gpus = row.need.gpu_milli > 0
    possible = [one for one in node_types if will_do(one, row.node_types, is_for_gpus=is_for_gpus)]
    if not possible or (row.regions and region not in row.regions):
        return None
    gpus, part = divmod(row.need.gpu_milli, MILLI)
    # Who can have all that there is wants none of it in particular, and makes nothing scarce.
    bound_to = () if len(possible) == len(node_types) else tuple(possible)
    return TypicalShape(gpus, part, row.need.cpu_milli, node_types=bound_to)
