"""`mizzen plane`: whether every unit of the plane is there and well, and whether every invariant holds."""

import shutil
import sys
from typing import Annotated

from cyclopts import App, Parameter

from mizzen.terminal.options import Json
from mizzen.terminal.output import FAILED, tell_json, tell_lines

plane = App(name="plane", version_flags=[], default_parameter=Parameter(show_default=False))


@plane.default
def show(
    *,
    every: Annotated[bool, Parameter(name="--all", help="Also list each worker that is well.")] = False,
    json: Json = False,
) -> int:
    """Show each unit, whatever was lost or put aside, and broken invariants. Exit with 1 if an operator should look."""
    import msgspec

    from mizzen.views.fleet.plane_health import health_of
    from mizzen.views.fleet.unit_table import lines_of
    from mizzen.views.plane_reads import on_plane

    health = on_plane(lambda bus, _: health_of(bus))
    if json:
        tell_json({**msgspec.to_builtins(health), "is_well": health.is_well})
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        tell_lines(lines_of(health, width, shows_all=every))
    return 0 if health.is_well else FAILED


@plane.command(name="acknowledge")
def acknowledge(*, json: Json = False) -> None:
    """Acknowledge the violations found so far: they are put aside in a file, and a new count begins."""
    from mizzen.actions.plane_words import acknowledge_violations
    from mizzen.views.plane_reads import on_plane

    count = on_plane(lambda bus, _: acknowledge_violations(bus))
    if json:
        tell_json({"acknowledged": count})
    elif count:
        print(f"violations put aside: {count}, in violations.<time>.jsonl beside the logs")
    else:
        print("no violation was found since the last acknowledgement; nothing has changed")


@plane.command(name="accept-clock")
def accept_clock(
    log: Annotated[str, Parameter(name="LOG", help="`global`, or `region.NAME`.")], /, *, json: Json = False
) -> None:
    """Let a log go on whose keeper waits because its machine's clock is far from the log's time."""
    from bus.port import Bus
    from mizzen.actions.plane_words import accept_clock as accept
    from mizzen.views.plane_reads import check_log, on_plane

    async def let_go_on(bus: Bus, _: object) -> None:
        await accept(bus, await check_log(bus, log))

    on_plane(let_go_on)
    if json:
        tell_json({"accepted": log})
    else:
        print(f"{log} goes on in its own time; `mizzen log {log}` shows the word as a fact")
