"""`mizzen defrag`: which moves would free whole nodes or racks, and having them made with the consent of what moves."""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from mizzen.terminal.options import Json
from mizzen.terminal.output import FAILED, MISUSED, CommandError, explained, tell_json, tell_lines

if TYPE_CHECKING:
    from bus.port import Bus
    from core.nouns.instant import Nanoseconds
    from mizzen.actions.defrag import Wish


def defrag(
    region: Annotated[
        str, Parameter(name="REGION", help="The region; need not be said if there is only one.")
    ] = "",
    /,
    *,
    plan: Annotated[bool, Parameter(negative=(), help="Show moves, and ask for none.")] = False,
    execute: Annotated[str, Parameter(help="Ask for the moves of the plan in this file.")] = "",
    status: Annotated[
        bool, Parameter(negative=(), help="Tell how far the moves are that are asked for.")
    ] = False,
    free: Annotated[str, Parameter(help="Free whole nodes or racks.")] = "nodes",
    count: Annotated[int, Parameter(help="How many at most; all that can, if not said.")] = 0,
    type_: Annotated[str, Parameter(name="--type", help="Only nodes with these GPUs, as in H100.")] = "",
    out: Annotated[str, Parameter(help="Keep the plan in this file.")] = "",
    within: Annotated[
        str,
        Parameter(help="Work that has not agreed after so long, as in 2h, stays; 30 minutes, if not said."),
    ] = "",
    json: Json = False,
) -> int:
    """Find moves that free whole nodes or racks, those first that destroy the least work for what they free.

    With --plan, or nothing else, it shows them, what they cost, and the region before and after. With --execute it asks for
    those of a plan that still hold: a workload to be moved is asked like for a drain, and stays if it does not agree.
    """
    if sum((plan, bool(execute), status)) > 1:
        raise CommandError("say one of --plan, --execute and --status", MISUSED)
    if (execute or status) and (out or count or type_):
        raise CommandError("--out, --count and --type are of a plan that is made", MISUSED)
    if within and not execute:
        raise CommandError("--within is how long a plan may take that is executed", MISUSED)
    if execute:
        return _execute(Path(execute), region, _span(within), is_json=json)
    if status:
        return _status(region, is_json=json)
    return _plan(region, _wish(free, count, type_), out, is_json=json)


def _wish(free: str, count: int, gpu_type: str) -> "Wish":
    from core.nouns.defragmentation import Freeing
    from mizzen.actions.defrag import Wish

    if free not in set(Freeing):
        raise CommandError(f"--free: {free} is neither nodes nor racks", MISUSED)
    if count < 0:
        raise CommandError("--count: it must not be negative", MISUSED)
    return Wish(Freeing(free), count, gpu_type)


def _span(text: str) -> "Nanoseconds":
    from core.nouns.limits import DEFRAGMENTATION_SPAN, DEFRAGMENTATION_SPAN_MAX
    from mizzen.actions.time_windows import some_span
    from mizzen.jobs.values import Unreadable

    try:
        return some_span(text, DEFRAGMENTATION_SPAN_MAX) if text else DEFRAGMENTATION_SPAN
    except Unreadable as error:
        raise CommandError(f"--within: {error}", MISUSED) from error


def _plan(region: str, wish: "Wish", out: str, *, is_json: bool) -> int:
    import msgspec

    from mizzen.actions import defrag as defragmenting
    from mizzen.actions.defrag_text import lines_of
    from mizzen.views.plane_reads import on_plane

    made = on_plane(lambda bus, _: defragmenting.plan(bus, region, wish))
    if out:
        with explained():
            Path(out).write_bytes(msgspec.json.format(msgspec.json.encode(made)) + b"\n")
    if is_json:
        tell_json(msgspec.to_builtins(made))
        return 0
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    tell_lines(lines_of(made, width))
    if out and made.freed:
        print(f"\n`mizzen defrag {made.region} --execute {out}` asks for them")
    return 0


def _execute(path: Path, region: str, lasts: "Nanoseconds", *, is_json: bool) -> int:
    import msgspec

    from mizzen.actions import defrag as defragmenting
    from mizzen.actions.defrag_text import executed_lines
    from mizzen.views.plane_reads import on_plane

    made = defragmenting.read_plan(path)
    if not made.freed:
        raise CommandError(f"{path} proposes no moves")
    done = on_plane(lambda bus, _: defragmenting.execute(bus, made, region, lasts))
    if is_json:
        tell_json(msgspec.to_builtins(done))
    else:
        tell_lines(executed_lines(done))
    return 0 if done.name else FAILED


def _status(region: str, *, is_json: bool) -> int:
    from mizzen.actions.defrag import region_meant
    from mizzen.views.nodes import drain_watch
    from mizzen.views.plane_reads import on_plane, region_image

    async def looks_of(bus: "Bus") -> tuple[str, list[drain_watch.Look]]:
        where = await region_meant(bus, region)
        image = await region_image(bus, where, ("capacity",))
        closures = image.capacity.closures.items()
        names = [name for name, closure in closures if closure.lasts and not closure.pool]
        return where, [await drain_watch.look(bus, where, name) for name in names]

    where, looks = on_plane(lambda bus, _: looks_of(bus))
    if is_json:
        tell_json([drain_watch.json_of(look) for look in looks])
        return 0
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for at, look in enumerate(looks):
        tell_lines([*([""] if at else []), *drain_watch.text_of(look, width)])
    if not looks:
        print(
            f"no nodes of {where} are being freed; `mizzen log region.{where} --about d-1` tells how d-1 ended"
        )
    return 0
