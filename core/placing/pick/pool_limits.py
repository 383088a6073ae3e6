"""A pool's reserve and limit in a search: capacity that a request may not take is left out of the request's class.

The store checks the same at the grant (core/rules/headroom.py). The narrowed class has only capacity that the request can take
without breaking the reserve or the limit, wherever its tasks go: in each zone, the best empty nodes beyond the reserve, and as
many tasks as the limit admits. For tasks that must lie together, the empty nodes are chosen first from one rack, pod or zone that
then holds all tasks.
"""

import numpy as np
from msgspec import Struct

from core.nouns.pool import UNSET, PoolSettings
from core.placing.index.layout import Layout
from core.placing.index.request_classes import INVALID, RequestClass
from core.placing.index.table import NodeTable
from core.placing.pick.extents import Extents
from core.rules.placement.rule import Flags, Numbers, Request


class ZoneSlots(Struct, frozen=True):
    """Clusters and slots of one zone's nodes."""

    clusters: range
    slots: slice


class Narrowed(Struct):
    """A zone in which a request may not take all free capacity."""

    slots: slice
    spare: int
    """Empty nodes that the request may take."""
    room: int
    """Tasks that the limit admits."""


class Bounds:
    """One pool's reserve and limit, applied to the zones of its layout."""

    def __init__(self, layout: Layout, settings: PoolSettings = UNSET) -> None:
        self.settings = settings
        self._layout = layout
        self._zones = _zones_of(layout) if settings.keeps_something_free else []
        self._extents = Extents(layout) if self._zones else None

    def concern(self, request: Request) -> bool:
        """Return whether the reserve or the limit may keep free capacity from the request."""
        heeds = request.heeds_reserve or request.heeds_limit
        return bool(self._zones) and heeds and request.need.gpu_milli > 0

    def within(self, table: NodeTable, one: RequestClass, request: Request, tasks: int) -> RequestClass:
        """Return the part of an up-to-date class that so many tasks of the request may use; the class itself if all of it."""
        if not self.concern(request):
            return one
        zones = []
        for zone in self._zones:
            spare, room = self._spare(table, zone, request), self._room(table, zone, request)
            if spare < tasks or room < tasks:
                zones.append(Narrowed(zone.slots, spare, room))
        if not zones:
            return one
        first = self._unit_first(table, one, request, tasks, zones) if request.pack and tasks > 1 else None
        narrowed = []
        for narrow in zones:
            slots = narrow.slots
            key, cap = one.key[slots], one.cap[slots].copy()
            outside = np.zeros(len(cap), dtype=np.bool_) if first is None else ~first[slots]
            if narrow.spare < tasks:
                _leave_empty(table.is_empty(slots), key, cap, outside, narrow.spare)
            if narrow.room < tasks:
                _trim(key, cap, outside, narrow.room)
            narrowed.append((slots, cap))
        return _narrow(one, self._layout, narrowed)

    def _unit_first(
        self, table: NodeTable, one: RequestClass, request: Request, tasks: int, zones: list[Narrowed]
    ) -> Flags | None:
        """Return (slots,) a mask of the tightest rack, else pod, else zone that holds all tasks within both bounds, or None."""
        assert self._extents is not None
        cap = one.cap.astype(np.int64)
        for extent in self._extents.up_to(request.pack):
            of_slot = np.repeat(self._extents.of_row[extent], self._layout.rack_slots)
            units = int(of_slot.max(initial=-1)) + 1
            holds = np.zeros(units, dtype=np.int64)
            rest = np.ones(len(cap), dtype=np.bool_)
            for zone in zones:
                rest[zone.slots] = False
                inside = _holds(
                    of_slot[zone.slots], cap[zone.slots], table.is_empty(zone.slots), zone.spare, units
                )
                holds += np.minimum(inside, zone.room)
            holds += _sums(of_slot[rest], cap[rest], units)
            enough = np.flatnonzero(holds >= tasks)
            if len(enough):
                found: Flags = of_slot == enough[np.argmin(holds[enough])]
                return found
        return None

    def _spare(self, table: NodeTable, zone: ZoneSlots, request: Request) -> int:
        """Return the empty nodes that the request may take; more than there are if the reserve does not apply."""
        if not request.heeds_reserve or not self.settings.reserve:
            return self._layout.slots * 2
        return max(0, sum(table.empty[number] for number in zone.clusters) - self.settings.reserve)

    def _room(self, table: NodeTable, zone: ZoneSlots, request: Request) -> int:
        """Return the tasks that the limit admits."""
        if not request.heeds_limit:
            return int(np.iinfo(np.int32).max)
        opened = sum(table.open_gpu[number] for number in zone.clusters)
        free = sum(table.clusters.free[number] for number in zone.clusters)
        return self.settings.room_under_limit(opened, opened - free) // request.need.gpu_milli


def _zones_of(layout: Layout) -> list[ZoneSlots]:
    """Return the zones of a layout, by name: its clusters are in the order of their zones."""
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


def _sums(of_slot: Numbers, cap: Numbers, units: int) -> Numbers:
    """Return (units,) the tasks that fit in each unit."""
    return np.bincount(of_slot, weights=cap, minlength=units).astype(np.int64)


def _holds(of_slot: Numbers, cap: Numbers, is_empty: Flags, spare: int, units: int) -> Numbers:
    """Return (units,) the tasks that each unit holds with at most `spare` of its empty nodes."""
    holds = _sums(of_slot[~is_empty], cap[~is_empty], units)
    empty = np.flatnonzero(is_empty & (cap > 0))
    empty = empty[np.lexsort((-cap[empty], of_slot[empty]))]
    unit = of_slot[empty]
    best = empty[np.arange(len(empty)) - np.searchsorted(unit, unit) < spare]
    return holds + _sums(of_slot[best], cap[best], units)


def _leave_empty(is_empty: Flags, key: Numbers, cap: Numbers, outside: Flags, spare: int) -> None:
    """Set `cap` to 0 on all empty nodes but `spare`: those on which most tasks fit are kept, nodes outside last."""
    empty = np.flatnonzero(is_empty & (cap > 0))
    order = np.lexsort((key[empty], -cap[empty], outside[empty]))
    cap[empty[order[spare:]]] = 0


def _trim(key: Numbers, cap: Numbers, outside: Flags, room: int) -> None:
    """Reduce `cap` to a sum of at most `room` tasks, on the best nodes first, on nodes outside last."""
    if not room:
        cap[:] = 0
        return
    order = np.lexsort((key, outside))
    before = cap[order].cumsum(dtype=np.int64) - cap[order]
    cap[order] = np.minimum(cap[order], np.maximum(0, room - before)).astype(cap.dtype)


def _narrow(one: RequestClass, layout: Layout, parts: list[tuple[slice, Numbers]]) -> RequestClass:
    """Return a copy of a class with these lower capacities, for one search only."""
    narrow = one.narrowed()
    for slots, cap in parts:
        narrow.cap[slots] = cap
        narrow.key[slots][cap <= 0] = INVALID
    narrow.sum_up(layout)
    return narrow
