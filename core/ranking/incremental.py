"""The order of everything that waits, kept from event to event. Equals `scan` at every step.

A tenant's work keeps its order while time passes: all of it gains the same, until one has waited for the cap, which an agenda of
such crossings tells. All of a tenant's work also has the same share of credit. So each tenant has a lane in the order of credit,
and whoever asks for the first few has the lanes merged as far as they ask.

A lane is cut into blocks. Whether a workload is within quota depends on what those ahead of it take; a block remembers how that
came out for it, and for how much room left by those ahead of it the same comes out again. A change costs a look at each block of its
lane, and a walk through those where it matters. A change of use costs a step a tenant.
"""

import heapq
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import islice

from msgspec.structs import replace

from core.agenda import Agenda
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import Instant, after
from core.ranking.credit import CreditSettings, age_credit, share_credit
from core.ranking.scan import PendingWork, Ranked, Standing, TenantState, level_of

BLOCK_MAX = 128
"""Workloads in a block; a fuller one is cut in two. Chosen so that with 10,000 in a lane a walk through a block and a look at
each take about 100 steps."""
FAR = 1 << 62
"""More GPU milli than there are."""

Key = tuple[int, int, int]
"""Place in a lane: 0, 0 and the number from the cap on; before it 1, the instant of submission and the number."""
Band = tuple[int, Standing]
"""Level negated, and standing: a smaller one is ahead."""
Bounds = dict[str, list[int]]
"""By type: the least and the most GPU milli left before a block with which it comes out the same."""


class _Block:
    """Neighbours in a lane, and how they came out."""

    __slots__ = ("bands", "borrow", "is_walked", "keys", "room", "takes", "wants", "works")

    def __init__(self, keys: list[Key], works: list[PendingWork]) -> None:
        self.keys = keys
        self.works = works
        self.is_walked = False
        self.room: Bounds = {}
        """Of what is left of the quota."""
        self.borrow: Bounds = {}
        """Of what is left of the quota and the borrowing limit together, after those that borrow too."""
        self.takes: dict[str, int] = {}
        """By type: by those within quota."""
        self.wants: dict[str, int] = {}
        """By type: by those that borrow too."""
        self.bands: dict[Band, list[PendingWork]] = {}

    def holds(self, room: Mapping[str, int], borrow: Mapping[str, int]) -> bool:
        """Whether it comes out as it did, with so much left."""
        if not self.is_walked:
            return False
        for bounds, left in ((self.room, room), (self.borrow, borrow)):
            for gpu_type, (least, most) in bounds.items():
                if not least <= left.get(gpu_type, 0) <= most:
                    return False
        return True

    def walk(self, tenant: TenantState, room: Mapping[str, int], borrow: Mapping[str, int]) -> None:
        """`Walk.step` for each, and how far what is left before it could be something else."""
        self.room, self.borrow, self.takes, self.wants, self.bands = {}, {}, {}, {}, {}
        is_limited = tenant.borrowed_max is not None
        for work in self.works:
            standing = Standing.WITHIN
            if not _fits(work.need, room, self.takes, self.room):
                standing = Standing.OVER
                if is_limited and not _fits(work.need, borrow, self.wants, self.borrow):
                    standing = Standing.HELD
            if standing is not Standing.HELD:
                _take(self.wants, work.need)
            if standing is Standing.WITHIN:
                _take(self.takes, work.need)
            band = (-level_of(work, tenant, standing), standing)
            self.bands.setdefault(band, []).append(work)
        self.is_walked = True


def _fits(need: Mapping[str, int], left: Mapping[str, int], taken: Mapping[str, int], bounds: Bounds) -> bool:
    """Whether it fits into what is left before its block less what is taken inside; narrows the bounds to where that stays so."""
    wanted = []
    for gpu_type, count in need.items():
        least = taken.get(gpu_type, 0) + count
        if left.get(gpu_type, 0) < least:
            bound = bounds.setdefault(gpu_type, [-FAR, FAR])
            bound[1] = min(bound[1], least - 1)
            return False
        wanted.append((gpu_type, least))
    for gpu_type, least in wanted:
        bound = bounds.setdefault(gpu_type, [-FAR, FAR])
        bound[0] = max(bound[0], least)
    return True


def _take(taken: dict[str, int], more: Mapping[str, int]) -> None:
    for gpu_type, count in more.items():
        taken[gpu_type] = taken.get(gpu_type, 0) + count


def _less(left: dict[str, int], less: Mapping[str, int]) -> None:
    for gpu_type, count in less.items():
        left[gpu_type] = left.get(gpu_type, 0) - count


class _Lane:
    """One tenant's work, in the order of credit."""

    __slots__ = ("block_max", "blocks", "counts", "name", "state")

    def __init__(self, name: TenantName, block_max: int) -> None:
        self.name = name
        self.block_max = block_max
        self.state = TenantState()
        self.blocks: list[_Block] = []
        self.counts: dict[Band, int] = {}
        """How many stand in each band, as last walked."""

    def add(self, key: Key, work: PendingWork) -> None:
        index = min(self._index(key), len(self.blocks) - 1)
        if index < 0:
            self.blocks.append(_Block([key], [work]))
            return
        block = self.blocks[index]
        place = bisect_left(block.keys, key)
        block.keys.insert(place, key)
        block.works.insert(place, work)
        block.is_walked = False
        if len(block.keys) > self.block_max:
            self._count(block, -1)
            middle = len(block.keys) // 2
            self.blocks[index : index + 1] = [
                _Block(block.keys[:middle], block.works[:middle]),
                _Block(block.keys[middle:], block.works[middle:]),
            ]

    def drop(self, key: Key) -> None:
        index = self._index(key)
        block = self.blocks[index]
        place = bisect_left(block.keys, key)
        assert block.keys[place] == key, key
        del block.keys[place], block.works[place]
        block.is_walked = False
        if not block.keys:
            self._count(block, -1)
            del self.blocks[index]

    def walk(self) -> None:
        """Through its blocks; into those alone for which something is different."""
        state = self.state
        room = dict(state.entitled)
        _less(room, state.held)
        borrow = dict(room)
        _take(borrow, state.borrowed_max or {})
        for block in self.blocks:
            if not block.holds(room, borrow):
                self._count(block, -1)
                block.walk(state, room, borrow)
                self._count(block, 1)
            _less(room, block.takes)
            _less(borrow, block.wants)

    def of(self, band: Band) -> Iterator[PendingWork]:
        """Those in it, in the order of credit."""
        for block in self.blocks:
            yield from block.bands.get(band, ())

    def _index(self, key: Key) -> int:
        return bisect_left(self.blocks, key, key=lambda block: block.keys[-1])

    def _count(self, block: _Block, sign: int) -> None:
        for band, works in block.bands.items():
            left = self.counts.get(band, 0) + sign * len(works)
            if left:
                self.counts[band] = left
            else:
                del self.counts[band]


class RankedQueue:
    """Everything that waits, in order."""

    def __init__(self, settings: CreditSettings, now: Instant, block_max: int = BLOCK_MAX) -> None:
        self._settings = settings
        self._now = now
        self._block_max = block_max
        self._works: dict[WorkloadId, tuple[Key, PendingWork]] = {}
        self._tenants: dict[TenantName, TenantState] = {}
        self._lanes: dict[TenantName, _Lane] = {}
        self._changed: dict[TenantName, _Lane] = {}
        """Lanes to be walked before the next answer."""
        self._crossings: Agenda[WorkloadId] = Agenda()
        """When those that have not waited for the cap will have."""
        self._use_all = 0
        self._shares: dict[TenantName, int] | None = None
        """None: use has changed."""

    def __len__(self) -> int:
        return len(self._works)

    def __contains__(self, workload: WorkloadId) -> bool:
        return workload in self._works

    def add(self, work: PendingWork) -> None:
        """Let it wait; it must not yet."""
        assert work.workload not in self._works, work.workload
        self._put(work)

    def drop(self, workload: WorkloadId) -> None:
        """Let it wait no longer, if it does."""
        if workload in self._works:
            self._take_out(workload)

    def set_tenant(self, name: TenantName, state: TenantState) -> None:
        """What it is entitled to, holds and has used from now on."""
        before = self._tenants.get(name)
        if before is None or before.use != state.use:
            self._use_all += state.use - (0 if before is None else before.use)
            self._shares = None
        self._tenants[name] = state
        lane = self._lane(name)
        was = lane.state
        if replace(was, use=state.use) == state:
            return
        if was.level != state.level or (was.borrowed_max is None) != (state.borrowed_max is None):
            for block in lane.blocks:
                block.is_walked = False
        lane.state = state
        self._changed[name] = lane

    def advance(self, now: Instant) -> None:
        """Let time pass. Those that reach the cap take their place among the others that have."""
        assert now >= self._now, (now, self._now)
        self._now = now
        while crossed := self._crossings.passed(now):
            for workload in crossed:
                self._put(self._take_out(workload))

    def ranked(self) -> Iterator[Ranked]:
        """All of them in order, worked out as far as is read; nothing may change meanwhile."""
        for lane in self._changed.values():
            lane.walk()
            if not lane.blocks and lane.name not in self._tenants:
                del self._lanes[lane.name]
        self._changed.clear()
        shares = self._worked_out_shares()
        unknown = share_credit(self._settings, 0, self._use_all, len(self._tenants))
        by_band: dict[Band, list[_Lane]] = {}
        for lane in self._lanes.values():
            for band in lane.counts:
                by_band.setdefault(band, []).append(lane)
        for band in sorted(by_band):
            level, standing = -band[0], band[1]
            lanes = [self._priced(lane, band, shares.get(lane.name, unknown)) for lane in by_band[band]]
            for negated, _, work in heapq.merge(*lanes):
                yield Ranked(work, level, standing, -negated)

    def first(self, count: int) -> list[Ranked]:
        """The first so many."""
        return list(islice(self.ranked(), count))

    def _priced(self, lane: _Lane, band: Band, share: int) -> Iterator[tuple[int, int, PendingWork]]:
        settings, now = self._settings, self._now
        for work in lane.of(band):
            yield -share - age_credit(settings, now - work.submitted_at), work.number, work

    def _worked_out_shares(self) -> dict[TenantName, int]:
        if self._shares is None:
            count = len(self._tenants)
            self._shares = {
                name: share_credit(self._settings, state.use, self._use_all, count)
                for name, state in self._tenants.items()
            }
        return self._shares

    def _put(self, work: PendingWork) -> None:
        key = (0, 0, work.number)
        if not self._is_capped(work.submitted_at):
            key = (1, work.submitted_at, work.number)
            self._crossings.put(work.workload, after(work.submitted_at, self._settings.age_cap))
        self._works[work.workload] = key, work
        lane = self._lane(work.tenant)
        lane.add(key, work)
        self._changed[work.tenant] = lane

    def _take_out(self, workload: WorkloadId) -> PendingWork:
        key, work = self._works.pop(workload)
        lane = self._lanes[work.tenant]
        lane.drop(key)
        self._crossings.drop(workload)
        self._changed[work.tenant] = lane
        return work

    def _is_capped(self, submitted_at: Instant) -> bool:
        """Whether more waiting adds nothing. Where waiting has no weight that is always so."""
        return self._settings.age_weight == 0 or self._now - submitted_at >= self._settings.age_cap

    def _lane(self, name: TenantName) -> _Lane:
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = _Lane(name, self._block_max)
        return lane
