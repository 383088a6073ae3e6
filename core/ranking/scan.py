"""The order of everything that waits, worked out anew: sorted by credit, walked against the quotas. The reference.

`core/ranking/incremental.py` keeps the same order from event to event.

source    MAST §4.2; over-quota work also stands behind work within quota that has the lowest level itself, a tenant may have a
          borrowing limit, what it holds at a lower level takes nothing from its work of a higher one, and who waited for long
          keeps what is left of its quota: none of these is in the paper, whose rule `RankingSettings` has too. With nobody at
          level 0, no limit, one level a tenant and no patience nothing differs
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from types import MappingProxyType

from msgspec import Struct

from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.ranking import CreditSettings
from core.ranking.credit import age_credit, lag_credit, share_credit

LOWEST = 0
"""The level of work that is over quota, whatever its tenant's."""
NONE: Mapping[str, int] = MappingProxyType({})
NO_PATIENCE = Nanoseconds(0)
"""Nobody keeps anything, however long it waits."""
FITTING_MAX = 64
"""Of how many of a tenant's that fit its quota it is remembered: what runs over quota behind one of them does not take its part."""


Band = tuple[int, "QuotaClass"]
"""Level negated, and standing: a smaller one is ahead."""
Group = tuple[Band, str]
"""A band and a shape."""


class QuotaClass(IntEnum):
    """A workload's class under its tenant's quota, as Kueue names them; a smaller value is ranked first."""

    NOMINAL = 0
    """Within the tenant's quota."""
    BORROWING = 1
    """Over quota: the workload borrows capacity that others leave idle, at the lowest level."""
    BLOCKED = 2
    """Over quota and over the borrowing limit: the workload keeps its place in the order, but may not start."""

    @property
    def text(self) -> str:
        """The word for this class in answers and settings."""
        return _QUOTA_CLASS_TEXTS[self]


_QUOTA_CLASS_TEXTS = ("within", "over", "held")


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
    lasting: Mapping[int, Mapping[str, int]] = MappingProxyType({})
    """Of what is within quota, by level and type, what has no end of its own: nobody waits for that."""


class Ranked(Struct, frozen=True):
    """A workload in the order."""

    work: PendingWork
    level: int
    quota_class: QuotaClass
    credit: int

    @property
    def group(self) -> "Group":
        """Its level negated, standing and shape."""
        return (-self.level, self.quota_class), self.work.shape

    @property
    def place(self) -> tuple[int, int, int, int]:
        """A smaller one is ahead."""
        return (-self.level, self.quota_class, -self.credit, self.work.number)


class QuotaHold(Struct, frozen=True):
    """What of its tenant's quota is for a workload that has waited for long, and not for whoever stands behind it."""

    workload: WorkloadId
    level: int
    """Its own; 0 where levels do not matter."""
    number: int
    need: Mapping[str, int]
    is_lacking: bool = True
    """Whether there is not as much left: then on no type of these is anybody behind it within quota."""

    def is_ahead_of(self, level: int, number: int) -> bool:
        """Whether in its tenant's line it stands ahead of work of that level, submitted as that number."""
        return (-self.level, self.number) < (-level, number)


class Walk:
    """A tenant's quota as it is taken by one workload after the other, from the highest level down."""

    def __init__(self, tenant: TenantState, *, by_level: bool = True) -> None:
        self.tenant = tenant
        self.within: dict[str, int] = {}
        """Held by those of the levels so far, and wanted by those within quota so far."""
        self.all = dict(tenant.held)
        """Held, and also wanted by those that would borrow."""
        self.kept: list[QuotaHold] = []
        self.fitting: list[QuotaHold] = []
        """The first of those that fit, and have waited for long."""
        self._by_level = by_level
        self._levels = sorted(tenant.within, reverse=True)
        if not by_level:
            self._take_down_to(LOWEST)

    def step(self, work: PendingWork, *, is_patient: bool = False) -> QuotaClass:
        """How the next one stands. Where it does not fit it leaves its part to smaller ones behind it, if it has not waited for
        long; else it takes its part, so that there is less than nothing left until it fits.
        """
        tenant = self.tenant
        level = own_level(work, tenant)
        self._take_down_to(level)
        if tenant.is_spent and work.uses_gpus:
            return QuotaClass.BLOCKED
        in_line = level if self._by_level else LOWEST
        for need in work.needs:
            if _fits(self.within, need, tenant.entitled):
                _add(self.within, need)
                _add(self.all, need)
                if need and is_patient and len(self.fitting) < FITTING_MAX:
                    self.fitting.append(
                        QuotaHold(work.workload, in_line, work.number, need, is_lacking=False)
                    )
                return QuotaClass.NOMINAL
        kept = self._kept(work, in_line) if is_patient else None
        if kept is not None:
            _add(self.within, kept)
            self.kept.append(QuotaHold(work.workload, in_line, work.number, kept))
        if work.may_borrow and tenant.borrowed_max is None:
            _add(self.all, work.needs[0])
            return QuotaClass.BORROWING
        most = dict(tenant.entitled)
        _add(most, tenant.borrowed_max or {})
        for need in work.needs if work.may_borrow else ():
            if _fits(self.all, need, most):
                _add(self.all, need)
                return QuotaClass.BORROWING
        _add(self.all, kept or {})
        return QuotaClass.BLOCKED

    def _kept(self, work: PendingWork, in_line: int) -> Mapping[str, int] | None:
        """The first of its needs that fits beside what has no end, and of which nobody ahead of it keeps anything."""
        entitled, lasting = self.tenant.entitled, lasting_from(self.tenant, in_line)
        for need in work.needs:
            is_kept = not _fits(self.within, dict.fromkeys(need, 0), entitled)
            if need and not is_kept and _fits(lasting, need, entitled):
                return need
        return None

    def _take_down_to(self, level: int) -> None:
        while self._levels and self._levels[0] >= level:
            _add(self.within, self.tenant.within[self._levels.pop(0)])


def _fits(taken: Mapping[str, int], need: Mapping[str, int], most: Mapping[str, int]) -> bool:
    return all(taken.get(kind, 0) + count <= most.get(kind, 0) for kind, count in need.items())


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for gpu_type, count in more.items():
        total[gpu_type] = total.get(gpu_type, 0) + count


def lasting_from(tenant: TenantState, level: int) -> dict[str, int]:
    """What is within quota at that level or a higher one and has no end."""
    lasting: dict[str, int] = {}
    for one, amounts in tenant.lasting.items():
        if one >= level:
            _add(lasting, amounts)
    return lasting


def own_level(work: PendingWork, tenant: TenantState) -> int:
    """What it asks for or its tenant's, whichever is lower."""
    return tenant.level if work.level is None else min(work.level, tenant.level)


def level_of(work: PendingWork, tenant: TenantState, quota_class: QuotaClass) -> int:
    """Its own level within quota; else the lowest."""
    return own_level(work, tenant) if quota_class is QuotaClass.NOMINAL else LOWEST


def scan(
    pending: Iterable[PendingWork],
    tenants: Mapping[TenantName, TenantState],
    settings: CreditSettings,
    now: Instant,
    *,
    walks_by_level: bool = True,
    patience: Nanoseconds = NO_PATIENCE,
) -> list[Ranked]:
    """Everything that waits, in order (`ranked`)."""
    found = ranked(pending, tenants, settings, now, walks_by_level=walks_by_level, patience=patience)
    return found[0]


def ranked(
    pending: Iterable[PendingWork],
    tenants: Mapping[TenantName, TenantState],
    settings: CreditSettings,
    now: Instant,
    *,
    walks_by_level: bool,
    patience: Nanoseconds,
) -> tuple[list[Ranked], dict[TenantName, tuple[QuotaHold, ...]]]:
    """Everything that waits, in order: level, within before over quota, credit, number; and what is kept of each tenant's quota.

    1. Credits; a tenant's sorted by the level that each asks for, then credit, then number. By the paper's rule
       (`walks_by_level` False) whatever the level, and all that is held within quota counts for each.
    2. In that order each takes its tenant's quota, or is over it; who has waited for `patience` keeps it from those behind.
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
    found = []
    for _, negated, _, work in by_credit:
        walk = walks.get(work.tenant)
        if walk is None:
            walk = walks[work.tenant] = Walk(tenants.get(work.tenant, TenantState()), by_level=walks_by_level)
        is_patient = bool(patience) and now - work.submitted_at >= patience
        quota_class = walk.step(work, is_patient=is_patient)
        credit = -negated
        if settings.lag_weight and quota_class is not QuotaClass.NOMINAL:
            age = age_credit(settings, now - work.submitted_at)
            credit = age + lag_credit(settings, walk.tenant.lag)
        found.append(Ranked(work, level_of(work, walk.tenant, quota_class), quota_class, credit))
    return sorted(found, key=lambda one: one.place), {
        name: (*walk.kept, *walk.fitting) for name, walk in walks.items()
    }
