"""The order of all pending workloads computed from scratch: sorted by credit, then walked against the quotas. The reference.

`core/ranking/incremental.py` keeps the same order from event to event.

source    MAST §4.2. Not in the paper: over-quota work also ranks behind nominal work of the lowest level; a tenant may have a
          borrowing limit; holdings at a lower level take no quota from the tenant's work of a higher level; a workload that
          waited for `patience` holds the rest of its tenant's quota. `RankingSettings` has the paper's rules, too. Without
          level 0, borrowing limits, several levels per tenant and patience, both orders are equal
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import force_setattr

from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.ranking import CreditSettings
from core.ranking.credit import age_credit, lag_credit, share_credit

LOWEST = 0
"""The level of work over quota, at any level of the tenant."""
NONE: Mapping[str, int] = MappingProxyType({})
NO_PATIENCE = Nanoseconds(0)
"""No quota holds, however long a workload waits."""
FITTING_MAX = 64
"""The most quota holds per tenant for workloads that fit the quota: borrowing awards behind these may not take the same part."""


AS_SUBMITTED = Instant(-(1 << 62))
"""Stands for the submission, from which the age of most work counts."""

Band = tuple[int, "QuotaClass"]
"""Level negated, and quota class: a smaller band is ahead."""
Group = tuple[Band, str]
"""A band and a shape."""


class QuotaClass(IntEnum):
    """A workload's class under its tenant's quota, as Kueue names them; a smaller value is ranked first."""

    NOMINAL = 0
    """Within the tenant's quota."""
    BORROWING = 1
    """Over quota: the workload borrows capacity that others leave idle, at the lowest level."""
    BLOCKED = 2
    """Over quota, and over the borrowing limit, out of budget, or never to borrow: the workload keeps its place, but may not start."""

    @property
    def text(self) -> str:
        """The word for this class in answers and settings."""
        return _QUOTA_CLASS_TEXTS[self]


_QUOTA_CLASS_TEXTS = ("within", "over", "held")


class PendingWork(Struct, frozen=True):
    """A pending workload."""

    workload: WorkloadId
    tenant: TenantName
    number: int
    """The number of the submission, unique."""
    submitted_at: Instant
    needs: tuple[Mapping[str, int], ...] = (NONE,)
    """GPU milli by type, > 0 each, of the whole gang and of types under quota alone. Several mappings are alternatives, the
    preferred one first."""
    level: int | None = None
    """The requested level, which counts if lower than the tenant's; None: the tenant's."""
    may_borrow: bool = True
    """False for work that is never preempted: such work may not borrow."""
    uses_gpus: bool = True
    """True if the workload would draw on the tenant's budget of GPU-hours."""
    shape: str = ""
    """Equal for workloads that fit in the same places, whatever their level."""
    base: str = ""
    """The shape without the number of tasks; empty for several jobs. The ranking does not read this, nor `tasks`."""
    tasks: int = 0
    """Number of tasks of a workload of one job."""
    since: Instant = AS_SUBMITTED
    """From when on its age counts for credit: its submission, or an earlier time for work with a deadline that must start soon. Patience
    and drains go by the submission."""

    def __post_init__(self) -> None:
        """Count its age from its submission unless another time was given."""
        if self.since == AS_SUBMITTED:
            force_setattr(self, "since", self.submitted_at)


class TenantState(Struct, frozen=True):
    """A tenant's limits, holdings and use. A tenant without a state has no quota, and no borrowing limit."""

    level: int = LOWEST
    entitled: Mapping[str, int] = NONE
    """GPU milli by type that the tenant may hold within quota."""
    borrowed_max: Mapping[str, int] | None = None
    """GPU milli by type that the tenant may hold beyond the quota; None: no limit."""
    held: Mapping[str, int] = NONE
    """GPU milli by type of all the tenant's active awards."""
    within: Mapping[int, Mapping[str, int]] = MappingProxyType({})
    """GPU milli by level and type of the nominal awards among these: an award takes quota from workloads of the same or a lower
    level."""
    use: int = 0
    """Decayed use, in milli-GPU-seconds."""
    weight: int = 1
    """The weight of the tenant's share of all use, relative to the others' weights; > 0."""
    lag: int = 0
    """Lag behind the fair share, in nanoseconds of the whole entitlement."""
    is_spent: bool = False
    """True if the budget of GPU-hours is used up: no work of the tenant that uses GPUs may start."""
    lasting: Mapping[int, Mapping[str, int]] = MappingProxyType({})
    """The part of `within` without an end of its own, by level and type: no workload waits for this part to end."""


class Ranked(Struct, frozen=True):
    """A workload in the order."""

    work: PendingWork
    level: int
    quota_class: QuotaClass
    credit: int

    @property
    def group(self) -> "Group":
        """Return the workload's group: level negated, quota class, and shape."""
        return (-self.level, self.quota_class), self.work.shape

    @property
    def place(self) -> tuple[int, int, int, int]:
        """Return the sort key of the order: a smaller one is ahead."""
        return (-self.level, self.quota_class, -self.credit, self.work.number)


class QuotaHold(Struct, frozen=True):
    """Quota of a tenant that is held for a workload which waited for `patience`, and withheld from the workloads behind."""

    workload: WorkloadId
    level: int
    """The workload's own level; 0 where levels do not matter."""
    number: int
    need: Mapping[str, int]
    is_lacking: bool = True
    """True if less than `need` is left of the quota: then no workload behind is nominal on a type of which too little is left."""

    def is_ahead_of(self, level: int, number: int) -> bool:
        """Return whether the workload is ahead, in the tenant's line, of work of this level with this submission number."""
        return (-self.level, self.number) < (-level, number)


class Walk:
    """A walk through a tenant's workloads from the highest level down, each of which takes the tenant's quota in turn."""

    def __init__(self, tenant: TenantState, *, by_level: bool = True) -> None:
        self.tenant = tenant
        self.within: dict[str, int] = {}
        """GPU milli by type held at the levels so far, and taken so far by nominal workloads and quota holds."""
        self.all = dict(tenant.held)
        """GPU milli by type held at all levels, and taken so far by borrowing workloads, too."""
        self.kept: list[QuotaHold] = []
        self.fitting: list[QuotaHold] = []
        """Quota holds of the first workloads that fit and have waited for `patience`."""
        self._by_level = by_level
        self._levels = sorted(tenant.within, reverse=True)
        if not by_level:
            self._take_down_to(LOWEST)

    def step(self, work: PendingWork, *, is_patient: bool = False) -> QuotaClass:
        """Return the quota class of the next workload in line.

        A workload that does not fit leaves the remaining quota to smaller ones behind, unless `is_patient`: then a need is
        subtracted anyway that fits beside work without an end, and the remainder may be negative until the workload fits.
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
        """Return the first need that would fit beside work without an end, and of which no type is overdrawn; None: no such need.

        A type is overdrawn where workloads ahead hold more than is left of the quota.
        """
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
    """Return the GPU milli by type of nominal work at that level or a higher one that has no end of its own."""
    lasting: dict[str, int] = {}
    for one, amounts in tenant.lasting.items():
        if one >= level:
            _add(lasting, amounts)
    return lasting


def own_level(work: PendingWork, tenant: TenantState) -> int:
    """Return the lower of the requested level and the tenant's."""
    return tenant.level if work.level is None else min(work.level, tenant.level)


def level_of(work: PendingWork, tenant: TenantState, quota_class: QuotaClass) -> int:
    """Return the workload's own level if nominal, or else the lowest."""
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
    """Return all pending workloads in order, as `ranked` does."""
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
    """Return all pending workloads in order of level, quota class, credit and number; and the quota holds of each tenant.

    1. Compute credits, and sort each tenant's workloads by requested level, credit and number. By the paper's rule
       (`walks_by_level` False) the level is ignored, and all nominal holdings count against each workload.
    2. In that order, each workload takes its tenant's quota, or is over quota; a workload that has waited for `patience` holds
       quota against those behind.
    3. Sort all by level, quota class, credit and number. The credit of over-quota work has the tenant's lag in place of the share
       of use, unless lag has no weight.
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
            -age_credit(settings, now - work.since) - shares.get(work.tenant, unknown),
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
            age = age_credit(settings, now - work.since)
            credit = age + lag_credit(settings, walk.tenant.lag)
        found.append(Ranked(work, level_of(work, walk.tenant, quota_class), quota_class, credit))
    return sorted(found, key=lambda one: one.place), {
        name: (*walk.kept, *walk.fitting) for name, walk in walks.items()
    }
