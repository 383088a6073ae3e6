"""`mizzen update`: change what a workload's tasks run."""

from typing import Annotated

from cyclopts import Parameter

from mizzen.terminal.options import Json, OneWorkload
from mizzen.terminal.output import tell_json, tell_note


def update(
    workload: OneWorkload,
    file: Annotated[
        str, Parameter(help="A job file or a script; - reads standard input.", allow_leading_hyphen=True)
    ],
    /,
    *arguments: Annotated[str, Parameter(help="For the script, or for `run` where it says $@; behind --.")],
    set_: Annotated[
        tuple[str, ...],
        Parameter(name="--set", help="Any field, as in tasks=4; can be given again."),
    ] = (),
    json: Json = False,
) -> None:
    """Change what the jobs of a workload run, and how many tasks they have, to what a job file says.

    The tasks of a service follow one by one; a gang is stopped and placed again. Each only as its controller allows.
    """
    import msgspec

    from mizzen.actions import workload_changes as changing
    from mizzen.jobs.given import job_given
    from mizzen.views.plane_reads import on_plane, workload_of

    asked = workload_of(workload)
    job = job_given(file, arguments, settings=set_, command="update", is_json=json)
    done = on_plane(lambda bus, _: changing.update(bus, asked, job))
    left = changing.staying(done.spec, job.spec)
    if left:
        tell_note(
            f"{', '.join(left)}: the file's values are left out; only jobs can be changed", is_json=json
        )
    if json:
        tell_json(msgspec.to_builtins(done))
    else:
        print(changing.text_of(done))
