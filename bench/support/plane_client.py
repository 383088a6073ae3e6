"""A client of a real plane, which hears every fact as it is told: what benchmarks of whole planes share."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from bus.errors import BusError
from bus.port import Address, Bus
from core.codec import CodecError, Parcel, decode_event
from core.fact import Event
from core.messages.base import Message
from core.messages.logs import FactsTold
from core.messages.queue import ListWorkloads, Submitted, SubmitWorkload, WorkloadsListed
from core.nouns.ids import GLOBAL_LOG, RegionName, WorkloadId, region_log
from core.nouns.instant import Instant, seconds
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import Emulation, JobSpec, WorkloadSpec

PATIENCE = seconds(30)
LONG = seconds(3600)
COME_UP_SECONDS_MAX = 60.0
IN_FLIGHT = 64
"""Requests that wait for their answers at once."""

OnFact = Callable[[Event, int, float], None]
"""Told of each fact: the event, when its keeper recorded it, and when it was heard (`time.perf_counter`)."""


class Client:
    """Submits, and hears all logs."""

    def __init__(self, bus: Bus, regions: Sequence[RegionName]) -> None:
        self.bus = bus
        self.regions = tuple(regions)
        self.on_fact: list[OnFact] = []

    async def begin(self) -> None:
        """Listen, and wait until every region can be placed in."""
        for log in (GLOBAL_LOG, *(region_log(region) for region in self.regions)):
            await self.bus.listen(Address("log", (log,)), self._hear)
        deadline = time.monotonic() + COME_UP_SECONDS_MAX
        known: tuple[RegionName, ...] = ()
        while set(known) != set(self.regions):
            assert time.monotonic() < deadline, "the plane does not come up"
            await asyncio.sleep(0.1)
            try:
                listed = await self.bus.ask(ListWorkloads(), PATIENCE)
            except BusError:
                continue  # Nobody is there yet.
            assert isinstance(listed, WorkloadsListed), listed
            known = listed.regions

    async def ask(self, message: Message) -> Message:
        """Ask until somebody answers, for as long as the plane may need to come up."""
        deadline = time.monotonic() + COME_UP_SECONDS_MAX
        while True:
            try:
                return await self.bus.ask(message, seconds(2))
            except BusError:
                assert time.monotonic() < deadline, "nobody answers"
                await asyncio.sleep(0.05)

    async def submit(self, specs: Iterable[WorkloadSpec]) -> list[WorkloadId]:
        """Many at once; their ids, in their order."""
        free = asyncio.Semaphore(IN_FLIGHT)

        async def one(spec: WorkloadSpec) -> WorkloadId:
            async with free:
                answer = await self.ask(SubmitWorkload(spec, "bench"))
            assert isinstance(answer, Submitted), answer
            return answer.workload

        return await asyncio.gather(*(one(spec) for spec in specs))

    def _hear(self, parcel: Parcel, _: str) -> None:
        now = time.perf_counter()
        for event, at in facts_in(parcel.message):
            for told in self.on_fact:
                told(event, at, now)


def facts_in(message: Message) -> Iterator[tuple[Event, Instant]]:
    """Yield the events of a message of a log, and when they were recorded; without those of other builds."""
    for fact in message.facts if isinstance(message, FactsTold) else ():
        try:
            yield decode_event(fact.event), fact.at
        except CodecError:
            continue


async def until(is_so: Callable[[], bool], seconds_max: float, what: str) -> float:
    """Seconds until it is so. Asserts that it comes to be."""
    begun = time.monotonic()
    while not is_so():
        assert time.monotonic() - begun < seconds_max, what
        await asyncio.sleep(0.02)
    return time.monotonic() - begun


def emulated(tasks: int, gpus: int) -> WorkloadSpec:
    """A gang that runs for long."""
    need = Amount(gpus * MILLI, gpus * MILLI, 1 << 30)
    job = JobSpec("main", tasks, need, "H100", Emulation(work=LONG))
    return WorkloadSpec("bench", (job,))
