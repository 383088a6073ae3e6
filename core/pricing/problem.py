"""What a region's prices are solved from: its nodes in classes of like ones, and the tasks that were asked for as a mix.

Shared pools are left out, for a policy divides them. Other pools are not told apart: what one kind of work may not use is room for another, and prices are of the region.
"""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from core.images.capacity import Capacity
from core.images.demand import Demand, DemandRow
from core.nouns.fleet import will_do
from core.nouns.ids import RegionName
from core.nouns.limits import NODE_CLASSES_MAX
from core.nouns.mix import NO_MIX, Mix, TypicalShape
from core.nouns.pool import SHARED_POOL
from core.nouns.quantities import MILLI, Amount
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
    counts: dict[TypicalShape, tuple[int, int]] = {}
    for row in demand.rows.values():
        shape = _shape_of(row, classes, region)
        if shape is not None:
            count, memory = counts.get(shape, (0, 0))
            counts[shape] = (count + row.count, memory + row.count * row.need.memory_bytes)
    arrivals = sum(count for count, _ in counts.values())
    return PricingProblem(classes, mix_of(counts), arrivals)


def classes_of(capacity: Capacity) -> tuple[NodeClass, ...]:
    """Open nodes by type and size, without those of shared pools, where nothing is chosen by value. Where there are too many sizes, those of one type with as many GPUs are one class of the mean size;
    where there are too many still, those of the fewest nodes are left out.
    """
    found: Counter[tuple[str, int, int, int]] = Counter()
    gpu, cpu, memory = capacity.gpu.total, capacity.cpu.total, capacity.memory.total
    shared = {
        node
        for row in capacity.workers.values()
        for group in row.inventory.groups
        if group.pool == SHARED_POOL
        for node in group.numbers()
    }
    for node, node_type in enumerate(capacity.node_type):
        if node_type and capacity.is_open(node) and node not in shared:
            found[node_type, gpu[node], cpu[node], memory[node]] += 1
    classes = tuple(
        NodeClass(node_type, gpu_milli // MILLI, cpu_milli, memory_bytes, count)
        for (node_type, gpu_milli, cpu_milli, memory_bytes), count in sorted(found.items())
    )
    return classes if len(classes) <= NODE_CLASSES_MAX else _fewer(classes)


def _fewer(classes: Sequence[NodeClass]) -> tuple[NodeClass, ...]:
    alike: dict[tuple[str, int], list[NodeClass]] = {}
    for one in classes:
        alike.setdefault((one.node_type, one.gpus), []).append(one)
    merged = []
    for (node_type, gpus), mine in alike.items():
        count = sum(one.count for one in mine)
        cpu_milli = sum(one.count * one.cpu_milli for one in mine) // count
        memory_bytes = sum(one.count * one.memory_bytes for one in mine) // count
        merged.append(NodeClass(node_type, gpus, cpu_milli, memory_bytes, count))
    merged.sort(key=lambda one: (-one.count, one))
    return tuple(sorted(merged[:NODE_CLASSES_MAX]))


def _shape_of(row: DemandRow, classes: Sequence[NodeClass], region: RegionName) -> TypicalShape | None:
    """What the mix counts it as; None: it cannot run there."""
    is_for_gpus = row.need.gpu_milli > 0
    node_types = sorted({one.node_type for one in classes})
    possible = [one for one in node_types if will_do(one, row.node_types, is_for_gpus=is_for_gpus)]
    if row.regions and region not in row.regions:
        return None
    if not any(_holds(one, row.need) for one in classes if one.node_type in possible):
        return None
    gpus, part = divmod(row.need.gpu_milli, MILLI)
    # Who can have all that there is wants none of it in particular, and makes nothing scarce.
    bound_to = () if len(possible) == len(node_types) else tuple(possible)
    return TypicalShape(gpus, part, row.need.cpu_milli, node_types=bound_to)


def _holds(node: NodeClass, need: Amount) -> bool:
    """Whether a task fits on such a node while nothing else is there."""
    return (
        need.gpu_milli <= node.gpus * MILLI
        and need.cpu_milli <= node.cpu_milli
        and need.memory_bytes <= node.memory_bytes
    )
