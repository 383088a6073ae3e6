"""`mizzen requeue`: stop attempts, so that their workloads are placed anew."""

from typing import Annotated

from cyclopts import Parameter

from mizzen.each_workload import for_each
from mizzen.options import Json


def requeue(
    *workloads: Annotated[str, Parameter(name="ID", help="Workloads, as in w-7.")],
    json: Json = False,
) -> int:
    """Stop the attempts of workloads that run, so that they are placed anew from their newest checkpoints."""
    return for_each(workloads, "requeue", is_json=json)
