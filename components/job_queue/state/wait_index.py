"""Estimated starts: the GPUs that other workloads get first, and the rate at which GPUs come free.

Work ahead in the order counts only if no wider: a wide waiting gang keeps no workload from free GPUs that are too
few for the gang, and few nodes are reserved for such gangs (components/job_queue/reservations.py).

Sums by GPU type, level and width are updated with each fact, so that an estimate takes one step for each sum, however much work
waits. Missing GPUs become a span in core/estimating/waits.py, with a band from the outcomes of earlier estimates
(core/estimating/bands.py). A promised start is no estimate, and is shown in place of one.
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
"""Node types as a job names them; a task may run on each."""
Size = int
"""Width of a whole workload, as a class of similar GPU counts (core/estimating/run_times.py `size_of`)."""
Wanted = tuple[Types, int, Size]
"""Node types, level and width of waiting work."""
Ahead = Mapping[tuple[Types, Size], int]
"""GPU milli that other workloads get first, by their node types and width."""


class Share(Struct, frozen=True):
    """Part of a sum that one workload adds: waiting at a level, or in a region by an active award."""

    types: Types
    gpu_milli: int
    level: int
    """The level asked for while the workload waits, or the level of the active award."""
    tenant: TenantName
    size: Size = 0
    region: RegionName = RegionName("")


Asked = tuple[WorkloadSpec, int, RegionName, bool]
"""Spec, level and region of a workload, and whether the workload waits: the shares follow from these."""
NOTHING_NOTED: tuple[None, tuple[Share, ...]] = (None, ())


class WaitIndex:
    """GPUs that work waits for, and GPUs that are held or awarded. An index, derived from the image."""

    def __init__(self) -> None:
        self._noted: dict[WorkloadId, tuple[Asked | None, tuple[Share, ...]]] = {}
        self.waiting: dict[Wanted, int] = {}
        """GPU milli of waiting work by node types, level and width."""
        self.by_tenant: dict[TenantName, dict[Wanted, int]] = {}
        """GPU milli of waiting work by tenant, and as in `waiting`."""
        self.standing: dict[tuple[RegionName, Types, bool], int] = {}
        """GPU milli of active awards by region, node types and whether borrowing: nominal work could preempt borrowing work."""
        self.counts: dict[int, int] = {}
        """Number of waiting workloads by level."""
        self._capped: dict[Wanted, int] = {}
        """A memo: the part of `by_tenant` that can be ahead of other work, summed over tenants."""
        self._capped_of: dict[TenantName, dict[Wanted, int]] = {}
        """The part of each tenant, as counted in `_capped`."""
        self._stale: dict[TenantName, None] = {}
        """Tenants with a part that must be counted again."""

    def note(self, workload: WorkloadId, row: WorkloadRow, level: int, *, is_waiting: bool) -> None:
        """Replace the shares of a workload."""
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
        """Return the number of workloads that wait at this level or a higher one."""
        return sum(count for of, count in self.counts.items() if of >= level)

    def waiting_from(self, level: int) -> Ahead:
        """Return the GPU milli of work that waits at this level or a higher one."""
        return _from(self.waiting, level)

    def capped_from(self, level: int, most: Callable[[TenantName, int, Types], int]) -> Ahead:
        """Return `waiting_from` without work that exceeds its tenant's quota, where the widest work is left out first.

        Narrow work fills a quota sooner than wide work finds capacity. Costs a step for each tenant that was renewed since.

        most   GPU milli that a tenant's work of one level and types can hold ahead of others, given its quota; constant until
               `renew` is called for the tenant
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
        """Count a tenant's part again at the next use: the headroom of the quota may have changed."""
        self._stale[tenant] = None

    def forget_tenant(self, tenant: TenantName) -> None:
        """Forget that a tenant without waiting work was renewed."""
        if tenant not in self._capped_of:
            self._stale.pop(tenant, None)

    def forget_memos(self) -> None:
        """Drop the sums of `capped_from`; the next call counts all tenants again."""
        self._capped, self._capped_of = {}, {}
        self._stale = dict.fromkeys(self.by_tenant)

    def wanted_by(self, tenant: TenantName, level: int) -> dict[str, int]:
        """Return the GPU milli by GPU type that a tenant's work waits for, at this level or a higher one.

        Work that may run on several types counts for the first of these.
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
    """Estimates at one moment, for any number of workloads; results that they share are computed once."""

    def __init__(
        self, image: GlobalImage, regions: Mapping[RegionName, RegionImage], index: WaitIndex, now: Instant
    ) -> None:
        """regions   the known and heard regions"""
        self._image, self._regions, self._index, self._now = image, regions, index, now
        self._hardware: dict[str, int] = {}
        """GPU milli by node type, over all these regions."""
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
        """Return the estimated start of a workload, if there is a region that could hold the workload.

        where      regions that could hold the workload if they were empty
        ahead      GPU milli of work ahead in the order
        is_within  whether the workload is nominal, and so could preempt borrowing work
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
        # Free GPUs must suffice for work ahead too, and the workload's own need must come free in one region.
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
        # The regions in `where` have their share, by capacity, of the GPUs that come free in the whole fleet.
        rate = rate_of(lately, expected, everywhere) * capacity // max(1, everywhere)
        return _Supply(sum(free), max(free), max(1, rate))

    def _types(self, types: Types) -> frozenset[str]:
        """Return the node types of the regions on which a job that names these types may run."""
        found = self._of.get(types)
        if found is None:
            found = self._of[types] = frozenset(
                node_type for node_type in self._hardware if will_do(node_type, types, is_for_gpus=True)
            )
        return found

    def _part(self, theirs: Types, mine: Types, amount: int) -> int:
        """Return the part of an amount on any of `theirs` that lies on one of `mine`, in proportion to the hardware."""
        found = self._parts.get((theirs, mine))
        if found is None:
            other = self._types(theirs)
            both = sum(self._hardware[node_type] for node_type in sorted(other & self._types(mine)))
            whole = sum(self._hardware[node_type] for node_type in sorted(other))
            found = self._parts[theirs, mine] = both, max(1, whole)
        both, whole = found
        return amount if both == whole else amount * both // whole


class _Supply(Struct, frozen=True):
    """Free GPU milli of some types in some regions, and the rate at which GPUs come free there."""

    free: int
    free_in_one: int
    """Free GPU milli in the region with the most."""
    rate: int
    """Millionths of a GPU an hour."""


def types_of(spec: WorkloadSpec) -> Types:
    """Return the node types of a workload's first job with GPUs, or of the first job if no job has GPUs."""
    first = next((job for job in spec.jobs if job.need.gpu_milli), spec.jobs[0])
    return first.node_types


def amounts_of(spec: WorkloadSpec) -> Iterable[tuple[Types, int]]:
    """Return each job's node types and the GPU milli of all its tasks."""
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
    """Add an amount to a sum, and drop a sum of zero."""
    left = sums.get(key, 0) + amount
    if left:
        sums[key] = left
    else:
        sums.pop(key, None)
