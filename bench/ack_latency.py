"""From an operation's request to its controller's word, and until the task has been stopped: a thousand jobs, each with a controller.

A whole plane of real processes over NATS, and a process beside it in which every job has a controller of its own that agrees at
once. An operation is asked for as a user asks (`mizzen restart`); it is acted on when its region's log tells that nothing of
the old run is left, which takes the store, task control, the controller, the store again, the broker, the worker and the
store a third time. Latencies count from the moment at which the request was to be made, so a plane that falls behind is seen.

source    issue's own bar: 10 operations on each of 1,000 jobs, 1,000 operations a second, two cores
"""

import asyncio
import statistics
import time
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from bench.support.plane_client import Client, until
from bench.support.report import Findings, at_least, at_most, fsync_seconds
from bus.nats import NatsConnection
from bus.port import Bus
from core.events.control import OperationsBegun, OperationsDone, TasksGone
from core.events.region import GangStarted
from core.fact import Event
from core.messages.control import OperateTasks, OperationsAccepted, TaskControlRequest
from core.nouns.ids import RegionName, TenantName, WorkloadId
from core.nouns.instant import seconds
from core.nouns.operation import Ack, ControlSpec, OperationKind, task_number
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import Emulation, JobSpec, Kind, WorkloadSpec
from runtime.control.controller import TaskController
from runtime.control.serving import ControllerServer
from runtime.fleet_file import load_plan
from runtime.plane import PlaneProcesses

EAST = RegionName("east")
TENANT = TenantName("bench")
FLEET = """
fleet: bench
regions:
  east: {nodes: %d, gpu_type: H100, workers: 2, agents: 1}
"""
JOBS, OPERATIONS, PER_S = 1_000, 10, 1_000.0
QUICK_JOBS, QUICK_OPERATIONS, QUICK_PER_S = 5, 2, 20.0
START_SECONDS_MAX = 300.0
DONE_SECONDS_MAX = 300.0
LIMIT = (
    "an operation is eight facts in three commits and some twelve messages between six processes and the server, all of which "
    "share two cores"
)


class _Agreeing(TaskController):
    async def process(self, request: TaskControlRequest) -> list[Ack]:
        return [Ack(asked.operation) for asked in request.requests]


class _Times:
    """When what became of each operation, by (workload, task)."""

    def __init__(self) -> None:
        self.due: dict[tuple[WorkloadId, int], float] = {}
        self.begun: dict[tuple[WorkloadId, int], float] = {}
        self.acted: dict[tuple[WorkloadId, int], float] = {}
        self.done = 0
        self._tasks: dict[tuple[WorkloadId, int], int] = {}

    def name(self, workload: WorkloadId, operation: int, task: int) -> None:
        """The number under which a task's operation was accepted."""
        self._tasks[workload, operation] = task

    def take(self, event: Event, at: int, heard: float) -> None:
        """One fact."""
        match event:
            case OperationsBegun(workload=workload, operations=operations):
                for operation in operations:
                    self.begun[workload, operation] = heard
            case TasksGone(workload=workload, tasks=tasks):
                for task in tasks:
                    self.acted[workload, task] = heard
            case OperationsDone(operations=operations):
                self.done += len(operations)

    def acked_ms(self) -> list[float]:
        """Until it was allowed to begin."""
        found = []
        for (workload, operation), task in self._tasks.items():
            if (workload, operation) in self.begun:
                found.append(1000 * (self.begun[workload, operation] - self.due[workload, task]))
        return found

    def acted_ms(self) -> list[float]:
        """Until nothing of the old run was left."""
        return [1000 * (self.acted[key] - due) for key, due in self.due.items() if key in self.acted]


async def run(directory: Path, *, is_quick: bool) -> Findings:
    """All of it, on a plane of its own."""
    jobs = QUICK_JOBS if is_quick else JOBS
    operations = QUICK_OPERATIONS if is_quick else OPERATIONS
    per_s = QUICK_PER_S if is_quick else PER_S
    file = directory / "fleet.yaml"
    file.write_text(FLEET % (-(-jobs * operations // 8) + 4))
    plane = PlaneProcesses(load_plan(file), file, directory / "plane")
    await plane.start()
    try:
        connection = await NatsConnection.connect(plane.url, "bench", "client", timeout=seconds(30))
        try:
            figures = await _figures(connection, jobs, operations, per_s)
        finally:
            await connection.close()
    finally:
        await plane.stop()
    figures["fsync_ms"] = 1000 * fsync_seconds(directory)
    return Findings(
        figures,
        [
            at_most("p99_ms", figures["p99_ms"], 100, LIMIT),
            at_least("operations_per_s", figures["operations_per_s"], 0.95 * per_s, LIMIT),
        ],
    )


async def _figures(connection: NatsConnection, jobs: int, operations: int, per_s: float) -> dict[str, float]:
    client = Client(connection.endpoint("client"), (EAST,))
    started: dict[WorkloadId, None] = {}
    client.on_fact.append(partial(_note_start, started))
    await client.begin()
    servers = [
        ControllerServer(
            _Agreeing(), connection.endpoint(f"client.controller.{number}"), TENANT, f"c-{number}"
        )
        for number in range(jobs)
    ]
    for server in servers:
        await server.start()
    workloads = await client.submit([_service(operations, f"c-{number}") for number in range(jobs)])
    await until(lambda: len(started) == jobs, START_SECONDS_MAX, "not all services start")
    await asyncio.sleep(2.0)
    whole = await _round(client, workloads, operations, per_s, 1)
    half = await _round(client, workloads, operations, per_s / 2, operations + 1)
    for server in servers:
        await server.close()
    halves = {"half_rate_p50_ms": half["p50_ms"], "half_rate_p99_ms": half["p99_ms"]}
    return {"jobs": float(jobs), **whole, **halves}


def _note_start(started: dict[WorkloadId, None], event: Event, _at: int, _heard: float) -> None:
    if isinstance(event, GangStarted):
        started[event.workload] = None


async def _round(
    client: Client, workloads: list[WorkloadId], operations: int, per_s: float, first: int
) -> dict[str, float]:
    """So many operations on each, at one rate. `first`: what number each workload's next one has."""
    times = _Times()
    client.on_fact.append(times.take)
    begun = time.perf_counter()
    await _ask(client.bus, times, workloads, operations, per_s, first)
    count = len(workloads) * operations
    await until(lambda: len(times.acted) >= count, DONE_SECONDS_MAX, "not all is acted on")
    acted = max(times.acted.values()) - begun
    await until(lambda: times.done >= count, DONE_SECONDS_MAX, "not all is done")
    done = time.perf_counter() - begun
    client.on_fact.remove(times.take)
    acked_ms, acted_ms = times.acked_ms(), times.acted_ms()
    return {
        "operations": float(count),
        "asked_per_s": per_s,
        "operations_per_s": count / acted,
        "acked_p50_ms": statistics.median(acked_ms),
        "acked_p99_ms": _percentile(acked_ms, 99),
        "p50_ms": statistics.median(acted_ms),
        "p99_ms": _percentile(acted_ms, 99),
        "done_seconds": done,
    }


async def _ask(
    bus: Bus, times: _Times, workloads: list[WorkloadId], operations: int, per_s: float, first: int
) -> None:
    """One after the other in their order, each at its time, whether or not the one before is done."""
    begun = time.perf_counter() + 0.1
    async with asyncio.TaskGroup() as asked:
        for number in range(len(workloads) * operations):
            due = begun + number / per_s
            delay = due - time.perf_counter()
            if delay > 0:
                await asyncio.sleep(delay)
            workload, rank = workloads[number % len(workloads)], number // len(workloads)
            task = task_number(0, rank)
            times.due[workload, task] = due
            asked.create_task(_operate(bus, times, workload, task, first + rank))


async def _operate(bus: Bus, times: _Times, workload: WorkloadId, task: int, first: int) -> None:
    wanted = OperateTasks(
        EAST, workload, 1, OperationKind.RESTART, (task,), "bench", requester="user:bench", first=first
    )
    answer = await bus.ask(wanted, seconds(30))
    assert isinstance(answer, OperationsAccepted), answer
    times.name(workload, answer.operations[0], task)


def _service(tasks: int, controller: str) -> WorkloadSpec:
    job = JobSpec("main", tasks, Amount(MILLI, MILLI, 1 << 30), "H100", Emulation(work=seconds(36_000)))
    spec = WorkloadSpec("bench", (job,), tenant=TENANT, kind=Kind.SERVICE)
    return replace(spec, control=ControlSpec(controller, unavailable_max=tasks))


def _percentile(values: list[float], share: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[share - 1]
