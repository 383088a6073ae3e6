"""From submit to started, over a whole plane of real processes: alone, as a gang, as a real process, and in bursts.

One client asks the queue over NATS; every fact on the way is durable before it is told. An emulated gang has started
when its region's log tells `GangStarted`, which is after every rank has reported, and is granted at `ClaimGranted`; a real process has
started when it writes its own first line, by the clock that the client looks at too. The bounds of latencies allow four fsyncs of this
disk, as measured in the same run.

    burst_per_s        1,000 emulated workloads of one GPU, submitted at once
    real_burst_per_s   1,000 real processes, submitted at once, on 128 slots of this machine: each ends when it has written its line
    gang_burst_per_s   125 emulated gangs of 8×8, submitted at once, which fill 1,000 nodes; on a plane of its own, after the others

Each figure of another scheduler is named beside the figure of ours that is the same work (bench/support/peers.py).
"""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from bench.support.peers import (
    hyper_queue_burst,
    hyper_queue_start,
    slurm_allocation,
    slurm_array,
    slurm_gang_allocation,
    slurm_gangs,
)
from bench.support.plane_client import emulated
from bench.support.report import Findings, Yardstick, at_least, at_most, fsync_seconds
from bus.nats import NatsConnection
from bus.port import Address, Bus
from core.codec import CodecError, Parcel, decode_event
from core.events.region import AttemptEnded, ClaimGranted, GangStarted
from core.messages.base import Message
from core.messages.logs import FactsTold
from core.messages.queue import CancelWorkload, ListWorkloads, Submitted, SubmitWorkload, WorkloadsListed
from core.nouns.ids import RegionName, WorkloadId, region_log
from core.nouns.instant import seconds
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import JobSpec, Program, WorkloadSpec
from runtime.fleet_file import load_plan
from runtime.plane import PlaneProcesses

EAST, HERE = RegionName("east"), RegionName("here")
FLEET = """
fleet: bench
regions:
  east: {nodes: 400, gpu_type: H100}
  here: {this_machine: true, cpu_slots: 128}
"""
GANG_FLEET = """
fleet: bench
regions:
  east: {nodes: %d, gpu_type: H100}
"""
GANG_TASKS, GANG_GPUS = 8, 8
SINGLES, QUICK_SINGLES = 200, 5
GANGS, QUICK_GANGS = 50, 2
REALS, QUICK_REALS = 60, 2
BURST, QUICK_BURST = 1_000, 20
REAL_BURST, QUICK_REAL_BURST = 1_000, 4
GANG_BURST, QUICK_GANG_BURST = 125, 2
IN_FLIGHT = 64
"""Requests of the burst that wait for their answers at once."""
PATIENCE = seconds(30)
STARTED_SECONDS_MAX = 60.0
REAL_BURST_SECONDS_MAX = 300.0
FSYNCS = 4
LONG = seconds(3600)
HANDS = (
    "a workload passes the queue, every region's broker and agent, the store and the worker, and three commits: about fifteen "
    "messages between processes that share two cores"
)


async def run(directory: Path, *, is_quick: bool) -> Findings:
    """All of it: the gangs that fill a region on a plane of their own."""
    async with _measuring(directory / "all", FLEET, (EAST, HERE)) as measuring:
        figures = await measuring.figures(is_quick=is_quick)
    gangs = QUICK_GANG_BURST if is_quick else GANG_BURST
    async with _measuring(directory / "gangs", GANG_FLEET % (gangs * GANG_TASKS), (EAST,)) as measuring:
        await measuring.warm_up()
        figures["gang_burst_per_s"] = await measuring.burst_per_s(emulated(GANG_TASKS, GANG_GPUS), gangs)
    fsync_ms = 1000 * fsync_seconds(directory)
    figures["fsync_ms"] = fsync_ms
    allowed = FSYNCS * fsync_ms
    bars = [
        at_most(name, figures[name], bound + allowed, HANDS)
        for name, bound in (
            ("single_p50_ms", 20),
            ("single_p99_ms", 60),
            ("gang_p50_ms", 30),
            ("real_p50_ms", 40),
        )
    ]
    bars.append(at_least("burst_per_s", figures["burst_per_s"], 400, HANDS))
    return Findings(figures, bars, YARDSTICKS)


YARDSTICKS: list[Yardstick] = [
    slurm_array("burst_per_s"),
    slurm_allocation("single_grant_p50_ms"),
    slurm_gang_allocation("gang_grant_p50_ms"),
    slurm_gangs("gang_burst_per_s"),
    hyper_queue_start("real_p50_ms"),
    hyper_queue_burst("real_burst_per_s"),
]


@asynccontextmanager
async def _measuring(
    directory: Path, fleet: str, regions: Sequence[RegionName]
) -> AsyncIterator["_Measuring"]:
    """A plane of this fleet, and a client that may begin."""
    directory.mkdir()
    file = directory / "fleet.yaml"
    file.write_text(fleet)
    plane = PlaneProcesses(load_plan(file), file, directory / "plane")
    await plane.start()
    try:
        connection = await NatsConnection.connect(plane.url, "bench", "client", timeout=PATIENCE)
        try:
            measuring = _Measuring(connection.endpoint("client"), directory, regions)
            await measuring.begin()
            yield measuring
        finally:
            await connection.close()
    finally:
        await plane.stop()


class _Measuring:
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
        message = parcel.message
        if not isinstance(message, FactsTold):
            return
        now = time.perf_counter()
        for fact in message.facts:
            try:
                event = decode_event(fact.event)
            except CodecError:
                continue
            if isinstance(event, ClaimGranted):
                self._granted[event.workload] = now
            elif isinstance(event, AttemptEnded):
                self._ended.add(event.workload)
            elif isinstance(event, GangStarted):
                self._started[event.workload] = now
                if event.workload in self._wanted:
                    self._wanted[event.workload].set()

    async def figures(self, *, is_quick: bool) -> dict[str, float]:
        """Milliseconds, and starts a second."""
        single, single_grants = await self._latencies(emulated(1, 1), QUICK_SINGLES if is_quick else SINGLES)
        gang, gang_grants = await self._latencies(
            emulated(GANG_TASKS, GANG_GPUS), QUICK_GANGS if is_quick else GANGS
        )
        real = [await self._real_ms(number) for number in range(QUICK_REALS if is_quick else REALS)]
        burst = await self.burst_per_s(emulated(1, 1), QUICK_BURST if is_quick else BURST)
        real_burst = await self._real_burst_per_s(QUICK_REAL_BURST if is_quick else REAL_BURST)
        return {
            "single_p50_ms": statistics.median(single),
            "single_p99_ms": _percentile(single, 99),
            "single_grant_p50_ms": statistics.median(single_grants),
            "gang_p50_ms": statistics.median(gang),
            "gang_p99_ms": _percentile(gang, 99),
            "gang_grant_p50_ms": statistics.median(gang_grants),
            "real_p50_ms": statistics.median(real),
            "real_p99_ms": _percentile(real, 99),
            "burst_per_s": burst,
            "real_burst_per_s": real_burst,
        }

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

    async def _latencies(self, spec: WorkloadSpec, count: int) -> tuple[list[float], list[float]]:
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

    async def _real_ms(self, number: int) -> float:
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

    async def _real_burst_per_s(self, count: int) -> float:
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


def _percentile(values: list[float], share: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[share - 1]
