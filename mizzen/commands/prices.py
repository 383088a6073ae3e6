"""`mizzen prices`: the value of the capacity of each region to the tasks that are expected."""

import shutil
import sys
from typing import Annotated

from cyclopts import Parameter

from mizzen.terminal.options import Json
from mizzen.terminal.output import FAILED, tell_json, tell_lines, tell_problem


def prices(
    region: Annotated[str, Parameter(help="Only of this region.")] = "", /, *, json: Json = False
) -> int:
    """Tell which tasks are expected to come, what capacity is worth to them, and how old these prices are."""
    import msgspec

    from mizzen.views.fleet import price_table
    from mizzen.views.plane_reads import on_plane
    from runtime.clock import wall_now

    found, silent = on_plane(lambda bus, _: price_table.prices_of_plane(bus, region))
    if json:
        tell_json(msgspec.to_builtins(found))
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        tell_lines(price_table.lines_of(found, wall_now(), width))
    for name, why in silent:
        tell_problem(f"region {name} is missing: {why}", is_json=json)
    return FAILED if silent else 0
