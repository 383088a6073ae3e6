"""`mizzen restart`: start tasks again where they are."""

from mizzen.actions.task_options import Deadline, JobName, Ranks, Why, on_tasks
from mizzen.terminal.options import Json, OneWorkload


def restart(
    workload: OneWorkload,
    /,
    *,
    tasks: Ranks = "",
    job: JobName = "",
    deadline: Deadline = "",
    reason: Why = "",
    json: Json = False,
) -> None:
    """Start tasks of a workload again where they are, as its controller allows, or as many at once as may be down.

    The tasks of a service are restarted one by one; a gang is stopped whole and resumes its newest checkpoint.
    """
    on_tasks(workload, "restart", ranks=tasks, job=job, deadline=deadline, reason=reason, is_json=json)
