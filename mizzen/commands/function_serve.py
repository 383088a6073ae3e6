"""`mizzen functions serve`: submit a service that holds capacity for functions."""

import uuid
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from mizzen.terminal.options import Json
from mizzen.terminal.output import tell_json_line

if TYPE_CHECKING:
    from bus.port import Bus
    from mizzen.connect.plane import Plane


def serve(
    *,
    gpus: Annotated[str, Parameter(help="The device that each task holds, as in cpu:4 or H100:1.")] = "cpu:1",
    memory: Annotated[str, Parameter(help="The memory that each task holds, as in 8GiB.")] = "",
    tasks: Annotated[str, Parameter(help="How many tasks hold so much.")] = "1",
    whose: Annotated[
        str,
        Parameter(
            name="--for", help="own: for the tenant's functions; all: for everybody's, of operators alone."
        ),
    ] = "own",
    name: Annotated[str, Parameter(help="The name of the service.")] = "functions",
    tenant: Annotated[str, Parameter(help="On whose account.")] = "",
    region: Annotated[tuple[str, ...], Parameter(help="Where the capacity may be; can be given again.")] = (),
    json: Json = False,
) -> None:
    """Hold capacity for functions until the service is cancelled; only its id is printed. Refused where no region runs functions."""
    from mizzen.actions.function_capacity import serving_job
    from mizzen.actions.submit import submitted
    from mizzen.views.fleet.function_table import regions_with_routers
    from mizzen.views.plane_reads import on_plane

    job = serving_job(
        name=name, gpus=gpus, memory=memory, tasks=tasks, whose=whose, tenant=tenant, regions=region
    )

    async def submit(bus: "Bus", _: "Plane") -> str:
        await regions_with_routers(bus, region)
        return await submitted(bus, job, uuid.uuid4().hex)

    workload = on_plane(submit)
    if json:
        tell_json_line({"workload": workload})
    else:
        print(workload)
