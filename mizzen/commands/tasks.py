"""`mizzen tasks`: the tasks of a workload, and what is about to happen to each."""

import shutil
import sys
from typing import Annotated

from cyclopts import Parameter

from mizzen.terminal.options import Json, OneWorkload
from mizzen.terminal.output import tell_json, tell_lines, tell_note


def tasks(
    workload: OneWorkload,
    /,
    *,
    watch: Annotated[
        bool,
        Parameter(
            name=("--watch", "-w"),
            negative=(),
            help="Go on until it has ended, drawn again or with a line for each change.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """List the tasks of a workload: where each is, since when, and what its next operation waits for.

    Those of a gang, which are touched together, are told by node.
    """
    from mizzen.views.plane_reads import on_plane, workload_of
    from mizzen.views.tasks import task_list as view

    asked = workload_of(workload)
    if watch:
        on_plane(lambda bus, _: view.watch(bus, asked, is_json=json))
        return
    found = on_plane(lambda bus, _: view.seen(bus, asked))
    if json:
        tell_json(view.builtins_of(found))
    elif not found.tasks:
        tell_note(view.without_text(found), is_json=json)
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        tell_lines(view.lines_of(found, width))
