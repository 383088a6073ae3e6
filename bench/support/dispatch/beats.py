"""A host that hands on awards and hears the beats of a thousand workers, in virtual time."""

import asyncio
import random

from msgspec import Struct
from msgspec.structs import replace

from bench.support.dispatch.chain import AGENT, AWARD, FLEET, HOPS, REGION, ChainHop
from bench.support.dispatch.virtual import START
from bus.port import Address
from bus.simulated import SimulatedNetwork
from core.codec import Parcel
from core.dispatch.context import NO_CONTEXT, Context, Urgency
from core.dispatch.traits import BEAT_LOOK
from core.messages.agents import PlaceAward
from core.messages.base import Message
from core.messages.workers import WorkerBeat
from core.nouns.dispatch import TARGETS, DispatchSettings, UrgencyClass
from core.nouns.ids import WorkerName, WorkloadId
from core.nouns.instant import MILLISECOND, SECOND, Nanoseconds
from core.nouns.limits import PRESENCE_INTERVAL
from runtime.clock import Clock
from runtime.host import Host
from runtime.virtual_loop import VirtualLoop, run_virtual

WORKERS = 1_000
AWARD_RATE = 100.0
DECISION = Nanoseconds(MILLISECOND)
INTERVAL = PRESENCE_INTERVAL / SECOND
AFTER_SECONDS = 1.0
DRAIN_SECONDS = 30.0
BROKER = HOPS[1]
DUE_IN_A_SECOND = Context(Urgency(UrgencyClass.REPORT, TARGETS[UrgencyClass.REPORT].within - BEAT_LOOK))


class Beats(Struct, frozen=True):
    """One run."""

    settings: DispatchSettings
    seed: int
    begin: float
    """Seconds until all workers beat at once."""
    is_windowed: bool = True
    """Whether a beat waits until its worker could become suspect; else it is due as other reports are."""


def play_beats(given: Beats) -> tuple[list[float], list[float]]:
    """Return how long awards took before all workers beat at once, and in the second after that."""
    return run_virtual(_play(given), START)


async def _play(given: Beats) -> tuple[list[float], list[float]]:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    network = SimulatedNetwork(random.Random(given.seed), loop, FLEET)
    network.faults.delay_min = network.faults.delay_max = Nanoseconds(0)
    component = ChainHop(replace(BROKER, bulk=_beat(0)))
    service = random.Random(f"service {given.seed}")

    def pace(_: Message) -> Nanoseconds:
        return Nanoseconds(round(service.expovariate(1 / DECISION)))

    host = Host(component, network.endpoint(BROKER.name), Clock(loop, START), pace=pace)
    host.mailbox.use(given.settings, 1)
    lives = [loop.create_task(task, name=name) for name, task in host.tasks()]
    said_at: dict[WorkloadId, float] = {}
    took: list[tuple[float, float]] = []

    def hear(parcel: Parcel, _: str) -> None:
        assert isinstance(parcel.message, PlaceAward), parcel
        at = said_at.pop(parcel.message.award.workload)
        took.append((at, loop.time() - at))

    agent, queue = network.endpoint("agent"), network.endpoint("queue")
    await agent.listen(Address("agent", (REGION, AGENT)), hear)
    context = NO_CONTEXT if given.is_windowed else DUE_IN_A_SECOND
    workers = [network.endpoint(f"worker.{number}") for number in range(WORKERS)]

    async def beat(number: int, first: float) -> None:
        await asyncio.sleep(first)
        while True:
            workers[number].say(_beat(number), "", context)
            await asyncio.sleep(INTERVAL)

    async def award() -> None:
        dice = random.Random(f"awards {given.seed}")
        count = 0
        while True:
            await asyncio.sleep(dice.expovariate(AWARD_RATE))
            count += 1
            workload = WorkloadId(f"w-{count}")
            said_at[workload] = loop.time()
            queue.say(replace(AWARD, workload=workload))

    await asyncio.sleep(0.1)
    dice = random.Random(f"beats {given.seed}")
    tasks = [loop.create_task(beat(number, dice.uniform(0, INTERVAL))) for number in range(WORKERS)]
    tasks.append(loop.create_task(award()))
    await asyncio.sleep(given.begin)
    burst = loop.time()
    for number, worker in enumerate(workers):
        worker.say(_beat(number), "", context)
    await asyncio.sleep(AFTER_SECONDS)
    for task in tasks:
        task.cancel()
    await asyncio.sleep(DRAIN_SECONDS)
    assert not any(life.done() for life in lives)
    before = [span for at, span in took if at < burst]
    return before, [span for at, span in took if at >= burst]


def _beat(number: int) -> WorkerBeat:
    return WorkerBeat(REGION, WorkerName(f"w{number}"), (), (1, 1), 1)
