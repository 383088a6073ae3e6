"""What operators ask the job queue about tenants, and its answers."""

from msgspec import Struct

from core.messages.base import Answer, Message
from core.nouns.ids import TenantName
from core.nouns.instant import Nanoseconds
from core.nouns.limits import LISTED_MAX
from core.nouns.quantities import MILLI
from core.nouns.ranking import RankingSettings
from core.nouns.tenant import Budget, Entitlement, TenantSettings, TypeUse


class SetTenant(Message, frozen=True, tag="set-tenant", forbid_unknown_fields=True):
    """Make a tenant, or set it otherwise."""

    tenant: TenantName
    settings: TenantSettings
    revision: int
    """Of the tenant, as the operator saw it, 0 when there was none; another one is refused as superseded."""
    by: str = ""


class SetEntitlement(Message, frozen=True, tag="set-entitlement", forbid_unknown_fields=True):
    """A tenant may hold so much of a GPU type from now on. Nothing that runs is stopped by this."""

    tenant: TenantName
    gpu_type: str
    entitlement: Entitlement
    revision: int
    by: str = ""
    is_forced: bool = False
    """Also if it is less than what the tenant holds, or of a type that there is not."""


class SetBudget(Message, frozen=True, tag="set-budget", forbid_unknown_fields=True):
    """A tenant may use so many GPU-hours from now on."""

    tenant: TenantName
    budget: Budget | None
    """None: as many as it likes."""
    revision: int
    by: str = ""


class SetDeadlineBudget(Message, frozen=True, tag="set-deadline-budget", forbid_unknown_fields=True):
    """A tenant may have so many predicted GPU-hours under deadlines from now on. What it has stays so."""

    tenant: TenantName
    budget: Budget | None
    """None: as many as it likes."""
    revision: int
    by: str = ""


class SetRanking(Message, frozen=True, tag="set-ranking", forbid_unknown_fields=True):
    """Rank by these rules from now on."""

    settings: RankingSettings
    revision: int
    by: str = ""


class RankingAnswered(Answer, frozen=True, tag="ranking-answered"):
    """It is so, under this revision."""

    settings: RankingSettings
    revision: int


class ShowRanking(Message, frozen=True, tag="show-ranking", forbid_unknown_fields=True):
    """Tell by which rules the queue ranks."""


class TenantAnswered(Answer, frozen=True, tag="tenant-answered"):
    """It is so, under this revision of the tenant."""

    tenant: TenantName
    revision: int


class ListTenants(Message, frozen=True, tag="list-tenants", forbid_unknown_fields=True):
    """Name tenants that are set, hold something or have pending work, by name, with what they may hold and do."""

    after: TenantName = TenantName("")
    """The name behind which to go on: `next` of the answer before."""
    count_max: int = LISTED_MAX


class ListedTenant(Struct, frozen=True):
    """One tenant in a list."""

    tenant: TenantName
    settings: TenantSettings
    revision: int
    """0: nobody set anything of it, and it holds something all the same."""
    budget: Budget | None
    uses: dict[str, TypeUse]
    """By GPU type, ascending: those to which it is entitled, and those that it holds."""
    used_gpu_milli_seconds: int = 0
    """In this period of its budget; without a budget, since it has none or first had work."""
    period_left: Nanoseconds = Nanoseconds(0)
    """Until the next begins; without a budget, 0."""
    share_permille: int = 0
    """Of all use of late, what it used."""
    share_entitled_permille: int = 0
    """Of all that anybody is entitled to, what it is."""
    placed: int = 0
    """Its workloads that run, or that a region was told to place."""
    pending: int = 0
    """Its workloads that wait, held ones among them."""
    deadlines: Budget | None = None
    """Of predicted GPU-hours under deadlines."""
    deadlines_gpu_milli_seconds: int = 0
    """Of these, taken in this period."""
    deadlines_left: Nanoseconds = Nanoseconds(0)
    """Until the next period begins; without such a budget, 0."""
    lag: int = 0
    """By how much it is behind what was due to it: nanoseconds of all that it is entitled to. Less than 0: ahead."""

    @property
    def used_gpu_hours(self) -> float:
        """The same for people."""
        return self.used_gpu_milli_seconds / (MILLI * 3_600)


class TenantsListed(Answer, frozen=True, tag="tenants-listed"):
    """Some of them, or all."""

    rows: tuple[ListedTenant, ...]
    next: TenantName
    """What to ask `after` for more; empty: there are none."""
    pending: int = 0
    """Pending workloads of all tenants."""
    pending_max: int = 0
    """The ceiling on these."""
    remembered: int = 0
    """Ended workloads that the queue remembers."""
    remembered_max: int = 0
    """The ceiling on these."""


MESSAGES: tuple[type[Message], ...] = (
    SetTenant,
    SetEntitlement,
    SetBudget,
    SetDeadlineBudget,
    SetRanking,
    ShowRanking,
    RankingAnswered,
    TenantAnswered,
    ListTenants,
    TenantsListed,
)
