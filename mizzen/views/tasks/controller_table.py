"""Who decides when tasks are touched, as each region knows them."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from bus.port import Bus
from core.messages.control import ControllerShown, ControllersShown, ShowControllers
from core.nouns.ids import RegionName
from mizzen.connect.plane import ask
from mizzen.terminal.output import CommandError
from mizzen.views.phrases.durations import short_text
from mizzen.views.phrases.text import columns_text
from mizzen.views.plane_reads import chosen_regions
from mizzen.views.tasks.operation_waits import is_unreachable

COLUMNS = ("REGION", "TENANT", "CONTROLLER", "HEARD", "WAITING", "IGNORED", "WHY IGNORED")
FIGURES = ("WAITING", "IGNORED")


class ControllerRow(Struct, frozen=True):
    """One controller in one region."""

    region: RegionName
    shown: ControllerShown

    @property
    def is_unreachable(self) -> bool:
        """Whether it is asked and says nothing: who has nothing to answer may be silent for ever."""
        return is_unreachable(self.shown, self.shown.asked_ago)


async def rows_of_plane(bus: Bus, region: str) -> tuple[list[ControllerRow], list[tuple[RegionName, str]]]:
    """All rows, and the regions that do not tell, with what went wrong. Raises CommandError."""
    rows: list[ControllerRow] = []
    silent: list[tuple[RegionName, str]] = []
    for name in await chosen_regions(bus, region):
        try:
            shown = await ask(bus, ShowControllers(name), ControllersShown)
        except CommandError as error:
            silent.append((name, str(error)))
            continue
        rows += [ControllerRow(name, one) for one in shown.controllers]
    return rows, silent


def table_of(rows: Iterable[ControllerRow], width: int | None) -> list[str]:
    """The lines of a table."""
    return columns_text(COLUMNS, [_cells(row) for row in rows], width, FIGURES)


def _cells(row: ControllerRow) -> tuple[object, ...]:
    shown = row.shown
    return (
        row.region,
        shown.tenant,
        shown.controller,
        heard_text(row),
        shown.waiting,
        shown.ignored,
        shown.why,
    )


def heard_text(row: ControllerRow) -> str:
    """When it answered last, and whether that is too long ago."""
    ago = row.shown.heard_ago
    heard = f"{short_text(ago)} ago" if ago >= 0 else "never"
    return f"unreachable ({heard})" if row.is_unreachable else heard


def builtins_of(row: ControllerRow) -> dict[str, Any]:  # Any: whatever JSON can hold
    """A row as JSON has it."""
    told: dict[str, Any] = msgspec.to_builtins(row.shown)
    return {"region": row.region, **told, "is_unreachable": row.is_unreachable}
