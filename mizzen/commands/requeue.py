"""`mizzen requeue`: stop attempts, so that their workloads are placed again."""

from mizzen.actions.workload_batch import for_each
from mizzen.terminal.options import AnyWorkloads, Json


def requeue(
    *workloads: AnyWorkloads,
    json: Json = False,
) -> int:
    """Stop the attempts of workloads that run, so that they are placed again from their newest checkpoints."""
    return for_each(workloads, "requeue", is_json=json)
