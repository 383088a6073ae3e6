"""Whether what a worker says it serves can be part of a region: what no image could fold is never recorded."""

from msgspec.structs import asdict

from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.limits import NEED_MAX, NODE_NUMBERS_MAX


def is_sound(inventory: Inventory) -> bool:
    """Nodes of a known type in racks, each number once and within what arrays are made for."""
    if not all(_is_sound(group) for group in inventory.groups):
        return False
    numbers = inventory.numbers()
    return len(set(numbers)) == len(numbers) > 0


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
