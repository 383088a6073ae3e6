"""The victim index: all possible victims of a region in preemption order, updated by facts.

An attempt is listed by its level and by the clusters in which it holds capacity, so that a search reads only attempts that could
free capacity for the request, and only as many as needed. The result equals `candidates_under` (core/placing/preemption/victims.py)
without the attempts that hold no capacity in the request's clusters.

The order within a level changes with time, because lost work grows faster for larger attempts. So lost work is counted up to a
whole minute (`counted_until`), and a level is sorted again after that time has moved on: at an agent's beat, or when a search reads
the level.
"""

import heapq
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
from msgspec import Struct

from core.events.control import ClaimRevised
from core.events.region import (
    AttemptEnded,
    AttemptRanked,
    AwardDeclined,
    CheckpointCommitted,
    ClaimGranted,
    ClaimPromised,
    GangStarted,
    PromiseRevised,
    StopOrdered,
)
from core.images.capacity import Capacity, Holding
from core.images.preemption import Preemption
from core.nouns.ids import AttemptKey, WorkloadId
from core.nouns.instant import Instant
from core.nouns.placement import Claim, Spread, gpu_milli_of
from core.nouns.tenant import OVER_LEVEL
from core.nouns.workload import JobSpec, Kind
from core.placing.index.layout import NO_NODE, Layout
from core.placing.pool_set import Asker, PoolSet, request_of
from core.rules.placement.eviction_cost import counted_until, eviction_cost, told_until
from core.rules.placement.rule import Numbers

OF_VICTIMS = (
    ClaimPromised,
    ClaimGranted,
    ClaimRevised,
    AwardDeclined,
    AttemptEnded,
    AttemptRanked,
    StopOrdered,
    GangStarted,
    CheckpointCommitted,
    PromiseRevised,
)
"""Facts that change whether an attempt may be preempted, or the eviction cost: call `settle` for the attempt after each."""
Victim = tuple[WorkloadId, int, Holding]
Where = frozenset[tuple[str, int]]
"""Clusters, each by its pool's name and its number in the pool's layout."""
NEWEST_SPARE = 64
"""Outdated times that a small index may hold."""
Cost = tuple[int, ...]
Entry = tuple[Cost, WorkloadId, int]


class Listed(Struct):
    """A possible victim, and its place in the index."""

    held: Holding
    claim: Claim
    """The claim of `held` at the time of listing."""
    level: int
    where: Where
    entry: Entry
    gpu_milli: int


class Level:
    """Possible victims of one priority."""

    def __init__(self) -> None:
        self.counted = -1
        """Time up to which lost work is counted; -1: the level is new."""
        self.lists: dict[Where, list[Entry]] = {}
        self.gpu_milli: dict[Where, int] = {}
        """GPU milli that the attempts of each list hold."""


class VictimIndex:
    """The possible victims of one region. The first search builds the index; later refreshes update the settled attempts."""

    def __init__(self, capacity: Capacity, preemption: Preemption | None = None) -> None:
        self._capacity = capacity
        self._preemption = preemption or Preemption()
        self._forget()

    def _forget(self) -> None:
        """Discard the whole index."""
        self._order = self._preemption.settings.order
        """The order of victims in the lists."""
        self._is_known = False
        self._levels: dict[int, Level] = {}
        self._listed: dict[AttemptKey, Listed] = {}
        self._dirty: dict[AttemptKey, None] = {}
        self._victims_of: dict[AttemptKey, tuple[AttemptKey, ...]] = {}
        """Victims by the attempt to which their capacity is promised."""
        self._promised: Counter[AttemptKey] = Counter()
        self._told: dict[AttemptKey, int] = {}
        self._newest: list[tuple[int, AttemptKey]] = []
        """A heap of the times in `_told`, negated so that the newest comes first. Outdated entries are dropped when met, and all at
        once when they are more than the others.
        """

    def settle(self, workload: WorkloadId, epoch: int) -> None:
        """Record that an attempt changed in the image."""
        if self._is_known:
            self._dirty[workload, epoch] = None

    def refresh(self, pools: PoolSet, *, is_asked: bool = True) -> None:
        """Bring the index up to date with the image.

        is_asked   true if a search needs the index now; if false, only an index that was built before is updated, and sorted ahead
                   of the next search
        """
        order = self._preemption.settings.order
        if order is not self._order:
            self._forget()
        if not self._is_known:
            if not is_asked:
                return
            self._is_known = True
            capacity = self._capacity
            self._dirty = dict.fromkeys(
                (workload, epoch)
                for epochs_of in (capacity.holdings, capacity.promises)
                for workload, epochs in epochs_of.items()
                for epoch in epochs
            )
        for key in tuple(self._dirty):
            self._settle_promise(key)
        for key in self._dirty:
            self._settle(key, pools)
        self._dirty.clear()
        if not is_asked:
            counted = self._counted()
            for level in self._levels.values():
                self._sort(level, counted)

    def under(self, priority: int, at: Instant, where: Where) -> Iterator[Victim]:
        """Yield the attempts with capacity in these clusters that a priority may preempt at a time, in preemption order."""
        if priority <= OVER_LEVEL:
            return
        counted = self._counted()
        for number in sorted(number for number in self._levels if number < priority):
            level = self._levels[number]
            self._sort(level, counted)
            mine = [entries for clusters, entries in level.lists.items() if not where.isdisjoint(clusters)]
            for _, workload, epoch in mine[0] if len(mine) == 1 else heapq.merge(*mine):
                held = self._listed[workload, epoch].held
                if held.spared_until <= at:
                    yield workload, epoch, held

    def gpu_milli_under(self, priority: int, where: Where) -> int:
        """Return the most GPU milli that preemption by a priority could free in these clusters."""
        return sum(
            milli
            for number, level in self._levels.items()
            if number < priority
            for clusters, milli in level.gpu_milli.items()
            if not where.isdisjoint(clusters)
        )

    def claims_under(self, priority: int, where: Where) -> Iterator[Claim]:
        """Yield the claims of all attempts below a priority with capacity in these clusters, also before their minimum run time.

        The order has no meaning.
        """
        for number in sorted(number for number in self._levels if number < priority):
            for clusters, entries in self._levels[number].lists.items():
                if not where.isdisjoint(clusters):
                    for _, workload, epoch in entries:
                        yield self._listed[workload, epoch].held.claim

    # Updating.

    def _counted(self) -> int:
        newest = self._newest
        while newest and self._told.get(newest[0][1]) != -newest[0][0]:
            heapq.heappop(newest)
        return counted_until(-newest[0][0] if newest else 0)

    def _settle_promise(self, key: AttemptKey) -> None:
        claim = self._capacity.promise(*key)
        victims = claim.victims if claim is not None else ()
        before = self._victims_of.pop(key, ())
        if victims:
            self._victims_of[key] = victims
        if before == victims:
            return
        for victim, more in (*((one, -1) for one in before), *((one, 1) for one in victims)):
            self._promised[victim] += more
            if not self._promised[victim]:
                del self._promised[victim]
            self._dirty[victim] = None

    def _settle(self, key: AttemptKey, pools: PoolSet) -> None:
        held = self._capacity.holding(*key)
        self._tell(key, held)
        before = self._drop(key)
        if held is None or not may_go(held) or key in self._promised:
            return
        number = held.claim.priority
        level = self._levels.setdefault(number, Level())
        if level.counted < 0:
            level.counted = self._counted()
        claim, entry = held.claim, self._entry(key, held, level.counted)
        if before is not None and before.claim is claim:
            where, gpu_milli = before.where, before.gpu_milli
        else:
            where, gpu_milli = clusters_of(pools, claim), gpu_milli_of(claim.jobs)
        self._listed[key] = Listed(held, claim, number, where, entry, gpu_milli)
        insort(level.lists.setdefault(where, []), entry)
        level.gpu_milli[where] = level.gpu_milli.get(where, 0) + gpu_milli

    def _tell(self, key: AttemptKey, held: Holding | None) -> None:
        if held is None:
            self._told.pop(key, None)
            return
        told = told_until(held)
        if self._told.get(key) != told:
            self._told[key] = told
            heapq.heappush(self._newest, (-told, key))
            if len(self._newest) > NEWEST_SPARE + 2 * len(self._told):
                self._newest = [(-at, one) for one, at in self._told.items()]
                heapq.heapify(self._newest)

    def _drop(self, key: AttemptKey) -> Listed | None:
        """Remove an attempt from the lists; return its former listing."""
        listed = self._listed.pop(key, None)
        if listed is None:
            return None
        level = self._levels[listed.level]
        entries = level.lists[listed.where]
        del entries[bisect_left(entries, listed.entry)]
        level.gpu_milli[listed.where] -= listed.gpu_milli
        if not entries:
            del level.lists[listed.where], level.gpu_milli[listed.where]
        return listed

    def _entry(self, key: AttemptKey, held: Holding, counted: int) -> Entry:
        return eviction_cost(held, counted, self._order), *key

    def _sort(self, level: Level, counted: int) -> None:
        if level.counted == counted:
            return
        level.counted = counted
        for entries in level.lists.values():
            for index, (_, workload, epoch) in enumerate(entries):
                listed = self._listed[workload, epoch]
                entries[index] = listed.entry = self._entry((workload, epoch), listed.held, counted)
            entries.sort()


def may_go(held: Holding) -> bool:
    """Return whether higher priorities could preempt the attempt, after its minimum run time and unless a promise waits for it.

    Of a pair neither can be: the end of one frees no GPU.
    """
    return held.claim.kind != Kind.INTERACTIVE and not held.is_ending and not held.is_paired


def clusters_of(pools: PoolSet, claim: Claim) -> Where:
    """Return the clusters in which a claim holds capacity."""
    found: set[tuple[str, int]] = set()
    for spread in claim.spreads:
        for name, pool in pools.by_name.items():
            slots, _ = slots_in(pool.layout, spread)
            if len(slots):
                clusters = pool.layout.cluster_of_pod[slots // pool.layout.pod_slots]
                found.update((name, number) for number in np.unique(clusters).tolist())
    return frozenset(found)


def clusters_for(pools: PoolSet, jobs: Iterable[JobSpec], asker: Asker) -> Where:
    """Return the clusters in which at least one of these jobs could ever run."""
    requests = [request_of(job, asker) for job in jobs]
    return frozenset(
        (pool.name, number)
        for request in requests
        for pool in pools.pools_for(request)
        for number in pool.clusters_for(request)
    )


def slots_in(layout: Layout, spread: Spread) -> tuple[Numbers, Numbers]:
    """Return the slots of a spread's nodes in this layout, and the number of tasks on each."""
    nodes, tasks = np.asarray(spread.nodes, dtype=np.int64), np.asarray(spread.tasks, dtype=np.int64)
    is_known = nodes < len(layout.slot_of)
    slots, tasks = layout.slot_of[nodes[is_known]], tasks[is_known]
    is_mine = slots != NO_NODE
    return slots[is_mine], tasks[is_mine]
