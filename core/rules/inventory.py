"""Whether what a worker says it serves can be part of a region: what no image could fold is never recorded."""

from msgspec.structs import asdict, replace

from core.images.capacity import Capacity
from core.nouns.fleet import UNNUMBERED, Inventory, NodeGroup
from core.nouns.limits import NEED_MAX, NODE_NUMBERS_MAX


def is_sound(inventory: Inventory) -> bool:
    """Nodes of a known type in racks, each number once and within what arrays are made for."""
    if not all(_is_sound(group) for group in inventory.groups):
        return False
    numbers = inventory.numbers()
    return len(set(numbers)) == len(numbers) > 0


def numbered(inventory: Inventory, capacity: Capacity) -> Inventory:
    """The same with numbers for groups that come without: behind all nodes that there are, and all racks, unless theirs is told.

    A machine that joins a running region does not know what others are numbered.
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


def _is_sound(group: NodeGroup) -> bool:
    return (
        group.gpu_type != ""
        and group.first >= 0
        and group.count > 0
        and group.first + group.count <= NODE_NUMBERS_MAX
        and group.nodes_per_rack > 0
        and 0 <= group.rack_first <= NODE_NUMBERS_MAX
        and all(0 <= amount <= NEED_MAX for amount in asdict(group.total).values())
    )
