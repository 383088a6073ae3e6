"""`mizzen controllers`: list the task controllers, and whether they answer."""

import shutil
import sys
from typing import Annotated

from cyclopts import Parameter

from mizzen.terminal.options import Json
from mizzen.terminal.output import FAILED, tell_json, tell_lines, tell_problem


def controllers(
    *,
    region: Annotated[str, Parameter(help="Only of this region.")] = "",
    json: Json = False,
) -> int:
    """List the controllers that each region knows: when it heard them last, and how many operations wait for their word.

    One is unreachable if it is asked and has said nothing for half a minute.
    """
    from mizzen.views.plane_reads import on_plane
    from mizzen.views.tasks import controller_table

    rows, silent = on_plane(lambda bus, _: controller_table.rows_of_plane(bus, region))
    if json:
        tell_json([controller_table.builtins_of(row) for row in rows])
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        tell_lines(controller_table.table_of(rows, width))
    for name, why in silent:
        tell_problem(f"region {name} is missing: {why}", is_json=json)
    return FAILED if silent else 0
