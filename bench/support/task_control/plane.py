"""Twine's figure 14 on a whole simulated plane: every component, its messages and its log, in virtual time.

One region of 1,000 nodes of one GPU, a worker for each switchboard; a service of 1,000 tasks fills it. Its user changes it,
and every task has to be updated: 240 s, which here is how long a task takes to leave. At T120 a switchboard fails, and its
nodes are dark until T415; the region notices by missed beats. All figures are read from the region's log.
"""

import asyncio
from collections.abc import Iterable

import structlog
from msgspec import Struct, field
from msgspec.structs import replace

from bench.support.task_control.setup import (
    BACK_AT_SECONDS,
    DOMAIN_TASKS,
    LOST_AT_SECONDS,
    TASKS,
    UPDATE_SECONDS,
    ZONES,
    domains,
    lost_tasks,
)
from bus.port import Bus
from core.fact import Fact
from core.images.control import TaskPhase
from core.messages.base import Message
from core.messages.queue import (
    Acknowledged,
    ChangeWorkload,
    ShowWorkload,
    Submitted,
    SubmitWorkload,
    WorkloadShown,
)
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import RegionName, TenantName, WorkerName, WorkloadId, region_log
from core.nouns.instant import seconds
from core.nouns.operation import ControlSpec, job_and_rank
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import Emulation, JobSpec, Kind, Phase, RetryLimits, WorkloadSpec
from runtime.control.controller import TaskController
from runtime.control.serving import ControllerServer
from runtime.virtual_loop import VirtualLoop
from runtime.wiring import Plan, RegionPlan, Unit
from scenarios.accounting.witness import Witness
from scenarios.worlds.simulated.world import START, SimulatedWorld

REGION = RegionName("east")
TENANT, NAME = TenantName("bench"), "shards"
NEED = Amount(MILLI, MILLI, 1 << 30)
NODE = Amount(MILLI, 8 * MILLI, 1 << 34)
SETTLED_SECONDS = 30.0
END_SECONDS_MAX = 3_600.0


class Moment(Struct):
    """What was so after one fact."""

    at_seconds: float
    """From the change on."""
    down: tuple[int, ...]
    """Tasks by their rank that were not up."""
    updated: int


class Timeline(Struct):
    """One release, as the region's log tells it."""

    moments: list[Moment] = field(default_factory=list)
    first_batch: int = 0
    second_batch: int = 0
    done_at_seconds: float = 0.0
    violations: int = 0


def release(controller: TaskController, seed: int) -> Timeline:
    """Play one release to its end."""
    loop = VirtualLoop(START)
    plan = _plan()
    witness = _Watching(plan)
    try:
        with structlog.testing.capture_logs():
            world = SimulatedWorld(plan, seed, loop, witness=witness)
            loop.run_until_complete(_play(world, witness, controller))
    finally:
        loop.cancel_all()
        loop.close()
    witness.timeline.violations = len(witness.violations)
    return witness.timeline


class _Watching(Witness):
    """A witness that keeps what was down, once the release has begun."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.timeline = Timeline()
        self.begun_at: int | None = None
        self.workload = WorkloadId("")

    def see(self, facts: Iterable[Fact], at: float | None = None) -> None:
        """As a witness does; facts of one batch are one moment."""
        listed = list(facts)
        super().see(listed, at)
        if self.begun_at is None or not listed or listed[0].log != region_log(REGION):
            return
        row = self.region(REGION).control.row(self.workload, 1)
        if row is None:
            return
        down = tuple(job_and_rank(task)[1] for task in row.unavailable())
        updated = sum(
            task.revision == row.revision and task.phase is TaskPhase.UP for task in row.tasks.values()
        )
        moment = Moment((listed[-1].at - self.begun_at) / seconds(1), down, updated)
        self.timeline.moments.append(moment)


def _plan() -> Plan:
    """A worker for each switchboard, whose nodes are numbered as the tasks that will be there."""
    behind: dict[str, list[int]] = {}
    for task, domain in domains().items():
        behind.setdefault(domain, []).append(task)
    inventories = []
    for number, (domain, tasks) in enumerate(behind.items()):
        zone = f"zone-{domain.partition('-')[0]}"
        group = NodeGroup(
            tasks[0], len(tasks), NODE, "H100", 10 * number, 10, zone, power_domain=f"power-{domain}"
        )
        inventories.append(Inventory(WorkerName(f"w{number}"), (group,)))
    assert len(ZONES) < len(inventories)
    return Plan("bench", (RegionPlan(REGION, tuple(inventories), agents=1),))


async def _play(world: SimulatedWorld, witness: _Watching, controller: TaskController) -> None:
    await world.start()
    await world.sleep(SETTLED_SECONDS)
    bus = world.user("client.user")
    server = ControllerServer(controller, world.user("client.controller"), TENANT, NAME)
    await server.start()
    witness.workload = await _started(bus)
    shown = await bus.ask(ShowWorkload(witness.workload, wants_spec=True), seconds(5))
    assert isinstance(shown, WorkloadShown), shown
    assert shown.spec is not None
    [job] = shown.spec.jobs
    assert job.emulation is not None
    changed = replace(
        job, emulation=replace(job.emulation, exit_code=2)
    )  # Any change that a run must take over.
    witness.begun_at = int(world.loop.now_ns())
    begun = world.now()
    answer: Message = await bus.ask(
        ChangeWorkload(witness.workload, shown.spec_revision, (changed,)), seconds(5)
    )
    assert isinstance(answer, Acknowledged), answer
    await world.sleep(LOST_AT_SECONDS - (world.now() - begun))
    lost = _worker_of(world, lost_tasks()[0])
    await world.power_off(lost)
    await world.sleep(BACK_AT_SECONDS - LOST_AT_SECONDS)
    await world.revive(lost)
    timeline = witness.timeline
    while not _is_done(witness) and world.now() - begun < END_SECONDS_MAX:
        await world.sleep(1.0)
    _count(timeline)
    await server.close()
    await world.stop()


async def _started(bus: Bus) -> WorkloadId:
    emulation = Emulation(work=seconds(100_000), stop_span=seconds(UPDATE_SECONDS))
    job = JobSpec("shards", TASKS, NEED, "H100", emulation)
    spec = WorkloadSpec(
        "shards",
        (job,),
        tenant=TENANT,
        kind=Kind.SERVICE,
        grace=seconds(2 * UPDATE_SECONDS),
        retry=RetryLimits(task_failed=-1),
        control=ControlSpec(NAME, unavailable_max=TASKS // 2),
    )
    answer = await bus.ask(SubmitWorkload(spec, "bench"), seconds(30))
    assert isinstance(answer, Submitted), answer
    while True:
        shown = await bus.ask(ShowWorkload(answer.workload), seconds(5))
        assert isinstance(shown, WorkloadShown), shown
        if shown.phase == Phase.RUNNING:
            return answer.workload
        await asyncio.sleep(1.0)


def _worker_of(world: SimulatedWorld, node: int) -> Unit:
    for unit in world.units:
        if unit.role == "worker" and node in world.plan.inventory(REGION, unit.member).numbers():
            return unit
    raise AssertionError(node)


def _is_done(witness: _Watching) -> bool:
    moments = witness.timeline.moments
    return bool(moments) and moments[-1].updated == TASKS


def _count(timeline: Timeline) -> None:
    """Batches are what went down within ten seconds of each other."""
    moments = timeline.moments
    done = [moment.at_seconds for moment in moments if moment.updated == TASKS]
    timeline.done_at_seconds = done[0] if done else float("inf")
    timeline.first_batch = max((len(m.down) for m in moments if m.at_seconds < 10), default=0)
    at_second = [m for m in moments if UPDATE_SECONDS <= m.at_seconds < UPDATE_SECONDS + 15]
    timeline.second_batch = max((len(m.down) for m in at_second), default=0) - DOMAIN_TASKS
