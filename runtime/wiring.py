"""What a plane is made of, and how each part is put together: the one place that knows every role.

A plan names regions, agents and workers; `units_of` lists the processes that make the plane; `open_unit` builds one of
them over whatever bus, store and clock its world has.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import Struct

from bus.port import Bus
from components import (
    AllocationAgent,
    Auditor,
    DataService,
    FunctionRouter,
    FunctionServer,
    Harvester,
    JobQueue,
    PlacementStore,
    Planner,
    RegionBroker,
    TaskControl,
    Worker,
)
from core.component import Component
from core.nouns.fleet import Inventory
from core.nouns.ids import GLOBAL_LOG, AgentName, LogName, RegionName, region_log
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.limits import STATUS_INTERVAL
from runtime.archiving.archiver import Archiver
from runtime.clock import Clock
from runtime.dispatch.turns import Pace
from runtime.effects import Doer
from runtime.host import Host
from runtime.host_status import HostStatus
from runtime.images import check_fleet
from runtime.keeping.clock_guard import ClockGuard
from runtime.keeping.kept import Kept
from runtime.keeping.opening import take_log
from runtime.reader import Reader
from runtime.status.put_aside import Suspects
from runtime.status.unit_status import Beats, Identity, Losses, StatusReporter
from store.port import LogStore

BUILD = "0.1.0"
"""Which version writes the facts."""


class DataPlan(Struct, frozen=True):
    """How a region keeps datasets."""

    directory: str = ""
    """Each dataset is a file or a directory in it; empty: they are emulated."""
    copy: str = ""
    """The command that copies, with `{source}`, `{target}` and `{rate}`; empty: Mizzen's own."""


class FunctionsPlan(Struct, frozen=True):
    """How a region runs functions."""

    routers: int = 1
    policy: str = "mws"
    """One of core/routing/."""

    def router_names(self) -> tuple[str, ...]:
        """All routers of the region."""
        return tuple(f"r{number}" for number in range(self.routers))


class RegionPlan(Struct, frozen=True):
    """One region of a fleet."""

    region: RegionName
    inventories: tuple[Inventory, ...]
    """What each worker serves; node numbers are unique in the region."""
    agents: int = 2
    data: DataPlan | None = None
    """None: the region has no data service."""
    functions: FunctionsPlan | None = None
    """None: the region runs no functions."""


class Plan(Struct, frozen=True):
    """A whole plane."""

    fleet: str
    regions: tuple[RegionPlan, ...]
    has_planner: bool = False
    """Whether prices are solved for it. Without, agents go by those that there are, or by default ones."""
    keep: Nanoseconds = Nanoseconds(0)
    """How long facts stay in a log's own file before they are archived; 0: for ever."""

    def region_names(self) -> tuple[RegionName, ...]:
        """All regions, in the plan's order."""
        return tuple(plan.region for plan in self.regions)

    def data_services(self) -> tuple[RegionName, ...]:
        """All regions with a data service."""
        return tuple(plan.region for plan in self.regions if plan.data is not None)

    def functions(self, region: RegionName) -> FunctionsPlan:
        """How one region runs functions. Raises KeyError."""
        for plan in self.regions:
            if plan.region == region and plan.functions is not None:
                return plan.functions
        raise KeyError(f"the plan has no functions in region {region}")

    def inventory(self, region: RegionName, worker: str) -> Inventory:
        """What one worker serves."""
        for plan in self.regions:
            for inventory in plan.inventories:
                if plan.region == region and inventory.worker == worker:
                    return inventory
        raise KeyError(f"the plan has no worker {worker} in region {region}")


class Unit(Struct, frozen=True):
    """One process of a plane."""

    role: str
    region: RegionName = RegionName("")
    member: str = ""
    """Which agent or worker, or the log that a reader reads."""

    @property
    def name(self) -> str:
        """Unique in the plane."""
        return ".".join(part for part in (self.role, self.region, self.member) if part)


def bus_name_of(unit: Unit) -> str:
    """What a unit is called on the bus: as its component calls itself."""
    short = {
        "job_queue": "queue",
        "placement_store": "store",
        "region_broker": "broker",
        "task_control": "control",
        "allocation_agent": "agent",
        "data_service": "data",
        "function_router": "router",
        "function_server": "functions",
    }
    if unit.role == "reader":
        return f"reader.{unit.member}"
    return ".".join(part for part in (short.get(unit.role, unit.role), unit.region, unit.member) if part)


def log_kept_by(unit: Unit) -> LogName | None:
    """The log whose keeper this is."""
    if unit.role == "job_queue":
        return GLOBAL_LOG
    return region_log(unit.region) if unit.role == "placement_store" else None


Build = Callable[[Plan, Unit], Component[Any]]

ROLES: dict[str, Build | None] = {
    "job_queue": lambda plan, _: JobQueue(plan.region_names(), plan.data_services()),
    "placement_store": lambda _, unit: PlacementStore(unit.region),
    "region_broker": lambda _, unit: RegionBroker(unit.region),
    "task_control": lambda _, unit: TaskControl(unit.region),
    "allocation_agent": lambda _, unit: AllocationAgent(unit.region, AgentName(unit.member)),
    "worker": lambda plan, unit: Worker(unit.region, plan.inventory(unit.region, unit.member)),
    "data_service": lambda _, unit: DataService(unit.region),
    "function_server": lambda plan, unit: FunctionServer(
        unit.region, unit.member, plan.functions(unit.region).router_names()
    ),
    "function_router": lambda plan, unit: FunctionRouter(
        unit.region,
        unit.member,
        plan.functions(unit.region).router_names(),
        plan.functions(unit.region).policy,
    ),
    "harvester": lambda plan, unit: Harvester(unit.region, plan.functions(unit.region).router_names()),
    "planner": lambda plan, _: Planner(plan.region_names()),
    "auditor": lambda plan, _: Auditor(plan.region_names(), tuple(unit.name for unit in units_of(plan))),
    "reader": None,
}
"""What can be started, and how its component is made. A reader is no component."""


def units_of(plan: Plan) -> list[Unit]:
    """Every process of the plane, keepers first."""
    units = [Unit("job_queue"), Unit("reader", member=GLOBAL_LOG)]
    for region in plan.regions:
        name = region.region
        units.append(Unit("placement_store", name))
        units.append(Unit("reader", name, region_log(name)))
        units.append(Unit("region_broker", name))
        units.append(Unit("task_control", name))
        units.extend(Unit("allocation_agent", name, f"a{number}") for number in range(region.agents))
        units.extend(Unit("worker", name, inventory.worker) for inventory in region.inventories)
        if region.data is not None:
            units.append(Unit("data_service", name))
        if region.functions is not None:
            units.extend(Unit("function_server", name, inventory.worker) for inventory in region.inventories)
            units.extend(Unit("function_router", name, one) for one in region.functions.router_names())
            units.append(Unit("harvester", name))
    if plan.has_planner:
        units.append(Unit("planner"))
    units.append(Unit("auditor"))
    return units


class Surroundings(Struct):
    """What a unit is built over."""

    bus: Bus
    store: LogStore
    now: Callable[[], Instant]
    """The wall clock."""
    clock: Callable[[Instant, Instant], Clock]
    """A clock that starts at the first instant, but not before the second."""
    new_log_id: Callable[[], str]
    elapsed: Callable[[], int] | None = None
    """Nanoseconds from any start, suspended time included; None: as the unit's own clock counts."""
    doer: Doer | None = None
    identity: Identity | None = None
    """What the unit tells of itself in its status; None: the unit tells no status."""
    status_interval: Nanoseconds = STATUS_INTERVAL
    suspects: Suspects | None = None
    """Messages on which earlier lives of the unit have failed."""
    beside: Losses | None = None
    """Losses of what serves beside the unit, which the unit's status tells with its own."""
    life_line: Beats | None = None
    """Beats in the unit's event loop; None: nothing does."""
    pace: Pace | None = None
    """How long decisions take, which only a simulated world says; None: as long as they take."""
    decides_twice: bool = False
    """Whether every decision is taken twice and compared, memos emptied in between: purity, tested."""


class OpenUnit:
    """A unit ready to run: `tasks` are to run until one raises or the unit is closed."""

    def __init__(
        self,
        unit: Unit,
        host: Host[Any] | None,
        reader: Reader | None,
        letting_go: list[Any],
        kept: Kept | None = None,
        archiver: Archiver | None = None,
    ) -> None:
        self.unit = unit
        self.host = host
        self.reader = reader
        self.kept = kept
        self._archiver = archiver
        self.is_over = False
        """Whether this life has ended; the next one of the same unit is another object."""
        self.reporter: StatusReporter | None = None
        self._letting_go = letting_go

    def tasks(self) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        """Each under a name."""
        if self.host is not None:
            tasks = self.host.tasks()
        else:
            assert self.reader is not None, self.unit
            tasks = self.reader.tasks()
        if self._archiver is not None:
            tasks.append((self._archiver.name, self._archiver.run()))
        if self.reporter is not None:
            tasks.append((f"{self.unit.name}/status", self.reporter.run()))
        return tasks

    def drop(self) -> None:
        """Let go of timers at once, as a killed process does; files are `close`'s."""
        self.is_over = True
        for part in (self.host, self.reader, self._archiver, self.reporter):
            if part is not None:
                part.close()

    async def close(self) -> None:
        """Let go of everything, after its tasks have ended."""
        self.drop()
        for part in self._letting_go:
            await part.close()


async def open_unit(plan: Plan, unit: Unit, around: Surroundings) -> OpenUnit:
    """Build one unit.

    Raises store.errors.LogError when its log cannot be taken or read, runtime.errors.KeeperExists when another keeper
    answers for it, and KeeperSilent when one may be there that does not answer.
    """
    life = await _open(plan, unit, around)
    part = HostStatus(life.host) if life.host is not None else life.reader
    if around.identity is not None and part is not None:
        clock = around.clock(around.now(), Instant(0))
        is_worker = unit.role == "worker"
        life.reporter = StatusReporter(
            around.identity,
            part,
            around.bus,
            clock,
            is_worker=is_worker,
            interval=around.status_interval,
            beside=around.beside,
            life_line=around.life_line,
        )
    return life


async def _open(plan: Plan, unit: Unit, around: Surroundings) -> OpenUnit:
    build = ROLES[unit.role]
    if build is None:
        return await _open_reader(plan, LogName(unit.member), unit, around)
    component = build(plan, unit)
    if component.keeps is None:
        clock = around.clock(around.now(), Instant(0))
        host = _host(component, clock, around)
        return OpenUnit(unit, host, None, [])
    return await _open_keeper(plan, unit, component, component.keeps, around)


async def _open_reader(plan: Plan, log: LogName, unit: Unit, around: Surroundings) -> OpenUnit:
    reader = await around.store.reader(log)
    clock = around.clock(around.now(), Instant(0))
    archiver = Archiver(log, reader, clock, plan.keep) if plan.keep else None
    return OpenUnit(unit, None, Reader(log, reader, around.bus, clock), [reader], archiver=archiver)


async def _open_keeper(
    plan: Plan, unit: Unit, component: Component[Any], name: LogName, around: Surroundings
) -> OpenUnit:
    taken = await take_log(around.store, name, around.new_log_id())
    log, image = taken.log, taken.image
    try:
        check_fleet(image, name, plan.fleet)
        clock = around.clock(around.now(), taken.newest_at)
        newest = (taken.head.sequence, taken.newest_at)
        elapsed = around.elapsed or clock.now
        guard = ClockGuard(name, clock, around.now, elapsed, newest, taken.accepted_ahead)
        kept = Kept(log, image, plan.fleet, BUILD, guard)
        host = _host(component, clock, around, kept)
        await host.prepare()
    except BaseException:
        await log.close()
        raise
    return OpenUnit(unit, host, None, [log], kept)


def _host(
    component: Component[Any], clock: Clock, around: Surroundings, kept: Kept | None = None
) -> Host[Any]:
    return Host(
        component,
        around.bus,
        clock,
        kept,
        around.doer,
        decides_twice=around.decides_twice,
        suspects=around.suspects,
        pace=around.pace,
    )
