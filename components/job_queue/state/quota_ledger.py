"""The quota ledger: GPUs that each tenant holds by active awards, and the nominal part. An index of image and logs.

Totals are updated with each award, so that reading them does not walk over all running work.
"""

from collections.abc import Callable, Container, Mapping, Sequence

from msgspec import Struct

from components.job_queue.state.quota_order import QuotaEntry, QuotaOrder
from core.images.queue import WorkloadRow
from core.images.tenants import Tenants
from core.images.usage import GPU_HOUR, Usage
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import Instant, earliest
from core.nouns.quantities import MILLI
from core.nouns.tenant import OVER_LEVEL
from core.nouns.workload import Kind
from core.ranking.fair_lag import Claimant
from core.ranking.scan import LOWEST, PendingWork, QuotaHold, TenantState
from core.rules.quota import (
    Amounts,
    Running,
    borrowed_max,
    entitled_to,
    has_spent,
    kept_before,
    reclassify,
    settings_of,
    types_under_quota,
)


class Held(Struct, frozen=True):
    """One active award."""

    tenant: TenantName
    level: int
    amounts: Amounts
    """GPU milli by type."""
    asked: int
    """The workload's level while nominal."""
    number: int
    """Sequence of the award in the queue's log."""
    submitted: int
    """Number of the workload's submission."""
    is_lasting: bool
    """True if the workload is a service, which does not end by itself."""


class Lending(Struct, frozen=True):
    """Capacity that may be borrowed at one moment, of GPU types under quota."""

    free: Amounts
    """Free GPU milli by type."""
    kept: Mapping[str, Mapping[TenantName, int]]
    """Idle GPU milli by type and tenant of entitlements that are not lent."""

    def covers(self, amounts: Amounts, tenant: TenantName) -> bool:
        """Return whether a tenant can borrow these amounts."""
        for kind, count in amounts.items():
            if kind in self.free:
                kept = self.kept.get(kind, {})
                if count > self.free[kind] - sum(kept.values()) + kept.get(tenant, 0):
                    return False
        return True

    def could_cover(self, amounts: Amounts) -> bool:
        """Return whether these amounts can be borrowed by at least one tenant."""
        for kind, count in amounts.items():
            if kind in self.free:
                kept = self.kept.get(kind, {}).values()
                if count > self.free[kind] - sum(kept) + max(kept, default=0):
                    return False
        return True


NO_LENDING = Lending({}, {})
"""Used where no GPU type is under quota, so that no work borrows."""


class QuotaLedger:
    """All active awards, by tenant."""

    def __init__(self) -> None:
        self.awards: dict[WorkloadId, Held] = {}
        self.quota: frozenset[str] = frozenset()
        """GPU types under quota."""
        self.unlent: dict[str, dict[TenantName, int]] = {}
        """GPU milli by type and tenant of entitlements that are not lent."""
        self.by_tenant: dict[TenantName, dict[WorkloadId, None]] = {}
        self.over: dict[TenantName, dict[WorkloadId, None]] = {}
        """Borrowing awards by tenant."""
        self._quota_orders: dict[TenantName, QuotaOrder] = {}
        """Quota orders by tenant, filled at first use."""
        self.held: dict[TenantName, dict[str, int]] = {}
        self.within: dict[TenantName, dict[int, dict[str, int]]] = {}
        """GPU milli of nominal awards by tenant, level and type."""
        self.lasting: dict[TenantName, dict[int, dict[str, int]]] = {}
        """The part of `within` held by services."""
        self.held_in_all: dict[str, int] = {}
        self.wanted: dict[TenantName, dict[str, int]] = {}
        """GPU milli by tenant and type of waiting work that may borrow."""

    def set_quota(self, tenants: Tenants) -> bool:
        """Update the types under quota and the entitlements that are not lent. Return whether the types changed."""
        before, self.quota = self.quota, types_under_quota(tenants)
        self.unlent = {}
        for name, row in tenants.rows.items():
            for kind, one in row.entitlements.items():
                if not one.is_lent:
                    self.unlent.setdefault(kind, {})[name] = one.gpus * MILLI
        return before != self.quota

    def put(self, workload: WorkloadId, row: WorkloadRow, asked: int, amounts: Amounts) -> bool:
        """Record an active award, the level asked for and the amounts held. Return whether the ledger changed."""
        spec = row.spec
        is_lasting = spec.kind is Kind.SERVICE
        now = Held(spec.tenant, row.level, dict(amounts), asked, row.award_sequence, row.number, is_lasting)
        was = self.awards.get(workload)
        if was == now:
            return False
        if was is not None:
            self._add(workload, was, -1)
        self.awards[workload] = now
        self._add(workload, now, 1)
        return True

    def drop(self, workload: WorkloadId) -> bool:
        """Drop an award that ended. Return whether it was active."""
        was = self.awards.pop(workload, None)
        if was is None:
            return False
        self._add(workload, was, -1)
        return True

    def _add(self, workload: WorkloadId, one: Held, sign: int) -> None:
        totals = [self.held_in_all, self.held.setdefault(one.tenant, {})]
        if one.level != OVER_LEVEL:
            totals.append(self.within.setdefault(one.tenant, {}).setdefault(one.level, {}))
            if one.is_lasting:
                totals.append(self.lasting.setdefault(one.tenant, {}).setdefault(one.level, {}))
        for total in totals:
            for kind, count in one.amounts.items():
                left = total.get(kind, 0) + sign * count
                if left:
                    total[kind] = left
                else:
                    total.pop(kind, None)
        is_over = one.level == OVER_LEVEL
        quota_order, mine = self._quota_orders.get(one.tenant), self.by_tenant.setdefault(one.tenant, {})
        if sign > 0:
            mine[workload] = None
            if is_over:
                self.over.setdefault(one.tenant, {})[workload] = None
            if quota_order is not None:
                quota_order.add(_entry(workload, one), one.amounts, is_over=is_over)
            return
        del mine[workload]
        if is_over:
            del self.over[one.tenant][workload]
            if not self.over[one.tenant]:
                del self.over[one.tenant]
        if quota_order is not None:
            quota_order.drop(_entry(workload, one), is_over=is_over)
        if not mine:
            for table in (self.by_tenant, self._quota_orders, self.held, self.within, self.lasting):
                table.pop(one.tenant, None)

    def want(self, work: PendingWork, sign: int) -> None:
        """Add (1) or subtract (-1) the preferred need of a waiting workload."""
        if not work.may_borrow or not work.needs[0]:
            return
        mine = self.wanted.setdefault(work.tenant, {})
        for kind, count in work.needs[0].items():
            left = mine.get(kind, 0) + sign * count
            if left:
                mine[kind] = left
            else:
                mine.pop(kind, None)
        if not mine:
            del self.wanted[work.tenant]

    # Reading.

    def is_spent(self, tenant: TenantName, tenants: Tenants, usage: Usage, now: Instant) -> bool:
        """Return whether a tenant's GPU-hours of this period are used up."""
        return has_spent(tenant, tenants, usage, now)

    def turns_at(self, tenant: TenantName, tenants: Tenants, usage: Usage, now: Instant) -> Instant | None:
        """Return when a tenant's budget will be spent at its present rate, or its next period begins, if earlier."""
        row, used = tenants.rows.get(tenant), usage.rows.get(tenant)
        if row is None or row.budget is None or used is None:
            return None
        next_period = Instant(used.began_at(now) + used.period)
        left, rate = row.budget.gpu_hours * GPU_HOUR - used.used_at(now), used.rate
        spent = Instant(now - -left // rate) if rate and left > 0 else None
        return earliest(spent, next_period)

    def state(
        self, tenant: TenantName, tenants: Tenants, usage: Usage, now: Instant, use: int, lag: int
    ) -> TenantState:
        """Return a tenant's state as the ranking reads it."""
        row, ranking = tenants.rows.get(tenant), tenants.ranking
        entitled = entitled_to(row, self.quota)
        held = {kind: count for kind, count in self.held.get(tenant, {}).items() if kind in self.quota}
        mine: Mapping[int, Mapping[str, int]] = {
            level: counted
            for level, one in self.within.get(tenant, {}).items()
            if (counted := {kind: count for kind, count in one.items() if kind in self.quota})
        }
        lasting: Mapping[int, Mapping[str, int]] = self.lasting.get(tenant, {})
        if ranking.counts_borrowed:
            level = settings_of(tenants, tenant).level
            mine, lasting = {level: held}, {level: self._lasting_at_all(tenant)}
        return TenantState(
            level=settings_of(tenants, tenant).level,
            entitled=entitled,
            borrowed_max=borrowed_max(row, self.quota),
            held=held,
            within=mine,
            lasting={level: dict(one) for level, one in lasting.items() if one},
            use=use,
            weight=max(MILLI, sum(entitled.values())) if ranking.shares_by_entitlement else 1,
            lag=lag,
            is_spent=self.is_spent(tenant, tenants, usage, now),
        )

    def _lasting_at_all(self, tenant: TenantName) -> dict[str, int]:
        """Return the GPU milli by type that services hold, nominal or borrowing, of types under quota."""
        mine = [one for one in map(self.awards.__getitem__, self.over.get(tenant, {})) if one.is_lasting]
        found: dict[str, int] = {}
        for amounts in (*self.lasting.get(tenant, {}).values(), *(one.amounts for one in mine)):
            for kind, count in amounts.items():
                if kind in self.quota:
                    found[kind] = found.get(kind, 0) + count
        return found

    def level_in_line(self, level: int, tenants: Tenants) -> int:
        """Return the level by which work takes its tenant's quota: its own, or `LOWEST` where levels do not matter."""
        return level if tenants.ranking.walks_by_level else LOWEST

    def headroom(self, tenant: TenantName, level: int, tenants: Tenants) -> dict[str, int]:
        """Return the quota's headroom for work of a level, GPU milli by type; lower levels do not reduce it."""
        left = entitled_to(tenants.rows.get(tenant), self.quota)
        for at, amounts in self.within.get(tenant, {}).items():
            if at >= level:
                for kind in left:
                    left[kind] -= amounts.get(kind, 0)
        return left

    def claimants(
        self, tenants: Tenants, usage: Usage, now: Instant, unheard: Container[TenantName] = ()
    ) -> dict[str, dict[TenantName, Claimant]]:
        """Return, by GPU type under quota and tenant, the amount held and the amount wanted up to the borrowing limit.

        unheard   tenants with wants that do not count
        """
        found: dict[str, dict[TenantName, Claimant]] = {kind: {} for kind in sorted(self.quota)}
        for name in sorted(self.held.keys() | self.wanted.keys()):
            row, held, wanted = tenants.rows.get(name), self.held.get(name, {}), self.wanted.get(name, {})
            entitled, most = entitled_to(row, self.quota), borrowed_max(row, self.quota)
            is_heard = name not in unheard and not self.is_spent(name, tenants, usage, now)
            for kind in sorted(self.quota.intersection((*held, *wanted))):
                has, more = held.get(kind, 0), wanted.get(kind, 0) if is_heard else 0
                if most is not None:
                    more = max(0, min(more, entitled[kind] + most.get(kind, 0) - has))
                found[kind][name] = Claimant(has, more, entitled[kind])
        return found

    def lending(self, there: Amounts) -> Lending:
        """Return the capacity that may be borrowed now.

        there   GPU milli by type in the fleet
        """
        free = {kind: there.get(kind, 0) - self.held_in_all.get(kind, 0) for kind in self.quota}
        kept = {
            kind: {name: max(0, most - self.held.get(name, {}).get(kind, 0)) for name, most in theirs.items()}
            for kind, theirs in self.unlent.items()
        }
        return Lending(free, kept)

    def lent_in_all(self, lending: Lending) -> Lending:
        """Return the capacity that one workload could borrow if no other work borrowed."""
        free = {kind: count + self.held_in_all.get(kind, 0) for kind, count in lending.free.items()}
        for by_level in self.within.values():
            for mine in by_level.values():
                for kind, count in mine.items():
                    if kind in free:
                        free[kind] -= count
        return Lending(free, lending.kept)

    def may_borrow(self, tenant: TenantName, amounts: Amounts, tenants: Tenants, lending: Lending) -> bool:
        """Return whether a tenant may borrow these amounts: within its borrowing limit, and as far as others lend."""
        if not lending.covers(amounts, tenant):
            return False
        row, held = tenants.rows.get(tenant), self.held.get(tenant, {})
        most = borrowed_max(row, self.quota)
        if most is None:
            return True
        entitled = entitled_to(row, self.quota)
        return all(
            held.get(kind, 0) + count <= entitled[kind] + most.get(kind, 0)
            for kind, count in amounts.items()
            if kind in self.quota
        )

    # Quota classes.

    def standings(
        self,
        tenant: TenantName,
        tenants: Tenants,
        *,
        is_spent: bool,
        entitled: Amounts | None = None,
        also: Running | None = None,
        kept: Sequence[QuotaHold] = (),
    ) -> dict[WorkloadId, int]:
        """Return the levels of a tenant's awards that must change, computed over all its awards.

        entitled  the entitlement about to be set, of all types that will be under quota; None: the current one
        also      an award about to be made
        kept      quota holds of the tenant's waiting work
        """
        running = [] if also is None else [also]
        for workload in self.by_tenant.get(tenant, {}):
            one = self.awards[workload]
            running.append(Running(workload, one.number, one.asked, one.level, one.amounts, one.submitted))
        mine = entitled_to(tenants.rows.get(tenant), self.quota) if entitled is None else entitled
        return reclassify(running, mine, frozenset(mine), tenants.ranking, is_spent=is_spent, kept=kept)

    def displaced(
        self, tenant: TenantName, tenants: Tenants, charge: Amounts, kept: Sequence[QuotaHold] = ()
    ) -> dict[WorkloadId, int] | None:
        """Return `standings` beside a new award with headroom at its level; None: `standings` must be computed.

        Holds only while no present award must change its level.
        """
        ranking, room = tenants.ranking, self.headroom(tenant, OVER_LEVEL, tenants)
        if ranking.counts_borrowed or not ranking.walks_by_level or min(room.values(), default=0) < 0:
            return None
        if all(charge.get(kind, 0) <= count for kind, count in room.items()):
            return {}
        if kept and tenant in self.over:
            return None  # Borrowing work behind a quota hold may not take the rest.
        return self._order_of(tenant).displaced(charge, room)

    def may_stand_otherwise(
        self, tenant: TenantName, tenants: Tenants, kept: Sequence[QuotaHold] = ()
    ) -> bool:
        """Return whether `standings` may find a change under unchanged settings.

        That is so if nominal work exceeds the quota, or borrowing work fits into its headroom.
        """
        if min(self.headroom(tenant, OVER_LEVEL, tenants).values(), default=0) < 0:
            return True
        rooms: dict[int, dict[str, int]] = {}

        def headroom_at(level: int) -> dict[str, int]:
            if level not in rooms:
                rooms[level] = self.headroom(tenant, level, tenants)
            return rooms[level]

        if kept:
            return any(
                self._fits_behind(self.awards[workload], headroom_at, kept, tenants)
                for workload in self.over.get(tenant, {})
            )
        return self._order_of(tenant).has_headroom_above(headroom_at)

    def _fits_behind(
        self, one: Held, headroom_at: Callable[[int], Amounts], kept: Sequence[QuotaHold], tenants: Tenants
    ) -> bool:
        room = headroom_at(one.asked)
        before = kept_before(kept, self.level_in_line(one.asked, tenants), one.submitted)
        return all(
            count + before.get(kind, 0) <= room.get(kind, 0)
            for kind, count in one.amounts.items()
            if kind in self.quota
        )

    def _order_of(self, tenant: TenantName) -> QuotaOrder:
        found = self._quota_orders.get(tenant)
        if found is None:
            found = QuotaOrder()
            for workload in self.by_tenant.get(tenant, {}):
                one = self.awards[workload]
                found.add(_entry(workload, one), one.amounts, is_over=one.level == OVER_LEVEL)
            if tenant in self.by_tenant:
                self._quota_orders[tenant] = found
        return found


def _entry(workload: WorkloadId, one: Held) -> QuotaEntry:
    return -one.asked, one.submitted if one.level == OVER_LEVEL else one.number, workload
