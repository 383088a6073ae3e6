"""The check of a worker's inventory before its nodes join a region: an inventory that no image could fold is never recorded."""

from msgspec.structs import asdict, replace

from core.images.capacity import Capacity
from core.nouns.fleet import ANY_TYPE, UNNUMBERED, Inventory, NodeGroup
from core.nouns.limits import (
    NAME_LENGTH_MAX,
    NEED_MAX,
    NODE_BYTES_MAX,
    NODE_CPU_MILLI_MAX,
    NODE_GPU_MILLI_MAX,
    NODE_NUMBERS_MAX,
    WORKER_NODES_MAX,
)

MOST = {
    "gpu_milli": NODE_GPU_MILLI_MAX,
    "cpu_milli": NODE_CPU_MILLI_MAX,
    "memory_bytes": NODE_BYTES_MAX,
    "GPU memory": NEED_MAX,
    "GPUs of an island": NODE_GPU_MILLI_MAX,
}
"""The most of each resource that one node has, or one of its GPUs: what an agent's columns hold."""


def problems_of(inventory: Inventory) -> tuple[str, ...]:
    """Return all problems of an inventory, for the operator that started the worker.

    A sound inventory has nodes of a named type in racks, each number once and within the bounds of arrays, and no more nodes than
    a fact can name.
    """
    found = []
    if not 0 < len(inventory.worker) <= NAME_LENGTH_MAX:
        found.append(f"a worker's name has 1 to {NAME_LENGTH_MAX} characters")
    found += [text for group in inventory.groups for text in _problems_of(group)]
    count = sum(group.count for group in inventory.groups)
    if not inventory.groups:
        found.append("it serves no node")
    elif count > WORKER_NODES_MAX:
        found.append(
            f"it serves {count} nodes, and a worker {WORKER_NODES_MAX} at most; let more workers serve them"
        )
    elif not found and len(set(inventory.numbers())) < count:
        found.append("several of its nodes have the same number")
    return tuple(found)


def numbered(inventory: Inventory, capacity: Capacity) -> Inventory:
    """Return the inventory with nodes numbered behind all present ones, unless all groups come with numbers.

    Racks are numbered behind all present ones, too, except those of groups that name their racks. A machine that joins a running
    region does not know the numbers of the others.
    """
    if all(group.first != UNNUMBERED for group in inventory.groups):
        return inventory
    node = len(capacity.node_type)
    rack = max(capacity.rack, default=-1) + 1
    groups = []
    for group in inventory.groups:
        is_told = group.rack_first != UNNUMBERED
        groups.append(replace(group, first=node, rack_first=group.rack_first if is_told else rack))
        node += group.count
        rack += 0 if is_told else -(-group.count // max(1, group.nodes_per_rack))
    return replace(inventory, groups=tuple(groups))


def _problems_of(group: NodeGroup) -> list[str]:
    of = f"nodes from {group.first} on"
    found = []
    if not group.gpu_type:
        found.append(f"{of}: their type has no name")
    if group.gpu_type == ANY_TYPE:
        found.append(f"{of}: no type can be called {ANY_TYPE}, which asks for whichever there is")
    if group.count <= 0:
        found.append(f"{of}: there are {group.count}")
    if group.first < 0 or group.first + group.count > NODE_NUMBERS_MAX:
        found.append(f"{of}: numbers are from 0 to {NODE_NUMBERS_MAX - 1}")
    if group.nodes_per_rack <= 0 or not 0 <= group.rack_first <= NODE_NUMBERS_MAX:
        found.append(
            f"{of}: their racks are numbered from 0 to {NODE_NUMBERS_MAX}, with a node in each at least"
        )
    if group.into_rack:
        found.append(f"{of}: the first is the first of its rack")
    if group.nodes_per_rack > NODE_NUMBERS_MAX:
        found.append(f"{of}: a rack has {NODE_NUMBERS_MAX} nodes at most")
    amounts = {"GPU memory": group.gpu_memory, "GPUs of an island": group.island, **asdict(group.total)}
    found += [
        f"{of}: of {name} they have 0 to {MOST[name]}"
        for name, amount in amounts.items()
        if not 0 <= amount <= MOST[name]
    ]
    return found
