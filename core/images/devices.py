"""Of nodes on which parts of devices are held: which devices are shared, how much of each is held, and how much promised.

Kept for such nodes alone. Whole devices have no numbers: as many of a node are free as its free GPU milli come to, without
what is free on shared ones.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from core.nouns.quantities import MILLI
from core.rules.devices import device_for


class SharedNode(Struct):
    """One node's shared devices, by number."""

    used: dict[int, int] = field(default_factory=dict)
    """Milli held or ending."""
    promised: dict[int, int] = field(default_factory=dict)
    """Of what is free, promised to somebody."""

    def free(self) -> dict[int, int]:
        """Milli on each, neither held nor promised."""
        promised = self.promised
        return {device: max(0, MILLI - used - promised.get(device, 0)) for device, used in self.used.items()}


class SharedDevices(Struct):
    """All of a region's."""

    by_node: dict[int, SharedNode] = field(default_factory=dict)

    def free(self, node: int) -> dict[int, int]:
        """Milli on each of a node's shared devices, neither held nor promised."""
        known = self.by_node.get(node)
        return known.free() if known is not None else {}

    def free_if_kept(self, node: int) -> dict[int, int]:
        """The same, with what is promised."""
        known = self.by_node.get(node)
        return {device: MILLI - used for device, used in known.used.items()} if known is not None else {}

    def put(self, node: int, part: int) -> int:
        """A part is held there. Returns on which device: the fullest that holds it, or a new one."""
        known = self.by_node.setdefault(node, SharedNode())
        device = device_for(known.free(), part)
        known.used[device] = known.used.get(device, 0) + part
        return device

    def remove(self, node: int, device: int, part: int) -> None:
        """A part is not held any more."""
        known = self.by_node[node]
        known.used[device] -= part
        if not known.used[device]:
            del known.used[device]
            known.promised.pop(device, None)
        self._tidy(node, known)

    def lose(self, nodes: Iterable[int]) -> None:
        """Nothing is held on these."""
        for node in nodes:
            self.by_node.pop(node, None)

    def promise(self, node: int, more: Mapping[int, int]) -> None:
        """This much more of its shared devices is promised."""
        known = self.by_node.get(node)
        if known is not None:
            for device, milli in more.items():
                known.promised[device] = known.promised.get(device, 0) + milli

    def promise_nothing(self, node: int) -> None:
        """Of its shared devices nothing is promised any more."""
        known = self.by_node.get(node)
        if known is not None:
            known.promised = {}

    def _tidy(self, node: int, known: SharedNode) -> None:
        if not known.used:
            del self.by_node[node]
