"""Fragmentation of a region: which gangs could be placed depends on the shapes of free capacity, and not on their sum.

source    spec/protean-parsync.md §5.3, question 5: largest gang placeable per extent, stranded GPUs, empty nodes
"""

from collections import Counter

from core.images.capacity import Capacity
from core.nouns.defragmentation import Wholeness
from core.nouns.fleet import gpu_type_of
from core.nouns.quantities import MILLI
from core.nouns.workload import Extent
from core.placing.pick.extents import pod_of_rack

NODE = "node"


def nodes_with_gpus(capacity: Capacity, gpu_type: str = "") -> list[int]:
    """Return the nodes with GPUs, of one GPU type or of all, ascending."""
    return [
        node
        for node, node_type in enumerate(capacity.node_type)
        if node_type and capacity.gpu.total[node] and (not gpu_type or gpu_type_of(node_type)[0] == gpu_type)
    ]


def racks_of(capacity: Capacity, nodes: list[int]) -> dict[int, list[int]]:
    """Return these nodes by rack."""
    found: dict[int, list[int]] = {}
    for node in nodes:
        found.setdefault(capacity.rack[node], []).append(node)
    return found


def is_unused(capacity: Capacity, node: int) -> bool:
    """Return whether all of a node's capacity is free and not promised."""
    return all(
        columns.free[node] - columns.reserved[node] == columns.total[node]
        for columns in (capacity.gpu, capacity.cpu, capacity.memory)
    )


def wholeness_of(capacity: Capacity, gpu_type: str = "") -> Wholeness:
    """Return the wholeness of all nodes that have GPUs, or of those of one GPU type."""
    nodes = nodes_with_gpus(capacity, gpu_type)
    racks = racks_of(capacity, nodes)
    whole = {node for node in nodes if capacity.is_open(node) and is_unused(capacity, node)}
    zones = _zones(capacity)
    largest = {NODE: 0, **{str(extent): 0 for extent in (Extent.RACK, Extent.POD, Extent.ZONE)}}
    held: Counter[tuple[object, ...]] = Counter()
    free_gpus = stranded = 0
    share = _asked_for_a_gpu(capacity)
    for node in nodes:
        if not capacity.is_open(node):
            continue
        room = capacity.available(node)
        gpus = capacity.room(node).whole if node in capacity.devices.by_node else room.gpu_milli // MILLI
        free_gpus += gpus
        fit = [gpus]
        fit += [room.cpu_milli // share[0]] if share[0] else []
        fit += [room.memory_bytes // share[1]] if share[1] else []
        stranded += gpus - min(fit)
        largest[NODE] = max(largest[NODE], gpus)
        if node in whole:
            rack, (pool, zone) = capacity.rack[node], zones[node]
            like = (pool, capacity.node_type[node])
            held[like, Extent.RACK, zone, rack] += gpus
            held[like, Extent.POD, zone, pod_of_rack(rack)] += gpus
            held[like, Extent.ZONE, zone] += gpus
    for (_, extent, *_), gpus in held.items():
        largest[str(extent)] = max(largest[str(extent)], gpus)
    free_racks = sum(whole.issuperset(mine) for mine in racks.values())
    on_whole = sum(capacity.gpu.total[node] for node in sorted(whole)) // MILLI
    return Wholeness(len(nodes), len(racks), len(whole), free_racks, free_gpus, on_whole, stranded, largest)


def _zones(capacity: Capacity) -> dict[int, tuple[str, str]]:
    """Return the pool and the zone of each node: a gang is placed in one pool."""
    return {
        node: (group.pool, group.zone)
        for row in capacity.workers.values()
        for group in row.inventory.groups
        for node in group.numbers()
    }


def _asked_for_a_gpu(capacity: Capacity) -> tuple[int, int]:
    """Return CPU milli and bytes per GPU, averaged over jobs of live attempts that need GPUs; zeros if there are no such jobs."""
    gpu = cpu = memory = 0
    for _, _, held in capacity.live():
        for job in held.claim.jobs:
            if job.need.gpu_milli:
                gpu += job.need.gpu_milli * job.tasks
                cpu += job.need.cpu_milli * job.tasks
                memory += job.need.memory_bytes * job.tasks
    return (cpu * MILLI // gpu, memory * MILLI // gpu) if gpu else (0, 0)
