"""`mizzen nodes`: what nodes there are, what is free on them, and who is on them."""

import shutil
import sys
from typing import Annotated

from cyclopts import Parameter

from mizzen.answers import FAILED, tell_json, tell_lines, tell_problem
from mizzen.options import Json


def nodes(
    *,
    region: Annotated[str, Parameter(help="Only of this region.")] = "",
    all_: Annotated[bool, Parameter(name="--all", negative=(), help="A line for each node.")] = False,
    json: Json = False,
) -> int:
    """List nodes by region and by groups of like nodes of one worker: GPUs in all, free, held, ending and lost."""
    from mizzen.views import node_table
    from mizzen.views.reading import on_plane

    rows, silent = on_plane(lambda bus, _: node_table.rows_of_plane(bus, region, is_each=all_))
    if json:
        tell_json([node_table.builtins_of(row) for row in rows])
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        tell_lines(node_table.table_of(rows, width))
    for name, why in silent:
        tell_problem(f"region {name} is missing: {why}", is_json=json)
    return FAILED if silent else 0
