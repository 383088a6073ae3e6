"""What a pool keeps free in each of its zones, as a search sees it: rooms that a request may not take are left out of its class.

The store checks the same at the grant (core/rules/headroom.py). Here a request is shown only what it can take without breaking
anything, wherever in that its tasks go: of a zone's empty nodes all but the reserve, the best of them, and of its room as many
tasks as the limit admits.
"""

from copy import copy

import numpy as np
from msgspec import Struct

from core.nouns.pool import UNSET, PoolSettings
from core.placing.classes import INVALID, RequestClass
from core.placing.layout import Layout
from core.placing.table import NodeTable
from core.rules.placement.rule import Numbers, Request


class ZoneSlots(Struct, frozen=True):
    """Where one zone's nodes stand."""

    clusters: range
    slots: slice


class Bounds:
    """One pool's settings over its layout."""

    def __init__(self, layout: Layout, settings: PoolSettings = UNSET) -> None:
        self.settings = settings
        self._layout = layout
        self._zones = _zones_of(layout) if settings.keeps_something_free else []

    def concern(self, request: Request) -> bool:
        """Whether anything that is kept free is kept from it."""
        heeds = request.heeds_reserve or request.heeds_limit
        return bool(self._zones) and heeds and request.need.gpu_milli > 0

    def within(self, table: NodeTable, one: RequestClass, request: Request, tasks: int) -> RequestClass:
        """What is left for so many tasks of a request of its up-to-date class, or that itself where nothing is in the way."""
        if not self.concern(request):
            return one
        narrowed = []
        for zone in self._zones:
            spare, room = self._spare(table, zone, request), self._room(table, zone, request)
            if spare >= tasks and room >= tasks:
                continue
            cap = one.cap[zone.slots].copy()
            if spare < tasks:
                _leave_empty(table, zone.slots, one.key[zone.slots], cap, spare)
            if room < tasks:
                _trim(one.key[zone.slots], cap, room)
            narrowed.append((zone.slots, cap))
        return _narrow(one, self._layout, narrowed) if narrowed else one

    def _spare(self, table: NodeTable, zone: ZoneSlots, request: Request) -> int:
        """Empty nodes that it may take; more than there are where nothing is kept."""
        if not request.heeds_reserve or not self.settings.reserve:
            return self._layout.slots * 2
        return max(0, sum(table.empty[number] for number in zone.clusters) - self.settings.reserve)

    def _room(self, table: NodeTable, zone: ZoneSlots, request: Request) -> int:
        """Tasks that the limit admits."""
        if not request.heeds_limit:
            return int(np.iinfo(np.int32).max)
        opened = sum(table.open_gpu[number] for number in zone.clusters)
        free = sum(table.clusters.free[number] for number in zone.clusters)
        return self.settings.room_under_limit(opened, opened - free) // request.need.gpu_milli


def _zones_of(layout: Layout) -> list[ZoneSlots]:
    """Clusters stand in order of their zones."""
    found: list[ZoneSlots] = []
    zones = [cluster.zone for cluster in layout.clusters]
    for zone in sorted(set(zones)):
        first = zones.index(zone)
        last = first + zones.count(zone)
        slots = slice(
            layout.pods_of[first][0] * layout.pod_slots, layout.pods_of[last - 1][1] * layout.pod_slots
        )
        found.append(ZoneSlots(range(first, last), slots))
    return found


def _leave_empty(table: NodeTable, slots: slice, key: Numbers, cap: Numbers, spare: int) -> None:
    """Nothing fits on empty nodes but the best `spare` of them: those on which it never could stay first."""
    empty = np.flatnonzero(table.is_empty(slots))
    if spare:
        empty = empty[np.argsort(key[empty], kind="stable")[spare:]]
    cap[empty] = 0


def _trim(key: Numbers, cap: Numbers, room: int) -> None:
    """As many tasks fit as there is room for, the best nodes first."""
    if not room:
        cap[:] = 0
        return
    order = np.argsort(key, kind="stable")
    before = cap[order].cumsum(dtype=np.int64) - cap[order]
    cap[order] = np.minimum(cap[order], np.maximum(0, room - before)).astype(cap.dtype)


def _narrow(one: RequestClass, layout: Layout, parts: list[tuple[slice, Numbers]]) -> RequestClass:
    """A copy in which so many tasks fit on these slots, and fewer than before: for one search, and then forgotten."""
    narrow = copy(one)
    narrow.key, narrow.cap = one.key.copy(), one.cap.copy()
    for slots, cap in parts:
        narrow.cap[slots] = cap
        narrow.key[slots][cap <= 0] = INVALID
    narrow.sum_up(layout)
    return narrow
