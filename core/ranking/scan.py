"""The order of everything that waits, worked out anew: sorted by credit, walked against the quotas. The reference.

`core/ranking/incremental.py` keeps the same order from event to event.

source    MAST §4.2; over-quota work also stands behind work within quota that has the lowest level itself, and a tenant may
          have a borrowing limit: neither is in the paper, and with nobody at level 0 and no limit nothing differs
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from types import MappingProxyType

from msgspec import Struct

from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import Instant
from core.ranking.credit import CreditSettings, age_credit, share_credit

LOWEST = 0
"""The level of work that is over quota, whatever its tenant's."""
NONE: Mapping[str, int] = MappingProxyType({})


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
    need: Mapping[str, int] = NONE
    """GPU milli by type, of the whole gang, > 0 each."""
    level: int | None = None
    """What it asks for, if less than its tenant's."""


class TenantState(Struct, frozen=True):
    """What a tenant may hold, holds and has used. One that is not stated may hold nothing."""

    level: int = LOWEST
    entitled: Mapping[str, int] = NONE
    """GPU milli by type that it may hold within quota."""
    borrowed_max: Mapping[str, int] | None = None
    """GPU milli by type that it may hold besides; None: whatever there is."""
    held: Mapping[str, int] = NONE
    """GPU milli by type of its running workloads."""
    use: int = 0
    """Faded, in milli-GPU-seconds."""


class Ranked(Struct, frozen=True):
    """A workload in the order."""

    work: PendingWork
    level: int
    standing: Standing
    credit: int

    @property
    def place(self) -> tuple[int, int, int, int]:
        """A smaller one is ahead."""
        return (-self.level, self.standing, -self.credit, self.work.number)


class Walk:
    """A tenant's quota as it is taken by one workload after the other, and never more than there is by those within."""

    def __init__(self, tenant: TenantState) -> None:
        self.tenant = tenant
        self.within = dict(tenant.held)
        """Held, and wanted by those within quota so far."""
        self.all = dict(tenant.held)
        """Also wanted by those that would borrow."""

    def step(self, need: Mapping[str, int]) -> Standing:
        """How the next one stands. Of each type it must fit; else it leaves its part to smaller ones behind it."""
        tenant, within, wanted = self.tenant, self.within, self.all
        standing = Standing.WITHIN
        for gpu_type, count in need.items():
            if within.get(gpu_type, 0) + count > tenant.entitled.get(gpu_type, 0):
                standing = Standing.OVER
                break
        if standing is Standing.OVER and tenant.borrowed_max is not None:
            for gpu_type, count in need.items():
                may = tenant.entitled.get(gpu_type, 0) + tenant.borrowed_max.get(gpu_type, 0)
                if wanted.get(gpu_type, 0) + count > may:
                    return Standing.HELD
        for gpu_type, count in need.items():
            wanted[gpu_type] = wanted.get(gpu_type, 0) + count
            if standing is Standing.WITHIN:
                within[gpu_type] = within.get(gpu_type, 0) + count
        return standing


def level_of(work: PendingWork, tenant: TenantState, standing: Standing) -> int:
    """Its own level or its tenant's, whichever is lower, within quota; else the lowest."""
    if standing is not Standing.WITHIN:
        return LOWEST
    return tenant.level if work.level is None else min(work.level, tenant.level)


def scan(
    pending: Iterable[PendingWork],
    tenants: Mapping[TenantName, TenantState],
    settings: CreditSettings,
    now: Instant,
) -> list[Ranked]:
    """Everything that waits, in order: level, within before over quota, credit, number.

    1. Credits; all sorted by credit, then number, whatever the levels.
    2. In that order each takes its tenant's quota, or is over it.
    3. Sorted by level; sorting is stable, but the number decides in any case.
    """
    use_all = sum(tenant.use for tenant in tenants.values())
    shares = {
        name: share_credit(settings, tenant.use, use_all, len(tenants)) for name, tenant in tenants.items()
    }
    unknown = share_credit(settings, 0, use_all, len(tenants))
    walks: dict[TenantName, Walk] = {}
    by_credit = sorted(
        (
            -age_credit(settings, now - work.submitted_at) - shares.get(work.tenant, unknown),
            work.number,
            work,
        )
        for work in pending
    )
    ranked = []
    for negated, _, work in by_credit:
        walk = walks.get(work.tenant)
        if walk is None:
            walk = walks[work.tenant] = Walk(tenants.get(work.tenant, TenantState()))
        standing = walk.step(work.need)
        ranked.append(Ranked(work, level_of(work, walk.tenant, standing), standing, -negated))
    return sorted(ranked, key=lambda one: one.place)
