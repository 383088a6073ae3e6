"""The simulated world: the same components, hosts and codec over a virtual loop, a simulated bus and memory logs.

A run is repeatable to the byte from (scenario, seed, commit). Every process of the plane is a `SimulatedUnit`: tasks of
the loop and an endpoint of the bus that can be killed at any await, and a disk that survives.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import structlog

from bus.simulated import SimulatedNetwork
from core.images import RegionImage
from core.nouns.ids import LogName, RegionName
from core.nouns.instant import SECOND, Instant, seconds
from runtime.clock import Clock
from runtime.spool import EmulatedSpool
from runtime.virtual_loop import VirtualLoop
from runtime.wiring import (
    OpenUnit,
    Plan,
    Surroundings,
    Unit,
    bus_name_of,
    log_kept_by,
    open_unit,
    units_of,
)
from scenarios.worlds.physics import Physics
from store.errors import LogFull
from store.memory import MemoryLog, MemoryReader, MemoryStore
from store.memory_disk import Fate, MemoryDisk

logger = structlog.get_logger()

START = Instant(1_767_225_600_000_000_000)
"""2026-01-01, so that instants look like instants."""
SYNC = seconds(0.0005)
"""How long a batch takes to be durable."""


class Disks:
    """A disk for each log, because keepers die one by one."""

    def __init__(self, sync_delay: Callable[[], Any]) -> None:
        self._sync_delay = sync_delay
        self._disks: dict[LogName, MemoryDisk] = {}

    def disk(self, log: LogName) -> MemoryDisk:
        """The disk that a log lies on."""
        return self._disks.setdefault(log, MemoryDisk())

    async def open(self, name: LogName, log_id_if_new: str) -> MemoryLog:
        """As store/port.py promises."""
        return await MemoryStore(self.disk(name), self._sync_delay).open(name, log_id_if_new)

    async def reader(self, name: LogName) -> MemoryReader:
        """As store/port.py promises."""
        return await MemoryStore(self.disk(name), self._sync_delay).reader(name)


class SimulatedUnit:
    """One process of the plane, dead or alive."""

    def __init__(self, world: "SimulatedWorld", unit: Unit) -> None:
        self.world = world
        self.unit = unit
        self.open: OpenUnit | None = None
        self.failure: BaseException | None = None
        self.spool: EmulatedSpool | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._endpoint: Any = None  # Any: the endpoint's own ways to die are not in the port
        self._life = 0
        if unit.role == "worker":
            self.spool = EmulatedSpool(unit.name, world.clock(START, START))

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self.open is not None

    @property
    def bus_name(self) -> str:
        """What it is called on the bus."""
        return bus_name_of(self.unit)

    async def start(self) -> None:
        """Begin a life."""
        assert self.open is None, self.unit
        world = self.world
        self._life += 1
        life = self._life
        self._endpoint = world.network.endpoint(self.bus_name)
        around = Surroundings(
            bus=self._endpoint,
            store=world.store,
            now=world.now,
            clock=world.clock,
            new_log_id=world.new_log_id,
            doer=self.spool,
            decides_twice=world.decides_twice,
        )
        opened = await open_unit(world.plan, self.unit, around)
        if self._life != life:
            await opened.close()  # It was killed while it started.
            return
        self.open = opened
        for name, task in opened.tasks():
            started = world.loop.create_task(task, name=name)
            started.add_done_callback(self._ended)
            self._tasks.append(started)

    def kill(self) -> None:
        """As kill -9 does: nothing more is said, and what was not durable is gone."""
        self._life += 1
        if self._endpoint is not None:
            self._endpoint.crash()
        for task in self._tasks:
            task.cancel()
        self._tasks = []
        if self.spool is not None:
            self.spool.detach()
        if self.open is not None:
            self.open.drop()
            self.open = None
        keeps = log_kept_by(self.unit)
        if keeps is not None:
            self.world.crash_log(keeps)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Tasks end by being cancelled, or by raising: then the process dies, and is started again."""
        if task.cancelled():
            return
        failure = task.exception()
        if failure is None or task not in self._tasks:
            return
        self.kill()
        if isinstance(failure, LogFull):
            self.world.restart_soon(self)
        else:
            self.failure = failure
            self.world.fail(self.unit, failure)


class SimulatedWorld:
    """A plane, its network, its disks and its time."""

    def __init__(self, plan: Plan, seed: int, loop: VirtualLoop, *, decides_twice: bool = False) -> None:
        self.plan = plan
        self.decides_twice = decides_twice
        self.loop = loop
        self.dice = random.Random(f"world/{seed}")
        self.network = SimulatedNetwork(random.Random(f"network/{seed}"), loop, plan.fleet)
        self.store = Disks(self._sync)
        self.failures: list[tuple[Unit, BaseException]] = []
        self.kills = 0
        self._log_ids = 0
        self._background: list[asyncio.Task[None]] = []
        self.units = [SimulatedUnit(self, unit) for unit in units_of(plan)]
        self.physics = Physics(self.region_image)
        for unit in self.units:
            if unit.spool is not None:
                inventory = plan.inventory(unit.unit.region, unit.unit.member)
                gpus = {node: group.total.gpu_milli for group in inventory.groups for node in group.numbers()}
                self.physics.watch(unit.unit.region, unit.spool, gpus)

    # What units are built over.

    def now(self) -> Instant:
        """The wall clock of this world."""
        return self.loop.now_ns()

    def clock(self, start: Instant, not_before: Instant) -> Clock:
        """A clock for one host."""
        return Clock(self.loop, start, not_before)

    def new_log_id(self) -> str:
        """Numbered, so that it is the same in every run."""
        self._log_ids += 1
        return f"log-{self._log_ids}"

    async def _sync(self) -> None:
        await asyncio.sleep(SYNC / SECOND)

    # Life and death.

    async def start(self) -> None:
        """Start every process, and the nodes under the workers."""
        for unit in self.units:
            if unit.spool is not None:
                self._background.append(
                    self.loop.create_task(unit.spool.run(), name=f"spool/{unit.unit.name}")
                )
        for unit in self.units:
            await unit.start()

    def crash_log(self, log: LogName) -> None:
        """The keeper died: what was not durable is lost, or not, as the dice say."""
        self.store.disk(log).crash(self.dice.choice(list(Fate)))

    def kill(self, unit: SimulatedUnit, down: Callable[[], float]) -> None:
        """Kill a process and start it again after a while."""
        self.kills += 1
        unit.kill()
        self.loop.call_later(down(), self.restart_soon, unit)

    def restart_soon(self, unit: SimulatedUnit) -> None:
        """Start a dead process."""
        if not unit.is_alive:
            self._background.append(self.loop.create_task(unit.start(), name=f"start/{unit.unit.name}"))

    def region_image(self, region: RegionName) -> RegionImage | None:
        """A region's image as its store has it; None while the store is dead."""
        opened = self.unit("placement_store", region).open
        state = opened.host.state if opened and opened.host else None
        return state.image if state is not None else None

    def fail(self, unit: Unit, failure: BaseException) -> None:
        """A process died of something that must not happen."""
        self.failures.append((unit, failure))

    def unit(self, role: str, region: str = "") -> SimulatedUnit:
        """The first unit of a role."""
        return next(
            unit for unit in self.units if unit.unit.role == role and region in (unit.unit.region, "")
        )

    def close(self) -> None:
        """End everything."""
        for unit in self.units:
            unit.kill()
        for task in self._background:
            task.cancel()
