"""The order of everything that waits, worked out anew: sorted by credit, walked against the quotas. The reference.

`core/ranking/incremental.py` keeps the same order from event to event.

source    MAST §4.2; over-quota work also stands behind work within quota that has the lowest level itself, a tenant may have a
          borrowing limit, and what it holds at a lower level takes nothing from its work of a higher one: none of these is in
          the paper, whose rule `RankingSettings` has too. With nobody at level 0, no limit and one level a tenant nothing differs
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from types import MappingProxyType

from msgspec import Struct

from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import Instant
from core.nouns.ranking import CreditSettings
from core.ranking.credit import age_credit, lag_credit, share_credit

LOWEST = 0
"""The level of work that is over quota, whatever its tenant's."""
NONE: Mapping[str, int] = MappingProxyType({})


Band = tuple[int, "Standing"]
"""Level negated, and standing: a smaller one is ahead."""
Group = tuple[Band, str]
"""A band and a shape."""


class Standing(IntEnum):
    """How a workload stands to its tenant's entitlement; a smaller one is ahead."""

    WITHIN = 0
    OVER = 1
    """Over quota: it borrows what others leave, at the lowest level."""
    HELD = 2
    """Over quota, and over what its tenant may borrow: it stands in the order, but may not start."""


class PendingWork(Struct, frozen=True):
    """A workload that waits."""

    workload: WorkloadId
    tenant: TenantName
    number: int
    """Of its submission: no two have the same."""
    submitted_at: Instant
    needs: tuple[Mapping[str, int], ...] = (NONE,)
    """GPU milli by type, of the whole gang, > 0 each, of types under quota alone; several: any of them will do, and the first is
    liked best."""
    level: int | None = None
    """What it asks for, if less than its tenant's."""
    may_borrow: bool = True
    """Whether it can be over quota: what is never pushed out is not lent anything."""
    uses_gpus: bool = True
    """Whether it would take of its tenant's budget."""
    shape: str = ""
    """Equal for workloads that fit in the same places, whatever their level."""


class TenantState(Struct, frozen=True):
    """What a tenant may hold, holds and has used. One that is not stated may hold nothing."""

    level: int = LOWEST
    entitled: Mapping[str, int] = NONE
    """GPU milli by type that it may hold within quota."""
    borrowed_max: Mapping[str, int] | None = None
    """GPU milli by type that it may hold besides; None: whatever there is."""
    held: Mapping[str, int] = NONE
    """GPU milli by type of all its running workloads."""
    within: Mapping[int, Mapping[str, int]] = MappingProxyType({})
    """By level and type, GPU milli of those of them that are within quota: what takes room from a workload of that level or
    a lower one."""
    use: int = 0
    """Faded, in milli-GPU-seconds."""
    weight: int = 1
    """To what share of all use it is entitled, against the others' weights; > 0."""
    lag: int = 0
    """By how much it is behind what was due to it, in nanoseconds of all that it is entitled to."""
    is_spent: bool = False
    """Whether its budget of GPU-hours is used up: nothing of it that takes GPUs may start."""


class Ranked(Struct, frozen=True):
    """A workload in the order."""

    work: PendingWork
    level: int
    standing: Standing
    credit: int

    @property
    def group(self) -> "Group":
        """Its level negated, standing and shape."""
        return (-self.level, self.standing), self.work.shape

    @property
    def place(self) -> tuple[int, int, int, int]:
        """A smaller one is ahead."""
        return (-self.level, self.standing, -self.credit, self.work.number)


class Walk:
    """A tenant's quota as it is taken by one workload after the other, from the highest level down."""

    def __init__(self, tenant: TenantState, *, by_level: bool = True) -> None:
        self.tenant = tenant
        self.within: dict[str, int] = {}
        """Held by those of the levels so far, and wanted by those within quota so far."""
        self.all = dict(tenant.held)
        """Held, and also wanted by those that would borrow."""
        self._levels = sorted(tenant.within, reverse=True)
        if not by_level:
            self._take_down_to(LOWEST)

    def step(self, work: PendingWork) -> Standing:
        """How the next one stands. It leaves its part to smaller ones behind it where it does not fit."""
        tenant = self.tenant
        self._take_down_to(own_level(work, tenant))
        if tenant.is_spent and work.uses_gpus:
            return Standing.HELD
        for need in work.needs:
            if _fits(self.within, need, tenant.entitled):
                _add(self.within, need)
                _add(self.all, need)
                return Standing.WITHIN
        if not work.may_borrow:
            return Standing.HELD
        if tenant.borrowed_max is None:
            _add(self.all, work.needs[0])
            return Standing.OVER
        most = dict(tenant.entitled)
        _add(most, tenant.borrowed_max)
        for need in work.needs:
            if _fits(self.all, need, most):
                _add(self.all, need)
                return Standing.OVER
        return Standing.HELD

    def _take_down_to(self, level: int) -> None:
        while self._levels and self._levels[0] >= level:
            _add(self.within, self.tenant.within[self._levels.pop(0)])


def _fits(taken: Mapping[str, int], need: Mapping[str, int], most: Mapping[str, int]) -> bool:
    return all(taken.get(kind, 0) + count <= most.get(kind, 0) for kind, count in need.items())


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for gpu_type, count in more.items():
        total[gpu_type] = total.get(gpu_type, 0) + count


def own_level(work: PendingWork, tenant: TenantState) -> int:
    """What it asks for or its tenant's, whichever is lower."""
    return tenant.level if work.level is None else min(work.level, tenant.level)


def level_of(work: PendingWork, tenant: TenantState, standing: Standing) -> int:
    """Its own level within quota; else the lowest."""
    return own_level(work, tenant) if standing is Standing.WITHIN else LOWEST


def scan(
    pending: Iterable[PendingWork],
    tenants: Mapping[TenantName, TenantState],
    settings: CreditSettings,
    now: Instant,
    *,
    walks_by_level: bool = True,
) -> list[Ranked]:
    """Everything that waits, in order: level, within before over quota, credit, number.

    1. Credits; a tenant's sorted by the level that each asks for, then credit, then number. By the paper's rule
       (`walks_by_level` False) whatever the level, and all that is held within quota counts for each.
    2. In that order each takes its tenant's quota, or is over it.
    3. All sorted by level, standing, credit and number. The credit of what is not within quota has its tenant's lag in place of its
       share of use, unless that has no weight.
    """
    use_all = sum(tenant.use for tenant in tenants.values())
    weights = sum(tenant.weight for tenant in tenants.values())
    shares = {
        name: share_credit(settings, state.use, use_all, state.weight, weights)
        for name, state in tenants.items()
    }
    unknown = share_credit(settings, 0, use_all, 1, weights)
    walks: dict[TenantName, Walk] = {}
    by_credit = sorted(
        (
            -own_level(work, tenants.get(work.tenant, TenantState())) if walks_by_level else 0,
            -age_credit(settings, now - work.submitted_at) - shares.get(work.tenant, unknown),
            work.number,
            work,
        )
        for work in pending
    )
    ranked = []
    for _, negated, _, work in by_credit:
        walk = walks.get(work.tenant)
        if walk is None:
            walk = walks[work.tenant] = Walk(tenants.get(work.tenant, TenantState()), by_level=walks_by_level)
        standing = walk.step(work)
        credit = -negated
        if settings.lag_weight and standing is not Standing.WITHIN:
            age = age_credit(settings, now - work.submitted_at)
            credit = age + lag_credit(settings, walk.tenant.lag)
        ranked.append(Ranked(work, level_of(work, walk.tenant, standing), standing, credit))
    return sorted(ranked, key=lambda one: one.place)
