"""`mizzen resize`: change how many tasks a workload has."""

from typing import Annotated

from cyclopts import Parameter

from mizzen.terminal.options import Json, OneWorkload
from mizzen.terminal.output import tell_json


def resize(
    workload: OneWorkload,
    /,
    *,
    tasks: Annotated[int, Parameter(help="How many it is to have.")],
    job: Annotated[str, Parameter(help="Which job, if it has several.")] = "",
    json: Json = False,
) -> None:
    """Change how many tasks a job of a workload has.

    A service grows or shrinks by its last ranks while the others run; a gang is stopped and placed again.
    """
    import msgspec

    from mizzen.actions import workload_changes as changing
    from mizzen.views.plane_reads import on_plane, workload_of

    asked = workload_of(workload)
    done = on_plane(
        lambda bus, _: changing.change(bus, asked, lambda spec: changing.with_tasks(spec, tasks, job))
    )
    if json:
        tell_json(msgspec.to_builtins(done))
    else:
        print(changing.text_of(done))
