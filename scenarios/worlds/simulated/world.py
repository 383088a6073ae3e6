"""The simulated world: the same components, hosts and codec over a virtual loop, a simulated bus and memory logs.

A run is repeatable to the byte from (scenario, seed, commit). Every process of the plane is a `SimulatedUnit`: tasks of
the loop and an endpoint of the bus that can be killed or frozen at any await, and a disk that survives.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import blake2b

from msgspec.structs import replace

from bus.port import Bus
from bus.simulated import SimulatedNetwork
from core.images import RegionImage
from core.messages.base import Message
from core.nouns.ids import GLOBAL_LOG, DatasetName, LogName, RegionName, WorkloadId
from core.nouns.instant import Instant
from runtime.clock import Clock
from runtime.data.emulated_world import DataWorld, EmulatedDisk
from runtime.dispatch.turns import Pace
from runtime.images import load_image
from runtime.virtual_loop import VirtualLoop
from runtime.wiring import Plan, Unit, units_of
from scenarios.accounting.harvest import ClearingFigures, figures_of_clearing
from scenarios.accounting.lending import figures_of
from scenarios.accounting.mail_watch import MailWatch
from scenarios.accounting.witness import Witness
from scenarios.schema.outcome import Outcome
from scenarios.worlds.function_books import NodesBook
from scenarios.worlds.interface import World
from scenarios.worlds.simulated.disks import Disks
from scenarios.worlds.simulated.faults import SimulatedDeeds
from scenarios.worlds.simulated.physics import Physics
from scenarios.worlds.simulated.unit import SimulatedUnit
from store.memory import MemoryReader
from store.memory_disk import Fate

START = Instant(1_767_225_600_000_000_000)
"""2026-01-01, so that instants look like instants."""
QUIET_TAGS = (
    "head-told",
    "agent-present",
    "worker-beat",
    "beat-heard",
    "unit-status",
    "dispatch-told",
    "router-here",
    "server-report",
)
"""What is said however little happens."""


class SimulatedWorld(SimulatedDeeds, World):
    """A plane, its network, its disks and its time."""

    world = "simulated"
    can_be_seen_through = True

    def __init__(
        self,
        plan: Plan,
        seed: int,
        loop: VirtualLoop,
        *,
        witness: Witness | None = None,
        decides_twice: bool = False,
        pace: Pace | None = None,
    ) -> None:
        """`pace` says how long decisions take; None: no time."""
        super().__init__(loop, seed)
        self.pace = pace
        self.mail: list[MailWatch] = []
        """Of each life of each host."""
        self.plan = plan
        self.loop = loop
        self.decides_twice = decides_twice
        self.network = SimulatedNetwork(random.Random(f"network/{seed}"), loop, plan.fleet)
        self.store = Disks(witness, loop)
        self.data = DataWorld(self._bytes_of)
        """What data services have on their disks, and the links between them."""
        self.failures: list[tuple[Unit, BaseException]] = []
        self.kills = self.kills_mid_award = self.hangs_ended = 0
        self._log_ids = 0
        self._background: list[asyncio.Task[None]] = []
        self.all: list[SimulatedUnit] = []
        for unit in units_of(plan):
            self.all.append(SimulatedUnit(self, unit))
        self.units = [unit.unit for unit in self.all]
        self._by_unit = {unit.unit: unit for unit in self.all}
        self.physics = Physics(self.region_image, self.was_agreed)
        for one in self.all:
            if one.spool is not None:
                inventory = plan.inventory(one.unit.region, one.unit.member)
                totals = {node: group.total for group in inventory.groups for node in group.numbers()}
                server = self._by_unit.get(replace(one.unit, role="function_server"))
                executors = server.executors if server is not None else None
                self.physics.watch(one.unit.region, one.spool, totals, executors)

    # A world.

    async def start(self) -> None:
        """Start every process, and the nodes under the workers."""
        for unit in self.all:
            for doer in (unit.spool, unit.data):
                if doer is not None:
                    name = f"doer/{unit.unit.name}"
                    self._background.append(self.loop.create_task(doer.run(), name=name))
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

    def book(self, unit: Unit) -> NodesBook:
        """What tasks hold for functions on the nodes beside a function server: its worker was made before it."""
        worker = next(one for one in self.all if one.unit == replace(unit, role="worker"))
        assert worker.spool is not None, unit
        spool = worker.spool
        return NodesBook(spool, Clock(self.loop, self.loop.now_ns()), lambda: spool.moves_since)

    def _bytes_of(self, dataset: DatasetName) -> int:
        """As operators stated it."""
        queue = self.unit("job_queue").state
        row = queue.image.datasets.rows.get(dataset) if queue is not None else None
        return row.size if row is not None else 0

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
        outcome.messages = self.messages()
        outcome.heads_and_beats = sum(self.network.delivered.values()) - outcome.messages
        outcome.kills = self.kills
        outcome.figures["kills_mid_award"] = float(self.kills_mid_award)
        outcome.figures["hangs_ended"] = float(self.hangs_ended)
        spools = (one.spool for one in self.all if one.spool is not None)
        outcome.figures |= figures_of(one.lending.figures for one in spools if one.lending is not None)
        outcome.figures |= figures_of_clearing(self._clearing_figures())
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
            f"{unit.unit.name} still runs {key.workload}.{key.epoch}"
            for unit in self.all
            if unit.spool is not None
            for key, share in unit.spool.shares.items()
            if share.is_live
        ]
        waited = [problem for one in self._clearing_figures() for problem in one.problems]
        return self.physics.problems + waited + running

    def _clearing_figures(self) -> list[ClearingFigures]:
        return [unit.book.clearing.figures for unit in self.all if unit.book is not None]

    def mail_problems(self) -> list[str]:
        """Of all mailboxes that there were."""
        return [problem for watch in self.mail for problem in watch.problems]

    def overhear(self, kinds: Sequence[type[Message]], overhear: Callable[[str, Message], None]) -> None:
        """Every one of them."""
        for kind in kinds:
            self.network.overheard.setdefault(kind, []).append(overhear)

    def watch_calls(self, begun: Callable[[bytes, str], None]) -> None:
        """In every executor of every life."""
        for unit in self.all:
            if unit.executors is not None:
                unit.executors.on_begun = partial(_begun_at, begun, unit.unit.name)

    def messages(self) -> int:
        """By their tags."""
        return sum(count for tag, count in self.network.delivered.items() if tag not in QUIET_TAGS)

    def durable(self, log: LogName) -> int:
        """On its disk."""
        return self.store.durable(log)[0]

    def data_disk(self, region: RegionName) -> EmulatedDisk:
        """As it is now."""
        return self.data.disk(region)

    def put_data(self, region: RegionName, dataset: DatasetName) -> None:
        """As they were before anything was deleted there."""
        self.data.put_back(region, dataset)

    # What it is made of.

    def unit(self, role: str, region: str = "") -> SimulatedUnit:
        """The first unit of a role."""
        return next(one for one in self.all if one.unit.role == role and region in (one.unit.region, ""))

    def process(self, unit: Unit) -> SimulatedUnit:
        """The process that a unit is."""
        return self._by_unit[unit]

    def region_image(self, region: RegionName) -> RegionImage | None:
        """A region's image as its store has it; None while the store is dead."""
        state = self.unit("placement_store", region).state
        return state.image if state is not None else None

    def was_agreed(self, region: RegionName, workload: WorkloadId, epoch: int) -> bool:
        """Whether a region's store has read that an attempt was given up."""
        state = self.unit("placement_store", region).state
        return state is not None and state.awards.awards.was_abandoned(workload, epoch)

    def fail(self, unit: Unit, failure: BaseException) -> None:
        """A process died of something that must not happen."""
        self.failures.append((unit, failure))

    def crash_log(self, log: LogName, fate: str) -> None:
        """The keeper died: what was not durable is lost, or not, as the dice say if nobody does."""
        disk = self.store.disk(log)
        drawn = Fate(fate) if fate else self.moments.dice(log).choice(list(Fate))
        if disk.file(log) is not None:  # Otherwise it died before it had made one.
            disk.crash(drawn, log)

    def reader(self, log: LogName) -> MemoryReader:
        """Reads a log, with or without its keeper."""
        return self.store.reader_of(log)


def _begun_at(begun: Callable[[bytes, str], None], server: str, arguments: bytes) -> None:
    begun(arguments, server)
