"""A small real plane in the simulated world, its network under a script, and everything watched that must always hold."""

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from bus.errors import BusError
from components import Auditor
from core.codec import decode_event
from core.component import Images
from core.events.region import AttemptEnded, ClaimGranted, ClaimPromised, GangStarted
from core.fact import Event, Fact
from core.images import GlobalImage, RegionImage, empty_image
from core.images.queue import WorkloadRow
from core.images.region import AttemptPhase, AttemptRow
from core.invariants.consistency import Violation, check_ledger
from core.messages.base import Envelope, Message, Woken
from core.messages.queue import CancelWorkload, Submitted, SubmitWorkload
from core.nouns.ids import GLOBAL_LOG, LogName, RegionName, WorkloadId, region_log
from core.nouns.instant import Nanoseconds, after, seconds
from core.nouns.quantities import Amount
from core.nouns.workload import Emulation, EndCause, JobSpec, Phase, WorkloadSpec
from runtime.images import load_image
from runtime.virtual_loop import VirtualLoop
from scenarios.schema.fleet import FleetSpec, plan_of
from scenarios.worlds.simulated.disks import Disks
from scenarios.worlds.simulated.unit import SimulatedUnit
from scenarios.worlds.simulated.world import START, SimulatedWorld
from store.memory_disk import Fate
from store.rows import facts_of
from tests.interleavings.script import Script
from tests.interleavings.watch import WatchedSpool, watch_spools

R0, R1 = RegionName("r0"), RegionName("r1")
PATIENCE = 600.0
"""Virtual seconds within which whatever is waited for must come."""

_BEGINS: dict[AttemptPhase, type[ClaimPromised | ClaimGranted | GangStarted]] = {
    AttemptPhase.PROMISED: ClaimPromised,
    AttemptPhase.GRANTED: ClaimGranted,
    AttemptPhase.STARTED: GangStarted,
}
"""The fact that begins each phase."""


class StagedDisks(Disks):
    """Disks that say when a batch is written and not yet durable."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__(None, loop)
        self.at_sync: Callable[[], None] = lambda: None

    async def _sync(self, log: LogName) -> None:
        self.at_sync()
        await super()._sync(log)


class StagedWorld(SimulatedWorld):
    """A simulated world whose disks can be watched, and which decides everything twice."""

    def __init__(self, fleet: FleetSpec, seed: int, loop: VirtualLoop) -> None:
        super().__init__(plan_of(fleet, "stage"), seed, loop, decides_twice=True)
        self.staged = StagedDisks(loop)
        self.store = self.staged


class Stage:
    """The plane, the script, the user; and what must be so in the end."""

    def __init__(self, loop: VirtualLoop, fleet: FleetSpec, seed: int = 7) -> None:
        self.loop = loop
        self.world = StagedWorld(fleet, seed, loop)
        self.watch = watch_spools(self.world)
        self.script = Script()
        self.world.network.gate = self.script
        self.user = self.world.network.endpoint("client.user")
        self.dice = Random(seed)
        self.workloads: list[WorkloadId] = []
        self.has_cut_workers = False
        """Whether a worker may run on what its region has given up, because it cannot know better."""

    # Time.

    async def sleep(self, span: float) -> None:
        """Let so many seconds pass."""
        await self.loop.sleep_ns(seconds(span))

    async def until(self, holds: Callable[[], bool], patience: float = PATIENCE) -> None:
        """Wait until something holds; fail when it does not in time."""
        late = after(self.loop.now_ns(), seconds(patience))
        step = seconds(0.002)
        while not holds():
            assert not self.world.failures, self.world.failures
            assert self.loop.now_ns() < late, "it does not come to hold"
            await self.loop.sleep_ns(step)
            step = min(Nanoseconds(2 * step), seconds(0.02))

    # What is there.

    @property
    def queue(self) -> GlobalImage:
        """The queue's image; it must be alive."""
        image = self._state_of(self.world.unit("job_queue")).image
        assert isinstance(image, GlobalImage)
        return image

    def region(self, name: RegionName = R0) -> RegionImage:
        """A region's image, as its store has it; it must be alive."""
        image = self._state_of(self.world.unit("placement_store", name)).image
        assert isinstance(image, RegionImage)
        return image

    def _state_of(self, unit: SimulatedUnit) -> Any:  # Any: of whatever component it is
        assert unit.open is not None, f"{unit.unit.name} is dead"
        assert unit.open.host is not None
        assert unit.open.host.state is not None, f"{unit.unit.name} has not begun"
        return unit.open.host.state

    def is_up(self, *names: str) -> bool:
        """Whether these units live and have begun."""
        units = [self.unit(name) for name in names]
        return all(unit.open is not None and unit.open.host and unit.open.host.state for unit in units)

    def row(self, workload: WorkloadId) -> WorkloadRow:
        """A workload as the queue knows it."""
        return self.queue.workloads.rows[workload]

    def attempt(self, workload: WorkloadId, epoch: int = 1, region: RegionName = R0) -> AttemptRow | None:
        """An attempt as its region knows it."""
        return self.region(region).attempts.row(workload, epoch)

    def is_in(
        self, phase: AttemptPhase, workload: WorkloadId, epoch: int = 1, region: RegionName = R0
    ) -> bool:
        """Whether an attempt is in this phase in its region."""
        row = self.attempt(workload, epoch, region)
        return row is not None and row.phase == phase

    async def until_in(
        self, phase: AttemptPhase, workload: WorkloadId, epoch: int = 1, region: RegionName = R0
    ) -> None:
        """Wait until it is, or was: what comes after may follow at once."""
        wanted = _BEGINS[phase]

        def has_begun() -> bool:
            events = self._events(region_log(region))
            return any(
                isinstance(one, wanted) and (one.workload, one.epoch) == (workload, epoch) for one in events
            )

        await self.until(has_begun)

    async def until_recorded(self, event: str, workload: WorkloadId, log: LogName | None = None) -> None:
        """Wait until a log, the first region's if none is named, has such a fact about a workload."""
        await self.until(lambda: event in self.events(log or region_log(R0), workload))

    def facts(self, log: LogName) -> list[Fact]:
        """All durable facts of a log."""
        file = self.world.store.disk(log).file(log)
        return facts_of(log, file.rows[: file.durable]) if file is not None else []

    def events(self, log: LogName, workload: WorkloadId) -> list[str]:
        """What a log says about a workload, by the names of the events."""
        return [type(event).__name__ for event in self._events(log) if event.about == workload]

    def _events(self, log: LogName) -> list[Event]:
        return [fact.event for fact in self.facts(log) if isinstance(fact.event, Event)]

    def written(self, log: LogName) -> list[Event]:
        """Events that are written and not durable."""
        file = self.world.store.disk(log).file(log)
        return [decode_event(row.event) for row in file.rows[file.durable :]] if file is not None else []

    # Who is there.

    def unit(self, name: str) -> SimulatedUnit:
        """A process by its name on the bus."""
        return next(unit for unit in self.world.all if unit.bus_name == name)

    def kill(self, name: str, fate: Fate | None = None) -> None:
        """As kill -9 does."""
        self.unit(name).kill(fate or "")

    async def start(self, *names: str) -> None:
        """Start dead processes, and wait until they have begun."""
        for name in names:
            await self.unit(name).start()
        await self.until(lambda: self.is_up(*names), 60)

    async def restart(self, name: str, down: float = 1.0) -> None:
        """Kill a process and start it again."""
        self.kill(name)
        await self.sleep(down)
        await self.start(name)

    def kill_at_sync(self, name: str, log: LogName, event: type[Event], fate: Fate) -> list[str]:
        """Kill a keeper when such a fact is written and not yet told; the list says when it has happened."""
        happened: list[str] = []

        def look() -> None:
            if not happened and any(isinstance(one, event) for one in self.written(log)):
                happened.append(name)
                self.kill(name, fate)

        self.world.staged.at_sync = look
        return happened

    def lose_power(self, name: str) -> None:
        """A worker's nodes stop with it, and with all that runs there."""
        unit = self.unit(name)
        unit.kill()
        assert isinstance(unit.spool, WatchedSpool)
        unit.spool.lose_power()

    # The user.

    async def ask(self, message: Message) -> Message:
        """Ask until there is an answer."""
        for _ in range(200):
            try:
                return await self.user.ask(message, seconds(2))
            except BusError:
                await self.sleep(0.5)
        raise AssertionError(f"nobody answers {message}")

    async def submit(self, spec: WorkloadSpec) -> WorkloadId:
        """Submit a workload."""
        answer = await self.ask(SubmitWorkload(spec, "user", key=f"key-{len(self.workloads)}"))
        assert isinstance(answer, Submitted), answer
        self.workloads.append(answer.workload)
        return answer.workload

    async def cancel(self, workload: WorkloadId) -> None:
        """Cancel a workload."""
        await self.ask(CancelWorkload(workload))

    async def run_to(self, phase: AttemptPhase, spec: WorkloadSpec) -> WorkloadId:
        """Submit, and wait until the first attempt is in this phase."""
        workload = await self.submit(spec)
        await self.until_in(phase, workload)
        return workload

    # Beginning and end.

    async def begin(self) -> None:
        """Start everything, and wait until all nodes have joined and the queue may ask every region."""
        await self.world.start()
        await self.until(lambda: all(self._has_joined(plan.region) for plan in self.world.plan.regions), 60)
        await self.sleep(6)

    def _has_joined(self, region: RegionName) -> bool:
        store = self.world.unit("placement_store", region)
        if store.open is None or store.open.host is None or store.open.host.state is None:
            return False
        plan = next(plan for plan in self.world.plan.regions if plan.region == region)
        return len(self.region(region).capacity.workers) == len(plan.inventories)

    async def finish(self, patience: float = PATIENCE) -> None:
        """Misfortune ends. Everything must end soon, and all that must hold must have held."""
        self.script.end()
        self.world.network.heal()
        for unit in self.world.all:
            if not unit.is_alive:
                await unit.start()
        await self.until(self._is_quiet, patience)
        await self.sleep(30)
        await self.check()

    def _is_quiet(self) -> bool:
        names = [unit.bus_name for unit in self.world.all if unit.unit.role != "reader"]
        if not self.is_up(*names):
            return False
        rows = self.queue.workloads.rows
        if any(not row.phase.is_terminal for row in rows.values()):
            return False
        spools = [unit.spool for unit in self.world.all if unit.spool is not None]
        if any(spool.shares for spool in spools):
            return False
        images = [self.region(plan.region) for plan in self.world.plan.regions]
        return all(
            not image.capacity.holdings
            and not image.capacity.promises
            and not any(row.is_lost for row in image.capacity.workers.values())
            for image in images
        )

    async def check(self) -> None:
        """What must be so when all has ended, and what must have been so all the time."""
        assert [] == self.world.failures
        overlaps = self.watch.unexcused(self.world) if self.has_cut_workers else self.watch.overlaps
        assert [] == overlaps, "one workload ran twice at once"
        assert [] == self.world.physics.problems
        for plan in self.world.plan.regions:
            assert [] == check_ledger(self.region(plan.region).capacity)
        auditor = self._state_of(self.world.unit("auditor"))
        assert [] == auditor.violations
        assert 0 == auditor.waiting
        assert [] == audit(self)
        for log in self.logs():
            reader = await self.world.store.reader(log)
            image, _, _ = await load_image(reader, log)
            kept = self.queue if log == GLOBAL_LOG else self.region(RegionName(log.removeprefix("region.")))
            assert kept.digest() == image.digest(), f"{log} does not replay to what its keeper has"
            assert 0 == (await reader.verify()).broken_at

    def logs(self) -> list[LogName]:
        """Every log of the plane."""
        return [GLOBAL_LOG, *(region_log(plan.region) for plan in self.world.plan.regions)]

    def causes(self, workload: WorkloadId, region: RegionName = R0) -> list[EndCause]:
        """Why its attempts ended here, in order."""
        ends = [event for event in self._events(region_log(region)) if isinstance(event, AttemptEnded)]
        return [end.cause for end in ends if end.workload == workload]


def audit(stage: Stage) -> list[Violation]:
    """Check all logs from their first fact on: the auditor of the plane knows only what came since its own start."""
    regions = tuple(plan.region for plan in stage.world.plan.regions)
    auditor = Auditor(regions)
    state = auditor.initial(Images(START, None, {log: (empty_image(log), 0) for log in stage.logs()}))
    for log in stage.logs():
        for fact in stage.facts(log):
            state = auditor.evolve(state, fact)
    assert 0 == state.waiting, "a fact rests on one that is not there"
    for event in auditor.decide(state, Envelope(Woken(), "", "", START)).events:
        state = auditor.evolve(state, Fact(LogName(""), 0, START, "", "", event))
    return list(state.violations)


def a_job(
    span: float = 20.0,
    gpus: int = 8,
    tasks: int = 1,
    *,
    priority: int = 3,
    stop_span: float = 1.0,
    checkpoint_every: float = 0.0,
    regions: tuple[RegionName, ...] = (),
    grace: float = 0.0,
) -> WorkloadSpec:
    """One job of so many tasks, each of so many GPUs, that runs so long."""
    emulation = Emulation(
        work=seconds(span), stop_span=seconds(stop_span), checkpoint_every=seconds(checkpoint_every)
    )
    job = JobSpec("main", tasks, Amount(1000 * gpus, 8000, 1 << 30), "H100", emulation)
    return WorkloadSpec("job", (job,), priority=priority, regions=regions, grace=seconds(grace))


def staged(
    fleet: FleetSpec, seeds: tuple[int, ...] = (7,)
) -> Callable[[Callable[[Stage], Coroutine[Any, Any, None]]], Callable[[], None]]:
    """A test whose body plays on a stage that has begun, and that is finished and checked after it."""

    def wrap(body: Callable[[Stage], Coroutine[Any, Any, None]]) -> Callable[[], None]:
        def test() -> None:
            for seed in seeds:
                play(body, fleet, seed)

        test.__name__ = test.__qualname__ = getattr(body, "__name__", "test")
        test.__doc__ = body.__doc__
        test.__module__ = body.__module__
        return test

    return wrap


def play(body: Callable[[Stage], Coroutine[Any, Any, None]], fleet: FleetSpec, seed: int) -> None:
    """Begin, play, finish, check."""
    loop = VirtualLoop(START)

    async def main() -> None:
        stage = Stage(loop, fleet, seed)
        await stage.begin()
        await body(stage)
        await stage.finish()
        await stage.world.stop()

    try:
        loop.run_until_complete(main())
    finally:
        loop.cancel_all()
        loop.close()


SMALL = FleetSpec(regions=1, nodes=2, workers=2, agents=2)
"""One region, two workers of one node each."""
ONE_NODE = FleetSpec(regions=1, nodes=1, workers=1, agents=2)
TWO_REGIONS = FleetSpec(regions=2, nodes=2, workers=2, agents=2)


def ended(stage: Stage, workload: WorkloadId) -> tuple[Phase, int]:
    """How a workload ended, and in which epoch."""
    row = stage.row(workload)
    return row.phase, row.epoch
