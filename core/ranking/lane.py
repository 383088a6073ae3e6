"""One tenant's pending workloads, in the order in which they take the tenant's quota, cut into blocks.

The quota class of a workload depends on the quota that workloads ahead take. A block remembers the resulting classes, the bounds
on the quota left by blocks ahead within which the classes stay the same, and until when. A change costs a look at each block,
and a walk through the blocks that the change affects.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from itertools import islice

from core.nouns.ids import TenantName
from core.nouns.instant import Instant, Nanoseconds, after, earliest
from core.ranking.scan import (
    FITTING_MAX,
    LOWEST,
    NONE,
    Band,
    Group,
    PendingWork,
    QuotaClass,
    QuotaHold,
    TenantState,
    lasting_from,
    level_of,
    own_level,
)

FAR = 1 << 62
"""More GPU milli than any fleet has."""

Key = tuple[int, int, int]
"""Place in a floor: (0, 0, number) once the wait has reached the cap; before, (1, since when its age counts, number)."""
Bounds = dict[str, list[int]]
"""The least and the most GPU milli left before a block, by type, for which the block's quota classes stay the same."""


class Left:
    """The quota left before a block, and the time of the walk."""

    __slots__ = ("borrow", "ever", "now", "patience", "room")

    def __init__(self, tenant: TenantState, now: Instant, patience: Nanoseconds) -> None:
        self.room = dict(tenant.entitled)
        """GPU milli by type left of the quota."""
        self.borrow = dict(self.room)
        """GPU milli by type left of quota and borrowing limit together, less the needs of borrowing workloads ahead, too."""
        self.ever = dict(self.room)
        """GPU milli by type of the quota that work without an end of its own leaves."""
        self.now = now
        self.patience = patience
        _take(self.borrow, tenant.borrowed_max or {})
        _less(self.borrow, tenant.held)


class Block:
    """Neighbours in a floor, and their quota classes."""

    __slots__ = (
        "bands", "borrow", "ever", "fitting", "groups", "is_walked", "kept", "keys", "ripe_at", "room", "takes", "wants", "works",
    )  # fmt: skip

    def __init__(self, keys: list[Key], works: list[PendingWork]) -> None:
        self.keys = keys
        self.works = works
        self.is_walked = False
        self.bands: list[Band] = []
        """The band of each workload, as last walked."""
        self.groups: dict[Group, list[PendingWork]] = {}
        self.room: Bounds = {}
        """Bounds on the quota left."""
        self.borrow: Bounds = {}
        """Bounds on the quota and the borrowing limit left together, after borrowing workloads ahead, too."""
        self.ever: Bounds = {}
        """Bounds on the quota that work without an end leaves."""
        self.takes: dict[str, int] = {}
        """GPU milli by type that nominal workloads and quota holds take."""
        self.wants: dict[str, int] = {}
        """GPU milli by type that nominal workloads, quota holds and borrowing workloads take."""
        self.kept: list[QuotaHold] = []
        """Quota holds against the workloads behind, of workloads that do not fit."""
        self.fitting: list[QuotaHold] = []
        """Quota holds of workloads that fit and have waited for `patience`."""
        self.ripe_at: Instant | None = None
        """Time at which the next workload will have waited for `patience`; None: no such time."""

    def holds(self, left: Left) -> bool:
        """Return whether the block's quota classes stay the same with this quota left."""
        if not self.is_walked or (self.ripe_at is not None and self.ripe_at <= left.now):
            return False
        for bounds, mine in ((self.room, left.room), (self.borrow, left.borrow), (self.ever, left.ever)):
            for gpu_type, (least, most) in bounds.items():
                if not least <= mine.get(gpu_type, 0) <= most:
                    return False
        return True

    def walk(self, tenant: TenantState, level: int, left: Left) -> None:
        """Classify each workload as `Walk.step` does, and set the bounds on the quota left within which the result stays the same.

        level   the level of the floor
        """
        self.room, self.borrow, self.ever, self.takes, self.wants = {}, {}, {}, {}, {}
        self.bands, self.groups = [], {}
        self.kept, self.fitting, self.ripe_at = [], [], None
        for work in self.works:
            quota_class = self._step(work, tenant, level, left)
            band = (-level_of(work, tenant, quota_class), quota_class)
            self.bands.append(band)
            self.groups.setdefault((band, work.shape), []).append(work)
        self.is_walked = True

    def _step(self, work: PendingWork, tenant: TenantState, level: int, left: Left) -> QuotaClass:
        if tenant.is_spent and work.uses_gpus:
            return QuotaClass.BLOCKED
        for need in work.needs:
            if _fits(need, left.room, self.takes, self.room):
                _take(self.takes, need)
                _take(self.wants, need)
                if need and self._is_patient(work, left):
                    self.fitting.append(QuotaHold(work.workload, level, work.number, need, is_lacking=False))
                return QuotaClass.NOMINAL
        kept = self._kept(work, level, left)
        if work.may_borrow and tenant.borrowed_max is None:
            _take(self.wants, work.needs[0])
            return QuotaClass.BORROWING
        for need in work.needs if work.may_borrow else ():
            if _fits(need, left.borrow, self.wants, self.borrow):
                _take(self.wants, need)
                return QuotaClass.BORROWING
        _take(self.wants, kept)
        return QuotaClass.BLOCKED

    def _kept(self, work: PendingWork, level: int, left: Left) -> Mapping[str, int]:
        """Return the need for which a workload that does not fit holds quota, and record the hold; empty: no hold."""
        if not left.patience:
            return NONE
        for need in work.needs:
            is_kept = not _fits(dict.fromkeys(need, 0), left.room, self.takes, self.room)
            if need and not is_kept and _fits(need, left.ever, NONE, self.ever):
                if not self._is_patient(work, left):
                    return NONE
                _take(self.takes, need)
                self.kept.append(QuotaHold(work.workload, level, work.number, need))
                return need
        return NONE

    def _is_patient(self, work: PendingWork, left: Left) -> bool:
        """Return whether the workload has waited for `patience`; if not, the block is walked again at that time."""
        if not left.patience:
            return False
        ripe_at = after(work.submitted_at, left.patience)
        if ripe_at > left.now:
            self.ripe_at = earliest(self.ripe_at, ripe_at)
        return ripe_at <= left.now


def _fits(need: Mapping[str, int], left: Mapping[str, int], taken: Mapping[str, int], bounds: Bounds) -> bool:
    """Return whether a need fits into the quota left before the block, less the quota taken inside.

    Narrows the bounds to the range in which the answer stays the same.
    """
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


class Floor:
    """A tenant's pending workloads of one requested level, in the order of credit."""

    __slots__ = ("block_max", "blocks", "counts", "heads", "level", "recounted", "tenant")

    def __init__(self, tenant: TenantName, level: int, block_max: int) -> None:
        self.tenant = tenant
        self.level = level
        """The requested level; 0 where levels do not matter."""
        self.block_max = block_max
        self.blocks: list[Block] = []
        self.counts: dict[Group, int] = {}
        """The number of workloads in each group, as last walked."""
        self.recounted: dict[Group, int] = {}
        """The change of each count since the last call of `take_changes`."""
        self.heads: dict[Group, PendingWork] = {}
        """The first workload of each group: a cache, dropped for a group when its count is updated."""

    def add(self, key: Key, work: PendingWork) -> None:
        """Insert a workload at its place."""
        index = min(self._index(key), len(self.blocks) - 1)
        if index < 0:
            self.blocks.append(Block([key], [work]))
            return
        block = self.blocks[index]
        self._uncount(block)
        place = bisect_left(block.keys, key)
        block.keys.insert(place, key)
        block.works.insert(place, work)
        if len(block.keys) > self.block_max:
            middle = len(block.keys) // 2
            self.blocks[index : index + 1] = [
                Block(block.keys[:middle], block.works[:middle]),
                Block(block.keys[middle:], block.works[middle:]),
            ]

    def swap(self, key: Key, work: PendingWork) -> None:
        """Replace the workload at a place."""
        block = self.blocks[self._index(key)]
        self._uncount(block)
        block.works[bisect_left(block.keys, key)] = work

    def drop(self, key: Key) -> None:
        """Remove the workload at a place, which must be occupied."""
        index = self._index(key)
        block = self.blocks[index]
        self._uncount(block)
        place = bisect_left(block.keys, key)
        assert block.keys[place] == key, key
        del block.keys[place], block.works[place]
        if not block.keys:
            del self.blocks[index]

    def move_to(self, other: "Floor") -> None:
        """Move all workloads to another, empty floor, to be walked again there."""
        self.forget()
        other.blocks, self.blocks = self.blocks, []

    def forget(self) -> None:
        """Mark all blocks to be walked again."""
        for block in self.blocks:
            self._uncount(block)

    def walk(self, state: TenantState, left: Left) -> None:
        """Walk the blocks for which the result may differ, and subtract from `left` the quota that all blocks take."""
        for block in self.blocks:
            if not block.holds(left):
                self._uncount(block)
                block.walk(state, self.level, left)
                for group, works in block.groups.items():
                    self._count(group, len(works))
            if block.wants or block.takes:
                _less(left.room, block.takes)
                _less(left.borrow, block.wants)

    def take_changes(self) -> dict[Group, int]:
        """Return the changes of the counts since the last call."""
        changes, self.recounted = self.recounted, {}
        return changes

    def head(self, group: Group) -> PendingWork:
        """Return the first workload of a group, which must not be empty."""
        found = self.heads.get(group)
        if found is None:
            found = self.heads[group] = next(self.in_group(group))
        return found

    def in_group(self, group: Group) -> Iterator[PendingWork]:
        """Yield the workloads of a group, in the order of credit."""
        for block in self.blocks:
            yield from block.groups.get(group, ())

    def in_band(self, band: Band) -> Iterator[PendingWork]:
        """Yield the workloads of a band, of all shapes, in the order of credit."""
        for block in self.blocks:
            if band in block.bands:
                yield from (work for work, mine in zip(block.works, block.bands, strict=True) if mine == band)

    def back_from(self, key: Key | None, band: Band) -> Iterator[PendingWork]:
        """Yield the workloads of a band before a place, the nearest first; None: before the end."""
        last = len(self.blocks) - 1 if key is None else min(self._index(key), len(self.blocks) - 1)
        for index in range(last, -1, -1):
            block = self.blocks[index]
            end = len(block.keys) if key is None or index < last else bisect_left(block.keys, key)
            for place in range(end - 1, -1, -1):
                if block.bands[place] == band:
                    yield block.works[place]

    def count_before(self, key: Key, band: Band) -> int:
        """Return the number of workloads of a band before a place."""
        last = self._index(key)
        found = sum(block.bands.count(band) for block in self.blocks[:last])
        if last < len(self.blocks):
            block = self.blocks[last]
            found += block.bands[: bisect_left(block.keys, key)].count(band)
        return found

    def band_of(self, key: Key) -> Band:
        """Return the band of the workload at a place."""
        block = self.blocks[self._index(key)]
        return block.bands[bisect_left(block.keys, key)]

    def _index(self, key: Key) -> int:
        return bisect_left(self.blocks, key, key=lambda block: block.keys[-1])

    def _uncount(self, block: Block) -> None:
        if block.is_walked:
            for group, works in block.groups.items():
                self._count(group, -len(works))
        block.is_walked, block.groups = False, {}

    def _count(self, group: Group, change: int) -> None:
        self.heads.pop(group, None)
        self.recounted[group] = self.recounted.get(group, 0) + change
        left = self.counts.get(group, 0) + change
        if left:
            self.counts[group] = left
        else:
            self.counts.pop(group, None)


class Lane:
    """All pending workloads of one tenant, by requested level."""

    __slots__ = (
        "block_max",
        "floors",
        "is_by_level",
        "kept",
        "name",
        "order",
        "patience",
        "ripe_at",
        "state",
    )

    def __init__(self, name: TenantName, block_max: int, patience: Nanoseconds, *, is_by_level: bool) -> None:
        self.name = name
        self.block_max = block_max
        self.patience = patience
        self.is_by_level = is_by_level
        self.kept: tuple[QuotaHold, ...] = ()
        """Holds on the tenant's quota, as last walked."""
        self.ripe_at: Instant | None = None
        """Time at which more quota may be held, if no other change comes; None: never."""
        self.state = TenantState()
        self.floors: dict[int, Floor] = {}
        self.order: list[int] = []
        """Levels negated, ascending: the highest level first."""

    def floor_for(self, work: PendingWork) -> Floor:
        """Return the floor of a workload, which is created if missing."""
        level = own_level(work, self.state) if self.is_by_level else LOWEST
        floor = self.floors.get(level)
        if floor is None:
            floor = self.floors[level] = Floor(self.name, level, self.block_max)
            insort(self.order, -level)
        return floor

    def walk(self, now: Instant) -> list[Floor]:
        """Walk all floors from the highest level down. Return the empty floors, which are dropped from the lane."""
        state = self.state
        left = Left(state, now, self.patience)
        levels = sorted(state.within, reverse=True)
        for negated in self.order:
            while levels and (levels[0] >= -negated or not self.is_by_level):
                _less(left.room, state.within[levels.pop(0)])
            if state.lasting:
                left.ever = dict(state.entitled)
                _less(left.ever, lasting_from(state, -negated))
            self.floors[-negated].walk(state, left)
        empty = [floor for floor in self.floors.values() if not floor.blocks]
        for floor in empty:
            del self.floors[floor.level]
            self.order.remove(-floor.level)
        blocks = [block for negated in self.order for block in self.floors[-negated].blocks]
        fitting = (one for block in blocks for one in block.fitting)
        self.kept = (*(one for block in blocks for one in block.kept), *islice(fitting, FITTING_MAX))
        self.ripe_at = earliest(*(block.ripe_at for block in blocks)) if blocks else None
        return empty


def key_of(work: PendingWork, *, is_capped: bool) -> Key:
    """Return a workload's place among others of its floor."""
    return (0, 0, work.number) if is_capped else (1, work.since, work.number)
