"""The tenants of a scenario: what operators set of them at the start, in the words in which `mizzen quota` asks for it."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from core.nouns.instant import SECOND, seconds
from core.nouns.ranking import DEFAULT_RANKING, DeadlinePolicy, RankingSettings
from core.nouns.tenant import LEVEL_MAX, LEVEL_MIN, UNLIMITED, Budget, Entitlement, TenantSettings
from scenarios.schema.fleet import FleetSpec, regions_of
from scenarios.schema.parts import (
    COUNT_MAX,
    Count,
    FieldError,
    Hours,
    NotNegative,
    Positive,
    Steps,
    read_struct,
    read_value,
    tried,
    unknown,
)

Level = Annotated[int, Meta(ge=LEVEL_MIN, le=LEVEL_MAX)]
Percent = Annotated[int, Meta(ge=0, le=100)]
Borrowing = Annotated[int, Meta(ge=UNLIMITED, le=COUNT_MAX)]
Name = Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{1,63}$")]


class EntitlementSpec(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a tenant may hold of one GPU type, over all regions."""

    gpus: Count = 0
    borrow_max: Borrowing = UNLIMITED
    """GPUs that it may hold beyond those while others do not use them; -1: as many as there are."""
    is_lent: bool = True
    """Whether others may hold what it does not use of those."""

    @property
    def entitlement(self) -> Entitlement:
        """As the plane is told."""
        return Entitlement(self.gpus, self.borrow_max, self.is_lent)


class BudgetSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """So many GPU-hours in each period."""

    gpu_hours: Positive
    hours: Hours
    """How long a period is."""

    @property
    def told(self) -> Budget:
        """As the plane is told."""
        return Budget(self.gpu_hours, seconds(3600 * self.hours))


class TenantSpec(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One tenant, under its name. It is made at the start, before anything is submitted."""

    level: Level = TenantSettings().level
    run_min_seconds: NotNegative = 0.0
    """For which its work runs at least before it may be pushed out."""
    entitled: dict[str, EntitlementSpec] = {}
    """By GPU type. A type is under quota as soon as one tenant is entitled to some of it, or to none."""
    budget: BudgetSpec | None = None
    deadline_budget: BudgetSpec | None = None
    """Predicted GPU-hours of pipelines that may have a deadline; who asks for more is accepted without one."""

    @property
    def settings(self) -> TenantSettings:
        """As the plane is told."""
        return TenantSettings(self.level, seconds(self.run_min_seconds))


UNSAID = "the scenario has tenants, so it must be said whose this is: by `tenant`, or by `tenants` and their weights"
Tenants = Mapping[str, TenantSpec]


class RankingSpec(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """By which rules the queue ranks: ours, unless one is set as the paper has it."""

    shares_by_entitlement: bool = DEFAULT_RANKING.shares_by_entitlement
    """Whether a tenant's use is held against what it is entitled to; else, as in the paper, against all tenants' mean."""
    walks_by_level: bool = DEFAULT_RANKING.walks_by_level
    """Whether of a tenant's work that of a higher level takes its quota first; else, as in the paper, whoever has more credit."""
    counts_borrowed: bool = DEFAULT_RANKING.counts_borrowed
    """Whether what a tenant holds over its quota fills it, as in the paper."""
    quota_patience_seconds: NotNegative = DEFAULT_RANKING.quota_patience / SECOND
    """Who has waited for so long keeps its tenant's quota from that tenant's work behind it; 0, as in the paper: never."""
    gather_percent: Percent = DEFAULT_RANKING.gather_percent
    """Room is gathered for who has waited over quota for the age cap, and wants no more than this part of all GPUs of its type."""
    age_cap_seconds: NotNegative = DEFAULT_RANKING.credit.age_cap / SECOND
    """A wait beyond it adds no credit."""
    lends_by_lag: bool = True
    """Whether what is lent goes first to who is behind what was due to it; else, as in the paper, by the same credit as all else."""
    deadlines: DeadlinePolicy = DEFAULT_RANKING.deadlines
    """How stages of pipelines with a deadline are ranked: by start deadlines (`llf`), by the pipeline's deadline (`edf`), or as all work (`off`)."""

    @property
    def settings(self) -> RankingSettings:
        """As the plane is told."""
        credit = replace(DEFAULT_RANKING.credit, age_cap=seconds(self.age_cap_seconds))
        return RankingSettings(
            credit if self.lends_by_lag else replace(credit, lag_weight=0),
            shares_by_entitlement=self.shares_by_entitlement,
            walks_by_level=self.walks_by_level,
            counts_borrowed=self.counts_borrowed,
            quota_patience=seconds(self.quota_patience_seconds),
            gather_percent=self.gather_percent,
            deadlines=self.deadlines,
        )


def problems_of_tenants(
    tenants: Tenants, fleet: FleetSpec | None, named: Iterable[tuple[Steps, str]]
) -> list[FieldError]:
    """Names elsewhere in the file that none of them has, and entitlements to what the fleet has nothing of.

    named   each with its place; empty where one is wanted if the scenario has tenants
    """
    found = [
        FieldError(path, unknown(name, tenants, what="tenants") if name else UNSAID)
        for path, name in named
        if name not in tenants and (name or tenants)
    ]
    return found if fleet is None else [*found, *_problems_of_types(tenants, fleet)]


def _problems_of_types(tenants: Tenants, fleet: FleetSpec) -> list[FieldError]:
    regions = regions_of(fleet).values()
    types = {region.gpu_type for region in regions}
    if any(region.this_machine for region in regions):
        return []  # It has what it has.
    return [
        FieldError(("tenants", name, "entitled", kind), unknown(kind, types, what="GPU types"))
        for name, tenant in tenants.items()
        for kind in tenant.entitled
        if kind not in types
    ]


def read_tenants(given: dict[str, Any], errors: list[FieldError]) -> dict[str, TenantSpec]:
    """Those that can be read, by their names."""  # Any: as YAML gives it
    named = given.get("tenants")
    if named is None:
        return {}
    if not isinstance(named, dict):
        errors.append(FieldError(("tenants",), "it must be tenants by their names, as in `ours: {level: 4}`"))
        return {}
    found: dict[str, TenantSpec] = {}
    for name, fields in named.items():
        path = ("tenants", str(name))
        tried(errors, partial(read_value, name, Name, path))
        spec = tried(errors, partial(read_struct, TenantSpec, {} if fields is None else fields, path))
        if spec is not None:
            found[str(name)] = spec
    return found
