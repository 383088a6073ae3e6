"""The part of a plane that runs functions, in a thread of its own: a NATS server, a router, and a function server with real executors."""

import asyncio
import os
import threading
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from bus.nats import NatsConnection
from bus.server import NatsServer
from core.nouns.function import Holding
from core.nouns.ids import RegionName, TenantName
from core.nouns.quantities import Amount
from core.nouns.workload import Serves
from runtime.clock import Clock, wall_now
from runtime.fleet_file import FleetFile, RegionSpec, plan_of_file
from runtime.functions.doer import FunctionDoer
from runtime.process import Ground, run_unit
from runtime.wiring import OpenUnit, Unit, bus_name_of
from store.memory import MemoryStore
from store.memory_disk import MemoryDisk
from tests.runtime.functions.aids import WrittenBook, environ, until_none

FLEET = "fleet"
HERE = RegionName("here")
PATIENCE_SECONDS = 30.0
CORES = 2

Result = TypeVar("Result")


class Life:
    """One unit, while it lives."""

    def __init__(
        self, task: "asyncio.Task[None]", connection: NatsConnection, doer: FunctionDoer | None
    ) -> None:
        self._task = task
        self._connection = connection
        self._doer = doer

    async def end(self) -> None:
        """Kill the unit."""
        if self._doer is not None:
            self._doer.detach()
        self._task.cancel()
        await asyncio.wait([self._task])
        await self._connection.close()


class FunctionsPlane:
    """The units, which can be ended and begun again."""

    def __init__(self, directory: Path, url: str = "") -> None:
        """With a url, the units join a plane that has a server."""
        self.plan = plan_of_file(
            FleetFile({HERE: RegionSpec(nodes=1, gpu_type="H100", functions=True)}, FLEET)
        )
        self.loop = asyncio.new_event_loop()
        self.directory = directory
        self.server = NatsServer({"PATH": os.environ["PATH"]})
        self.book = WrittenBook(self.holding(CORES))
        self.url = url
        self.lives: dict[str, Life] = {}
        self.doer: FunctionDoer | None = None

    @staticmethod
    def holding(cores: int) -> Holding:
        """Return so many cores for functions of all tenants."""
        amount = Amount(cpu_milli=1000 * cores, memory_bytes=1 << 30)
        return Holding(
            "s1", TenantName("ops"), Serves.ALL, is_ending=False, gpus=(), cpu_slots=(), amount=amount
        )

    def call(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do something in the plane's thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE_SECONDS)

    def restart(self, role: str) -> None:
        """End a unit, and begin it again."""
        self.call(self._restart(role))

    def hold(self, cores: int) -> None:
        """Let functions use so many cores from now on."""

        async def write() -> None:
            self.book.write(self.holding(cores))

        self.call(write())

    async def begin(self) -> None:
        """Start the server and the units."""
        self.url = self.url or (await self.server.start()).url
        clock = Clock(self.loop, wall_now())
        self.doer = FunctionDoer(clock, self.book, self.directory / "code", environ(), modules=())
        for role in ("function_server", "function_router"):
            await self._start(role)

    async def end(self) -> None:
        """Stop everything."""
        parent = self.doer._parent.pid if self.doer is not None else 0
        pids = {use.pid for use in self.book.uses} | {parent}
        for life in self.lives.values():
            await life.end()
        if self.doer is not None:
            self.doer.close()
        await self.server.stop()
        await until_none(pids - {0, os.getpid()})

    async def _restart(self, role: str) -> None:
        await self.lives[role].end()
        await self._start(role)

    async def _start(self, role: str) -> None:
        unit = Unit(role, HERE, {"function_router": "r0", "function_server": "w0"}[role])
        connection = await NatsConnection.connect(self.url, FLEET, bus_name_of(unit))
        doer = self.doer if role == "function_server" else None
        ground = Ground(connection.endpoint, MemoryStore(MemoryDisk()), doer)
        has_begun = asyncio.Event()

        def opened(_: OpenUnit) -> None:
            has_begun.set()

        task = self.loop.create_task(run_unit(self.plan, unit, ground, opened), name=role)
        self.lives[role] = Life(task, connection, doer)
        await has_begun.wait()


@contextmanager
def functions_plane(directory: Path, url: str = "") -> Iterator[FunctionsPlane]:
    """One that runs, until the block ends."""
    plane = FunctionsPlane(directory, url)
    thread = threading.Thread(target=plane.loop.run_forever, name="plane", daemon=True)
    thread.start()
    stack = AsyncExitStack()
    stack.push_async_callback(plane.end)
    try:
        plane.call(plane.begin())
        yield plane
    finally:
        plane.call(stack.aclose())
        plane.loop.call_soon_threadsafe(plane.loop.stop)
        thread.join(PATIENCE_SECONDS)
        plane.loop.close()
