"""Starts on a real plane, timed: one client submits, and hears of grants and starts as the regions' logs tell them.

An emulated gang has started when its region's log tells `GangStarted`, and is granted at `ClaimGranted`; a real process has started when it
has written its own first line, by the clock that the client looks at too.
"""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from bench.support.plane_client import emulated, facts_in
from bus.port import Address, Bus
from core.codec import Parcel
from core.events.region import AttemptEnded, ClaimGranted, GangStarted
from core.messages.base import Message
from core.messages.queue import CancelWorkload, ListWorkloads, Submitted, SubmitWorkload, WorkloadsListed
from core.nouns.ids import RegionName, WorkloadId, region_log
from core.nouns.instant import seconds
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import JobSpec, Program, WorkloadSpec

GANG_TASKS, GANG_GPUS = 8, 8
IN_FLIGHT = 64
"""Requests of the burst that wait for their answers at once."""
PATIENCE = seconds(30)
STARTED_SECONDS_MAX = 60.0
REAL_BURST_SECONDS_MAX = 300.0


class Starts:
    """One client, which hears all that the regions' logs tell."""

    def __init__(self, bus: Bus, directory: Path, regions: Sequence[RegionName]) -> None:
        self._bus = bus
        self._directory = directory
        self._regions = tuple(regions)
        self._granted: dict[WorkloadId, float] = {}
        self._started: dict[WorkloadId, float] = {}
        self._wanted: dict[WorkloadId, asyncio.Event] = {}
        self._ended: set[WorkloadId] = set()

    async def begin(self) -> None:
        """Listen, and wait until each region can be placed in."""
        for region in self._regions:
            await self._bus.listen(Address("log", (region_log(region),)), self._hear)
        deadline = time.monotonic() + STARTED_SECONDS_MAX
        regions: set[RegionName] = set()
        while regions != set(self._regions):
            assert time.monotonic() < deadline, "the plane does not come up"
            await asyncio.sleep(0.1)
            try:
                listed = await self._bus.ask(ListWorkloads(), PATIENCE)
            except Exception:  # noqa: BLE001, S112  # nobody is there yet
                continue
            assert isinstance(listed, WorkloadsListed), listed
            regions = set(listed.regions)

    def _hear(self, parcel: Parcel, _: str) -> None:
        now = time.perf_counter()
        for event, _at in facts_in(parcel.message):
            if isinstance(event, ClaimGranted):
                self._granted[event.workload] = now
            elif isinstance(event, AttemptEnded):
                self._ended.add(event.workload)
            elif isinstance(event, GangStarted):
                self._started[event.workload] = now
                if event.workload in self._wanted:
                    self._wanted[event.workload].set()

    async def _submitted(self, spec: WorkloadSpec) -> WorkloadId:
        answer: Message = await self._bus.ask(SubmitWorkload(spec, "bench"), PATIENCE)
        assert isinstance(answer, Submitted), answer
        return answer.workload

    async def _until_started(self, workload: WorkloadId) -> float:
        if workload not in self._started:
            event = self._wanted[workload] = asyncio.Event()
            await asyncio.wait_for(event.wait(), STARTED_SECONDS_MAX)
            del self._wanted[workload]
        return self._started[workload]

    async def latencies(self, spec: WorkloadSpec, count: int) -> tuple[list[float], list[float]]:
        """Return milliseconds until the start and until the grant: one workload at a time, each ended before the next."""
        starts, grants = [], []
        for _ in range(count):
            begun = time.perf_counter()
            workload = await self._submitted(spec)
            starts.append(1000 * (await self._until_started(workload) - begun))
            grants.append(1000 * (self._granted[workload] - begun))
            await self._bus.ask(CancelWorkload(workload), PATIENCE)
            await asyncio.sleep(0.02)
        return starts, grants

    async def real_ms(self, number: int) -> float:
        """Until its own first line, on this machine's clock."""
        line = self._directory / f"first-line-{number}"
        begun = time.time_ns()
        await self._submitted(program(f"date +%s%N > {line}.tmp && mv {line}.tmp {line}"))
        deadline = time.monotonic() + STARTED_SECONDS_MAX
        while not line.exists():
            assert time.monotonic() < deadline, "it does not start"
            await asyncio.sleep(0.002)
        return (int(line.read_text()) - begun) / 1e6

    async def warm_up(self) -> None:
        """Start one workload and end it: in a plane's first seconds its units may still be reading the logs."""
        workload = await self._submitted(emulated(1, 1))
        await self._until_started(workload)
        await self._bus.ask(CancelWorkload(workload), PATIENCE)
        deadline = time.monotonic() + STARTED_SECONDS_MAX
        while workload not in self._ended:
            assert time.monotonic() < deadline, "it does not end"
            await asyncio.sleep(0.01)

    async def burst_per_s(self, spec: WorkloadSpec, count: int) -> float:
        """Starts a second, from the first submission to the last start."""
        begun = time.perf_counter()
        workloads = await self._submitted_at_once(spec, count)
        last = max([await self._until_started(workload) for workload in workloads])
        return count / (last - begun)

    async def real_burst_per_s(self, count: int) -> float:
        """The same of real processes, each of which appends its start to one file and ends."""
        lines = self._directory / "first-lines"
        lines.touch()
        begun = time.time_ns()
        await self._submitted_at_once(program(f"date +%s%N >> {lines}"), count)
        deadline = time.monotonic() + REAL_BURST_SECONDS_MAX
        while len(starts := lines.read_text().splitlines()) < count:
            assert time.monotonic() < deadline, f"{len(starts)} of {count} have started"
            await asyncio.sleep(0.02)
        return count / ((max(int(line) for line in starts) - begun) / 1e9)

    async def _submitted_at_once(self, spec: WorkloadSpec, count: int) -> list[WorkloadId]:
        free = asyncio.Semaphore(IN_FLIGHT)

        async def submit() -> WorkloadId:
            async with free:
                return await self._submitted(spec)

        return await asyncio.gather(*(submit() for _ in range(count)))


def program(run: str) -> WorkloadSpec:
    """One process on one CPU slot."""
    job = JobSpec("main", 1, Amount(MILLI), "cpu", program=Program(run))
    return WorkloadSpec("bench", (job,))
