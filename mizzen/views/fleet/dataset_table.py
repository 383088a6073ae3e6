"""Datasets as a table: where each is, and how many wait that read it."""

from collections.abc import Iterable

from core.messages.data import ListedDataset
from mizzen.views.phrases.text import columns_text

COLUMNS = ("DATASET", "HOME", "REGIONS", "WAITING")
NOWHERE = "-"


def table_of(rows: Iterable[ListedDataset], width: int | None) -> list[str]:
    """A line for each, by name."""
    return columns_text(COLUMNS, [_cells(row) for row in rows], width, ("WAITING",))


def _cells(row: ListedDataset) -> tuple[object, ...]:
    return row.dataset, row.home or NOWHERE, ",".join(row.regions) or NOWHERE, row.waiting
