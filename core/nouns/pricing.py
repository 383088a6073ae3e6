"""What prices are solved from: the tasks that were asked for, and the room that there is, both in classes of like ones."""

from msgspec import Struct

from core.nouns.quantities import Amount


class ShapeCount(Struct, frozen=True, order=True):
    """Tasks that were alike."""

    need: Amount
    """Of one."""
    node_types: tuple[str, ...]
    """On any of which it may run; empty: on any."""
    count: int


class NodeClass(Struct, frozen=True, order=True):
    """Nodes that are alike, and open."""

    node_type: str
    total: Amount
    """Of one node."""
    nodes: int
    free: Amount
    """On all of them together: neither held, ending, lost nor promised."""
    devices: tuple[tuple[int, int], ...] = ()
    """Milli free on one device, and how many have just so much free; those with nothing free are left out. Ascending."""
    whole: tuple[tuple[int, int], ...] = ()
    """Devices of one node that are free as a whole, and how many nodes have just so many; 0 is left out. Ascending."""


class PricingProblem(Struct, frozen=True):
    """Of one region."""

    shapes: tuple[ShapeCount, ...]
    """By need."""
    classes: tuple[NodeClass, ...]
    """By node type and size."""
