"""Runs a controller in its user's own process, on a plane.

from mizzen.control.serving import run

run(MyController(), name="web", tenant="search")
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bus.catalogue import inbox_of_controller
from mizzen.control.access import access_to
from runtime.control.controller import TaskController
from runtime.control.serving import ControllerServer
from runtime.logs import set_up_logs
from runtime.process import connected, run_until_signalled


@asynccontextmanager
async def serving(
    controller: TaskController, *, name: str = "", tenant: str = "", plane: str | Path | None = None
) -> AsyncIterator[ControllerServer]:
    """A controller that is served while the block lasts. Waits for a server that is not there yet.

    `plane` is the address of its NATS server, or a file with credentials or a plane.json; none: as commands find it.
    Raises CommandError, and ServerTooOld.
    """
    access = access_to(plane, tenant, name)
    connection = await connected(
        access.url,
        access.fleet,
        f"controller.{access.tenant}.{access.controller}",
        inbox=inbox_of_controller(access.tenant, access.controller),
    )
    endpoint = connection.endpoint(connection.name)
    server = ControllerServer(controller, endpoint, access.tenant, access.controller)
    try:
        await server.start()
        yield server
    finally:
        await server.close()
        await endpoint.close()
        await connection.close()


async def serve(
    controller: TaskController, *, name: str = "", tenant: str = "", plane: str | Path | None = None
) -> None:
    """Serve a controller until cancelled; see `serving`."""
    async with serving(controller, name=name, tenant=tenant, plane=plane) as server:
        await server.wait()


def run(
    controller: TaskController, *, name: str = "", tenant: str = "", plane: str | Path | None = None
) -> None:
    """Serve a controller in this process until SIGTERM or SIGINT ends it; see `serving`."""
    set_up_logs(os.environ, default="info")
    run_until_signalled(lambda: serve(controller, name=name, tenant=tenant, plane=plane))
