"""`mizzen release`: let held workloads run."""

from mizzen.actions.workload_batch import for_each
from mizzen.terminal.options import AnyWorkloads, Json


def release(
    *workloads: AnyWorkloads,
    json: Json = False,
) -> int:
    """Lift the hold of workloads."""
    return for_each(workloads, "release", is_json=json)
