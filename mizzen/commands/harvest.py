"""`mizzen harvest`: free and lent capacity that functions use, how soon it is given back, and what it costs."""

import shutil
import sys
from typing import Annotated

from cyclopts import Parameter

from mizzen.terminal.options import Json
from mizzen.terminal.output import FAILED, tell_json, tell_lines, tell_problem


def harvest(
    *,
    region: Annotated[str, Parameter(help="Only of this region.")] = "",
    cost: Annotated[
        bool,
        Parameter(negative=(), help="Show what a useful second costs on held and on harvested capacity."),
    ] = False,
    json: Json = False,
) -> int:
    """List harvested capacity by region and pool: offered, used and recalled, how soon it was given back, and how often.

    Of the last day. LAMBDA is how many recalls of one node are expected in an hour. A line for each region tells how calls fared.
    """
    import msgspec

    from mizzen.views.fleet import harvest_table
    from mizzen.views.plane_reads import on_plane
    from runtime.clock import wall_now

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() and not json else None
    if cost:
        costs, silent = on_plane(lambda bus, _: harvest_table.costs_of_plane(bus, region, wall_now()))
        found, lines = msgspec.to_builtins(costs), harvest_table.cost_lines(costs, width)
    else:
        regions, silent = on_plane(lambda bus, _: harvest_table.harvest_of_plane(bus, region, wall_now()))
        found, lines = msgspec.to_builtins(regions), harvest_table.lines_of(regions, width)
    if json:
        tell_json(found)
    else:
        tell_lines(lines)
    for name, why in silent:
        tell_problem(f"region {name} is missing: {why}", is_json=json)
    return FAILED if silent else 0
