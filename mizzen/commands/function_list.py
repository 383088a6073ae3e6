"""`mizzen functions`: list the functions that routers know."""

import shutil
import sys
from typing import Annotated

from cyclopts import Parameter

from mizzen.terminal.options import Json
from mizzen.terminal.output import FAILED, tell_json, tell_lines, tell_problem


def list_functions(
    *, region: Annotated[str, Parameter(help="Only of this region.")] = "", json: Json = False
) -> int:
    """List functions by region and router: their rate, run time and servers, and how many calls were cold, wait, or are lost."""
    import msgspec

    from mizzen.views.fleet import function_table
    from mizzen.views.plane_reads import on_plane

    routers, silent = on_plane(lambda bus, _: function_table.routers_of_plane(bus, region))
    if json:
        tell_json(msgspec.to_builtins(routers))
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        tell_lines(function_table.lines_of(routers, width))
    for name, why in silent:
        tell_problem(f"router {name} is missing: {why}", is_json=json)
    return FAILED if silent else 0
