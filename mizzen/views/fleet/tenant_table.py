"""Tenants as tables: one line for each, and one for each of its GPU types."""

from collections.abc import Iterable

from core.messages.tenants import ListedTenant, TenantsListed
from core.nouns.instant import SECOND
from core.nouns.pool import SHARED_GPUS
from core.nouns.quantities import MILLI
from core.nouns.tenant import UNLIMITED, Budget, TypeUse
from mizzen.jobs.values import span_text
from mizzen.views.phrases.durations import short_text
from mizzen.views.phrases.text import columns_text, gpus_text

COLUMNS = (
    "TENANT", "LEVEL", "GPUS", "HELD", "BORROWED", "LENT", "PLACED", "PENDING", "BEHIND", "MIN_RUN", "BUDGET",
)  # fmt: skip
FIGURES = COLUMNS[1:]
QUOTA_COLUMNS = (
    "TENANT", "TYPE", "GPUS", "BORROWS", "LENDS", "HELD", "BORROWED", "LENT", "USED", "SHARE", "HOURS", "LEFT", "RENEWS",
)  # fmt: skip
QUOTA_FIGURES = ("GPUS", "BORROWS", *QUOTA_COLUMNS[5:])
GPU_HOUR = 3_600 * MILLI
"""In GPU milli seconds."""
NONE = "-"
SAME = ""
"""Of a tenant as a whole, on every line of it but the first."""


def table_of(rows: Iterable[ListedTenant], width: int | None) -> list[str]:
    """A line for each tenant, all GPU types together; of one that nobody made there is no level."""
    return columns_text(COLUMNS, [_cells(row) for row in rows], width, FIGURES)


def ceilings_of(listed: TenantsListed) -> list[str]:
    """Return a line about the workloads of all tenants."""
    pending = f"{listed.pending} of at most {listed.pending_max} workloads are pending"
    return [f"{pending}; {listed.remembered} of at most {listed.remembered_max} ended ones are remembered"]


def _cells(row: ListedTenant) -> tuple[object, ...]:
    uses = row.uses.values()
    settings = row.settings
    return (
        row.tenant,
        settings.level if row.revision else NONE,
        sum(use.entitlement.gpus for use in uses),
        gpus_text(sum(use.held for use in uses)),
        gpus_text(sum(use.borrowed for use in uses)),
        gpus_text(sum(use.lent for use in uses)),
        row.placed,
        f"{row.pending}/{settings.pending_max}",
        behind_text(row.lag),
        span_text(settings.run_min) if settings.run_min else NONE,
        budget_text(row.budget),
    )


def behind_text(lag: int) -> str:
    """What is missing of what was due, in time of all that a tenant is entitled to; with a minus what it had too much of."""
    if abs(lag) < SECOND:
        return NONE
    return f"-{short_text(-lag)}" if lag < 0 else short_text(lag)


def quota_of(rows: Iterable[ListedTenant], width: int | None) -> list[str]:
    """A line for each tenant and GPU type; what is of all types together stands in a tenant's first."""
    cells: list[tuple[object, ...]] = []
    for row in rows:
        types = [_type_cells(kind, use) for kind, use in row.uses.items()] or [(NONE,) * 7]
        cells += [
            (row.tenant, *mine, *(_whole_cells(row) if at == 0 else (SAME,) * 5))
            for at, mine in enumerate(types)
        ]
    return columns_text(QUOTA_COLUMNS, cells, width, QUOTA_FIGURES)


def deadlines_of(rows: Iterable[ListedTenant]) -> list[str]:
    """A sentence for each tenant: how much of its work may be under deadlines, and how much is in this period."""
    found = []
    for row in rows:
        hours = _hours_text(row.deadlines_gpu_milli_seconds / GPU_HOUR)
        if row.deadlines is None:
            found.append(f"{row.tenant}: as much work under deadlines as it likes")
            continue
        renews = f"; the next period begins in {short_text(row.deadlines_left)}" if row.deadlines_left else ""
        found.append(
            f"{row.tenant}: {hours} of {row.deadlines.gpu_hours} predicted GPU-hours under deadlines in {span_text(row.deadlines.period)}{renews}"
        )
    return found


def beyond_of(row: ListedTenant, gpu_types: Iterable[str]) -> list[str]:
    """What becomes of what a tenant holds beyond what was set just now: a sentence for each of these types of which there is some."""
    found = []
    for kind, use in row.uses.items():
        if kind in gpu_types and (use.borrowed or use.stays):
            more = max(use.borrowed, use.stays)
            text = f"{row.tenant} holds {gpus_text(more)} {kind} more than that: "
            if use.stays < more:
                text += "work within quota may preempt it, and until then it goes on"
            if 0 < use.stays < more:
                text += (
                    f"; but {gpus_text(use.stays)} of them are interactive work, which stays until it ends"
                )
            elif use.stays:
                text += "it is interactive work, which is never preempted and stays until it ends"
            found.append(text)
    return found


def _type_cells(gpu_type: str, use: TypeUse) -> tuple[object, ...]:
    if gpu_type.startswith(SHARED_GPUS):
        return gpu_type, NONE, NONE, NONE, gpus_text(use.held), NONE, NONE  # It is under no quota.
    entitled = use.entitlement
    return (
        gpu_type,
        entitled.gpus,
        "all" if entitled.borrow_max == UNLIMITED else entitled.borrow_max,
        "yes" if entitled.is_lent else "no",
        gpus_text(use.held),
        gpus_text(use.borrowed),
        gpus_text(use.lent),
    )


def _whole_cells(row: ListedTenant) -> tuple[object, ...]:
    """Of all use of late what it used, and of all that is guaranteed what is to it; GPU-hours, used and left of its budget."""
    return (
        _percent_text(row.share_permille),
        _percent_text(row.share_entitled_permille),
        _hours_text(row.used_gpu_hours),
        hours_left_text(row),
        short_text(row.period_left) if row.budget else NONE,
    )


def _percent_text(permille: int) -> str:
    return f"{permille / 10:g}%"


def hours_left_text(row: ListedTenant) -> str:
    """GPU-hours of its budget that are not used in this period: `812.5h`; nothing if it is used up."""
    if row.budget is None:
        return NONE
    return _hours_text(max(0.0, row.budget.gpu_hours - row.used_gpu_hours))


def _hours_text(hours: float) -> str:
    return f"{hours:.1f}".removesuffix(".0") + "h"


def budget_text(budget: Budget | None) -> str:
    """GPU-hours and the period, as they are set: `10000/7d`."""
    return f"{budget.gpu_hours}/{span_text(budget.period)}" if budget else NONE
