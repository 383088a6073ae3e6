"""`mizzen region`: which regions answer; a silent region can be abandoned, so that the work there goes on elsewhere."""

import shutil
import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from mizzen.terminal.options import Json
from mizzen.terminal.output import MISUSED, CommandError, tell_json, tell_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from core.messages.regions import ListedRegion

region = App(name="region", version_flags=[], default_parameter=Parameter(show_default=False))

Region = Annotated[str, Parameter(name="REGION", help="As `mizzen region` lists them.")]


@region.default
def list_all(*, json: Json = False) -> None:
    """List regions: whether each answers, its nodes, and its active awards."""
    from mizzen.actions.regions import regions_of
    from mizzen.views.plane_reads import on_plane

    _tell(on_plane(lambda bus, _: regions_of(bus)), is_json=json)


@region.command(name="abandon")
def abandon(
    name: Region,
    /,
    *,
    yes: Annotated[bool, Parameter(help="It is agreed that work there may run twice.")] = False,
    force: Annotated[bool, Parameter(help="Also if the region answers.")] = False,
    json: Json = False,
) -> None:
    """Abandon a region that does not answer: its work goes on elsewhere from its newest checkpoints, though it may still run there.

    When the region is back, work that was left there is stopped, and nothing that it saved since counts.
    """
    from core.nouns.ids import RegionName
    from mizzen.actions.regions import abandon_region, regions_of
    from mizzen.views.plane_reads import on_plane

    rows = () if yes else on_plane(lambda bus, _: regions_of(bus))
    for row in rows:
        if row.region == name:
            text = (
                f"work in {name} may run twice until the region answers again: {row.awards} of its workloads; "
                "if that is agreed, say it with --yes"
            )
            raise CommandError(text, MISUSED)
    done = on_plane(lambda bus, _: abandon_region(bus, RegionName(name), is_forced=force))
    _tell([done], is_json=json)


@region.command(name="readmit")
def readmit(name: Region, /, *, json: Json = False) -> None:
    """Have work placed again in a region that was abandoned."""
    from core.nouns.ids import RegionName
    from mizzen.actions.regions import readmit_region
    from mizzen.views.plane_reads import on_plane

    _tell([on_plane(lambda bus, _: readmit_region(bus, RegionName(name)))], is_json=json)


def _tell(rows: "Iterable[ListedRegion]", *, is_json: bool) -> None:
    import msgspec

    from mizzen.views.fleet.region_table import table_of

    if is_json:
        tell_json(msgspec.to_builtins(list(rows)))
    else:
        tell_lines(table_of(rows, shutil.get_terminal_size().columns if sys.stdout.isatty() else None))
