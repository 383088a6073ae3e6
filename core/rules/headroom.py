"""Headroom of a pool's zones under the pool's reserve and limit, and the store's check of whether a claim would break either.

Figures by zone are updated from the nodes that each fact touched; they equal a count over all nodes.
"""

from collections.abc import Iterable

from msgspec import Struct

from core.images.capacity import Capacity
from core.images.pools import Pools
from core.nouns.placement import Claim, needs_of
from core.nouns.reasons import Reason
from core.rules.scopes import group_of


class Zone(Struct):
    """One zone of one pool. GPU figures are in milli, and cover open nodes only, except `gpu`."""

    pool: str
    name: str
    nodes: int = 0
    gpu: int = 0
    """GPU milli of all nodes."""
    empty: int = 0
    """Open nodes with GPUs that are all available."""
    open_gpu: int = 0
    used_gpu: int = 0
    """GPU milli that are not available: held, ending or promised."""


class Headroom:
    """The zones of all pools of a region."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self.zones: dict[tuple[str, str], Zone] = {}
        size = len(capacity.node_type)
        self._zone_of: list[Zone | None] = [None] * size
        self._counted: list[tuple[int, int, int]] = [(0, 0, 0)] * size
        """Each node's part of its zone's figures: empty nodes (0 or 1), open GPU milli, used GPU milli."""
        for row in capacity.workers.values():
            for group in row.inventory.groups:
                key = (group.pool, group.zone)
                zone = self.zones.setdefault(key, Zone(*key))
                zone.nodes += group.count
                zone.gpu += group.count * group.total.gpu_milli
                for node in group.numbers():
                    self._zone_of[node] = zone
        self.update(node for node, zone in enumerate(self._zone_of) if zone is not None)

    def update(self, nodes: Iterable[int]) -> None:
        """Update the figures for nodes that may have changed. A join of nodes is not covered: a new `Headroom` counts all nodes."""
        for node in nodes:
            zone = self._zone_of[node]
            assert zone is not None, node
            before, now = self._counted[node], self._figures(node)
            if before != now:
                self._counted[node] = now
                zone.empty += now[0] - before[0]
                zone.open_gpu += now[1] - before[1]
                zone.used_gpu += now[2] - before[2]

    def pool(self, nodes: Iterable[int]) -> None:
        """Count nodes in the zones of the pools into which they came."""
        for node in nodes:
            group = group_of(self._capacity, node)
            was, key = self._zone_of[node], (group.pool, group.zone)
            now = self.zones.setdefault(key, Zone(*key))
            assert was is not None, node
            counted = self._counted[node]
            for zone, sign in ((was, -1), (now, 1)):
                zone.nodes += sign
                zone.gpu += sign * group.total.gpu_milli
                zone.empty += sign * counted[0]
                zone.open_gpu += sign * counted[1]
                zone.used_gpu += sign * counted[2]
            self._zone_of[node] = now
            if not was.nodes:
                del self.zones[was.pool, was.name]

    def _figures(self, node: int) -> tuple[int, int, int]:
        capacity = self._capacity
        total = capacity.gpu.total[node]
        if not total or not capacity.is_open(node):
            return 0, 0, 0
        available = max(0, capacity.gpu.free[node] - capacity.gpu.reserved[node])
        return int(available == total), total, total - available

    def broken_by(self, claim: Claim, pools: Pools) -> Reason | None:
        """Return the setting that a fitting claim would break, as a reason, if any.

        A claim breaks a reserve if the claim takes nodes that are empty now and leaves fewer than the reserve; a limit, if more is
        in use once the claim's victims have ended. A claim that takes no empty node breaks no reserve, however few there are; a
        recovering workload's claim breaks neither.
        """
        if claim.is_healing:
            return None
        taken: dict[tuple[str, str], int] = {}
        more: dict[tuple[str, str], int] = {}
        for node, need in needs_of(claim).items():
            zone = self._zone_of[node]
            if zone is not None and need.gpu_milli:
                key = (zone.pool, zone.name)
                taken[key] = taken.get(key, 0) + self._counted[node][0]
                more[key] = more.get(key, 0) + need.gpu_milli
        for key, count in taken.items():
            if count and self.zones[key].empty - count < pools.of(key[0]).reserve:
                return Reason.RESERVED
        self._give_back(claim, more)
        for key, gpu_milli in more.items():
            zone = self.zones[key]
            if gpu_milli > pools.of(key[0]).room_under_limit(zone.open_gpu, zone.used_gpu):
                return Reason.OVER_LIMIT
        return None

    def _give_back(self, claim: Claim, more: dict[tuple[str, str], int]) -> None:
        """Subtract the GPU milli that the claim's victims hold on open nodes, because victims will have ended."""
        for victim in claim.victims:
            held = self._capacity.holding(*victim)
            for node, need in needs_of(held.claim).items() if held is not None else ():
                zone = self._zone_of[node]
                key = (zone.pool, zone.name) if zone is not None else ("", "")
                if key in more and self._capacity.is_open(node):
                    more[key] -= need.gpu_milli
