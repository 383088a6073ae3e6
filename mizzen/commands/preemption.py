"""`mizzen preemption`: how each region chooses its victims, how much work may be lost by that, and how much was."""

import shutil
import sys
from typing import Annotated

from cyclopts import Parameter

from mizzen.terminal.options import Json
from mizzen.terminal.output import FAILED, tell_json, tell_lines, tell_problem


def preemption(
    *,
    region: Annotated[str, Parameter(help="Only this region; without it, all.")] = "",
    order: Annotated[
        str, Parameter(help="Order of victims of one priority: cost, by lost work, or paper, by run time.")
    ] = "",
    score: Annotated[
        str, Parameter(help="How bids are compared by their victims: vector, or paper, a sum over jobs.")
    ] = "",
    ask: Annotated[
        str, Parameter(help="How long a victim's controller may defer its stop, as in 60s; 0s: not at all.")
    ] = "",
    claim_max: Annotated[
        str, Parameter(help="GPU-hours of work that one claim may destroy; auto: by the region's size.")
    ] = "",
    hour_max: Annotated[str, Parameter(help="The same of all claims of an hour.")] = "",
    paper: Annotated[
        bool, Parameter(negative=(), help="Order and score as in MAST's paper; other options come on top.")
    ] = False,
    json: Json = False,
) -> int:
    """Show how regions choose victims, and the work lost lately; with options, set it. Settings that are not named stay."""
    import msgspec

    from mizzen.actions.settings.preemption import set_preemption, wish_of
    from mizzen.views.fleet import preemption_table
    from mizzen.views.plane_reads import on_plane

    wish = wish_of(
        order=order.strip(),
        score=score.strip(),
        ask=ask.strip(),
        claim_max=claim_max.strip(),
        hour_max=hour_max.strip(),
        is_paper=paper,
    )
    if wish:
        on_plane(lambda bus, _: set_preemption(bus, wish, region))
    rows, silent = on_plane(lambda bus, _: preemption_table.rows_of_plane(bus, region))
    if json:
        tell_json(msgspec.to_builtins(rows))
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        tell_lines(preemption_table.table_of(rows, width))
    for name, why in silent:
        tell_problem(f"region {name} is missing: {why}", is_json=json)
    return FAILED if silent else 0
