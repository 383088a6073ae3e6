"""`mizzen restart`: start tasks again where they are."""

from typing import Annotated

from cyclopts import Parameter

from mizzen.on_tasks import Deadline, JobName, Ranks, Why, on_tasks
from mizzen.options import Json


def restart(
    workload: Annotated[str, Parameter(name="ID", help="The workload, as in w-7.")],
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
