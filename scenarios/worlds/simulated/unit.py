"""One process of a simulated plane: tasks of the loop and an endpoint of the bus, which can be killed or frozen at any
await, and a clock of its own. Its disk survives it.
"""

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any, Protocol

import structlog

from bus.errors import BusError
from bus.simulated import SimulatedNetwork
from bus.simulated_endpoint import SimulatedBus
from core.effects import EndExecutor
from core.nouns.ids import LogName
from core.nouns.instant import Instant, Nanoseconds, seconds
from core.nouns.limits import RESTART_DELAY_MAX, RESTART_DELAY_MIN
from runtime.clock import Clock
from runtime.data.emulated import EmulatedData
from runtime.data.emulated_world import DataWorld
from runtime.dispatch.turns import Pace
from runtime.errors import BrokenInvariant, HostError
from runtime.functions.emulated import EmulatedExecutors
from runtime.status.put_aside import Suspects
from runtime.status.unit_status import Identity
from runtime.status.violation_file import ViolationFile
from runtime.virtual_loop import OWNER, VirtualLoop
from runtime.wiring import BUILD, OpenUnit, Plan, Surroundings, Unit, bus_name_of, log_kept_by, open_unit
from scenarios.accounting.mail_watch import MailWatch
from scenarios.worlds.function_books import NodesBook
from scenarios.worlds.nodes import TroubledNodes
from scenarios.worlds.overlapping import Lasting
from scenarios.worlds.simulated.solver import SimulatedSolver
from store.errors import LogError
from store.port import LogStore

logger = structlog.get_logger()

AT_ONCE = Nanoseconds(0)
STATUS_INTERVAL: Nanoseconds = seconds(120)
"""Twelve times as long as in a real plane: a simulated day of a plane of twenty units would have 400,000 more messages."""
EXPECTED = (BusError, HostError, LogError)
"""What a process may die of; whatever keeps it up starts it again. Any other death, and a broken invariant, is a mistake."""


class Surrounding(Protocol):
    """The world, as far as a unit needs it."""

    plan: Plan
    loop: VirtualLoop
    network: SimulatedNetwork
    data: DataWorld
    decides_twice: bool
    pace: Pace | None
    mail: list[MailWatch]
    seed: int

    @property
    def store(self) -> LogStore:
        """Where logs are."""

    def now(self) -> float:
        """Seconds."""

    def book(self, unit: Unit) -> NodesBook:
        """What functions may use beside a function server."""

    def new_log_id(self) -> str:
        """Another one each time."""

    def crash_log(self, log: LogName, fate: str) -> None:
        """Its keeper died."""

    def fail(self, unit: Unit, failure: BaseException) -> None:
        """A process died of something that must not happen."""


class SimulatedUnit:
    """One process of the plane, dead or alive."""

    def __init__(self, world: Surrounding, unit: Unit) -> None:
        self.world = world
        self.unit = unit
        self.open: OpenUnit | None = None
        self.spool: TroubledNodes | None = None
        self.deaths: list[str] = []
        """What it died of by itself."""
        self.last_death = ""
        """The newest of those, since which it has not come up."""
        self.downs = 0
        """How many keep it down."""
        self.clock_step = 0
        """Nanoseconds by which its machine's wall clock is wrong."""
        self.skews: Lasting[float] = Lasting()
        """What its clock gains, all of them together, from its next start on."""
        self._pauses: Lasting[None] = Lasting(self._stop_or_go_on)
        """Those of this life."""
        self._freezes: Lasting[None] = Lasting(self._begin)
        """Those of its machine: while it stands still, nothing is started there."""
        self._tasks: list[asyncio.Task[None]] = []
        self._endpoint: SimulatedBus | None = None
        self._life = 0
        self.suspects = Suspects(None, BUILD, world.loop.now_ns)
        """Messages on which the unit has failed, over all of its lives."""
        self._delay = RESTART_DELAY_MIN
        self._starting: asyncio.Task[None] | None = None
        self._context = contextvars.copy_context()
        self._context.run(OWNER.set, unit.name)
        self._solver: SimulatedSolver | None = None
        self._violations = ViolationFile(None) if unit.role == "auditor" else None
        self.data: EmulatedData | None = None
        if unit.role == "data_service":
            self.data = EmulatedData(unit.region, world.data, Clock(world.loop, world.loop.now_ns()))
        self.executors: EmulatedExecutors | None = None
        self.book: NodesBook | None = None
        if unit.role == "function_server":
            self.book = world.book(unit)
            self.executors = EmulatedExecutors(Clock(world.loop, world.loop.now_ns()), self.book)
            self.book.hear, self.book.kill = self._hear, self._kill_executor
        if unit.role == "planner":
            self._solver = SimulatedSolver(world.seed, Clock(world.loop, world.loop.now_ns()))
        if unit.role == "worker":
            nodes = world.plan.inventory(unit.region, unit.member).numbers()
            self.spool = TroubledNodes(unit.name, Clock(world.loop, world.loop.now_ns()), nodes)

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self.open is not None

    @property
    def life(self) -> int:
        """The number of the present life."""
        return self._life

    @property
    def pauses(self) -> int:
        """How many have paused this life."""
        return len(self._pauses)

    @property
    def is_there(self) -> bool:
        """Whether there is a process, and be it one that just starts."""
        return self.open is not None or self._starting is not None

    @property
    def clock_skew(self) -> float:
        """What its clock gains from its next start on; 0.01: a second in a hundred."""
        return sum(self.skews.values, start=0.0)

    @property
    def bus_name(self) -> str:
        """What it is called on the bus."""
        return bus_name_of(self.unit)

    @property
    def state(self) -> Any:  # Any: each component has its own
        """Of its component in this very moment; None before it has begun, and for a reader."""
        return self.open.host.state if self.open is not None and self.open.host is not None else None

    async def start(self) -> None:
        """Begin a life, unless it has one. Raises what it dies of."""
        assert self.open is None, self.unit
        world = self.world
        self._life += 1
        life = self._life
        self._endpoint = world.network.endpoint(self.bus_name)
        around = Surroundings(
            bus=self._endpoint,
            store=world.store,
            now=self._wall_now,
            clock=self._clock,
            new_log_id=world.new_log_id,
            doer=self.spool or self.data or self._solver or self._violations or self.executors,
            identity=Identity(unit=self.unit.name, build=BUILD, host="simulated", life=str(life)),
            status_interval=STATUS_INTERVAL,
            suspects=self.suspects,
            decides_twice=world.decides_twice,
            pace=world.pace,
        )
        opened = await open_unit(world.plan, self.unit, around)
        if self._life != life:
            await opened.close()  # It was killed while it started.
            return
        self.open = opened
        if opened.host is not None:
            world.mail.append(MailWatch(self.bus_name, opened.host.mailbox))
        self.last_death = ""
        for name, task in opened.tasks():
            started = world.loop.create_task(task, name=name, context=self._context.copy())
            started.add_done_callback(self._ended, context=contextvars.Context())
            self._tasks.append(started)

    def start_soon(self, delay: Nanoseconds = AT_ONCE) -> None:
        """Start it, unless it lives or is kept down; and again later and later while it dies of what it may die of."""
        self.world.loop.call_after_ns(delay, self._begin)

    def kill(self, fate: str = "") -> None:
        """As kill -9 does: nothing more is said, and what was not durable is gone."""
        self._life += 1
        self.last_death = ""
        was_starting = self._starting is not None
        if self._starting is not None:
            self._starting.cancel()
            self._starting = None
        if self._endpoint is not None:
            self._endpoint.crash()
            self._endpoint = None
        for task in self._tasks:
            task.cancel()
        self._tasks = []
        if self._pauses:
            self._pauses.forget()
            self.world.loop.thaw(self.unit.name)
        for doer in (self.spool, self.data, self._solver, self.executors):
            if doer is not None:
                doer.detach()
        keeps = log_kept_by(self.unit)
        if keeps is not None and (self.open is not None or was_starting):
            self.world.crash_log(keeps, fate)
        if self.open is not None:
            self.open.drop()
            self.open = None

    def pause(self) -> Callable[[], None]:
        """As SIGSTOP does. Returns what SIGCONT does, once nobody else has paused it; of another life it changes nothing."""
        if not self.is_there:
            return lambda: None
        return self._pauses.begin(None)

    def freeze(self) -> Callable[[], None]:
        """Its machine stands still, with its nodes. Returns what ends that; a process that died meanwhile is started then."""
        ends = [self.spool.freeze()] if self.spool is not None else []
        ends += [self.pause(), self._freezes.begin(None)]

        def thaw() -> None:
            for end in ends:
                end()

        return thaw

    def lose_power(self) -> None:
        """Its machine too, with all that runs on its nodes: one that stood still does not when it is back."""
        self.kill()
        if self.spool is not None:
            self.spool.lose_power()
        self._freezes.forget()

    def _stop_or_go_on(self) -> None:
        loop, network = self.world.loop, self.world.network
        if self._pauses:
            loop.freeze(self.unit.name)
            if self._endpoint is not None:
                network.pause(self._endpoint)
            return
        if self._endpoint is not None:
            network.resume(self._endpoint)
        loop.thaw(self.unit.name)

    # Executors: what others do to them is timed by the clock of their server, and stands still with it.

    def _hear(self, look: Callable[[], None]) -> None:
        """Have executors look at their book; while their server stands still, once it goes on."""
        if self._pauses:
            self.world.loop.call_soon(look, context=self._context.copy())
        else:
            self._context.copy().run(look)

    def _kill_executor(self, number: int) -> None:
        """As its worker does, whether or not its server stands still."""
        assert self.executors is not None, self.unit
        self._context.copy().run(self.executors.begin, EndExecutor(number))

    # One life after the other.

    def _begin(self) -> None:
        if not (self.is_there or self.downs or self._freezes):
            loop = self.world.loop
            self._starting = loop.create_task(
                self._start_or_try_again(), name=f"start/{self.unit.name}", context=self._context.copy()
            )

    async def _start_or_try_again(self) -> None:
        try:
            await self.start()
        except Exception as death:  # noqa: BLE001  # `_died` tells what may happen from what must not
            self._starting = None
            self._died(death)
        else:
            self._starting = None

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Tasks end by being cancelled, or by raising: then the process dies, and is started again."""
        if task.cancelled():
            return
        failure = task.exception()
        if failure is None or task not in self._tasks:
            return
        self._died(failure)

    def _died(self, failure: BaseException) -> None:
        is_expected = isinstance(failure, EXPECTED) and not isinstance(failure, BrokenInvariant)
        has_lived = self.open is not None
        self.kill("kept")
        self.last_death = f"{type(failure).__name__}: {failure}"
        self.deaths.append(self.last_death)
        logger.info("unit_died", unit=self.unit.name, error=self.last_death)
        if not is_expected:
            self.world.fail(self.unit, failure)
            return
        self._delay = RESTART_DELAY_MIN if has_lived else Nanoseconds(min(2 * self._delay, RESTART_DELAY_MAX))
        self.start_soon(self._delay)

    # Time.

    def _wall_now(self) -> Instant:
        return Instant(self.world.loop.now_ns() + self.clock_step)

    def _clock(self, start: Instant, not_before: Instant) -> Clock:
        loop: Any = self.world.loop  # Any: either of the two is a loop as far as a clock reads it
        if self.clock_skew:
            loop = _SkewedLoop(self.world.loop, self.clock_skew)
        return Clock(loop, start, not_before)


class _SkewedLoop:
    """A loop whose clock gains or loses, as far as a Clock reads it."""

    def __init__(self, loop: VirtualLoop, skew: float) -> None:
        self._loop = loop
        self._begun = loop.now_ns()
        self._rate = 1_000_000 + round(skew * 1_000_000)
        """In millionths, so that whole nanoseconds stay whole."""

    def now_ns(self) -> Instant:
        """What it shows."""
        passed = self._loop.now_ns() - self._begun
        return Instant(self._begun + passed * self._rate // 1_000_000)

    def call_at_ns(self, when: int, callback: Any) -> asyncio.TimerHandle:  # Any: as the loop's
        """Call back once it shows that."""
        passed = -(-(when - self._begun) * 1_000_000 // self._rate)
        return self._loop.call_at_ns(Instant(self._begun + passed), callback)
