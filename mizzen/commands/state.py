"""`mizzen state`: a log's image as JSON, now or at a sequence."""

import asyncio
import json as json_text
from typing import Annotated

from cyclopts import Parameter

from mizzen.terminal.options import Json
from mizzen.terminal.output import MISUSED, CommandError, tell_json_line


def state(
    log: Annotated[
        str, Parameter(help="A log's file, or the name of a log of the plane that is or was here.")
    ],
    thing: Annotated[
        str, Parameter(name="ID", help="Only of this workload, worker, region or node; all if not named.")
    ] = "",
    /,
    *,
    at: Annotated[int, Parameter(help="The sequence; the newest if not named.")] = 0,
    section: Annotated[str, Parameter(help="Only this section of the image.")] = "",
    json: Json = False,
) -> None:
    """Tell what a log came to at a sequence: the image of its facts, as JSON; with --json on one line."""
    from mizzen.views.logs import image_view
    from mizzen.views.logs.log_source import file_by_name, is_path, log_file, name_of
    from mizzen.views.plane_reads import on_plane

    if at < 0:
        raise CommandError("--at is a fact's sequence, and those begin at 1", MISUSED)
    path = log_file(log) if is_path(log) else file_by_name(log)
    name = name_of(path) if path is not None else log
    sections = image_view.sections_of(name, section)
    if path is not None:
        image, sequence = asyncio.run(image_view.image_in_file(path, at, sections))
    elif at:
        raise CommandError(f"the plane tells only the newest image of {log}; with --at, name the log's file")
    else:
        image, sequence = on_plane(lambda bus, _: image_view.image_on_plane(bus, log, sections))
    view = image_view.view_of(name, image, sequence, thing)
    if json:
        tell_json_line(view)
    else:
        print(json_text.dumps(view, indent=2))
