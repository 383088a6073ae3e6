"""A section of the queue's image: the tenants' use, by which they are ranked and held to their budgets.

GPU-time is charged from the time when all tasks run until the attempt is over: the wait for a gang's last task is not charged, and
neither is an attempt that never started.
"""

from msgspec import Struct, field

from core.events.queue import AttemptClosed, AwardReturned, StandingChanged, WorkloadAwarded, WorkloadBound
from core.events.tenants import BudgetSet, RankingSet, SharesDue
from core.fact import Fact
from core.images.base import Section
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import SECOND, Instant, Nanoseconds
from core.nouns.limits import TENANTS_MAX
from core.nouns.pool import SHARED_GPUS
from core.nouns.quantities import MILLI
from core.nouns.ranking import DEFAULT_RANKING
from core.nouns.tenant import OVER_LEVEL
from core.ranking.credit import FadingUse, charged, faded
from core.ranking.fair_lag import FairShare, lag_after

GPU_HOUR = MILLI * 3_600 * SECOND
"""GPU milli nanoseconds in a GPU-hour."""


class Charged(Struct):
    """A standing award."""

    tenant: TenantName
    level: int
    charge: dict[str, int]
    """GPU milli by type."""
    is_up: bool = False
    """Whether all of its tasks run, so that it is charged."""

    @property
    def gpu_milli(self) -> int:
        """Of all types outside shared pools."""
        return sum(count for name, count in self.charge.items() if not name.startswith(SHARED_GPUS))

    @property
    def shared_milli(self) -> int:
        """Of all types in shared pools: it counts against a budget, and takes no credit."""
        return sum(count for name, count in self.charge.items() if name.startswith(SHARED_GPUS))


class UsageRow(Struct):
    """One tenant's."""

    fading: FadingUse = FadingUse()
    """Outside shared pools."""
    shared_milli: int = 0
    """GPU milli that its work holds in shared pools, of what is up."""
    period: Nanoseconds = Nanoseconds(0)
    """Of its budget; 0: it has none."""
    period_began: Instant = Instant(0)
    """The period in which `counted_at` lies."""
    used_hours: int = 0
    """In that period, up to `counted_at`: whole GPU-hours, for 64 bits hold no more than 5,124 of them in the finest unit."""
    used: int = 0
    """Besides these: in GPU milli nanoseconds."""
    counted_at: Instant = Instant(0)
    within: dict[str, int] = field(default_factory=dict)
    """GPU milli by type of its standing awards that are within quota, whether or not they are up."""
    standing: int = 0
    """GPU milli of the tenant's active awards, whether or not they are up, of the types in `Usage.shared`."""
    due: FairShare | None = None
    """None: it has all that it wants."""
    lag: Nanoseconds = Nanoseconds(0)
    """Up to `counted_at`, by how much it is behind what was due to it: of all that it is entitled to."""

    def used_at(self, now: Instant) -> int:
        """In the period in which `now` lies, not before the last change: GPU milli nanoseconds."""
        began = self.began_at(now)
        if began == self.period_began:
            before = self.used_hours * GPU_HOUR + self.used
            return before + self.rate * (now - self.counted_at)
        return self.rate * (now - began)

    @property
    def rate(self) -> int:
        """GPU milli that are charged to its budget now."""
        return self.fading.gpu_milli + self.shared_milli

    def lag_at(self, now: Instant, cap: Nanoseconds) -> Nanoseconds:
        """By then, not before the last change."""
        return lag_after(self.lag, self.due, self.standing, now - self.counted_at, cap)

    def began_at(self, now: Instant) -> Instant:
        """When the period in which `now` lies began."""
        if not self.period:
            return self.period_began
        return Instant(self.period_began + (now - self.period_began) // self.period * self.period)


class Usage(Section):
    """By tenant, and what each standing award adds to it."""

    FOLDS = {
        WorkloadAwarded: "_awarded",
        WorkloadBound: "_bound",
        StandingChanged: "_standing_changed",
        AwardReturned: "_over",
        AttemptClosed: "_over",
        BudgetSet: "_budget_set",
        RankingSet: "_ranking_set",
        SharesDue: "_shares_due",
    }

    rows: dict[TenantName, UsageRow] = field(default_factory=dict)
    awards: dict[WorkloadId, Charged] = field(default_factory=dict)
    half_life: Nanoseconds = DEFAULT_RANKING.credit.half_life
    lag_cap: Nanoseconds = DEFAULT_RANKING.credit.lag_cap
    shared: tuple[str, ...] = ()
    """GPU types of which tenants have fair shares: those under quota when the shares were last computed."""

    def faded(self, tenant: TenantName, now: Instant) -> int:
        """Its use, in milli-GPU-seconds."""
        row = self.rows.get(tenant)
        return faded(row.fading, max(now, row.fading.at), self.half_life) if row is not None else 0

    def lag(self, tenant: TenantName, now: Instant) -> Nanoseconds:
        """By how much it is behind what was due to it."""
        row = self.rows.get(tenant)
        return row.lag_at(max(now, row.counted_at), self.lag_cap) if row is not None else Nanoseconds(0)

    def dues(self) -> dict[TenantName, FairShare]:
        """As last recorded."""
        return {name: row.due for name, row in self.rows.items() if row.due is not None}

    def _awarded(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadAwarded)
        level = OVER_LEVEL if event.level is None else event.level
        award = self.awards[event.workload] = Charged(event.tenant, level, dict(event.charge))
        self._stand(award, 1, fact.at)

    def _bound(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadBound)
        award = self.awards.get(event.workload)
        if award is not None:
            award.is_up = True
            self._hold(award.tenant, award.gpu_milli, award.shared_milli, fact.at)

    def _standing_changed(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, StandingChanged)
        award = self.awards.get(event.workload)
        if award is None:
            return
        award.tenant = award.tenant or event.tenant  # Awards of earlier builds do not name their tenants.
        gpus, shared = award.gpu_milli, award.shared_milli
        self._stand(award, -1, fact.at)
        award.level, award.charge = event.level, dict(event.charge)
        self._stand(award, 1, fact.at)
        more, more_shared = award.gpu_milli - gpus, award.shared_milli - shared
        if award.is_up and (more or more_shared):
            self._hold(award.tenant, more, more_shared, fact.at)

    def _over(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AwardReturned | AttemptClosed)
        award = self.awards.pop(event.workload, None)
        if award is None:
            return
        self._stand(award, -1, fact.at)
        if award.is_up:
            self._hold(award.tenant, -award.gpu_milli, -award.shared_milli, fact.at)

    def _budget_set(self, fact: Fact) -> None:
        """A period begins with its budget, and goes on when only the number of GPU-hours is another."""
        event = fact.event
        assert isinstance(event, BudgetSet)
        row = self._counted(event.tenant, fact.at)
        period = event.budget.period if event.budget is not None else Nanoseconds(0)
        if period != row.period:
            row.period, row.period_began, row.used_hours, row.used = period, Instant(fact.at), 0, 0

    def _ranking_set(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, RankingSet)
        for tenant in self.rows:
            self._counted(tenant, fact.at)
        self.half_life, self.lag_cap = event.settings.credit.half_life, event.settings.credit.lag_cap

    def _shares_due(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, SharesDue)
        for tenant in sorted(event.dues.keys() | (() if event.is_more else self.dues())):
            self._counted(tenant, fact.at).due = event.dues.get(tenant)
        if event.types != self.shared:
            self.shared = event.types
            for row in self.rows.values():
                row.standing = 0
            for award in self.awards.values():
                self._share(award, 1, fact.at)

    def _hold(self, tenant: TenantName, more: int, more_shared: int, at: int) -> None:
        """From now on, charge so many GPU milli more, outside shared pools and in them."""
        self._counted(tenant, at, more).shared_milli += more_shared

    def _share(self, award: Charged, sign: int, at: int) -> None:
        """It counts against what is due to its tenant from now on, or does no more."""
        count = sum(award.charge.get(kind, 0) for kind in self.shared)
        if count:
            row = self._row(award.tenant, Instant(at))
            if row.due is not None:
                self._counted(award.tenant, at)
            row.standing += sign * count

    def _stand(self, award: Charged, sign: int, at: int) -> None:
        self._share(award, sign, at)
        if award.level == OVER_LEVEL or not award.charge:
            return
        within = self._row(award.tenant, Instant(at)).within
        for kind, count in award.charge.items():
            left = within.get(kind, 0) + sign * count
            if left:
                within[kind] = left
            else:
                within.pop(kind, None)

    def _counted(self, tenant: TenantName, at: int, more: int = 0) -> UsageRow:
        """Return a tenant's row, brought forward to a fact's time, never before the last; from then on, charge `more` GPU milli."""
        now = Instant(at)
        row = self._row(tenant, now)
        row.lag = row.lag_at(now, self.lag_cap)
        row.used_hours, row.used = divmod(row.used_at(now), GPU_HOUR)
        row.period_began, row.counted_at = row.began_at(now), now
        row.fading = charged(row.fading, row.fading.gpu_milli + more, now, self.half_life)
        return row

    def _row(self, tenant: TenantName, now: Instant) -> UsageRow:
        row = self.rows.get(tenant)
        if row is None:
            if len(self.rows) >= TENANTS_MAX:
                self._drop_least()
            row = self.rows[tenant] = UsageRow(FadingUse(at=now), counted_at=now)
        return row

    def _drop_least(self) -> None:
        """Of those that hold nothing and have no budget the one that used least."""
        idle = [
            name
            for name, row in self.rows.items()
            if not row.fading.gpu_milli
            and not row.period
            and not row.within
            and row.due is None
            and not row.standing
            and not row.shared_milli
        ]
        if idle:
            del self.rows[min(idle, key=lambda name: (self.rows[name].fading.gpu_milli_seconds, name))]
