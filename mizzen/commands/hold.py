"""`mizzen hold`: keep workloads from being awarded."""

from typing import Annotated

from cyclopts import Parameter

from mizzen.each_workload import for_each
from mizzen.options import Json


def hold(
    *workloads: Annotated[str, Parameter(name="ID", help="Workloads, as in w-7.")],
    json: Json = False,
) -> int:
    """Keep workloads from being awarded until they are released. What runs goes on."""
    return for_each(workloads, "hold", is_json=json)
