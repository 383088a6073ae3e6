"""`mizzen pools`: what pools there are, by which rules each is searched, and what of it stays free."""

import shutil
import sys
from typing import Annotated

from cyclopts import App, Parameter

from mizzen.terminal.options import Json
from mizzen.terminal.output import FAILED, tell_json, tell_lines, tell_problem

pools = App(name="pools", version_flags=[], default_parameter=Parameter(show_default=False))


@pools.default
def list_pools(
    *, region: Annotated[str, Parameter(help="Only of this region.")] = "", json: Json = False
) -> int:
    """List pools by region and zone: nodes, GPUs in all and in use, empty nodes, and what is set of them."""
    import msgspec

    from mizzen.views.fleet import pool_table
    from mizzen.views.plane_reads import on_plane

    rows, silent = on_plane(lambda bus, _: pool_table.rows_of_plane(bus, region))
    if json:
        tell_json(msgspec.to_builtins(rows))
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        tell_lines(pool_table.table_of(rows, width))
    for name, why in silent:
        tell_problem(f"region {name} is missing: {why}", is_json=json)
    return FAILED if silent else 0


@pools.command(name="set")
def set_(
    pool: Annotated[str, Parameter(name="POOL", help="The pool, as `mizzen pools` shows it.")],
    *,
    rules: Annotated[
        str, Parameter(help="A rule set, as in plain, or rules by comma, as in best_fit:8,islands:2.")
    ] = "",
    reserve: Annotated[
        str, Parameter(help="Nodes that stay empty in each zone, but for work that a failure ended.")
    ] = "",
    limit: Annotated[
        str, Parameter(help="Share of each zone's GPUs that may be in use, as in 95%; 100% for no limit.")
    ] = "",
    region: Annotated[str, Parameter(help="The region; need not be said if there is only one.")] = "",
    json: Json = False,
) -> None:
    """Set by which rules a pool is searched, and what of it stays free; what is not said stays as it is."""
    import msgspec

    from mizzen.actions.settings.pools import set_pool, wish_of
    from mizzen.views.fleet.pool_table import set_text
    from mizzen.views.plane_reads import on_plane

    wish = wish_of(rules.strip(), reserve.strip(), limit.strip())
    done = on_plane(lambda bus, _: set_pool(bus, pool, wish, region))
    if json:
        tell_json(msgspec.to_builtins(done))
    else:
        print(set_text(done.region, done.pool, done.settings))
