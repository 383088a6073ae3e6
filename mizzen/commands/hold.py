"""`mizzen hold`: keep workloads from being awarded."""

from mizzen.actions.workload_batch import for_each
from mizzen.terminal.options import AnyWorkloads, Json


def hold(
    *workloads: AnyWorkloads,
    json: Json = False,
) -> int:
    """Keep workloads from being awarded until they are released. What runs goes on."""
    return for_each(workloads, "hold", is_json=json)
