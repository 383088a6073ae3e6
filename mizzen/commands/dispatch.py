"""`mizzen dispatch`: the order in which each process decides messages, how long they waited, and how the order is set."""

import shutil
import sys
from typing import Annotated

from cyclopts import App, Parameter

from mizzen.terminal.options import Json
from mizzen.terminal.output import FAILED, PROBLEMS_SHOWN_MAX, tell_json, tell_lines, tell_problem

dispatch = App(name="dispatch", version_flags=[], default_parameter=Parameter(show_default=False))


@dispatch.default
def show(
    process: Annotated[
        str,
        Parameter(
            name="PROCESS", help="Only of this process, by its name in `mizzen plane` or in log lines."
        ),
    ] = "",
    /,
    *,
    workers: Annotated[bool, Parameter(negative=(), help="Also of each worker.")] = False,
    json: Json = False,
) -> int:
    """Show the order in which processes decide messages, and by process and class how long messages waited and which were late.

    Exit with 1 if a process does not answer. Classes without messages, and counts that are 0 everywhere, are left out.
    """
    import msgspec

    from mizzen.views.fleet.dispatch_table import dispatch_of_plane, lines_of
    from mizzen.views.plane_reads import on_plane

    found, silent = on_plane(lambda bus, _: dispatch_of_plane(bus, process.strip(), with_workers=workers))
    if json:
        tell_json(msgspec.to_builtins(found))
    else:
        tell_lines(lines_of(found, shutil.get_terminal_size().columns if sys.stdout.isatty() else None))
    for name, why in silent[:PROBLEMS_SHOWN_MAX]:
        tell_problem(f"{name} is missing: {why}", is_json=json)
    if len(silent) > PROBLEMS_SHOWN_MAX:
        tell_problem(f"{len(silent) - PROBLEMS_SHOWN_MAX} more are missing", is_json=json)
    return FAILED if silent else 0


@dispatch.command(name="set")
def set_(
    *,
    policy: Annotated[
        str, Parameter(help="llf, edf, sjf, token, rr or fifo (docs/dispatch.md has what each does).")
    ] = "",
    classes: Annotated[
        tuple[str, ...],
        Parameter(
            name="--class",
            negative=(),
            help="Target and longest wait of a class, as in query=2s or query=2s/10s; query=default takes both back. May be repeated.",
        ),
    ] = (),
    quantum: Annotated[
        str, Parameter(help="Span for which a sender's messages go on before others, as in 1ms; 0 for none.")
    ] = "",
    rate: Annotated[
        str, Parameter(help="Requests of one tenant in a second that the policy token lets pass, as in 20.")
    ] = "",
    json: Json = False,
) -> None:
    """Set the order in which all processes decide messages; settings that are not named stay. No message is lost by that."""
    import msgspec

    from mizzen.actions.settings.dispatch import dispatch_wish_of, set_dispatch
    from mizzen.views.fleet.dispatch_table import settings_text
    from mizzen.views.plane_reads import on_plane

    wish = dispatch_wish_of(policy.strip(), classes, quantum.strip(), rate.strip())
    done = on_plane(lambda bus, _: set_dispatch(bus, wish))
    if json:
        tell_json(msgspec.to_builtins(done))
    else:
        print(settings_text(done.settings, done.revision))
