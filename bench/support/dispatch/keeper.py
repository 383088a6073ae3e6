"""A keeper whose urgent messages each make a fact, beside queries that make none, in virtual time."""

import asyncio
import random
from typing import Any

from msgspec import Struct

from bus.simulated import SimulatedNetwork
from core.component import Decision, Follow, Images
from core.events.queue import RegionAdded
from core.fact import Fact
from core.images import GlobalImage
from core.messages.base import Envelope, Message
from core.messages.queue import Acknowledged, CancelWorkload, ListWorkloads
from core.nouns.dispatch import DispatchSettings
from core.nouns.ids import GLOBAL_LOG, LogName, RegionName, WorkloadId
from core.nouns.instant import MILLISECOND, SECOND, Instant, Nanoseconds, seconds
from runtime.clock import Clock
from runtime.host import Host
from runtime.images import load_image
from runtime.keeping.kept import Kept
from runtime.virtual_loop import VirtualLoop, run_virtual
from store.memory import MemoryStore
from store.memory_disk import MemoryDisk

START = Instant(1_767_225_600 * SECOND)
FLEET = "keeper"
URGENT = Nanoseconds(MILLISECOND // 10)
QUERY = Nanoseconds(MILLISECOND)
ASK = seconds(30)


class KeeperRun(Struct, frozen=True):
    """One run."""

    settings: DispatchSettings
    seed: int
    urgent_rate: float
    load: float
    """Of queries."""
    commit: Nanoseconds
    span: float


class Recorder:
    """Keeps the log `global`, and records each name that is cancelled, once."""

    name = noun = "queue"
    scope: tuple[str, ...] = ()
    keeps: LogName | None = GLOBAL_LOG
    follows: tuple[Follow, ...] = ()
    hears: tuple[type[Message], ...] = (CancelWorkload, ListWorkloads)

    def __init__(self) -> None:
        self.queries = 0

    def initial(self, images: Images) -> GlobalImage:
        """Return the image alone."""
        assert isinstance(images.own, GlobalImage)
        return images.own

    def decide(self, state: GlobalImage, envelope: Envelope) -> Decision:
        """Record, or count."""
        message = envelope.message
        if isinstance(message, CancelWorkload):
            return Decision((RegionAdded(RegionName(message.workload)),), (Acknowledged(message.workload),))
        self.queries += isinstance(message, ListWorkloads)
        return Decision()

    def evolve(self, state: GlobalImage, fact: Fact) -> GlobalImage:
        """Fold."""
        if fact.log == GLOBAL_LOG:
            state.fold(fact)
        return state

    def due(self, state: GlobalImage) -> Instant | None:
        """Nothing is ever due."""
        return None


def play_keeper(given: KeeperRun) -> tuple[list[float], int]:
    """Return how long urgent messages took until their answer, in seconds, and how many queries were decided."""
    return run_virtual(_play(given), START)


async def _play(given: KeeperRun) -> tuple[list[float], int]:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    network = SimulatedNetwork(random.Random(given.seed), loop, FLEET)
    network.faults.delay_min = network.faults.delay_max = Nanoseconds(0)
    store = MemoryStore(MemoryDisk(), lambda: loop.sleep_ns(given.commit))
    log = await store.open(GLOBAL_LOG, "log")
    image, _, _ = await load_image(await store.reader(GLOBAL_LOG), GLOBAL_LOG)
    component = Recorder()
    service = random.Random(f"service {given.seed}")

    def pace(message: Message) -> Nanoseconds:
        mean = URGENT if isinstance(message, CancelWorkload) else QUERY
        return Nanoseconds(round(service.expovariate(1 / mean)))

    host: Host[Any] = Host(
        component, network.endpoint("queue"), Clock(loop, START), Kept(log, image, FLEET, "bench"), pace=pace
    )
    host.mailbox.use(given.settings, 1)
    lives = [loop.create_task(task, name=name) for name, task in host.tasks()]
    await asyncio.sleep(0.1)
    took: list[float] = []
    person, dashboard = network.endpoint("person"), network.endpoint("dashboard")

    async def ask(number: int) -> None:
        begun = loop.time()
        await person.ask(CancelWorkload(WorkloadId(f"w-{number}")), ASK)
        took.append(loop.time() - begun)

    async def urgent() -> None:
        dice = random.Random(f"urgent {given.seed}")
        number = 0
        while True:
            await asyncio.sleep(dice.expovariate(given.urgent_rate))
            number += 1
            asked.append(loop.create_task(ask(number)))

    async def queries() -> None:
        dice = random.Random(f"queries {given.seed}")
        while True:
            await asyncio.sleep(dice.expovariate(given.load * SECOND / QUERY))
            dashboard.say(ListWorkloads())

    asked: list[asyncio.Task[None]] = []
    tasks = [loop.create_task(urgent()), loop.create_task(queries())]
    await asyncio.sleep(given.span)
    done = component.queries
    for task in tasks:
        task.cancel()
    await asyncio.gather(*asked)
    assert not any(life.done() for life in lives)
    return took, done
