"""`mizzen nodes`: what nodes there are, what is free on them, who is on them, and what keeps new work away.

To let nodes out of the quarantine is `mizzen nodes release`, and not part of `undrain`: who lifts the drain of a rack after
work on it must not give back the one node in it that is ill. `mizzen release` alone is about workloads that are held.
"""

import shutil
import sys
from typing import Annotated

from cyclopts import App, Parameter

from mizzen.terminal.node_options import ANYWHERE, NODES_HELP, PlaceOptions
from mizzen.terminal.options import Json
from mizzen.terminal.output import FAILED, tell_json, tell_lines, tell_problem

nodes = App(name="nodes", version_flags=[], default_parameter=Parameter(show_default=False))


@nodes.default
def list_nodes(
    *,
    region: Annotated[str, Parameter(help="Only of this region.")] = "",
    all_: Annotated[bool, Parameter(name="--all", negative=(), help="A line for each node.")] = False,
    json: Json = False,
) -> int:
    """List nodes by region and by groups of like nodes of one worker: GPUs in all, free, held, ending and lost."""
    from mizzen.views.nodes import node_table
    from mizzen.views.plane_reads import on_plane
    from runtime.clock import wall_now

    rows, silent = on_plane(lambda bus, _: node_table.rows_of_plane(bus, region, is_each=all_))
    if json:
        tell_json([node_table.builtins_of(row) for row in rows])
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        tell_lines(node_table.table_of(rows, wall_now(), width))
    for name, why in silent:
        tell_problem(f"region {name} is missing: {why}", is_json=json)
    return FAILED if silent else 0


@nodes.command
def release(
    *names: Annotated[str, Parameter(name="NODE", help=NODES_HELP)],
    place: PlaceOptions = ANYWHERE,
    reason: Annotated[str, Parameter(help="Why, as in 'GPU 3 replaced'.")] = "",
    json: Json = False,
) -> None:
    """Let nodes out of the quarantine: they take work again, and earlier failures no longer count against them."""
    import msgspec

    from mizzen.actions import nodes as upkeep
    from mizzen.actions.node_text import released_text
    from mizzen.views.plane_reads import on_plane

    said = reason.strip() or "an operator released it"
    done = on_plane(lambda bus, _: upkeep.release(bus, names, place, said))
    if json:
        tell_json(msgspec.to_builtins(done))
    else:
        print(released_text(done))
