"""`mizzen move`: start tasks again on other nodes."""

from mizzen.on_tasks import Deadline, JobName, Ranks, Why, on_tasks
from mizzen.options import Json, OneWorkload


def move(
    workload: OneWorkload,
    /,
    *,
    tasks: Ranks = "",
    job: JobName = "",
    deadline: Deadline = "",
    reason: Why = "",
    json: Json = False,
) -> None:
    """Start tasks of a workload again on other nodes, as its controller allows, or as many at once as may be down.

    The tasks of a service stay in their region; a gang is placed anew, wherever it fits best.
    """
    on_tasks(workload, "move", ranks=tasks, job=job, deadline=deadline, reason=reason, is_json=json)
