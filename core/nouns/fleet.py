"""What a region is made of: nodes in racks, pods and zones, served by workers."""

from msgspec import Struct

from core.nouns.ids import WorkerName
from core.nouns.quantities import Amount


class NodeGroup(Struct, frozen=True):
    """A run of like nodes that one worker serves: `count` nodes, numbered from `first`, filling racks in order.

    Nodes are numbers so that a fact names a thousand of them in a few bytes; a node's name is derived.
    """

    first: int
    count: int
    total: Amount
    gpu_type: str
    rack_first: int
    """The rack of the first node. Racks are numbered through the region, a pod's racks together, a zone's pods together."""
    nodes_per_rack: int
    zone: str = "zone-0"

    def numbers(self) -> range:
        """The numbers of its nodes."""
        return range(self.first, self.first + self.count)

    def rack_of(self, node: int) -> int:
        """The rack that holds this node of the group."""
        return self.rack_first + (node - self.first) // self.nodes_per_rack


class Inventory(Struct, frozen=True):
    """All that one worker serves."""

    worker: WorkerName
    groups: tuple[NodeGroup, ...]

    def numbers(self) -> list[int]:
        """The numbers of all its nodes, ascending within each group."""
        return [number for group in self.groups for number in group.numbers()]
