"""`mizzen move`: start tasks again on other nodes, or a workload in another region."""

from typing import Annotated

from cyclopts import Parameter

from mizzen.actions.task_options import Deadline, JobName, Ranks, Why, on_tasks
from mizzen.terminal.options import Json, OneWorkload
from mizzen.terminal.output import MISUSED, CommandError, tell_json, tell_lines


def move(
    workload: OneWorkload,
    /,
    *,
    to: Annotated[str, Parameter(help="The region in which a gang is to go on.")] = "",
    force: Annotated[bool, Parameter(help="Also if that does not pay. With --to.")] = False,
    tasks: Ranks = "",
    job: JobName = "",
    deadline: Deadline = "",
    reason: Why = "",
    json: Json = False,
) -> None:
    """Start tasks of a workload again on other nodes, as its controller allows, or as many at once as may be down.

    The tasks of a service stay in their region; a gang is placed again, wherever it fits best, or where --to says: that region keeps
    capacity for it before it stops.
    """
    if to:
        if any((tasks, job, deadline, reason)):
            text = "a gang moves to another region whole, when its controller agrees; leave out all options but --to and --force"
            raise CommandError(text, MISUSED)
        _move_to(workload, to, is_forced=force, is_json=json)
    elif force:
        raise CommandError("--force is for a move to another region; name it with --to", MISUSED)
    else:
        on_tasks(workload, "move", ranks=tasks, job=job, deadline=deadline, reason=reason, is_json=json)


def _move_to(workload: str, region: str, *, is_forced: bool, is_json: bool) -> None:
    import msgspec

    from core.nouns.ids import RegionName
    from mizzen.actions.move import move_to, text_of
    from mizzen.views.plane_reads import on_plane, workload_of

    asked = workload_of(workload)
    moved = on_plane(lambda bus, _: move_to(bus, asked, RegionName(region), is_forced=is_forced))
    if is_json:
        tell_json(msgspec.to_builtins(moved))
    else:
        tell_lines(text_of(moved).split("\n"))
