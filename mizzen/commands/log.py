"""`mizzen log`: the facts of a log, a line each."""

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt

from mizzen.terminal.options import Json


def log(
    log_: Annotated[
        str, Parameter(name="LOG", help="`global` or `region.NAME` on the running plane, or a .sqlite file.")
    ],
    /,
    *,
    first: Annotated[NonNegativeInt, Parameter(help="The sequence to begin with.")] = 0,
    count: Annotated[
        NonNegativeInt, Parameter(help="At most so many; the newest 50 if nothing is said.")
    ] = 0,
    about: Annotated[str, Parameter(help="Only facts about this workload, worker or region.")] = "",
    follow: Annotated[
        bool, Parameter(name=("--follow", "-f"), negative=(), help="Go on with what comes.")
    ] = False,
    json: Json = False,
) -> None:
    """Tell the facts of a log: sequence, time, actor, type, what it is about, and the rest; JSON is a line each."""
    from mizzen.views.logs.fact_stream import Asked, tell, tell_plane_log
    from mizzen.views.logs.log_source import is_path, log_file, with_file
    from mizzen.views.plane_reads import on_plane

    asked = Asked(first, count, about, follow, json)
    if is_path(log_):
        path: Path = log_file(log_)
        asyncio.run(with_file(path, lambda source: tell(source, asked)))
    else:
        on_plane(lambda bus, _: tell_plane_log(bus, log_, asked))
