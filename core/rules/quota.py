"""Workloads against their tenants' entitlements: the quota that each workload needs, and the awards that are within quota.

A GPU type is under quota from the first entitlement that is set for the type. Before, all work on the type is nominal: a plane
without entitlements serves all tenants by level and credit alone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice, product

from msgspec import Struct
from msgspec.structs import replace

from core.images.queue import WorkloadRow
from core.images.region import Hardware
from core.images.tenants import TenantRow, Tenants
from core.images.usage import GPU_HOUR, Usage
from core.nouns.fleet import ANY_TYPE, CPU_TYPE, gpu_type_of
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import Instant
from core.nouns.limits import QUOTA_ALTERNATIVES_MAX
from core.nouns.placement import Spread
from core.nouns.pool import shared_name
from core.nouns.quantities import MILLI
from core.nouns.ranking import DEFAULT_RANKING, RankingSettings
from core.nouns.tenant import LEVEL_MAX, OVER_LEVEL, UNLIMITED, TenantSettings
from core.nouns.workload import JobSpec, Kind, WorkloadSpec
from core.ranking.lane import FAR
from core.ranking.scan import LOWEST, QuotaHold
from core.sharing.classes import gpus_of

UNNAMED_LEVEL = TenantSettings().level
"""The level of a workload that names no level, of a tenant that no operator created."""

Amounts = Mapping[str, int]
"""GPU milli by type."""
Narrowing = tuple[tuple[str, ...], ...]
"""For each job, the GPU types to which the job is restricted; empty: those that the job names."""


def types_under_quota(tenants: Tenants) -> frozenset[str]:
    """Return the GPU types to which some tenant has an entitlement, be it to 0 GPUs."""
    return frozenset(kind for row in tenants.rows.values() for kind in row.entitlements)


def settings_of(tenants: Tenants, tenant: TenantName) -> TenantSettings:
    """Return a tenant's settings; defaults for an unknown tenant, with the highest level as long as there are no tenants."""
    row = tenants.rows.get(tenant)
    if row is not None:
        return row.settings
    return TenantSettings() if tenants.rows else TenantSettings(level=LEVEL_MAX)


def level_asked(spec: WorkloadSpec, tenants: Tenants) -> int:
    """Return a workload's level within quota: the requested one, or else the tenant's; never above the tenant's."""
    level = settings_of(tenants, spec.tenant).level
    if spec.priority is not None:
        return min(spec.priority, level)
    return level if spec.tenant in tenants.rows else min(UNNAMED_LEVEL, level)


def has_spent(tenant: TenantName, tenants: Tenants, usage: Usage, now: Instant) -> bool:
    """Return whether a tenant's GPU-hours of this period are used up."""
    row, used = tenants.rows.get(tenant), usage.rows.get(tenant)
    if row is None or row.budget is None or used is None:
        return False
    return used.used_at(now) >= row.budget.gpu_hours * GPU_HOUR


def level_of(row: WorkloadRow, tenants: Tenants) -> int:
    """Return the level within quota that a workload stands at or waits for; in a shared pool, that of its pick."""
    if row.spec.kind is Kind.SHARED:
        return _level_of_pick(row.spec) if row.is_wide else LOWEST
    return level_asked(row.spec, tenants)


def _level_of_pick(spec: WorkloadSpec) -> int:
    """Return the level of a job of a shared pool: one more for each doubling of the GPUs that it needs on one node.

    So such a job pushes out narrower ones in its way; these find room beside, as all picks fit their column.
    """
    (job,) = spec.jobs
    return min(LOWEST + (job.need.gpu_milli * job.tasks_together // MILLI).bit_length() - 1, LEVEL_MAX)


def needs_of(spec: WorkloadSpec, quota: frozenset[str], fleet: Sequence[str]) -> tuple[Amounts, ...]:
    """Return the amounts that a workload would take of quotas, by accepted combination of GPU types, the preferred one first.

    fleet   the GPU types of the fleet: those for which `any` stands
    """
    if not quota or spec.kind is Kind.SHARED:
        return ({},)
    found: dict[tuple[tuple[str, int], ...], Amounts] = {}
    for chosen in _combinations(spec.jobs, fleet):
        amounts = _needed(spec.jobs, chosen, quota)
        found.setdefault(tuple(sorted(amounts.items())), amounts)
    return tuple(found.values())


def types_of(job: JobSpec, fleet: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the GPU types that a job accepts; for a job of any type all GPU types of the fleet, or `any` if none is known."""
    if job.gpu_type != ANY_TYPE:
        return (job.gpu_type, *job.or_types)
    return tuple(kind for kind in fleet if kind != CPU_TYPE) or (ANY_TYPE,)


def narrowing(
    jobs: Sequence[JobSpec],
    quota: frozenset[str],
    fleet: Sequence[str],
    has_capacity: Callable[[Amounts], bool],
) -> Narrowing:
    """Return the GPU types to which jobs are restricted, so that the quota has headroom on each placement; empty: no restriction.

    One job with a choice keeps all types with headroom; several such jobs are restricted to the first combination with headroom,
    because not every type of one goes with every type of another. If no combination has headroom, there is no restriction.
    """
    if not quota or all(_is_fixed(job) for job in jobs):
        return ()
    all_of_them = _combinations(jobs, fleet)
    fit = [chosen for chosen in all_of_them if has_capacity(_needed(jobs, chosen, quota))]
    if len(fit) in (0, len(all_of_them)):
        return ()
    if sum(not _is_fixed(job) for job in jobs) > 1:
        fit = fit[:1]
    columns = [tuple(dict.fromkeys(column)) for column in zip(*fit, strict=True)]
    return tuple(() if _is_fixed(job) else column for job, column in zip(jobs, columns, strict=True))


def narrowed(jobs: tuple[JobSpec, ...], types: Narrowing) -> tuple[JobSpec, ...]:
    """Return the jobs, each restricted to these types."""
    if not types:
        return jobs
    return tuple(
        replace(job, gpu_type=mine[0], or_types=mine[1:]) if mine else job
        for job, mine in zip(jobs, types, strict=True)
    )


def _is_fixed(job: JobSpec) -> bool:
    return job.has_one_type or not job.need.gpu_milli


def _combinations(jobs: Sequence[JobSpec], fleet: Sequence[str]) -> list[tuple[str, ...]]:
    choices = [(job.gpu_type,) if _is_fixed(job) else types_of(job, fleet) for job in jobs]
    return list(islice(product(*choices), QUOTA_ALTERNATIVES_MAX))


def _needed(jobs: Sequence[JobSpec], chosen: Sequence[str], quota: frozenset[str]) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for job, kind in zip(jobs, chosen, strict=True):
        amount = job.need.gpu_milli * job.tasks
        if kind in quota and amount:
            amounts[kind] = amounts.get(kind, 0) + amount
    return amounts


def held_on(
    spec: WorkloadSpec, spreads: Sequence[Spread], hardware: Hardware, *, has_pairs: bool = False
) -> dict[str, int]:
    """Return the GPU milli that tasks hold, by GPU type, without zeros. All tasks of a job are on nodes of one type.

    GPUs of a shared pool have a name of their own (`shared_name`), which is no type under quota. Where two jobs may share a GPU there,
    a job of one GPU holds half of it, alone or not.
    """
    is_half = has_pairs and spec.kind is Kind.SHARED and gpus_of(spec) == spec.jobs[0].tasks == 1
    found: dict[str, int] = {}
    for job, spread in zip(spec.jobs, spreads, strict=True):
        amount = job.need.gpu_milli * sum(spread.tasks) // (2 if is_half else 1)
        if amount:
            one = job.gpu_type if job.has_one_type else ""
            kind = one or gpu_type_of(hardware.type_of(spread.nodes[0]))[0]
            name = shared_name(kind) if spec.kind is Kind.SHARED else kind
            found[name] = found.get(name, 0) + amount
    return found


def entitled_to(row: TenantRow | None, quota: frozenset[str]) -> dict[str, int]:
    """Return the GPU milli by type that a tenant may hold within quota."""
    return {kind: row.of(kind).gpus * MILLI if row is not None else 0 for kind in sorted(quota)}


def borrowed_max(row: TenantRow | None, quota: frozenset[str]) -> dict[str, int] | None:
    """Return the GPU milli by type that a tenant may hold beyond its quota; None: no limit on any type."""
    if row is None or all(one.borrow_max == UNLIMITED for one in row.entitlements.values()):
        return None
    limits = {kind: row.of(kind).borrow_max for kind in quota}
    return {kind: FAR if most == UNLIMITED else most * MILLI for kind, most in limits.items()}


class Running(Struct, frozen=True):
    """An active award."""

    workload: WorkloadId
    number: int
    """The number of the award in the queue's log: smaller for an older award."""
    asked: int
    """The level that the award has within quota."""
    level: int
    """The present level; `OVER_LEVEL` over quota."""
    held: Amounts
    """GPU milli by type, of all types."""
    submitted: int = 0
    """The number of the workload's submission."""

    @property
    def is_over(self) -> bool:
        """Return whether the award is over quota."""
        return self.level == OVER_LEVEL

    @property
    def place(self) -> tuple[bool, int, int]:
        """Return the sort key among awards of one level: a smaller one is ahead."""
        return self.is_over, self.submitted if self.is_over else 0, self.number


def reclassify(
    running: Iterable[Running],
    entitled: Amounts,
    quota: frozenset[str],
    ranking: RankingSettings = DEFAULT_RANKING,
    *,
    is_spent: bool,
    kept: Sequence[QuotaHold] = (),
) -> dict[WorkloadId, int]:
    """Return the new levels of those of one tenant's awards that must change.

    From the highest level down, each award takes quota; at one level, first the awards that are nominal already, then the others
    in order of submission. So no award changes without need, and borrowing awards are promoted as soon as the quota has headroom.
    Over a spent budget, all awards with GPUs are over quota. By the paper's rules levels are ignored, and awards over quota fill
    the quota, too, so that no award is promoted before all of them fit.

    kept   quota holds of waiting workloads: awards behind one in the tenant's line are not promoted into the quota that it holds
    """
    every = list(running)
    taken: dict[str, int] = {}
    borrowed: dict[str, int] = {}
    for one in every if ranking.counts_borrowed else ():
        if one.is_over:
            _add(borrowed, one.held, 1)
    changed: dict[WorkloadId, int] = {}
    by_level = ranking.walks_by_level
    for one in sorted(every, key=lambda one: (-one.asked if by_level else 0, *one.place)):
        beside = dict(taken)
        if one.is_over:
            _add(beside, borrowed, 1)
            _add(beside, one.held if ranking.counts_borrowed else {}, -1)
            _add(beside, kept_before(kept, one.asked if by_level else LOWEST, one.submitted), 1)
        fits = all(
            beside.get(kind, 0) + count <= entitled.get(kind, 0)
            for kind, count in one.held.items()
            if kind in quota
        )
        level = one.asked if fits and not (is_spent and one.held) else OVER_LEVEL
        if level != OVER_LEVEL:
            _add(taken, one.held, 1)
        if ranking.counts_borrowed and one.is_over is not (level == OVER_LEVEL):
            _add(borrowed, one.held, 1 if level == OVER_LEVEL else -1)
        if level != one.level:
            changed[one.workload] = level
    return changed


def kept_before(kept: Sequence[QuotaHold], level: int, number: int) -> Amounts:
    """Return the quota, GPU milli by type, held against work of this level (0 where levels do not matter) and submission number."""
    found: dict[str, int] = {}
    for one in kept:
        if one.is_ahead_of(level, number):
            _add(found, one.need, 1)
    return found


def _add(total: dict[str, int], amounts: Amounts, sign: int) -> None:
    for kind, count in amounts.items():
        total[kind] = total.get(kind, 0) + sign * count


def may_be_over(kind: Kind) -> bool:
    """Return whether work of this kind may borrow: work that is never preempted could not be reclaimed."""
    return kind is not Kind.INTERACTIVE
