"""Regions as a table: whether each answers, and what stands there."""

from collections.abc import Iterable

from core.messages.regions import ListedRegion
from mizzen.views.phrases.text import columns_text, time_text

COLUMNS = ("REGION", "STATE", "SILENT", "NODES", "AWARDS", "LEFT")


def table_of(rows: Iterable[ListedRegion], width: int | None) -> list[str]:
    """A line for each, by name."""
    return columns_text(COLUMNS, [_cells(row) for row in rows], width, ("NODES", "AWARDS", "LEFT"))


def _cells(row: ListedRegion) -> tuple[object, ...]:
    silent = "-" if row.silent_for < 0 else time_text(row.silent_for)
    nodes = row.nodes if row.is_known else "?"
    return row.region, _state_of(row), silent, nodes, row.awards, row.left_behind


def _state_of(row: ListedRegion) -> str:
    if row.is_abandoned:
        return "ABANDONED"
    return "UP" if row.silent_for < 0 else "SILENT"
