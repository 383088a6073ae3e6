"""Tenants: whether their settings are well formed, and the GPUs that each holds, borrows and lends. From images alone."""

import re
from collections.abc import Iterable, Mapping

from core.images.queue import WorkloadRow
from core.images.region import RegionImage
from core.images.tenants import Tenants
from core.nouns.fleet import ANY_TYPE, gpu_type_of
from core.nouns.harvest import RISK_MAX
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import SECOND
from core.nouns.limits import (
    BUDGET_GPU_HOURS_MAX,
    BUDGET_PERIOD_MAX,
    BUDGET_PERIOD_MIN,
    CEILING_MAX,
    CREDIT_MAX,
    ENTITLED_GPUS_MAX,
    GATHER_PERCENT_MAX,
    LAG_WEIGHT_MAX,
    NAME_LENGTH_MAX,
    TENANT_RUN_MIN_MAX,
)
from core.nouns.pool import SHARED_GPUS
from core.nouns.quantities import MILLI
from core.nouns.ranking import RankingSettings
from core.nouns.tenant import (
    LEVEL_MAX,
    LEVEL_MIN,
    NO_ENTITLEMENT,
    UNLIMITED,
    Budget,
    Entitlement,
    TenantSettings,
    TypeUse,
)
from core.rules.quota import held_on

_TOKEN = re.compile(r"[A-Za-z0-9_-]+")
_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_HOUR = 3_600 * SECOND

Held = dict[TenantName, dict[str, int]]
"""GPU milli by tenant and GPU type; no zeros."""


def problems_of_name(tenant: TenantName) -> list[str]:
    """Return the problems of a new tenant's name."""
    if _TOKEN.fullmatch(tenant) and len(tenant) <= NAME_LENGTH_MAX:
        return []
    return [f"tenant: use 1 to {NAME_LENGTH_MAX} letters, digits, '_' and '-'"]


def problems_of_settings(settings: TenantSettings) -> list[str]:
    """Return every problem of a tenant's settings, each with its field."""
    found = []
    if not LEVEL_MIN <= settings.level <= LEVEL_MAX:
        found.append(f"level: {settings.level} is not between {LEVEL_MIN} and {LEVEL_MAX}")
    if not 0 <= settings.run_min <= TENANT_RUN_MIN_MAX:
        found.append(f"run_min: it is not between 0 and {TENANT_RUN_MIN_MAX // _HOUR} hours")
    if not 0 <= settings.harvest.risk_max <= RISK_MAX:
        found.append(f"harvest.risk_max: it is not between 0 and {RISK_MAX} millionths")
    return found + _problems_of_ceiling("pending_max", settings.pending_max)


def _problems_of_ceiling(name: str, value: int) -> list[str]:
    return [] if 0 <= value <= CEILING_MAX else [f"{name}: {value} is not between 0 and {CEILING_MAX}"]


def problems_of_entitlement(gpu_type: str, entitlement: Entitlement) -> list[str]:
    """Return every problem of an entitlement, each with its field."""
    found = []
    if gpu_type == ANY_TYPE:
        found.append(f"gpu_type: {ANY_TYPE} is no type; say how many of which")
    elif not _TYPE.fullmatch(gpu_type) or len(gpu_type) > NAME_LENGTH_MAX:
        found.append(f"gpu_type: a type is 1 to {NAME_LENGTH_MAX} letters, digits, '.', '_' and '-'")
    if not 0 <= entitlement.gpus <= ENTITLED_GPUS_MAX:
        found.append(f"gpus: {entitlement.gpus} is not between 0 and {ENTITLED_GPUS_MAX}")
    if not UNLIMITED <= entitlement.borrow_max <= ENTITLED_GPUS_MAX:
        text = f"{entitlement.borrow_max} is not between 0 and {ENTITLED_GPUS_MAX}"
        found.append(f"borrow_max: {text}, nor {UNLIMITED} for no limit")
    return found


def problems_of_budget(budget: Budget) -> list[str]:
    """Return every problem of a budget, each with its field."""
    found = []
    if budget.gpu_hours == 0:
        found.append("budget.gpu_hours: with none nothing could run; name 1 at least, or no budget")
    elif not 0 < budget.gpu_hours <= BUDGET_GPU_HOURS_MAX:
        found.append(f"budget.gpu_hours: {budget.gpu_hours} is not between 1 and {BUDGET_GPU_HOURS_MAX}")
    if not BUDGET_PERIOD_MIN <= budget.period <= BUDGET_PERIOD_MAX:
        least, most = BUDGET_PERIOD_MIN // _HOUR, BUDGET_PERIOD_MAX // _HOUR
        found.append(f"budget.period: it is not between {least} and {most} hours")
    return found


def problems_of_deadline_budget(budget: Budget) -> list[str]:
    """Return every problem of a budget of work under deadlines, each with its field; unlike that of all work, it may be 0."""
    return problems_of_budget(budget if budget.gpu_hours else Budget(1, budget.period))


def problems_of_ranking(settings: RankingSettings) -> list[str]:
    """Return every problem of the settings of the ranking, each with its field."""
    found = []
    credit = settings.credit
    for name, value in (
        ("age_weight", credit.age_weight),
        ("age_cap", credit.age_cap),
        ("share_weight", credit.share_weight),
    ):
        if not 0 <= value <= CREDIT_MAX:
            found.append(f"credit.{name}: {value} is not between 0 and {CREDIT_MAX}")
    if not 0 <= credit.lag_weight <= LAG_WEIGHT_MAX:
        found.append(f"credit.lag_weight: {credit.lag_weight} is not between 0 and {LAG_WEIGHT_MAX}")
    for name, span in (
        ("credit.half_life", credit.half_life),
        ("credit.lag_cap", credit.lag_cap),
        ("pass_span", settings.pass_span),
    ):
        if not SECOND <= span <= BUDGET_PERIOD_MAX:
            found.append(f"{name}: it is not between a second and {BUDGET_PERIOD_MAX // _HOUR} hours")
    if not 0 <= settings.quota_patience <= BUDGET_PERIOD_MAX:
        found.append(f"quota_patience: it is not between 0 and {BUDGET_PERIOD_MAX // _HOUR} hours")
    if not 0 <= settings.gather_percent <= GATHER_PERCENT_MAX:
        found.append(f"gather_percent: {settings.gather_percent} is not between 0 and {GATHER_PERCENT_MAX}")
    for name, value in (("pending_max", settings.pending_max), ("remembered_max", settings.remembered_max)):
        found += _problems_of_ceiling(name, value)
    return found


def is_below_held(was: Entitlement, wanted: Entitlement, held: int) -> bool:
    """Return whether a change lowers a tenant's guarantee, or the most that the tenant may hold, below the GPUs held.

    held  GPU milli of the type
    """
    guarantee = wanted.gpus < was.gpus and wanted.gpus * MILLI < held
    most, most_was = wanted.gpus_max, was.gpus_max
    is_lower = most != UNLIMITED and (most_was == UNLIMITED or most < most_was)
    return guarantee or (is_lower and most * MILLI < held)


def held_by_tenant(
    workloads: Mapping[WorkloadId, WorkloadRow], regions: Iterable[RegionImage], *, has_pairs: bool = False
) -> Held:
    """Return the GPU milli of granted attempts that have not ended, by tenant and GPU type.

    Attempts of workloads that are not in `workloads` do not count. A promise holds no capacity yet. All tasks of a job are on nodes of one type.

    has_pairs   two jobs may share a GPU in shared pools
    """
    found: Held = {}
    for image in regions:
        for workload, epochs in image.attempts.rows.items():
            row = workloads.get(workload)
            for attempt in epochs.values():
                if row is None or not attempt.phase.is_live:
                    continue
                amounts = held_on(row.spec, attempt.spreads, image.hardware, has_pairs=has_pairs)
                for gpu_type, amount in amounts.items():
                    mine = found.setdefault(row.tenant, {})
                    mine[gpu_type] = mine.get(gpu_type, 0) + amount
    return found


def gpus_by_type(regions: Iterable[RegionImage]) -> dict[str, int]:
    """Return the GPU milli of all nodes, by GPU type."""
    found: dict[str, int] = {}
    for image in regions:
        for node_type, row in image.hardware.rows.items():
            gpu_type = gpu_type_of(node_type)[0]
            found[gpu_type] = found.get(gpu_type, 0) + row.gpu_milli
    return found


def uses_by_tenant(
    tenants: Tenants, held: Held, there: Mapping[str, int]
) -> dict[TenantName, dict[str, TypeUse]]:
    """Return the GPUs that each tenant holds, has borrowed and has lent, by tenant and type, both ascending.

    there    GPU milli of each type in the fleet
    returns  for each type, the lent sum to the borrowed beyond GPUs guaranteed to no tenant, as far as idle guarantees reach; of a shared
             pool's GPUs, which are under no quota, nothing is borrowed
    """
    names = sorted({*tenants.rows, *held})
    found: dict[TenantName, dict[str, TypeUse]] = {name: {} for name in names}
    types = {kind for row in tenants.rows.values() for kind in row.entitlements}
    for gpu_type in sorted({*types, *(kind for mine in held.values() for kind in mine)}):
        rows = {name: tenants.rows.get(name) for name in names}
        entitled = {name: row.of(gpu_type) if row else NO_ENTITLEMENT for name, row in rows.items()}
        holds = {name: held.get(name, {}).get(gpu_type, 0) for name in names}
        is_shared = gpu_type.startswith(SHARED_GPUS)
        borrowed = {
            name: 0 if is_shared else max(0, holds[name] - entitled[name].gpus * MILLI) for name in names
        }
        idle = {
            name: max(0, entitled[name].gpus * MILLI - holds[name]) if entitled[name].is_lent else 0
            for name in names
        }
        unguaranteed = there.get(gpu_type, 0) - sum(one.gpus for one in entitled.values()) * MILLI
        lent = _shared_out(sum(borrowed.values()) - max(0, unguaranteed), idle)
        for name in names:
            row = rows[name]
            if holds[name] or (row is not None and gpu_type in row.entitlements):
                use = TypeUse(entitled[name], holds[name], borrowed[name], lent[name])
                found[name][gpu_type] = use
    return found


def _shared_out(amount: int, idle: Mapping[TenantName, int]) -> dict[TenantName, int]:
    """Return an amount, or all that is idle, divided in proportion to each tenant's idle GPU milli.

    Parts are whole GPUs as far as possible; the remainder from rounding goes to the first tenants by name.
    """
    total = sum(idle.values())
    amount = min(max(0, amount), total)
    shares = {name: amount * one // total // MILLI * MILLI if total else 0 for name, one in idle.items()}
    rest = amount - sum(shares.values())
    for name, one in idle.items():
        more = min(rest, one - shares[name])
        shares[name] += more
        rest -= more
    return shares
