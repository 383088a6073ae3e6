"""Ten thousand small workloads wait for six regions: how fast they are bound, durably, and by rank.

Every component is a process of its own, and so is the NATS server; logs are SQLite files, synced. The fleet holds all workloads
at once, and none ends meanwhile. All are submitted while no region has nodes; then the workers are let in. What is counted runs
from the first award to the last binding, as the logs tell it: the queue has bound a workload once its region's log shows that
all its tasks run.

Order is of more matter where room is short. So there is another burst, for which there is room for some two thirds, and of which it
is told how much of it is held and who was passed, once nobody more is bound: who is bound first may be pushed out again, for wide work of
a high level may come to its turn when all is given out.

source    bench/support/peers.py: all starts here are emulated, so Slurm's array on fake nodes is the same work; HyperQueue starts real
          processes and is in `start`. Kueue's and KAI's throughput are their published figures
"""

import asyncio
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from bench.support.cpu_time import ProcessorTime
from bench.support.peers import slurm_array
from bench.support.plane_client import PATIENCE, Client, until
from bench.support.planet.rate_from_logs import Told, hold, told_by
from bench.support.report import Bar, Findings, Yardstick, at_least, at_most
from bus.nats import NatsConnection
from bus.port import Address
from core.codec import Parcel, decode_event
from core.events.queue import WorkloadBound
from core.messages.logs import FactsTold
from core.messages.queue import ListWorkloads, WorkloadsListed
from core.nouns.ids import GLOBAL_LOG, RegionName, WorkloadId
from core.nouns.instant import seconds
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import Emulation, JobSpec, WorkloadSpec
from runtime.fleet_file import load_plan
from runtime.plane import PlaneProcesses
from runtime.wiring import units_of

REGIONS = tuple(RegionName(name) for name in ("asia", "eu", "latam", "oceania", "us-east", "us-west"))
WORKLOADS, QUICK_WORKLOADS = 10_000, 120
QUICK_REGIONS = REGIONS[:3]
"""Half as many processes have to be started."""
FULL_WORKLOADS = 2_000
GPUS = ((1, 2, 4), (60, 25, 15))
"""Of a workload's one task, and how many in a hundred."""
FULL = 0.85
"""Of the fleet's GPUs, that all workloads hold together."""
ROOM = 0.7
"""Of all workloads, for which there is room where room is short."""
STILL_SECONDS = 15.0
"""For so long nobody is bound, and nobody will be: longer than offers are given back."""
NODE = 8
"""GPUs of each."""
PRIORITIES = 7
LONG = seconds(36_000)
UP_SECONDS_MAX, BOUND_SECONDS_MAX = 60.0, 900.0
LIMIT = (
    "a workload is some thirty messages between processes and the server, and seven facts in three commits, of which every agent, "
    "broker and reader hears its region's: all of it on two cores"
)


async def run(directory: Path, *, is_quick: bool) -> Findings:
    """Two bursts, each on a plane of its own."""
    regions = QUICK_REGIONS if is_quick else REGIONS
    specs = workloads(QUICK_WORKLOADS if is_quick else WORKLOADS)
    gpus = sum(spec.jobs[0].need.gpu_milli for spec in specs) / MILLI
    # Each region holds them all where they are so small that the first to come up would be full.
    roomy = NODE * len(regions) + gpus / FULL * (len(regions) if is_quick else 1)
    figures, told = await _burst(directory / "roomy", regions, specs, roomy)
    figures |= _figures(told)
    short = specs[: QUICK_WORKLOADS if is_quick else FULL_WORKLOADS]
    gpus = sum(spec.jobs[0].need.gpu_milli for spec in short) / MILLI
    _, told = await _burst(directory / "short", regions, short, gpus * ROOM, still_seconds=STILL_SECONDS)
    held = sum(short[told.numbers[one]].jobs[0].need.gpu_milli for one in told.held) / MILLI
    figures |= {
        "full_idle_gpus": NODE * len(regions) * nodes_for(regions, gpus * ROOM) - held,
        "full_bound": float(len(told.held)),
        "full_preempted": float(told.preempted),
        "full_awards_returned": float(told.returned),
        "full_not_durable": float(told.lacking),
        "full_rank_inversions": float(told.inversions),
    }
    return Findings(figures, _bars(figures), YARDSTICKS)


async def _burst(
    directory: Path,
    regions: Sequence[RegionName],
    specs: list[WorkloadSpec],
    gpus: float,
    *,
    still_seconds: float | None = None,
) -> tuple[dict[str, float], Told]:
    """On so many GPUs. It is over when all are bound; or, of more than fit, when for so long nobody more was."""
    directory.mkdir()
    file, place = directory / "fleet.yaml", directory / "plane"
    file.write_text(fleet_for(regions, gpus))
    plane = PlaneProcesses(load_plan(file), file, place)
    await plane.start()
    try:
        figures = await _bound(plane, regions, specs, still_seconds=still_seconds)
    finally:
        await plane.stop()
    told = told_by(place, regions)
    assert told.submitted == len(specs), told.submitted
    return figures, told


def workloads(count: int) -> list[WorkloadSpec]:
    """Single tasks of one to four GPUs, at all levels."""
    dice = random.Random(9)
    found = []
    for _ in range(count):
        gpus = dice.choices(*GPUS)[0]
        need = Amount(gpus * MILLI, gpus * MILLI, gpus << 30)
        job = JobSpec("main", 1, need, "H100", Emulation(work=LONG))
        found.append(WorkloadSpec("bench", (job,), priority=dice.randrange(PRIORITIES)))
    return found


def nodes_for(regions: Sequence[RegionName], gpus: float) -> int:
    """Of each of them."""
    return int(gpus / NODE / len(regions))


def fleet_for(regions: Sequence[RegionName], gpus: float) -> str:
    """Regions that are alike, of so many GPUs in all."""
    nodes = nodes_for(regions, gpus)
    lines = [f"  {region}: {{nodes: {nodes}, gpu_type: H100, agents: 1}}" for region in regions]
    return "\n".join(["fleet: bench", "planner: false", "regions:", *lines, ""])


async def _bound(
    plane: PlaneProcesses,
    regions: Sequence[RegionName],
    specs: list[WorkloadSpec],
    *,
    still_seconds: float | None,
) -> dict[str, float]:
    """Until the last is bound, or nobody more is: what the submissions took, and how much of the processors each role."""
    workers = [unit.name for unit in units_of(plane.plan) if unit.role == "worker"]
    for name in workers:
        await plane.supervisor.hold(name)
    connection = await NatsConnection.connect(plane.url, "bench", "client", timeout=PATIENCE)
    try:
        client = Client(connection.endpoint("client"), regions)
        await _ready(client)
        begun = time.perf_counter()
        await client.submit(specs)
        submitted = time.perf_counter() - begun
        held, bound_at = dict[WorkloadId, None](), 0.0

        def hear(parcel: Parcel, _: str) -> None:
            nonlocal bound_at
            for fact in parcel.message.facts if isinstance(parcel.message, FactsTold) else ():
                event = decode_event(fact.event)
                hold(held, event)
                if isinstance(event, WorkloadBound):
                    bound_at = time.monotonic()

        def is_over() -> bool:
            if still_seconds is None:
                return len(held) >= len(specs)
            return len(held) > 0 and time.monotonic() - bound_at > still_seconds

        await client.bus.listen(Address("log", (GLOBAL_LOG,)), hear)
        times = ProcessorTime(plane)
        for name in workers:
            plane.supervisor.release(name)
        await until(is_over, BOUND_SECONDS_MAX, "not all are bound")
        return {"submitted_per_s": len(specs) / submitted, **times.figures(len(specs))}
    finally:
        await connection.close()


async def _ready(client: Client) -> None:
    """Until the queue answers."""
    deadline = time.monotonic() + UP_SECONDS_MAX
    while time.monotonic() < deadline:
        listed = await client.ask(ListWorkloads())
        if isinstance(listed, WorkloadsListed):
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the plane does not come up")


YARDSTICKS = [
    slurm_array("bound_per_s"),
    Yardstick(
        "Kueue admitted_per_s",
        43,
        "its published throughput test; one cluster, other hardware",
        "bound_per_s",
    ),
    Yardstick("KAI jobs_per_s", 10, "its published figure; one cluster, other hardware", "bound_per_s"),
]


def _figures(told: Told) -> dict[str, float]:
    waits = sorted(wait / 1e6 for wait in told.waits)
    return {
        "bound": float(len(told.held)),
        "bound_seconds": told.seconds,
        "bound_per_s": len(told.held) / told.seconds,
        "award_to_bound_p50_ms": statistics.median(waits),
        "award_to_bound_p99_ms": waits[len(waits) * 99 // 100],
        "awards_returned": float(told.returned),
        "preempted": float(told.preempted),
        "not_durable": float(told.submitted - len(told.held) + told.lacking),
        "rank_inversions": float(told.inversions),
    }


def _bars(figures: dict[str, float]) -> list[Bar]:
    return [
        at_least("bound_per_s", figures["bound_per_s"], 150, LIMIT),
        at_most("not_durable", figures["not_durable"], 0, "a binding that a region's log does not show"),
        at_most("rank_inversions", figures["rank_inversions"], 0, "auctions that close out of order"),
        at_most(
            "full_rank_inversions",
            figures["full_rank_inversions"],
            0,
            "who was put off for some seconds is awarded, whoever is ahead",
        ),
        at_most("full_idle_gpus", figures["full_idle_gpus"], 0, "auctions that come to nothing"),
        at_most(
            "full_not_durable", figures["full_not_durable"], 0, "a binding that a region's log does not show"
        ),
    ]
