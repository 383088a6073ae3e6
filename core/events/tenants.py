"""Events of the log `global` about tenants: who they are, and what they are entitled to."""

from core.fact import Event
from core.nouns.ids import TenantName
from core.nouns.ranking import RankingSettings
from core.nouns.tenant import NO_ENTITLEMENT, Budget, Entitlement, TenantSettings
from core.ranking.fair_lag import FairShare


class TenantSet(Event, frozen=True, tag="tenant-set"):
    """An operator made a tenant, or set it otherwise."""

    about_field = "tenant"
    tenant: TenantName
    revision: int
    """Of all that is set of the tenant: it grows with each of these events."""
    settings: TenantSettings = TenantSettings()
    by: str = ""


class EntitlementSet(Event, frozen=True, tag="entitlement-set"):
    """An operator set what a tenant may hold of a GPU type."""

    about_field = "tenant"
    tenant: TenantName
    revision: int
    gpu_type: str
    entitlement: Entitlement = NO_ENTITLEMENT
    by: str = ""
    is_forced: bool = False
    """Whether they wanted it even if it is less than what the tenant holds, or of a type that there is not."""


class BudgetSet(Event, frozen=True, tag="budget-set"):
    """An operator set how many GPU-hours a tenant may use."""

    about_field = "tenant"
    tenant: TenantName
    revision: int
    budget: Budget | None = None
    """None: it has none from now on."""
    by: str = ""


class DeadlineBudgetSet(Event, frozen=True, tag="deadline-budget-set"):
    """An operator set how many GPU-hours of a tenant may be under deadlines."""

    about_field = "tenant"
    tenant: TenantName
    revision: int
    budget: Budget | None = None
    """Of predicted GPU-hours; None: as many as the tenant likes."""
    by: str = ""


class RankingSet(Event, frozen=True, tag="ranking-set"):
    """An operator set by which rules the queue ranks."""

    revision: int
    settings: RankingSettings
    by: str = ""


class SharesDue(Event, frozen=True, tag="shares-due"):
    """What is due to each tenant that has more or less than that; all others have what they want from now on."""

    dues: dict[TenantName, FairShare]
    types: tuple[str, ...] = ()
    """GPU types under quota: what is held of others counts for nobody."""
    is_more: bool = False
    """Whether it goes on where the one before it ended: what that said of others stands."""


EVENTS: tuple[type[Event], ...] = (
    TenantSet,
    EntitlementSet,
    BudgetSet,
    DeadlineBudgetSet,
    RankingSet,
    SharesDue,
)
