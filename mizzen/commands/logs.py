"""`mizzen logs`: what a task of a workload wrote."""

from typing import Annotated

from cyclopts import Parameter

from mizzen.terminal.options import Json, OneWorkload
from mizzen.terminal.output import MISUSED, CommandError


def logs(
    workload: OneWorkload,
    /,
    *,
    rank: Annotated[str, Parameter(help="Which task; `all` are all, each line behind its [rank].")] = "0",
    job: Annotated[str, Parameter(help="Of which job; the first one if not named.")] = "",
    attempt: Annotated[int, Parameter(help="In which attempt; the newest if not named.")] = 0,
    follow: Annotated[
        bool,
        Parameter(
            name=("--follow", "-f"), negative=(), help="Go on until the workload ends, over every restart."
        ),
    ] = False,
    tail: Annotated[int | None, Parameter(help="Only so many lines from the end of what is there.")] = None,
    json: Json = False,
) -> None:
    """Tell what a task wrote: its standard output and error, as they came."""
    from mizzen.views.plane_reads import on_plane, workload_of
    from mizzen.views.tasks.output import Asked, tell_output
    from mizzen.views.tasks.tenant_output import tell_own_output

    if attempt < 0 or (tail is not None and tail < 0):
        raise CommandError("--attempt and --tail are counts, and not less than 0", MISUSED)
    lines = -1 if tail is None else tail
    asked = Asked(workload_of(workload), rank, job, attempt, follow, lines, json)
    on_plane(lambda bus, _: (tell_own_output if bus.tenant else tell_output)(bus, asked))
