"""Figures folded from logs alone, beside what somebody counted who saw the run; and that the run was of the plane's own parts."""

from collections.abc import Iterator

import pytest
import structlog

from core.events.region import AttemptEnded, GangStarted
from core.fact import Fact
from core.figures.plane import PlaneFigures
from core.figures.waits import RAN, Wait
from core.nouns.ids import LogName, WorkloadId
from core.nouns.instant import SECOND, Instant
from core.nouns.workload import EndCause
from runtime.virtual_loop import VirtualLoop
from runtime.wiring import ROLES, units_of
from scenarios.play.run import Run
from scenarios.play.simulated import simulated_run
from scenarios.scenario import parse_scenario
from scenarios.worlds.simulated.world import START, SimulatedWorld
from store.rows import facts_of

NEVER = 1 << 62
SPEC = parse_scenario(
    """
name: counted
survives: An hour of more work than there is room for; nobody is entitled to much.
fleet: {regions: {eu: {nodes: 6, gpu_type: H100, workers: 3, cpu_nodes: 3}, us: {nodes: 4, gpu_type: H100, workers: 2}}}
tenants:
  ours: {level: 6, entitled: {H100: {gpus: 24}}}
  theirs: {level: 6, entitled: {H100: {gpus: 24}}}
workload:
  - mast: {workloads: 80, hours: 1, compression: 10, gpus_max: 16, minutes_max: 120, priority: 2, tenants: {ours: 1, theirs: 2}}
  - mast: {workloads: 8, hours: 1, compression: 10, gpus_max: 16, minutes_max: 60, priority: 5, tenant: ours}
faults:
  - gpu_error: {times: 2, one_node: true}
calm: {minutes: 600}
""",
    "counted.yaml",
)


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Played to its end, and the plane still there."""
    loop = VirtualLoop(START)
    with structlog.testing.capture_logs():
        run = simulated_run(SPEC, 5, loop)
        loop.run_until_complete(_play(run))
    yield run
    loop.cancel_all()
    loop.close()


async def _play(run: Run) -> None:
    await run.begin()
    await run.strike()
    await run.calm_down()


def world_of(run: Run) -> SimulatedWorld:
    """Into which one can look."""
    assert isinstance(run.world, SimulatedWorld)
    return run.world


def facts_on(world: SimulatedWorld, log: LogName) -> list[Fact]:
    """What is durable on a disk."""
    file = world.store.disk(log).file(log)
    return [] if file is None else facts_of(log, file.rows[: file.durable])


def figures_of(run: Run) -> tuple[PlaneFigures, Instant]:
    """From what lies on the disks, one log after the other."""
    world = world_of(run)
    until = Instant(world.loop.now_ns())
    figures = PlaneFigures(START)
    for log in sorted(world.store.logs()):
        for fact in facts_on(world, log):
            figures.take(fact)
    return figures, until


def lost_in_set_up(world: SimulatedWorld, firsts: dict[WorkloadId, Wait]) -> set[WorkloadId]:
    """Those whose first attempt that ran was over before it was set up: it ended no wait."""
    began: dict[WorkloadId, dict[int, Instant]] = {}
    ended: dict[tuple[WorkloadId, int], Instant] = {}
    for log in world.store.logs():
        for fact in facts_on(world, log):
            if isinstance(fact.event, GangStarted):
                began.setdefault(fact.event.workload, {})[fact.event.epoch] = fact.at
            elif isinstance(fact.event, AttemptEnded) and fact.event.cause not in RAN:
                ended[fact.event.workload, fact.event.epoch] = fact.at
    return {
        workload
        for workload, epochs in began.items()
        if ended.get((workload, min(epochs)), NEVER) < epochs[min(epochs)] + firsts[workload].set_up
    }


def test_figures_from_logs_equal_those_of_the_witness(run: Run) -> None:
    """M40: GPU-seconds held, those of use, preemptions, how work ended and when it first ran: by the logs alone."""
    assert not run.witness.violations
    figures, until = figures_of(run)
    found, counted = figures.figures(until), run.witness.figures(run.world.facts_now())
    hours = found["gpu_hours_available"]
    held = counted["gpu_seconds_held"] / 3_600
    assert counted["preemptions"] == found["preemptions"] > 0
    assert counted["submitted"] == found["submitted"]
    assert counted["completed"] == found["ended_completed"]
    assert found["allocation_mean"] * hours == pytest.approx(held, rel=1e-3)
    assert found["useful_rate"] * hours == pytest.approx(counted["goodput_ratio"] * held, rel=0.01)
    parts = ("useful_rate", "starting_share", "set_up_share", "lost_share", "stopping_share")
    assert found["allocation_mean"] == pytest.approx(sum(found[part] for part in parts), rel=1e-6)
    firsts = {wait.workload: wait for wait in figures.queue.waits if wait.is_first}
    started = run.witness.accounting.start_seconds
    lost = lost_in_set_up(world_of(run), firsts)
    assert {workload for workload, wait in firsts.items() if wait.has_started} - lost == set(started) - lost
    assert 0 < len(lost) < len(started) / 4
    for workload in set(started) - lost:
        wait, seconds = firsts[workload], started[workload]
        assert seconds == pytest.approx((wait.whole - wait.set_up) / SECOND, abs=0.1)
    assert {True, False} == {wait.is_within for wait in figures.queue.waits}


def test_simulator_runs_the_components_of_a_plane(run: Run) -> None:
    """M38: Every role's own component, as `runtime/wiring.py` makes it for real processes; and nothing stands in for one."""
    units = units_of(SPEC.plan)
    made = {unit.name: type(build(SPEC.plan, unit)) for unit in units if (build := ROLES[unit.role])}
    played = {
        one.unit.name: type(one.open.host.component)
        for one in world_of(run).all
        if one.open is not None and one.open.host is not None
    }
    assert made == played
    assert all(kind.__module__.startswith("components.") for kind in played.values())


def test_work_takes_the_recorded_time(run: Run) -> None:
    """M38: An attempt that completes ran for its set-up and for the rest of its work, to the tenth of a second."""
    seen = 0
    begun: dict[tuple[str, int], float] = {}
    accounts = {
        (workload, one.epoch): one
        for workload, attempts in run.witness.accounting.attempts.items()
        for one in attempts
    }
    world = world_of(run)
    for log in sorted(world.store.logs()):
        for fact in facts_on(world, log):
            event = fact.event
            if isinstance(event, GangStarted):
                begun[event.workload, event.epoch] = fact.at / SECOND
            elif isinstance(event, AttemptEnded) and event.cause is EndCause.COMPLETED:
                (job,) = accounts[event.workload, event.epoch].claim.jobs
                resumed = accounts[event.workload, event.epoch].claim.resume_step / 1_000
                assert job.emulation is not None
                takes = (job.emulation.set_up + job.emulation.work) / SECOND - resumed
                ran = fact.at / SECOND - begun[event.workload, event.epoch]
                assert ran == pytest.approx(max(takes, job.emulation.set_up / SECOND), abs=0.1)
                seen += 1
    assert seen > 50
