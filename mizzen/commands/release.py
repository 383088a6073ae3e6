"""`mizzen release`: let held workloads run."""

from typing import Annotated

from cyclopts import Parameter

from mizzen.each_workload import for_each
from mizzen.options import Json


def release(
    *workloads: Annotated[str, Parameter(name="ID", help="Workloads, as in w-7.")],
    json: Json = False,
) -> int:
    """Lift the hold of workloads."""
    return for_each(workloads, "release", is_json=json)
