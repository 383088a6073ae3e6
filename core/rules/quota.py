"""How workloads stand to their tenants' entitlements: what each needs of which quota, and who that runs is within.

A GPU type is under quota from the first entitlement that somebody sets for it. Before, whatever runs on it is within quota: a
plane of which nobody is entitled to anything serves everybody by level and credit alone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice, product

from msgspec import Struct
from msgspec.structs import replace

from core.images.region import Hardware
from core.images.tenants import TenantRow, Tenants
from core.nouns.fleet import ANY_TYPE, CPU_TYPE, gpu_type_of
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.limits import QUOTA_ALTERNATIVES_MAX
from core.nouns.placement import Spread
from core.nouns.quantities import MILLI
from core.nouns.ranking import DEFAULT_RANKING, RankingSettings
from core.nouns.tenant import LEVEL_MAX, OVER_LEVEL, UNLIMITED, TenantSettings
from core.nouns.workload import JobSpec, Kind, WorkloadSpec
from core.ranking.lane import FAR
from core.ranking.scan import LOWEST, QuotaHold

UNNAMED_LEVEL = TenantSettings().level
"""Of a workload that names none, of a tenant that nobody made."""

Amounts = Mapping[str, int]
"""GPU milli by type."""
Narrowing = tuple[tuple[str, ...], ...]
"""For each job the GPU types to which it is held; none: those that it names."""


def types_under_quota(tenants: Tenants) -> frozenset[str]:
    """GPU types of which somebody is entitled to some, or to nothing."""
    return frozenset(kind for row in tenants.rows.values() for kind in row.entitlements)


def settings_of(tenants: Tenants, tenant: TenantName) -> TenantSettings:
    """A tenant's; where operators made none at all, nobody is held to a level."""
    row = tenants.rows.get(tenant)
    if row is not None:
        return row.settings
    return TenantSettings() if tenants.rows else TenantSettings(level=LEVEL_MAX)


def level_asked(spec: WorkloadSpec, tenants: Tenants) -> int:
    """The level that a workload has within quota: its own, and never above its tenant's."""
    level = settings_of(tenants, spec.tenant).level
    if spec.priority is not None:
        return min(spec.priority, level)
    return level if spec.tenant in tenants.rows else min(UNNAMED_LEVEL, level)


def needs_of(spec: WorkloadSpec, quota: frozenset[str], fleet: Sequence[str]) -> tuple[Amounts, ...]:
    """What it would take of quotas, on each combination of the GPU types that will do for its jobs, the best liked first.

    fleet   the GPU types that there are: what `any` stands for
    """
    if not quota:
        return ({},)
    found: dict[tuple[tuple[str, int], ...], Amounts] = {}
    for chosen in _combinations(spec.jobs, fleet):
        amounts = _needed(spec.jobs, chosen, quota)
        found.setdefault(tuple(sorted(amounts.items())), amounts)
    return tuple(found.values())


def types_of(job: JobSpec, fleet: Sequence[str]) -> tuple[str, ...]:
    """The GPU types that will do for a job, by name."""
    if job.gpu_type != ANY_TYPE:
        return (job.gpu_type, *job.or_types)
    return tuple(kind for kind in fleet if kind != CPU_TYPE) or (ANY_TYPE,)


def narrowing(
    jobs: Sequence[JobSpec],
    quota: frozenset[str],
    fleet: Sequence[str],
    has_room: Callable[[Amounts], bool],
) -> Narrowing:
    """To which GPU types jobs are held, so that there is room in the quota wherever they are placed; empty: to all that will do.

    Where one job has a choice it keeps all types with room; where several have, they are held to the first combination with room,
    for not every type of one goes with every type of another.
    """
    if not quota or all(_is_fixed(job) for job in jobs):
        return ()
    all_of_them = _combinations(jobs, fleet)
    fit = [chosen for chosen in all_of_them if has_room(_needed(jobs, chosen, quota))]
    if len(fit) in (0, len(all_of_them)):
        return ()
    if sum(not _is_fixed(job) for job in jobs) > 1:
        fit = fit[:1]
    columns = [tuple(dict.fromkeys(column)) for column in zip(*fit, strict=True)]
    return tuple(() if _is_fixed(job) else column for job, column in zip(jobs, columns, strict=True))


def narrowed(jobs: tuple[JobSpec, ...], types: Narrowing) -> tuple[JobSpec, ...]:
    """The same jobs, each held to these types alone."""
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


def held_on(jobs: Sequence[JobSpec], spreads: Sequence[Spread], hardware: Hardware) -> dict[str, int]:
    """What tasks hold, by GPU type: all of a job are on nodes of one. No zeros."""
    found: dict[str, int] = {}
    for job, spread in zip(jobs, spreads, strict=True):
        amount = job.need.gpu_milli * sum(spread.tasks)
        if amount:
            one = job.gpu_type if job.has_one_type else ""
            kind = one or gpu_type_of(hardware.type_of(spread.nodes[0]))[0]
            found[kind] = found.get(kind, 0) + amount
    return found


def entitled_to(row: TenantRow | None, quota: frozenset[str]) -> dict[str, int]:
    """What a tenant may hold within quota."""
    return {kind: row.of(kind).gpus * MILLI if row is not None else 0 for kind in sorted(quota)}


def borrowed_max(row: TenantRow | None, quota: frozenset[str]) -> dict[str, int] | None:
    """What it may hold besides; None: whatever there is, of all types."""
    if row is None or all(one.borrow_max == UNLIMITED for one in row.entitlements.values()):
        return None
    limits = {kind: row.of(kind).borrow_max for kind in quota}
    return {kind: FAR if most == UNLIMITED else most * MILLI for kind, most in limits.items()}


class Running(Struct, frozen=True):
    """A standing award."""

    workload: WorkloadId
    number: int
    """Of its award in the queue's log: the older is the smaller."""
    asked: int
    """The level that it has within quota."""
    level: int
    """The one that it has; `OVER_LEVEL` over quota."""
    held: Amounts
    """Of all types."""
    submitted: int = 0
    """The number of its submission."""

    @property
    def is_over(self) -> bool:
        """Whether it is over quota."""
        return self.level == OVER_LEVEL

    @property
    def place(self) -> tuple[bool, int, int]:
        """Among those of its level, a smaller one ahead."""
        return self.is_over, self.submitted if self.is_over else 0, self.number


def stand_anew(
    running: Iterable[Running],
    entitled: Amounts,
    quota: frozenset[str],
    ranking: RankingSettings = DEFAULT_RANKING,
    *,
    is_spent: bool,
    kept: Sequence[QuotaHold] = (),
) -> dict[WorkloadId, int]:
    """The levels of one tenant's awards whose standing must be another.

    From the highest level down each takes of the quota; of one level first those that are within it already, and then whoever was
    submitted first. So nothing changes that need not, and whoever is over quota moves up as soon as there is room. Over a spent
    budget all that takes GPUs is over quota. By the paper's rules levels do not matter, and what is over quota fills the quota
    too, so that nothing moves up before all of it fits.

    kept   of the quota, for who waits: from that nothing moves up that stands behind it in its tenant's line
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
    """What of a quota is kept from work of that level (0 where levels do not matter), submitted as that number."""
    found: dict[str, int] = {}
    for one in kept:
        if one.is_ahead_of(level, number):
            _add(found, one.need, 1)
    return found


def _add(total: dict[str, int], amounts: Amounts, sign: int) -> None:
    for kind, count in amounts.items():
        total[kind] = total.get(kind, 0) + sign * count


def may_be_over(kind: Kind) -> bool:
    """Whether work of this kind is lent what others leave: what is never pushed out could not be given back."""
    return kind is not Kind.INTERACTIVE
