"""When workloads will start, as the queue estimates it: how many GPUs others are to have first, and how fast they come free.

First come those ahead in the order that are no wider: a wide gang that waits keeps nobody from what is free and too little for it,
and nodes that are kept for it are few (components/job_queue/reservations.py).

Sums by GPU type, level and width are kept from fact to fact, so that an estimate takes as many steps as there are of these, however
much waits. What is missing becomes a span in core/estimating/waits.py, and gets its band from what came of earlier ones
(core/estimating/bands.py). A start that was promised is no estimate: whoever shows both shows the promise.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from msgspec import Struct

from core.estimating.bands import Reach, StartEstimate, estimate_of, group_of
from core.estimating.run_times import size_of
from core.estimating.waits import rate_of, span_until
from core.images import GlobalImage, RegionImage
from core.images.queue import WorkloadRow
from core.nouns.fleet import gpu_type_of, will_do
from core.nouns.ids import RegionName, TenantName, WorkloadId
from core.nouns.instant import Instant
from core.nouns.placement import gpu_milli_of
from core.nouns.tenant import OVER_LEVEL
from core.nouns.workload import WorkloadSpec

Types = tuple[str, ...]
"""Node types of which each will do, as a job names them."""
Size = int
"""Of a whole workload, in classes of like GPU counts (core/estimating/run_times.py `size_of`)."""
Wanted = tuple[Types, int, Size]
"""What is waited for, at which level, and how wide who waits for it is."""
Ahead = Mapping[tuple[Types, Size], int]
"""GPU milli that others are to have first, by what they asked for and how wide they are."""


class Share(Struct, frozen=True):
    """What one workload adds to a sum: it waits at a level, or it stands in a region."""

    types: Types
    gpu_milli: int
    level: int
    """The one that it asks for while it waits, the one that it has while it stands."""
    tenant: TenantName
    size: Size = 0
    region: RegionName = RegionName("")


Asked = tuple[WorkloadSpec, int, RegionName, bool]
"""From what a workload's shares follow: its spec, level and region, and whether it waits."""
NOTHING_NOTED: tuple[None, tuple[Share, ...]] = (None, ())


class WaitIndex:
    """GPUs that are waited for, and GPUs that are held or awarded. An index: it follows from the image."""

    def __init__(self) -> None:
        self._noted: dict[WorkloadId, tuple[Asked | None, tuple[Share, ...]]] = {}
        self.waiting: dict[Wanted, int] = {}
        """GPU milli that waits, by what was asked for, level and width."""
        self.by_tenant: dict[TenantName, dict[Wanted, int]] = {}
        """The same of each tenant."""
        self.standing: dict[tuple[RegionName, Types, bool], int] = {}
        """GPU milli of standing awards, and whether they are over quota: who is within could push these out."""
        self.counts: dict[int, int] = {}
        """Workloads that wait, by level."""
        self._capped: dict[Wanted, int] = {}
        """A memo: of `by_tenant` what can be ahead of others, in all."""
        self._capped_of: dict[TenantName, dict[Wanted, int]] = {}
        """Of each tenant, and as it was counted in all."""
        self._stale: dict[TenantName, None] = {}
        """Tenants of whom it may be another by now."""

    def note(self, workload: WorkloadId, row: WorkloadRow, level: int, *, is_waiting: bool) -> None:
        """What it adds now, in place of what it added before."""
        region = row.region if row.is_active else RegionName("")
        asked = (row.spec, level, region, is_waiting)
        asked_before, before = self._noted.pop(workload, NOTHING_NOTED)
        if asked == asked_before:
            self._noted[workload] = asked, before
            return
        for share in before:
            self._add(share, -1)
        self._count(before, -1)
        if is_waiting or region:
            shares = _shares_of(row, level, region)
            for share in shares:
                self._add(share, 1)
            self._count(shares, 1)
            self._noted[workload] = asked, shares

    def ahead_of(self, level: int) -> int:
        """How many workloads wait at this level or a higher one."""
        return sum(count for of, count in self.counts.items() if of >= level)

    def waiting_from(self, level: int) -> Ahead:
        """GPU milli that is waited for at this level or a higher one."""
        return _from(self.waiting, level)

    def capped_from(self, level: int, most: Callable[[TenantName, int, Types], int]) -> Ahead:
        """The same without what is over a tenant's quota; of that the widest is left out first, for narrow work fills a quota sooner than
        wide work finds room. Costs a step for each that was renewed since.

        most   of a tenant's work at a level: what can be ahead, for its quota has no more room; the same until it is renewed
        """
        for tenant in self._stale:
            for wanted, gpu_milli in self._capped_of.pop(tenant, {}).items():
                _sum_up(self._capped, wanted, -gpu_milli)
            mine: dict[Wanted, int] = {}
            left: dict[tuple[Types, int], int] = {}
            for (types, of, size), gpu_milli in sorted(
                self.by_tenant.get(tenant, {}).items(), key=lambda one: one[0][2]
            ):
                room = left.setdefault((types, of), most(tenant, of, types))
                mine[types, of, size] = min(gpu_milli, room)
                left[types, of] = room - mine[types, of, size]
            for wanted, gpu_milli in mine.items():
                _sum_up(self._capped, wanted, gpu_milli)
            if mine:
                self._capped_of[tenant] = mine
        self._stale.clear()
        return _from(self._capped, level)

    def renew(self, tenant: TenantName) -> None:
        """Its quota may have other room."""
        self._stale[tenant] = None

    def forget_memos(self) -> None:
        """What can be ahead of others is worked out anew."""
        self._capped, self._capped_of = {}, {}
        self._stale = dict.fromkeys(self.by_tenant)

    def wanted_by(self, tenant: TenantName, level: int) -> dict[str, int]:
        """GPU milli by type that one tenant's work waits for, at this level or a higher one; of what any of several types will do,
        of the first.
        """
        found: dict[str, int] = {}
        for (types, of, _), gpu_milli in self.by_tenant.get(tenant, {}).items():
            if of >= level:
                _sum_up(found, gpu_type_of(types[0])[0], gpu_milli)
        return found

    def _add(self, share: Share, sign: int) -> None:
        if share.region:
            key = (share.region, share.types, share.level == OVER_LEVEL)
            _sum_up(self.standing, key, sign * share.gpu_milli)
            return
        wanted, gpu_milli = (share.types, share.level, share.size), sign * share.gpu_milli
        mine = self.by_tenant.setdefault(share.tenant, {})
        _sum_up(self.waiting, wanted, gpu_milli)
        _sum_up(mine, wanted, gpu_milli)
        if not mine:
            del self.by_tenant[share.tenant]
        self._stale[share.tenant] = None

    def _count(self, shares: tuple[Share, ...], sign: int) -> None:
        if shares and not shares[0].region:
            _sum_up(self.counts, shares[0].level, sign)


class Estimator:
    """Estimates at one moment, for any number of workloads: what they have in common is worked out once."""

    def __init__(
        self, image: GlobalImage, regions: Mapping[RegionName, RegionImage], index: WaitIndex, now: Instant
    ) -> None:
        """regions   those that are known and heard"""
        self._image, self._regions, self._index, self._now = image, regions, index, now
        self._hardware: dict[str, int] = {}
        """GPU milli by node type, in all of these regions."""
        for region in regions.values():
            for node_type, row in region.hardware.rows.items():
                _sum_up(self._hardware, node_type, row.gpu_milli)
        self._of: dict[Types, frozenset[str]] = {}
        self._parts: dict[tuple[Types, Types], tuple[int, int]] = {}
        self._reaches: dict[str, Reach] = {}
        self._supplies: dict[tuple[Types, tuple[RegionName, ...], bool], _Supply] = {}

    def of(
        self,
        spec: WorkloadSpec,
        where: tuple[RegionName, ...],
        ahead: Ahead,
        *,
        is_within: bool = False,
    ) -> StartEstimate | None:
        """When it would start.

        where    regions that could hold it, were they empty; none: nothing can be said
        ahead    of it in the order
        is_within    whether it could push out what is over quota
        """
        if not where:
            return None
        types, gpu_milli = types_of(spec), gpu_milli_of(spec.jobs)
        supply = self._supplies.get((types, where, is_within))
        if supply is None:
            supply = self._supply(types, where, is_within=is_within)
            self._supplies[types, where, is_within] = supply
        size = size_of(gpu_milli)
        theirs = sum(self._part(other, types, amount) for (other, of), amount in ahead.items() if of <= size)
        # All that is free must do for those ahead too; and what it needs itself must come free in one region.
        missing = max(theirs + gpu_milli - supply.free, gpu_milli - supply.free_in_one)
        span = span_until(missing if gpu_milli else 0, supply.rate)
        name = group_of(span, gpu_milli)
        reach = self._reaches.get(name)
        if reach is None:
            reach = self._reaches[name] = self._image.starts.bands.reach(name)
        return estimate_of(span, name, reach)

    def _supply(self, types: Types, where: tuple[RegionName, ...], *, is_within: bool) -> "_Supply":
        mine = self._types(types)
        held = dict.fromkeys(where, 0)
        for (region, other, is_over), amount in self._index.standing.items():
            if region in held and not (is_over and is_within):
                held[region] += self._part(other, types, amount)
        capacity, free = 0, []
        for name in where:
            rows = self._regions[name].hardware.rows
            here = sum(row.gpu_milli for node_type, row in rows.items() if node_type in mine)
            capacity += here
            free.append(max(0, here - held[name]))
        everywhere = sum(self._hardware[node_type] for node_type in sorted(mine))
        flows = self._image.history.flows
        lately = expected = 0
        for key, flow in flows.items():
            others = tuple(key.split("|"))
            lately += self._part(others, types, flow.lately(self._now))
            expected += self._part(others, types, flow.expected)
        # Of what comes free in the whole fleet, the regions in which it may run have their part.
        rate = rate_of(lately, expected, everywhere) * capacity // max(1, everywhere)
        return _Supply(sum(free), max(free), max(1, rate))

    def _types(self, types: Types) -> frozenset[str]:
        """Node types of this fleet that are meant."""
        found = self._of.get(types)
        if found is None:
            found = self._of[types] = frozenset(
                node_type for node_type in self._hardware if will_do(node_type, types, is_for_gpus=True)
            )
        return found

    def _part(self, theirs: Types, mine: Types, amount: int) -> int:
        """Of an amount that may be of any of their types, what is of one of mine: as much as of these types there is."""
        found = self._parts.get((theirs, mine))
        if found is None:
            other = self._types(theirs)
            both = sum(self._hardware[node_type] for node_type in sorted(other & self._types(mine)))
            whole = sum(self._hardware[node_type] for node_type in sorted(other))
            found = self._parts[theirs, mine] = both, max(1, whole)
        both, whole = found
        return amount if both == whole else amount * both // whole


class _Supply(Struct, frozen=True):
    """GPU milli of some types in some regions."""

    free: int
    free_in_one: int
    """In the region that has most."""
    rate: int
    """Millionths of a GPU an hour."""


def types_of(spec: WorkloadSpec) -> Types:
    """What it waits for: whatever the first of its jobs that has GPUs asks for."""
    first = next((job for job in spec.jobs if job.need.gpu_milli), spec.jobs[0])
    return first.node_types


def amounts_of(spec: WorkloadSpec) -> Iterable[tuple[Types, int]]:
    """GPU milli that it needs, by what its jobs ask for."""
    return [(job.node_types, job.need.gpu_milli * job.tasks) for job in spec.jobs]


def _shares_of(row: WorkloadRow, level: int, region: RegionName) -> tuple[Share, ...]:
    tenant, size = row.spec.tenant, size_of(gpu_milli_of(row.spec.jobs))
    return tuple(
        Share(types, gpu_milli, level, tenant, size, region) for types, gpu_milli in amounts_of(row.spec)
    )


def _from(sums: Mapping[Wanted, int], level: int) -> Ahead:
    found: dict[tuple[Types, Size], int] = {}
    for (types, of, size), gpu_milli in sums.items():
        if of >= level:
            found[types, size] = found.get((types, size), 0) + gpu_milli
    return found


Key = TypeVar("Key")


def _sum_up(sums: dict[Key, int], key: Key, amount: int) -> None:
    """No zeros are kept."""
    left = sums.get(key, 0) + amount
    if left:
        sums[key] = left
    else:
        sums.pop(key, None)
