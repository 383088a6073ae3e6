"""One real process that holds a whole plane: NATS on loopback, SQLite files, the system's clock, emulated tasks.

Every unit lives as it would in a process of its own (runtime/process.py): with its own connection, restarted by its own
supervisor, and killed by letting go of everything at once. What a real kill may leave behind besides, a batch that is not
durable, the simulated world draws; here the batch in flight is written and nobody is told.
"""

import asyncio
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from bus.nats import NatsConnection
from bus.port import Bus
from bus.server import NatsServer
from core.nouns.instant import Instant
from runtime.clock import Clock, wall_now
from runtime.data.emulated import EmulatedData
from runtime.data.emulated_world import DataWorld
from runtime.planning.solving import SolverProcess
from runtime.process import Ground, connected, run_unit
from runtime.spool import EmulatedSpool
from runtime.status.put_aside import Suspects
from runtime.status.violation_file import ViolationFile
from runtime.wiring import BUILD, OpenUnit, Plan, Unit, bus_name_of, units_of
from store.sqlite import SqliteStore

logger = structlog.get_logger()

LOOK_AGAIN_SECONDS = 0.005
END_SECONDS_MAX = 20.0
"""How long a unit may take to let go of its log and of the bus. It takes a hundredth of a second, a second without a server."""


class RealUnit:
    """One unit of the plane, dead or alive."""

    def __init__(self, world: "OneProcessWorld", unit: Unit) -> None:
        self.world = world
        self.unit = unit
        self.open: OpenUnit | None = None
        self.lives = 0
        self.failure: BaseException | None = None
        """What ended it for good."""
        self.spool: EmulatedSpool | None = None
        self._solver: SolverProcess | None = None
        self._data: EmulatedData | None = None
        self._violations: ViolationFile | None = None
        self.suspects = Suspects(None, BUILD, wall_now)
        """Messages on which the unit has failed, over all of its lives."""
        self._connection: NatsConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._has_begun = asyncio.Event()
        """Or has failed to."""

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self.open is not None

    @property
    def state(self) -> Any:  # Any: each component has its own
        """Of its component, in this very moment; None before it has begun, and for a reader."""
        return self.open.host.state if self.open is not None and self.open.host is not None else None

    @property
    def under(self) -> EmulatedSpool | SolverProcess | EmulatedData | ViolationFile | None:
        """The doer of the unit's effects, which outlives its lives."""
        return self.spool or self._solver or self._data or self._violations

    async def start(self) -> None:
        """Begin a life, and wait until it has its log. Raises whatever keeps it from that."""
        assert self._task is None, self.unit
        world = self.world
        loop = asyncio.get_running_loop()
        if self.spool is None and self.unit.role == "worker":
            self.spool = EmulatedSpool(self.unit.name, Clock(loop, wall_now(), Instant(0)))
            world.keep_running(self.spool)
        if self._solver is None and self.unit.role == "planner":
            self._solver = SolverProcess()
            world.keep_running(self._solver)
        if self._data is None and self.unit.role == "data_service":
            clock = Clock(loop, wall_now(), Instant(0))
            self._data = EmulatedData(self.unit.region, world.data, clock)
            world.keep_running(self._data)
        if self._violations is None and self.unit.role == "auditor":
            self._violations = ViolationFile(world.directory)
        self.failure = None
        self._has_begun.clear()
        self._connection = await connected(world.url, world.plan.fleet, bus_name_of(self.unit))
        ground = Ground(self._connection.endpoint, world.store, self.under, self.suspects)
        life = run_unit(world.plan, self.unit, ground, self._opened)
        self._task = loop.create_task(life, name=f"unit/{self.unit.name}")
        self._task.add_done_callback(self._ended)
        await self._has_begun.wait()
        await self._raise_failure()

    async def kill(self) -> None:
        """Let go of everything: what was neither handed to the log nor said is gone. Nothing is waited for but the end."""
        task, connection = self._task, self._connection
        self._task = self._connection = None
        if self.under is not None:
            self.under.detach()
        if task is not None:
            task.cancel()
            ended, _ = await asyncio.wait([task], timeout=END_SECONDS_MAX)
            assert ended, f"{self.unit.name} does not end"
        if connection is not None:
            await connection.close()

    def _opened(self, life: OpenUnit) -> None:
        self.open = life
        self.lives += 1
        self._has_begun.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.open = None
        self.failure = None if task.cancelled() else task.exception()
        self._has_begun.set()

    async def _raise_failure(self) -> None:
        """A unit that could not begin is taken away before its failure is told."""
        failure = self.failure
        if failure is not None:
            await self.kill()
            raise failure


class OneProcessWorld:
    """A plane, its server and its files."""

    def __init__(self, plan: Plan, directory: Path | None = None) -> None:
        """Without a directory the logs lie in a temporary one, which goes at `stop`."""
        self.plan = plan
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if directory is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="mizzen-")
            directory = Path(self._temporary.name)
        self.directory = directory
        self.store = SqliteStore(directory)
        # Never a server that somebody else runs: this one is to be killed.
        self.server = NatsServer({"PATH": os.environ.get("PATH", "")})
        self.url = ""
        self.units = [RealUnit(self, unit) for unit in units_of(plan)]
        self._clients: list[NatsConnection] = []
        self._under: list[tuple[EmulatedSpool | SolverProcess | EmulatedData, asyncio.Task[None]]] = []
        self.data = DataWorld()
        """What data services have on their disks, and the links between them."""

    async def start(self) -> None:
        """Start the server and every unit, keepers first."""
        self.url = (await self.server.start()).url
        for unit in self.units:
            await unit.start()

    async def stop(self) -> None:
        """End everything in order, followers first, and whatever failed on the way included."""
        for unit in reversed(self.units):
            await unit.kill()
        for under, task in self._under:
            task.cancel()
            await asyncio.wait([task])
            under.close()
        for connection in self._clients:
            await connection.close()
        await self.server.stop()
        if self._temporary is not None:
            self._temporary.cleanup()

    async def client(self, name: str) -> Bus:
        """Somebody who asks."""
        connection = await connected(self.url, self.plan.fleet, name)
        self._clients.append(connection)
        return connection.endpoint(name)

    def unit(self, role: str, region: str = "") -> RealUnit:
        """The first unit of a role."""
        return next(
            unit for unit in self.units if unit.unit.role == role and region in (unit.unit.region, "")
        )

    def failures(self) -> list[tuple[Unit, BaseException]]:
        """Units that are dead for good, and why."""
        return [(unit.unit, unit.failure) for unit in self.units if unit.failure is not None]

    async def until(self, holds: Callable[[], bool], seconds_max: float, what: str) -> None:
        """Wait until something holds. Raises TimeoutError, which says what did not, and AssertionError if a unit is dead."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds_max
        while not holds():
            assert not self.failures(), self.failures()
            if loop.time() > deadline:
                raise TimeoutError(f"after {seconds_max:.0f} s it is still not so that {what}")
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    def keep_running(self, under: EmulatedSpool | SolverProcess | EmulatedData) -> None:
        """Tasks go on whether or not their worker lives, and so does solving."""
        task = asyncio.get_running_loop().create_task(under.run(), name="under")
        self._under.append((under, task))
