"""How much of each zone of a pool may be harvested: the available capacity, less the part that the pool's settings keep.

Figures by zone are updated from the nodes that each fact touched; they equal a count over all nodes. Nodes with GPUs are counted in GPU
milli, and the others, apart from them, in CPU milli.
"""

from collections.abc import Iterable

from msgspec import Struct

from core.images.capacity import Capacity
from core.images.harvest import Harvest
from core.images.pools import Pools
from core.nouns.fleet import NodeGroup
from core.nouns.pool import harvest_of
from core.nouns.quantities import MILLI, NOTHING, Amount
from core.rules.scopes import group_of

ZoneKey = tuple[str, str, bool]
"""Pool, zone, and whether the nodes have GPUs."""


class Zone(Struct):
    """The like nodes of one zone of a pool. Figures cover open nodes only."""

    pool: str
    name: str
    has_gpus: bool
    total: int = 0
    available: int = 0
    """Capacity that is neither held nor promised, or that is harvested: only the grant of a promise recalls."""
    harvested: int = 0
    """Free capacity that functions may use."""
    empty: int = 0
    """Nodes of which all is available."""
    empty_harvested: int = 0
    """Empty nodes that are harvested."""

    @property
    def key(self) -> ZoneKey:
        """Return how the zone is found."""
        return self.pool, self.name, self.has_gpus

    def may_have(self, pools: Pools) -> int:
        """Return how much of the zone may be harvested in all, by the pool's settings."""
        settings = pools.of(self.pool)
        harvest = harvest_of(self.pool, settings)
        if not harvest.is_on:
            return 0
        room = self.available - harvest.keep * MILLI
        if self.has_gpus:
            room = min(room, settings.room_under_limit(self.total, self.total - self.available))
        return max(0, room)

    def empty_may_be(self, pools: Pools) -> int:
        """Return how many empty nodes may be harvested in all."""
        settings = pools.of(self.pool)
        if not self.has_gpus or harvest_of(self.pool, settings).takes_reserve:
            return self.empty
        return max(0, self.empty - settings.reserve)

    def add(self, figures: tuple[int, int, int, int, int], sign: int) -> None:
        """Add a node's figures, or subtract them."""
        self.total += sign * figures[0]
        self.available += sign * figures[1]
        self.harvested += sign * figures[2]
        self.empty += sign * figures[3]
        self.empty_harvested += sign * figures[4]


_NONE = (0, 0, 0, 0, 0)


class HarvestZones:
    """The zones of all pools of a region."""

    def __init__(self, capacity: Capacity, harvest: Harvest) -> None:
        self._capacity = capacity
        self._harvest = harvest
        self.zones: dict[ZoneKey, Zone] = {}
        self._zone_of: dict[int, Zone] = {}
        self._counted: dict[int, tuple[int, int, int, int, int]] = {}
        for row in capacity.workers.values():
            self.join(row.inventory.groups)

    def join(self, groups: Iterable[NodeGroup]) -> None:
        """Count nodes that have joined."""
        for group in groups:
            zone = self._zone(group)
            for node in group.numbers():
                self._zone_of[node] = zone
            self.update(group.numbers())

    def of(self, node: int) -> Zone:
        """Return the zone of a node."""
        return self._zone_of[node]

    def update(self, nodes: Iterable[int]) -> None:
        """Update the figures for nodes that may have changed."""
        for node in nodes:
            before, now = self._counted.get(node, _NONE), self._figures(node)
            if before != now:
                self._counted[node] = now
                zone = self._zone_of[node]
                zone.add(before, -1)
                zone.add(now, 1)

    def pool(self, nodes: Iterable[int]) -> None:
        """Count nodes in the zones of the pools into which they came."""
        for node in nodes:
            figures = self._counted.get(node, _NONE)
            self._zone_of[node].add(figures, -1)
            self._zone_of[node] = zone = self._zone(group_of(self._capacity, node))
            zone.add(figures, 1)

    def _zone(self, group: NodeGroup) -> Zone:
        key = (group.pool, group.zone, group.total.gpu_milli > 0)
        return self.zones.setdefault(key, Zone(*key))

    def _figures(self, node: int) -> tuple[int, int, int, int, int]:
        capacity = self._capacity
        if not capacity.is_open(node):
            return _NONE
        total = (capacity.gpu if capacity.gpu.total[node] else capacity.cpu).total[node]
        available = units(capacity, node, capacity.available(node))
        known = self._harvest.nodes.get(node)
        harvested = 0 if known is None else units(capacity, node, known.free)
        is_empty = available == total
        return total, max(available, harvested), harvested, int(is_empty), int(is_empty and harvested > 0)


def units(capacity: Capacity, node: int, amount: Amount) -> int:
    """Return an amount of a node as zones count: GPU milli, or CPU milli where the node has no GPUs."""
    return amount.gpu_milli if capacity.gpu.total[node] else amount.cpu_milli


def is_empty(capacity: Capacity, node: int) -> bool:
    """Return whether all GPUs of an open node are available, or all cores of a node without GPUs."""
    total = (capacity.gpu if capacity.gpu.total[node] else capacity.cpu).total[node]
    return capacity.is_open(node) and units(capacity, node, capacity.available(node)) == total


def free_in_devices(capacity: Capacity, node: int) -> Amount:
    """Return what is free on a node, promised or not, of devices only whole ones."""
    gpu_milli = capacity.gpu.free[node]
    if node in capacity.devices.by_node:
        gpu_milli = max(0, capacity.devices_if_kept(node).whole * MILLI)
    return Amount(gpu_milli, capacity.cpu.free[node], capacity.memory.free[node])


def offerable(capacity: Capacity, node: int) -> Amount:
    """Return the most of a node's free capacity that may be harvested: whole devices, with the CPUs and memory that are available.

    A node with GPUs of which no device is available offers no CPUs either.
    """
    if not capacity.is_open(node):
        return NOTHING
    available = capacity.available(node)
    if not capacity.gpu.total[node]:
        return available if available.cpu_milli >= MILLI else NOTHING
    whole = available.gpu_milli // MILLI
    if node in capacity.devices.by_node:
        whole = max(0, capacity.room(node).whole)
    return Amount(whole * MILLI, available.cpu_milli, available.memory_bytes) if whole else NOTHING
