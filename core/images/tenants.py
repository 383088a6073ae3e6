"""A section of the queue's image: what operators set of tenants."""

from msgspec import Struct, field

from core.events.tenants import BudgetSet, DeadlineBudgetSet, EntitlementSet, RankingSet, TenantSet
from core.fact import Fact
from core.images.base import Section
from core.nouns.ids import TenantName
from core.nouns.ranking import DEFAULT_RANKING, RankingSettings
from core.nouns.tenant import NO_ENTITLEMENT, Budget, Entitlement, TenantSettings


class TenantRow(Struct):
    """One tenant."""

    settings: TenantSettings = TenantSettings()
    entitlements: dict[str, Entitlement] = field(default_factory=dict)
    """By GPU type."""
    budget: Budget | None = None
    deadlines: Budget | None = None
    """Of predicted GPU-hours of pipelines with a deadline; None: no limit."""
    revision: int = 0
    """Grows with everything that is set: a command names the one that it was given for."""

    def of(self, gpu_type: str) -> Entitlement:
        """What it may hold of a type."""
        return self.entitlements.get(gpu_type, NO_ENTITLEMENT)


class Tenants(Section):
    """Every tenant that an operator made; others may have work too, and nothing is guaranteed to them."""

    FOLDS = {
        TenantSet: "_set",
        EntitlementSet: "_entitlement_set",
        BudgetSet: "_budget_set",
        DeadlineBudgetSet: "_deadline_budget_set",
        RankingSet: "_ranking_set",
    }

    rows: dict[TenantName, TenantRow] = field(default_factory=dict)
    ranking: RankingSettings = DEFAULT_RANKING
    ranking_revision: int = 0

    def revision_of(self, tenant: TenantName) -> int:
        """Of what is set of it; 0: nothing is."""
        row = self.rows.get(tenant)
        return row.revision if row else 0

    def _set(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, TenantSet)
        row = self.rows.setdefault(event.tenant, TenantRow())
        row.settings, row.revision = event.settings, event.revision

    def _entitlement_set(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, EntitlementSet)
        row = self.rows[event.tenant]
        row.entitlements[event.gpu_type] = event.entitlement
        row.revision = event.revision

    def _budget_set(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, BudgetSet)
        row = self.rows[event.tenant]
        row.budget, row.revision = event.budget, event.revision

    def _deadline_budget_set(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, DeadlineBudgetSet)
        row = self.rows[event.tenant]
        row.deadlines, row.revision = event.budget, event.revision

    def _ranking_set(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, RankingSet)
        self.ranking, self.ranking_revision = event.settings, event.revision
