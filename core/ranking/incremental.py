"""The order of all pending workloads, kept from event to event. Equals `scan` at every step.

A tenant's workloads keep their order while time passes: each gains equal credit until the wait reaches the cap, and an agenda
holds the times of these crossings. All nominal work of a tenant has the same share credit, and all its over-quota work the same
lag credit. So each tenant has a lane in the order of credit (core/ranking/lane.py), and lanes are merged only as far as the
caller reads. A change of use costs one step per tenant.

Callers filter by shape: thousands of workloads of a shape that no region would take are skipped without a look at each.

A workload that has waited for `patience` holds its tenant's quota against those behind; each lane knows when the next one will.
"""

import heapq
from collections.abc import Callable, Container, Iterator
from itertools import islice

from msgspec.structs import replace

from core.agenda import Agenda
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds, after
from core.nouns.ranking import CreditSettings
from core.ranking.credit import age_credit, lag_credit, share_credit
from core.ranking.lane import Floor, Key, Lane, key_of
from core.ranking.scan import (
    LOWEST,
    NO_PATIENCE,
    Band,
    Group,
    PendingWork,
    QuotaClass,
    QuotaHold,
    Ranked,
    TenantState,
)

BLOCK_MAX = 128
"""Workloads in a block; a fuller block is cut in two. Chosen so that with 10,000 workloads in a lane, a walk through one block and
a look at every block take about 100 steps each."""

Priced = tuple[int, int, PendingWork]
"""Credit negated, number, workload: a smaller one is ahead."""
_Head = tuple[int, int, PendingWork, Group, Floor, Iterator[PendingWork] | None]
"""A priced workload with its group and floor, the first there that was not yet read; and an iterator over the workloads behind,
None until these are requested."""
FloorKey = tuple[TenantName, int]
Line = tuple[Group, TenantName]
"""One tenant's workloads of a group."""
Done = Container[Group | Line]
"""Groups and lines of which no further workload is read; may grow during the iteration."""


class RankedQueue:
    """All pending workloads, in order."""

    def __init__(
        self,
        settings: CreditSettings,
        now: Instant,
        block_max: int = BLOCK_MAX,
        *,
        walks_by_level: bool = True,
        patience: Nanoseconds = NO_PATIENCE,
    ) -> None:
        self._settings = settings
        self._now = now
        self._block_max = block_max
        self._is_by_level = walks_by_level
        self._patience = patience
        self._works: dict[WorkloadId, tuple[Key, Floor, PendingWork]] = {}
        self._tenants: dict[TenantName, TenantState] = {}
        self._lanes: dict[TenantName, Lane] = {}
        self._changed: dict[TenantName, Lane] = {}
        """Lanes to be walked before the next answer."""
        self._crossings: Agenda[WorkloadId] = Agenda()
        """Times at which waits will reach the cap, by workload."""
        self._ripe: Agenda[TenantName] = Agenda()
        """Times at which more quota may be held, by tenant."""
        self._groups: dict[Band, dict[str, dict[FloorKey, Floor]]] = {}
        """Floors with workloads of a band and shape, as last walked."""
        self._counts: dict[Band, int] = {}
        self._use_all = 0
        self._weights = 0
        self._shares: dict[TenantName, int] = {}
        """Share credit by tenant: a cache since use or weights last changed."""

    def __len__(self) -> int:
        return len(self._works)

    def __contains__(self, workload: WorkloadId) -> bool:
        return workload in self._works

    # Changes.

    def add(self, work: PendingWork) -> None:
        """Add a workload, which must not be pending yet."""
        assert work.workload not in self._works, work.workload
        self._put(work)

    def drop(self, workload: WorkloadId) -> None:
        """Remove a workload, if pending."""
        if workload in self._works:
            self._take_out(workload)

    def swap(self, work: PendingWork) -> None:
        """Replace a pending workload, as `drop` and `add` would; the place stays if the level does."""
        key, floor, was = self._works[work.workload]
        lane = self._lanes[was.tenant]
        is_moved = (was.tenant, was.number, was.since) != (work.tenant, work.number, work.since)
        if is_moved or lane.floor_for(work) is not floor:
            self._take_out(work.workload)
            self._put(work)
            return
        floor.swap(key, work)
        self._works[work.workload] = key, floor, work
        self._changed[work.tenant] = lane

    def set_tenant(self, name: TenantName, state: TenantState) -> None:
        """Set a tenant's limits, holdings and use."""
        before = self._tenants.get(name)
        if before is None or (before.use, before.weight) != (state.use, state.weight):
            self._use_all += state.use - (0 if before is None else before.use)
            self._weights += state.weight - (0 if before is None else before.weight)
            self._shares.clear()
        self._tenants[name] = state
        lane = self._lane(name)
        was = lane.state
        if replace(was, use=state.use, weight=state.weight, lag=state.lag) == state:
            lane.state = state
            return
        lane.state = state
        self._changed[name] = lane
        if was.level != state.level:
            self._place_again(lane)
        elif _weighs(was) != _weighs(state):
            for floor in lane.floors.values():
                floor.forget()

    def drop_tenant(self, name: TenantName) -> None:
        """Forget a tenant's state."""
        if name in self._tenants:
            self.set_tenant(name, TenantState(weight=0))
            del self._tenants[name]

    def advance(self, now: Instant) -> None:
        """Let time pass: workloads that reach the cap move to their places among those beyond the cap.

        Lanes in which more quota may be held are walked before the next answer.
        """
        assert now >= self._now, (now, self._now)
        self._now = now
        while crossed := self._crossings.passed(now):
            for workload in crossed:
                self._put(self._take_out(workload))
        while ripe := self._ripe.passed(now):
            for name in ripe:
                self._ripe.drop(name)
                self._changed[name] = self._lanes[name]

    def work(self, workload: WorkloadId) -> PendingWork:
        """Return a pending workload, as added."""
        return self._works[workload][2]

    def works(self) -> list[PendingWork]:
        """Return all pending workloads, in no meaningful order."""
        return [work for _, _, work in self._works.values()]

    def works_of(self, name: TenantName) -> list[PendingWork]:
        """Return a tenant's pending workloads, in no meaningful order."""
        lane = self._lanes.get(name)
        return [work for _, _, work in self._of(lane)] if lane is not None else []

    def knows(self, name: TenantName) -> bool:
        """Return whether a tenant has a state."""
        return name in self._tenants

    def tenant(self, name: TenantName) -> TenantState:
        """Return a tenant's state; the default for a tenant without one."""
        return self._tenants.get(name, TenantState())

    def tenants(self) -> dict[TenantName, TenantState]:
        """Return the state of each tenant that has one."""
        return dict(self._tenants)

    def kept(self, name: TenantName) -> tuple[QuotaHold, ...]:
        """Return the holds on a tenant's quota: of workloads that do not fit, then of the first ones that do."""
        self._bring_up()
        lane = self._lanes.get(name)
        return lane.kept if lane is not None else ()

    def begin_pass(self) -> None:
        """Begin a pass, once every tenant's use is up to date. No effect here: other changes are in the order at once."""

    def pass_over(self, workload: WorkloadId) -> None:
        """Leave a workload out until the next pass. No effect here: the order cannot be outdated for long."""

    def is_passed(self, workload: WorkloadId) -> bool:
        """Return whether a pending workload has its place in the order."""
        return workload in self

    # Answers.

    def ranked(self) -> Iterator[Ranked]:
        """Yield all workloads in order, computed as far as is read; no change may happen meanwhile."""
        self._bring_up()
        for band in sorted(self._groups):
            floors = {key: floor for by_key in self._groups[band].values() for key, floor in by_key.items()}
            lists = (self._priced(floor, band, floor.in_band(band)) for floor in floors.values())
            merged = heapq.merge(*lists)
            for negated, _, work in merged:
                yield Ranked(work, -band[0], band[1], -negated)

    def first(
        self,
        count: int,
        is_wanted: Callable[[Group, PendingWork], bool] | None = None,
        is_free: Callable[[Ranked], bool] | None = None,
        done: Done = (),
    ) -> list[Ranked]:
        """Return the first `count` workloads, in order, that are free and have a wanted band and shape.

        `is_wanted` is called with one workload per group. Costs one step per group and one per workload that is looked at, never
        one per pending workload.
        """
        return list(islice(self._wanted(is_wanted, is_free, done), count))

    def groups(self, start: int, count: int) -> list[tuple[Group, PendingWork]]:
        """Return `count` groups from the place `start` on, sorted by band and shape, each with one of its workloads."""
        self._bring_up()
        every = ((band, shape) for band in sorted(self._groups) for shape in sorted(self._groups[band]))
        found = []
        for group in islice(every, start, start + count):
            floors = self._groups[group[0]][group[1]]
            found.append((group, floors[min(floors)].head(group)))
        return found

    def count_of(self, group: Group) -> int:
        """Return how many workloads a group has, as `groups` found it."""
        floors = self._groups.get(group[0], {}).get(group[1], {})
        return sum(floor.counts.get(group, 0) for floor in floors.values())

    def _wanted(
        self,
        is_wanted: Callable[[Group, PendingWork], bool] | None,
        is_free: Callable[[Ranked], bool] | None,
        done: Done,
    ) -> Iterator[Ranked]:
        self._bring_up()
        for band in sorted(self._groups):
            heads: list[_Head] = []
            for shape, floors in self._groups[band].items():
                group = (band, shape)
                if group in done:
                    continue
                if is_wanted is None or is_wanted(group, next(iter(floors.values())).head(group)):
                    heads += [self._head(floor.head(group), band, group, floor) for floor in floors.values()]
            heapq.heapify(heads)
            while heads:
                negated, _, work, group, floor, rest = heads[0]
                line = group, floor.tenant
                if group not in done and line not in done:
                    one = Ranked(work, -band[0], band[1], -negated)
                    if is_free is None or is_free(one):
                        yield one
                if rest is None:
                    rest = islice(floor.in_group(group), 1, None)
                following = next(rest, None) if group not in done and line not in done else None
                if following is None:
                    heapq.heappop(heads)
                else:
                    heapq.heapreplace(heads, self._head(following, band, group, floor, rest))

    def _head(
        self,
        work: PendingWork,
        band: Band,
        group: Group,
        floor: Floor,
        rest: Iterator[PendingWork] | None = None,
    ) -> "_Head":
        return self._price(work, band), work.number, work, group, floor, rest

    def one(self, workload: WorkloadId) -> Ranked:
        """Return a pending workload with its level, quota class and credit."""
        self._bring_up()
        key, floor, work = self._works[workload]
        level, quota_class = band = floor.band_of(key)
        return Ranked(work, -level, quota_class, -self._price(work, band))

    def rank(self, workload: WorkloadId) -> int:
        """Return the number of workloads ahead. Costs a step per tenant, and one per block of floors with work in the same band."""
        self._bring_up()
        key, floor, work = self._works[workload]
        band = floor.band_of(key)
        ahead = sum(count for other, count in self._counts.items() if other < band)
        return ahead + sum(
            one.count_before(self._key_at(one, work, band), band) for one in self._floors_of(band).values()
        )

    def heads(self, quota_class: QuotaClass, count: int) -> Iterator[PendingWork]:
        """Yield, for each tenant and requested level, the first `count` workloads at `LOWEST` with this quota class."""
        self._bring_up()
        band = (-LOWEST, quota_class)
        for name in sorted(self._lanes):
            for level in self._lanes[name].order:
                yield from islice(self._lanes[name].floors[-level].in_band(band), count)

    def firsts(self, quota_class: QuotaClass) -> Iterator[PendingWork]:
        """Yield, for each tenant, shape and requested level, the first workload at `LOWEST` with this quota class."""
        self._bring_up()
        band = (-LOWEST, quota_class)
        for shape, floors in self._groups.get(band, {}).items():
            yield from (floor.head((band, shape)) for floor in floors.values())

    def ahead_of(self, workload: WorkloadId, count: int) -> list[Ranked]:
        """Return the nearest `count` workloads ahead, the foremost first."""
        self._bring_up()
        key, floor, work = self._works[workload]
        mine = floor.band_of(key)
        found: list[Ranked] = []
        for band in sorted((one for one in self._groups if one <= mine), reverse=True):
            backs = [
                [
                    (-self._price(other, band), -other.number, other)
                    for other in islice(one.back_from(place, band), count)
                ]
                for one in self._floors_of(band).values()
                for place in [self._key_at(one, work, band) if band == mine else None]
            ]
            nearest = islice(heapq.merge(*backs), count - len(found))
            found += [Ranked(other, -band[0], band[1], credit) for credit, _, other in nearest]
            if len(found) == count:
                break
        return found[::-1]

    # Inside.

    def _bring_up(self) -> None:
        """Walk the changed lanes, and update the groups."""
        for lane in self._changed.values():
            empty = lane.walk(self._now)
            if lane.ripe_at is None:
                self._ripe.drop(lane.name)
            else:
                self._ripe.put(lane.name, lane.ripe_at)
            for floor in (*lane.floors.values(), *empty):
                self._regroup(floor)
            if not lane.floors and lane.name not in self._tenants:
                del self._lanes[lane.name]
        self._changed.clear()

    def _regroup(self, floor: Floor) -> None:
        key = (floor.tenant, floor.level)
        changes = floor.take_changes()
        for (band, shape), change in changes.items():
            count = self._counts.get(band, 0) + change
            self._counts[band] = count
            shapes = self._groups.setdefault(band, {})
            if (band, shape) in floor.counts:
                shapes.setdefault(shape, {})[key] = floor
                continue
            floors = shapes.get(shape, {})
            floors.pop(key, None)
            if not floors:
                shapes.pop(shape, None)
            if not shapes:
                del self._groups[band], self._counts[band]

    def _floors_of(self, band: Band) -> dict[FloorKey, Floor]:
        return {key: floor for by_key in self._groups[band].values() for key, floor in by_key.items()}

    def _price(self, work: PendingWork, band: Band) -> int:
        """Return the credit negated."""
        return -self._share(work.tenant, band) - age_credit(self._settings, self._now - work.since)

    def _priced(self, floor: Floor, band: Band, works: Iterator[PendingWork]) -> Iterator[Priced]:
        settings, now, share = self._settings, self._now, self._share(floor.tenant, band)
        for work in works:
            yield -share - age_credit(settings, now - work.since), work.number, work

    def _share(self, tenant: TenantName, band: Band) -> int:
        """Return the credit that all of a tenant's work in a band shares."""
        if self._settings.lag_weight and band[1] is not QuotaClass.NOMINAL:
            return lag_credit(self._settings, self.tenant(tenant).lag)
        share = self._shares.get(tenant)
        if share is None:
            state = self._tenants.get(tenant)
            use, weight = (0, 1) if state is None else (state.use, state.weight)
            share = share_credit(self._settings, use, self._use_all, weight, self._weights)
            self._shares[tenant] = share
        return share

    def _key_at(self, floor: Floor, work: PendingWork, band: Band) -> Key:
        """Return a workload's key in a floor of another tenant or level: all workloads before that key are ahead."""
        settings = self._settings
        wanted = -self._price(work, band) - self._share(floor.tenant, band)
        """Age credit to compare with: a workload of the floor with more is ahead; among equals, the one with the lower number."""
        if settings.age_weight == 0:
            return (0, 0, work.number) if wanted == 0 else (0, 0, -1) if wanted > 0 else (2, 0, 0)
        most = settings.age_weight * settings.age_cap
        if wanted > most:
            return (0, 0, -1)
        if wanted == most:
            return (0, 0, work.number)
        # The age with exactly that credit; or, with a rest, the oldest age with less, so that only longer waits are ahead.
        age, rest = divmod(wanted, settings.age_weight)
        if rest:
            return (1, self._now - age, -1)
        return (1, self._now - age, work.number)

    def _put(self, work: PendingWork) -> None:
        is_capped = self._is_capped(work.since)
        key = key_of(work, is_capped=is_capped)
        if not is_capped:
            self._crossings.put(work.workload, after(work.since, self._settings.age_cap))
        lane = self._lane(work.tenant)
        floor = lane.floor_for(work)
        floor.add(key, work)
        self._works[work.workload] = key, floor, work
        self._changed[work.tenant] = lane

    def _take_out(self, workload: WorkloadId) -> PendingWork:
        key, floor, work = self._works.pop(workload)
        floor.drop(key)
        self._crossings.drop(workload)
        self._changed[work.tenant] = self._lanes[work.tenant]
        return work

    def _place_again(self, lane: Lane) -> None:
        """Move workloads to the floors of the tenant's new level, in one step if a floor goes to one empty floor as a whole."""
        for floor in list(lane.floors.values()):
            floor.forget()
            works = [
                (key, work, lane.floor_for(work))
                for block in floor.blocks
                for key, work in zip(block.keys, block.works, strict=True)
            ]
            going = [one for one in works if one[2] is not floor]
            if not going:
                continue
            first = going[0][2]
            if len(going) == len(works) and not first.blocks and all(one[2] is first for one in going):
                floor.move_to(first)
            else:
                for key, work, target in going:
                    floor.drop(key)
                    target.add(key, work)
            for key, work, target in going:
                self._works[work.workload] = key, target, work

    def _of(self, lane: Lane) -> list[tuple[Key, Floor, PendingWork]]:
        return [
            (key, floor, work)
            for floor in lane.floors.values()
            for block in floor.blocks
            for key, work in zip(block.keys, block.works, strict=True)
        ]

    def _is_capped(self, since: Instant) -> bool:
        """Return whether more waiting adds no credit. Where waiting has no weight, that is always so."""
        return self._settings.age_weight == 0 or self._now - since >= self._settings.age_cap

    def _lane(self, name: TenantName) -> Lane:
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = Lane(
                name, self._block_max, self._patience, is_by_level=self._is_by_level
            )
        return lane


def _weighs(state: TenantState) -> tuple[bool, bool]:
    """Return whether borrowing is unlimited, and whether the budget is spent: no bounds of a block cover changes of these."""
    return state.borrowed_max is None, state.is_spent
