"""`mizzen cancel`: end workloads for good."""

from typing import Annotated

from cyclopts import Parameter

from mizzen.actions.workload_batch import for_each
from mizzen.terminal.options import Json


def cancel(
    *workloads: Annotated[str, Parameter(name="ID", help="Workloads as in w-7, or pipelines as in p-3.")],
    wait: Annotated[
        bool, Parameter(name=("--wait", "-w"), negative=(), help="Wait until they have ended.")
    ] = False,
    json: Json = False,
) -> int:
    """End workloads for good, whether they run or wait; of a pipeline, all stages that have not ended."""
    return for_each(workloads, "cancel_and_wait" if wait else "cancel", is_json=json)
