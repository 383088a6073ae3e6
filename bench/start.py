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

import statistics
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
from bench.support.percentiles import percentile
from bench.support.plane_client import emulated
from bench.support.report import Findings, Yardstick, at_least, at_most, fsync_seconds
from bench.support.starts import GANG_GPUS, GANG_TASKS, PATIENCE, Starts
from bus.nats import NatsConnection
from core.nouns.ids import RegionName
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
SINGLES, QUICK_SINGLES = 200, 5
GANGS, QUICK_GANGS = 50, 2
REALS, QUICK_REALS = 60, 2
BURST, QUICK_BURST = 1_000, 20
REAL_BURST, QUICK_REAL_BURST = 1_000, 4
GANG_BURST, QUICK_GANG_BURST = 125, 2
FSYNCS = 4
HANDS = (
    "a workload passes the queue, every region's broker and agent, the store and the worker, and three commits: about fifteen "
    "messages between processes that share two cores"
)


async def run(directory: Path, *, is_quick: bool) -> Findings:
    """All of it: the gangs that fill a region on a plane of their own."""
    async with _measuring(directory / "all", FLEET, (EAST, HERE)) as starts:
        figures = await figures_of(starts, is_quick=is_quick)
    gangs = QUICK_GANG_BURST if is_quick else GANG_BURST
    async with _measuring(directory / "gangs", GANG_FLEET % (gangs * GANG_TASKS), (EAST,)) as starts:
        await starts.warm_up()
        figures["gang_burst_per_s"] = await starts.burst_per_s(emulated(GANG_TASKS, GANG_GPUS), gangs)
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
async def _measuring(directory: Path, fleet: str, regions: Sequence[RegionName]) -> AsyncIterator[Starts]:
    """A plane of this fleet, and a client that may begin."""
    directory.mkdir()
    file = directory / "fleet.yaml"
    file.write_text(fleet)
    plane = PlaneProcesses(load_plan(file), file, directory / "plane")
    await plane.start()
    try:
        connection = await NatsConnection.connect(plane.url, "bench", "client", timeout=PATIENCE)
        try:
            starts = Starts(connection.endpoint("client"), directory, regions)
            await starts.begin()
            yield starts
        finally:
            await connection.close()
    finally:
        await plane.stop()


async def figures_of(starts: Starts, *, is_quick: bool) -> dict[str, float]:
    """Milliseconds, and starts a second."""
    single, single_grants = await starts.latencies(emulated(1, 1), QUICK_SINGLES if is_quick else SINGLES)
    gang, gang_grants = await starts.latencies(
        emulated(GANG_TASKS, GANG_GPUS), QUICK_GANGS if is_quick else GANGS
    )
    real = [await starts.real_ms(number) for number in range(QUICK_REALS if is_quick else REALS)]
    burst = await starts.burst_per_s(emulated(1, 1), QUICK_BURST if is_quick else BURST)
    real_burst = await starts.real_burst_per_s(QUICK_REAL_BURST if is_quick else REAL_BURST)
    return {
        "single_p50_ms": statistics.median(single),
        "single_p99_ms": percentile(single, 99),
        "single_grant_p50_ms": statistics.median(single_grants),
        "gang_p50_ms": statistics.median(gang),
        "gang_p99_ms": percentile(gang, 99),
        "gang_grant_p50_ms": statistics.median(gang_grants),
        "real_p50_ms": statistics.median(real),
        "real_p99_ms": percentile(real, 99),
        "burst_per_s": burst,
        "real_burst_per_s": real_burst,
    }
