"""Every process of the control plane and the NATS server are killed for a while, and come back: what became of the tasks.

Ten thousand emulated workloads and some real programs run. Nobody but their workers lives meanwhile. Then everything is
started again, and it has recovered when every worker is heard again, the queue answers, and a workload that is submitted then
runs. A death is an attempt that ended, a double start one that was granted anew; real programs must be the same processes.

source    spec E13; Twine §4: tasks keep running when every part of Twine is down
"""

# rows: E13

import argparse
import asyncio
import time
from collections import Counter
from pathlib import Path

from bench.support.plane_client import Client, until
from bench.support.report import Findings, at_most
from bus.nats import NatsConnection
from core.events.queue import AttemptClosed, WorkloadAwarded, WorkloadBound
from core.events.region import AttemptEnded, ClaimGranted, GangStarted, NodesLost
from core.fact import Event
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.instant import seconds
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import Emulation, JobSpec, Program, WorkloadSpec
from runtime.fleet_file import load_plan
from runtime.plane import PlaneProcesses
from runtime.wiring import units_of

EAST, HERE = RegionName("east"), RegionName("here")
FLEET = """
fleet: bench
regions:
  east: {nodes: %d, gpu_type: H100, workers: 4}
  here: {this_machine: true}
"""
WORKLOADS, DOWN_SECONDS, REALS = 10_000, 600.0, 6
QUICK_WORKLOADS, QUICK_DOWN_SECONDS, QUICK_REALS = 20, 2.0, 2
START_SECONDS_MAX = 600.0
RECOVERY_SECONDS_MAX = 300.0
WATCH_SECONDS, QUICK_WATCH_SECONDS = 30.0, 1.0
"""After the recovery: longer than the silence after which a worker is lost."""
KEPT = ("worker",)
"""Who is not part of the control plane."""


class _Counts:
    """What the logs tell."""

    def __init__(self) -> None:
        self.started: dict[WorkloadId, None] = {}
        self.granted: Counter[WorkloadId] = Counter()
        self.kinds: Counter[str] = Counter()
        self.bound: dict[WorkloadId, None] = {}

    def take(self, event: Event, at: int, heard: float) -> None:
        """One fact."""
        self.kinds[type(event).__name__] += 1
        match event:
            case ClaimGranted(workload=workload):
                self.granted[workload] += 1
            case GangStarted(workload=workload):
                self.started[workload] = None
            case WorkloadBound(workload=workload):
                self.bound[workload] = None

    @property
    def deaths(self) -> int:
        """Attempts that ended, and nodes that were taken for lost."""
        return sum(self.kinds[kind.__name__] for kind in (AttemptEnded, AttemptClosed, NodesLost))


def options(parser: argparse.ArgumentParser) -> None:
    """Add the length of the loss."""
    parser.add_argument(
        "--down-seconds",
        type=float,
        default=DOWN_SECONDS,
        help="for which the plane is dead (default: %(default)s)",
    )


async def run(directory: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """All of it, on a plane of its own."""
    workloads = QUICK_WORKLOADS if is_quick else WORKLOADS
    down = QUICK_DOWN_SECONDS if is_quick else DOWN_SECONDS if chosen is None else chosen.down_seconds
    reals = QUICK_REALS if is_quick else REALS
    file = directory / "fleet.yaml"
    file.write_text(FLEET % (-(-workloads // 8) + 8))
    plane = PlaneProcesses(load_plan(file), file, directory / "plane")
    await plane.start()
    try:
        connection = await NatsConnection.connect(plane.url, "bench", "client", timeout=seconds(30))
        try:
            client = Client(connection.endpoint("client"), (EAST, HERE))
            watch = QUICK_WATCH_SECONDS if is_quick else WATCH_SECONDS
            figures = await _figures(plane, client, workloads, reals, down, watch)
        finally:
            await connection.close()
    finally:
        await plane.stop(ends_tasks=True)
    limit = "the plane reads its logs, folds them, and hears of ten thousand attempts on two cores"
    broken = "a task was touched although nobody was there to touch it"
    return Findings(
        figures,
        [
            at_most("task_deaths", figures["task_deaths"], 0, broken),
            at_most("double_starts", figures["double_starts"], 0, broken),
            at_most("recovery_seconds", figures["recovery_seconds"], 30, limit),
        ],
    )


async def _figures(
    plane: PlaneProcesses, client: Client, workloads: int, reals: int, down: float, watch: float
) -> dict[str, float]:
    counts = _Counts()
    client.on_fact.append(counts.take)
    await client.begin()
    submitted = await client.submit([*[_emulated()] * workloads, *[_program()] * reals])
    await until(lambda: len(counts.bound) == len(submitted), START_SECONDS_MAX, "not all start")
    before = {pid: _age(pid) for pid in plane.tasks()}
    granted, deaths = counts.granted.total(), counts.deaths
    await _lose(plane)
    await asyncio.sleep(down)
    alive_meanwhile = len(before.keys() & set(plane.tasks()))
    begun = time.monotonic()
    await _return(plane)
    [probe] = await client.submit([_emulated()])
    await until(lambda: probe in counts.started, RECOVERY_SECONDS_MAX, "nothing starts after the loss")
    recovery = time.monotonic() - begun
    await asyncio.sleep(watch)
    after = plane.tasks()
    same = sum(before.get(pid) == _age(pid) for pid in after)
    return {
        "workloads": float(workloads),
        "down_seconds": down,
        "recovery_seconds": recovery,
        "task_deaths": float(counts.deaths - deaths + (len(before) - same)),
        "double_starts": float(counts.granted.total() - granted - 1 + (len(after) - same)),
        "real_processes": float(len(before)),
        "real_processes_alive_meanwhile": float(alive_meanwhile),
        "awards_since": float(counts.kinds[WorkloadAwarded.__name__] - len(submitted)),
    }


async def _lose(plane: PlaneProcesses) -> None:
    """Everything but the workers, by kill -9, and the server."""
    for unit in units_of(plane.plan):
        if unit.role not in KEPT:
            await plane.supervisor.hold(unit.name)
    await plane.stop_bus()


async def _return(plane: PlaneProcesses) -> None:
    """As somebody would who finds it dead: all at once."""
    await plane.start_bus()
    for unit in units_of(plane.plan):
        if unit.role not in KEPT:
            plane.supervisor.release(unit.name)


def _age(pid: int) -> str:
    """When a process was started, in ticks since the machine was: a number that is used again has another."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _emulated() -> WorkloadSpec:
    job = JobSpec("main", 1, Amount(MILLI, MILLI, 1 << 30), "H100", Emulation(work=seconds(36_000)))
    return WorkloadSpec("bench", (job,))


def _program() -> WorkloadSpec:
    job = JobSpec("main", 1, Amount(MILLI), "cpu", program=Program("exec sleep 36000"))
    return WorkloadSpec("bench", (job,))
