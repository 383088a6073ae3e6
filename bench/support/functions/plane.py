"""A real plane that runs functions on cores of this machine, which a service holds, for benchmarks of calls."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from bench.support.plane_client import Client
from bus.nats import NatsConnection
from core.messages.queue import ShowWorkload, WorkloadShown
from core.nouns.ids import RegionName
from core.nouns.instant import seconds
from core.nouns.workload import Phase
from mizzen.actions.function_capacity import serving_job
from mizzen.connect.plane import DIRECTORY
from runtime.fleet_file import load_plan
from runtime.plane import PlaneProcesses

HERE = RegionName("here")
FLEET = """
fleet: bench
regions:
  here: {this_machine: true, cpu_slots: 2, functions: true}
"""
CORES = 2
"""Held by a service, a task each, unless a benchmark says otherwise: so many executors."""
SERVING_SECONDS_MAX = 60.0


class ServingPlane(Struct):
    """A plane while it serves functions."""

    directory: Path
    """Programs that run here find the plane."""
    processes: PlaneProcesses
    connection: NatsConnection
    deaths: list[tuple[str, int]]
    """Each process that died, with its exit code."""


@asynccontextmanager
async def serving_plane(
    directory: Path, fleet: str = FLEET, regions: tuple[RegionName, ...] = (HERE,), cores: int = CORES
) -> AsyncIterator[ServingPlane]:
    """Keep a plane of this fleet up; enter once a service holds so many cores of `here` for functions."""
    async with empty_plane(directory, fleet) as plane:
        client = Client(plane.connection.endpoint("client"), regions)
        await client.begin()
        await _serve(client, cores)
        yield plane


@asynccontextmanager
async def empty_plane(directory: Path, fleet: str = FLEET) -> AsyncIterator[ServingPlane]:
    """Keep a plane of this fleet up on which nothing runs."""
    directory.mkdir(parents=True)
    file = directory / "fleet.yaml"
    file.write_text(fleet)
    deaths: list[tuple[str, int]] = []
    processes = PlaneProcesses(
        load_plan(file), file, directory / DIRECTORY, died=lambda name, code: deaths.append((name, code))
    )
    await processes.start()
    try:
        connection = await NatsConnection.connect(processes.url, "bench", "client", timeout=seconds(30))
        try:
            yield ServingPlane(directory, processes, connection, deaths)
        finally:
            await connection.close()
    finally:
        await processes.stop(ends_tasks=True)


async def _serve(client: Client, cores: int) -> None:
    """Have a service hold cores for functions, and wait until it runs."""
    job = serving_job(
        name="functions", gpus="cpu:1", memory="", tasks=str(cores), whose="own", tenant="", regions=[HERE]
    )
    [service] = await client.submit([job.spec])
    deadline = time.monotonic() + SERVING_SECONDS_MAX
    while True:
        shown = await client.ask(ShowWorkload(service))
        assert isinstance(shown, WorkloadShown), shown
        if shown.phase == Phase.RUNNING:
            return
        assert time.monotonic() < deadline, f"the service for functions does not run: {shown.sentence}"
        await asyncio.sleep(0.05)
