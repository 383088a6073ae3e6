"""`mizzen pipeline`: pipelines, by when their stages must start, and when they will end."""

import shutil
import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from mizzen.terminal.options import Json
from mizzen.terminal.output import tell_json, tell_json_line, tell_lines, tell_note

if TYPE_CHECKING:
    from bus.port import Bus
    from core.nouns.ids import PipelineId


def pipeline(
    pipeline: Annotated[
        str, Parameter(name="ID", help="The pipeline, as in p-7; without one, all are listed.")
    ] = "",
    /,
    *,
    watch: Annotated[
        bool,
        Parameter(
            name=("--watch", "-w"), negative=(), help="Go on, drawn again or with a line for each change."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """List pipelines, the least laxity first; or show one: stages, start deadlines, forecast, and each change with its cause.

    START-BY is the time at which a stage must start so that the deadline is met; LAXITY the time until then. STARTS and ENDS are
    past or forecast; the BAND reaches from quick runs without waits to slow runs with long ones.
    """
    from mizzen.views.pipelines.stages import pipeline_of
    from mizzen.views.plane_reads import on_plane

    one = pipeline_of(pipeline) if pipeline else None
    if watch:
        on_plane(lambda bus, _: _watch(bus, one, is_json=json))
    elif one is not None:
        on_plane(lambda bus, _: _show(bus, one, is_json=json))
    else:
        on_plane(lambda bus, _: _list(bus, is_json=json))


async def _show(bus: "Bus", pipeline: "PipelineId", *, is_json: bool) -> None:
    from mizzen.views.pipelines import stages

    told = await stages.pipeline_told(bus, pipeline)
    if bus.tenant:
        tell_note(stages.UNTOLD, is_json=is_json)
    if is_json:
        tell_json(stages.builtins_of(told))
    else:
        tell_lines(stages.lines_of(told, _width()))


async def _list(bus: "Bus", *, is_json: bool) -> None:
    import msgspec

    from mizzen.views.pipelines import table

    rows, now = await table.pipelines_listed(bus)
    if is_json:
        tell_json({"pipelines": msgspec.to_builtins(rows), "now": now})
    else:
        tell_lines(table.table_of(rows, now, _width()))


async def _watch(bus: "Bus", pipeline: "PipelineId | None", *, is_json: bool) -> None:
    """Draw it anew on a terminal; elsewhere tell each change of it as a line. One pipeline is watched to its end."""
    from mizzen.views.pipelines.watching import drawn, told_as_lines

    if is_json or not sys.stdout.isatty():
        async for line in told_as_lines(bus, pipeline, is_json=is_json):
            if is_json:
                tell_json_line(line)
            else:
                print(line, flush=True)
        return
    await drawn(bus, pipeline)


def _width() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
