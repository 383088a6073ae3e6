"""The simulated world: the same components, hosts and codec over a virtual loop, a simulated bus and memory logs.

A run is repeatable to the byte from (scenario, seed, commit). Every process of the plane is a `SimulatedUnit`: tasks of
the loop and an endpoint of the bus that can be killed or frozen at any await, and a disk that survives.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from hashlib import blake2b

from bus.catalogue import subject_of
from bus.errors import BusError
from bus.faults import Faults, between
from bus.port import Bus
from bus.simulated import SimulatedNetwork
from core.images import RegionImage
from core.messages.base import Message
from core.nouns.ids import GLOBAL_LOG, LogName, RegionName
from core.nouns.instant import SECOND, Instant, seconds
from runtime.errors import HostError
from runtime.images import load_image
from runtime.virtual_loop import VirtualLoop
from runtime.wiring import Plan, Unit, log_kept_by, units_of
from scenarios.outcome import Outcome
from scenarios.witness import Witness
from scenarios.worlds.disks import Disks
from scenarios.worlds.misfortune import Disturbance, Link, World
from scenarios.worlds.nodes import TroubledNodes
from scenarios.worlds.physics import Physics
from scenarios.worlds.poison import spoiled
from scenarios.worlds.simulated_unit import SimulatedUnit
from store.errors import LogError
from store.memory import MemoryReader
from store.memory_disk import Fate

START = Instant(1_767_225_600_000_000_000)
"""2026-01-01, so that instants look like instants."""
SYNC_FAILS_SECONDS = 5.0
"""Within which a batch is waited for whose sync is to fail."""
SYNC_LOOK_SECONDS = 0.02
"""Between looks whether its keeper has died of it: less than it needs to come back."""
QUIET_TAGS = ("head-told", "agent-present", "worker-beat", "beat-heard")
"""What is said however little happens."""


class SimulatedWorld(World):
    """A plane, its network, its disks and its time."""

    world = "simulated"

    def __init__(
        self,
        plan: Plan,
        seed: int,
        loop: VirtualLoop,
        *,
        witness: Witness | None = None,
        decides_twice: bool = False,
    ) -> None:
        self.plan = plan
        self.loop = loop
        self.decides_twice = decides_twice
        self.dice = random.Random(f"world/{seed}")
        self.network = SimulatedNetwork(random.Random(f"network/{seed}"), loop, plan.fleet)
        self.store = Disks(witness, loop)
        self.failures: list[tuple[Unit, BaseException]] = []
        self.kills = 0
        self._log_ids = 0
        self._background: list[asyncio.Task[None]] = []
        self.all = [SimulatedUnit(self, unit) for unit in units_of(plan)]
        self.units = [unit.unit for unit in self.all]
        self._by_unit = {unit.unit: unit for unit in self.all}
        self.physics = Physics(self.region_image)
        for unit in self.all:
            if unit.spool is not None:
                inventory = plan.inventory(unit.unit.region, unit.unit.member)
                gpus = {node: group.total.gpu_milli for group in inventory.groups for node in group.numbers()}
                self.physics.watch(unit.unit.region, unit.spool, gpus)

    # A world.

    async def start(self) -> None:
        """Start every process, and the nodes under the workers."""
        for unit in self.all:
            if unit.spool is not None:
                name = f"spool/{unit.unit.name}"
                self._background.append(self.loop.create_task(unit.spool.run(), name=name))
        for unit in self.all:
            await unit.start()

    async def stop(self) -> None:
        """End everything."""
        for unit in self.all:
            unit.downs += 1
            unit.kill()
        for task in self._background:
            task.cancel()

    def now(self) -> float:
        """Virtual seconds."""
        return self.loop.time()

    def new_log_id(self) -> str:
        """Numbered, so that it is the same in every run."""
        self._log_ids += 1
        return f"log-{self._log_ids}"

    async def sleep(self, seconds: float) -> None:
        """Move the clock."""
        await asyncio.sleep(seconds)

    def user(self, name: str) -> Bus:
        """Somebody outside the plane."""
        return self.network.endpoint(name)

    async def is_quiet(self) -> bool:
        """By the keepers' own memory."""
        queue = self.unit("job_queue").state
        if queue is None or any(not unit.is_alive or unit.pauses for unit in self.all):
            return False
        if any(not row.phase.is_terminal for row in queue.image.workloads.rows.values()):
            return False
        images = [self.region_image(plan.region) for plan in self.plan.regions]
        return all(
            image is not None
            and not image.capacity.holdings
            and not any(row.is_lost for row in image.capacity.workers.values())
            for image in images
        )

    async def account(self, outcome: Outcome) -> None:
        """What the run's outcome wants to know of the world."""
        delivered = self.network.delivered
        outcome.heads_and_beats = sum(count for tag, count in delivered.items() if tag in QUIET_TAGS)
        outcome.messages = sum(delivered.values()) - outcome.heads_and_beats
        outcome.kills = self.kills
        digest = blake2b(self.network.digest().encode(), digest_size=16)
        for log in self.store.logs():
            digest.update(self.store.head_hash(log))
        outcome.digest = digest.hexdigest()

    async def dead(self) -> list[str]:
        """Those that have no life, and those that stand still."""
        return [unit.unit.name for unit in self.all if not unit.is_alive or unit.pauses]

    async def replay_problems(self, witness: Witness) -> list[str]:
        """By what lies on the disks."""
        found = []
        for log in witness.logs:
            reader = self.reader(log)
            verified = await reader.verify()
            if verified.broken_at:
                found.append(f"log {log} is broken at {verified.broken_at}: {verified.problem}")
                continue
            image, _, _ = await load_image(reader, log)
            region = log.removeprefix("region.")
            unit = self.unit("job_queue") if log == GLOBAL_LOG else self.unit("placement_store", region)
            kept = unit.state
            if kept is not None and kept.image.digest() != image.digest():
                found.append(f"log {log} does not replay to what its keeper has")
            if witness.images[log].digest() != image.digest():
                found.append(f"log {log} does not replay to what became durable in it")
        return found

    def spool_problems(self) -> list[str]:
        """As they were seen, and what still runs."""
        running = [
            f"{unit.unit.name} still runs {workload}.{epoch}"
            for unit in self.all
            if unit.spool is not None
            for (workload, epoch), share in unit.spool.shares.items()
            if share.is_live
        ]
        return self.physics.problems + running

    def overhear(self, kinds: Sequence[type[Message]], overhear: Callable[[str, Message], None]) -> None:
        """Every one of them."""
        for kind in kinds:
            self.network.overheard.setdefault(kind, []).append(overhear)

    def durable(self, log: LogName) -> int:
        """On its disk."""
        return self.store.durable(log)[0]

    # What it is made of.

    def unit(self, role: str, region: str = "") -> SimulatedUnit:
        """The first unit of a role."""
        return next(one for one in self.all if one.unit.role == role and region in (one.unit.region, ""))

    def region_image(self, region: RegionName) -> RegionImage | None:
        """A region's image as its store has it; None while the store is dead."""
        state = self.unit("placement_store", region).state
        return state.image if state is not None else None

    def fail(self, unit: Unit, failure: BaseException) -> None:
        """A process died of something that must not happen."""
        self.failures.append((unit, failure))

    def crash_log(self, log: LogName, fate: str) -> None:
        """The keeper died: what was not durable is lost, or not, as the dice say if nobody does."""
        disk = self.store.disk(log)
        drawn = Fate(fate) if fate else self.dice.choice(list(Fate))
        if disk.file(log) is not None:  # Otherwise it died before it had made one.
            disk.crash(drawn, log)

    def reader(self, log: LogName) -> MemoryReader:
        """Reads a log, with or without its keeper."""
        return self.store.reader_of(log)

    # Misfortune: processes.

    async def kill(self, unit: Unit, fate: str = "") -> None:
        """At whatever await it is."""
        self.kills += 1
        self._by_unit[unit].downs += 1
        self._by_unit[unit].kill(fate)

    async def revive(self, unit: Unit) -> None:
        """Once nobody else keeps it down."""
        one = self._by_unit[unit]
        one.downs = max(0, one.downs - 1)
        one.start_soon()

    async def pause(self, unit: Unit) -> None:
        """Its callbacks wait, and so does what is said to it."""
        self._by_unit[unit].pause()

    async def resume(self, unit: Unit) -> None:
        """All that waited comes at once."""
        self._by_unit[unit].resume()

    async def start_second(self, unit: Unit) -> str:
        """On the same disk, or on one of its own, as the dice say."""
        log = log_kept_by(unit)
        assert log is not None, unit
        disks = self.store if self.dice.random() < 0.5 else self.store.blank()
        return await self._refused(unit, disks)

    async def start_old_build(self, unit: Unit) -> str:
        """On a copy of the log, whose newest fact is of a type that nobody here knows."""
        log = log_kept_by(unit)
        assert log is not None, unit
        return await self._refused(unit, self.store.copy_with_newer_fact(log))

    async def _refused(self, unit: Unit, disks: Disks) -> str:
        second = SimulatedUnit(_Elsewhere(self, disks), unit)
        try:
            await second.start()
        except (BusError, HostError, LogError) as refusal:
            return f"{type(refusal).__name__}: {refusal}"
        finally:
            opened = second.open
            second.kill("kept")
            if opened is not None:
                await opened.close()  # Its log too, for it may have come up on the first one's disk.
        return ""

    # Misfortune: the bus.

    async def disturb(self, link: Link, disturbance: Disturbance) -> object:
        """On top of whatever strikes the link already."""
        faults = Faults(
            drop_probability=disturbance.drop,
            repeat_probability=disturbance.repeat,
            repeat_delay=seconds(disturbance.repeat_seconds),
            repeats_in_order=disturbance.repeats_in_order,
            extra_delay_probability=disturbance.delay,
            extra_delay=seconds(disturbance.delay_seconds),
            is_reordering=disturbance.reorders,
        )
        handle = self.network.disturb(between(link.ones, link.others, link.is_one_way), faults)
        return lambda: self.network.calm(handle)

    async def cut(self, link: Link) -> object:
        """Nothing passes, nor arrives that is on its way."""
        cut = self.network.cut(link.ones, link.others, link.is_one_way)
        return lambda: self.network.heal(cut)

    async def calm(self, handle: object) -> None:
        """Take back what was done to the link."""
        assert callable(handle), handle
        handle()

    async def stop_bus(self) -> None:
        """With all that is on its way."""
        if self.network.is_up:
            self.network.down()

    async def start_bus(self) -> None:
        """All find it at once."""
        if not self.network.is_up:
            self.network.up()

    async def say_raw(self, message: Message, spoil: int) -> None:
        """Bit by bit, until nobody can take it for a message."""
        self.network.deliver_raw(subject_of(self.plan.fleet, message), spoiled(message, spoil))

    # Misfortune: disks and clocks.

    async def fill_disk(self, log: LogName) -> None:
        """For batches and for snapshots."""
        self.store.disk(log).is_full = True

    async def free_disk(self, log: LogName) -> None:
        """Its keeper goes on."""
        self.store.disk(log).is_full = False

    async def slow_disk(self, log: LogName, seconds: float) -> None:
        """Batches that are under way too."""
        self.store.slow(log, seconds)

    async def fail_syncs(self, log: LogName, fate: str) -> None:
        """Once, or not at all where nothing is written for a while."""
        keeper = next(one for one in self.all if log_kept_by(one.unit) == log)
        disk, deaths, until = self.store.disk(log), len(keeper.deaths), self.now() + SYNC_FAILS_SECONDS
        disk.sync_fails = Fate(fate)
        try:
            while len(keeper.deaths) == deaths and self.now() < until:
                await asyncio.sleep(SYNC_LOOK_SECONDS)
        finally:
            disk.sync_fails = None

    async def flip_byte(self, log: LogName, place: float) -> int:
        """The lowest bit of the first byte of a row's event."""
        return self.store.flip(log, place)

    async def mend_byte(self, log: LogName, sequence: int) -> None:
        """Flip it back."""
        self.store.mend(log, sequence)

    async def verify(self, log: LogName) -> int:
        """Every row, from the first on."""
        return (await self.reader(log).verify()).broken_at

    async def last_death(self, unit: Unit) -> str:
        """As its process would have logged it."""
        return self._by_unit[unit].last_death

    async def step_clock(self, unit: Unit, seconds: float) -> None:
        """Its next host reads it."""
        self._by_unit[unit].clock_step += round(seconds * SECOND)

    async def skew_clock(self, unit: Unit, share: float) -> None:
        """Its next host lives by it."""
        self._by_unit[unit].clock_skew = share

    # Misfortune: nodes.

    async def power_off(self, worker: Unit) -> None:
        """With all that runs there. A worker that was frozen is not any more."""
        await self.kill(worker)
        self._nodes(worker).lose_power()

    async def freeze(self, worker: Unit) -> None:
        """The worker with its tasks."""
        self._by_unit[worker].pause()
        self._nodes(worker).freeze()

    async def thaw(self, worker: Unit) -> None:
        """Once nobody else has frozen them; and the worker, once nobody else has paused it."""
        self._nodes(worker).thaw()
        self._by_unit[worker].resume()

    async def slow_tasks(self, worker: Unit, factor: float) -> None:
        """Those that are started from now on."""
        self._nodes(worker).factor = factor

    async def fail_tasks(self, worker: Unit, exit_code: int) -> int:
        """All at once."""
        return self._nodes(worker).fail_all(exit_code)

    async def break_nodes(self, worker: Unit, exit_code: int) -> None:
        """Until they are mended with 0."""
        self._nodes(worker).broken_exit_code = exit_code

    def _nodes(self, worker: Unit) -> TroubledNodes:
        spool = self._by_unit[worker].spool
        assert spool is not None, worker
        return spool


class _Elsewhere:
    """The same world with other disks: what a second process sees that was started elsewhere."""

    def __init__(self, world: SimulatedWorld, disks: Disks) -> None:
        self.plan, self.loop, self.network = world.plan, world.loop, world.network
        self.decides_twice = False
        self.store = disks
        self.new_log_id = world.new_log_id
        self.now: Callable[[], float] = world.now

    def crash_log(self, log: LogName, fate: str) -> None:
        """Whatever it wrote elsewhere is of no interest."""

    def fail(self, unit: Unit, failure: BaseException) -> None:
        """It was not to live."""
