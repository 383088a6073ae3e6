"""Tenants as tables: one line for each, and one for each of its GPU types."""

from collections.abc import Iterable

from core.messages.tenants import ListedTenant
from core.nouns.tenant import UNLIMITED, Budget
from mizzen.jobs.values import span_text
from mizzen.views.texts import columns_text, gpus_text

COLUMNS = ("TENANT", "LEVEL", "GPUS", "HELD", "BORROWED", "LENT", "MIN_RUN", "BUDGET")
FIGURES = ("LEVEL", "GPUS", "HELD", "BORROWED", "LENT", "MIN_RUN", "BUDGET")
QUOTA_COLUMNS = ("TENANT", "TYPE", "GPUS", "BORROWS", "LENDS", "HELD", "BORROWED", "LENT")
QUOTA_FIGURES = ("GPUS", "BORROWS", "HELD", "BORROWED", "LENT")


def table_of(rows: Iterable[ListedTenant], width: int | None) -> list[str]:
    """A line for each tenant, all GPU types together; of one that nobody made there is no level."""
    return columns_text(COLUMNS, [_cells(row) for row in rows], width, FIGURES)


def _cells(row: ListedTenant) -> tuple[object, ...]:
    uses = row.uses.values()
    settings = row.settings
    return (
        row.tenant,
        settings.level if row.revision else "-",
        sum(use.entitlement.gpus for use in uses),
        gpus_text(sum(use.held for use in uses)),
        gpus_text(sum(use.borrowed for use in uses)),
        gpus_text(sum(use.lent for use in uses)),
        span_text(settings.run_min) if settings.run_min else "-",
        budget_text(row.budget),
    )


def quota_of(rows: Iterable[ListedTenant], width: int | None) -> list[str]:
    """A line for each tenant and GPU type."""
    cells = []
    for row in rows:
        for gpu_type, use in row.uses.items():
            entitled = use.entitlement
            borrows = "all" if entitled.borrow_max == UNLIMITED else entitled.borrow_max
            lends = "yes" if entitled.is_lent else "no"
            figures = (gpus_text(use.held), gpus_text(use.borrowed), gpus_text(use.lent))
            cells.append((row.tenant, gpu_type, entitled.gpus, borrows, lends, *figures))
    return columns_text(QUOTA_COLUMNS, cells, width, QUOTA_FIGURES)


def budget_text(budget: Budget | None) -> str:
    """GPU-hours and the period, as they are set: `10000/7d`."""
    return f"{budget.gpu_hours}/{span_text(budget.period)}" if budget else "-"
