"""`mizzen queue`: which workloads there are, where they run, and why the others do not."""

import shutil
import sys
from typing import Annotated

from cyclopts import Parameter

from mizzen.terminal.options import Json
from mizzen.terminal.output import MISUSED, CommandError, tell_json, tell_lines


def queue(
    *,
    all_: Annotated[bool, Parameter(name="--all", negative=(), help="Those that have ended too.")] = False,
    state: Annotated[str, Parameter(help="Only in this state, or in these, joined by commas.")] = "",
    tenant: Annotated[str, Parameter(help="Only of this tenant.")] = "",
    region: Annotated[str, Parameter(help="Only in this region, or pinned to it.")] = "",
    start: Annotated[
        bool, Parameter(negative=(), help="When pending workloads will start, and how sure that is.")
    ] = False,
    watch: Annotated[
        bool,
        Parameter(
            name=("--watch", "-w"), negative=(), help="Go on, drawn again or with a line for each change."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """List workloads: those that run with their nodes, those that wait with every reason.

    TIME is how long a workload waits while it waits, and how long it runs or ran from then on. With --start: pending workloads in
    the order in which it is served, with the estimated start, the BAND in which four of five starts lie, and how often it held.
    """
    from mizzen.views.plane_reads import on_plane
    from mizzen.views.workloads import queue_lines as listing

    if start:
        if all_ or state or region or watch:
            raise CommandError(
                "--start lists pending workloads: it goes with --tenant and --json alone", MISUSED
            )
        _starts(tenant, is_json=json)
        return
    wanted = listing.Wanted(listing.phases_of(state, is_all=all_), tenant, region)
    if watch:
        on_plane(lambda bus, _: listing.watch(bus, wanted, is_json=json))
        return
    rows, counts = on_plane(lambda bus, _: listing.listed(bus, wanted))
    if json:
        tell_json({"workloads": [listing.builtins_of(row) for row in rows], "counts": counts})
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    tell_lines(listing.table_of(rows, width))


def _starts(tenant: str, *, is_json: bool) -> None:
    from datetime import UTC, datetime

    from mizzen.views.plane_reads import on_plane
    from mizzen.views.workloads import start_estimates as starts

    found = on_plane(lambda bus, _: starts.starts(bus, tenant))
    if is_json:
        tell_json(starts.builtins_of(found))
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    tell_lines(starts.table_of(found, datetime.now(UTC), width))
