"""Scenarios in real processes: deaths are real, misfortune ends, everything that was asked for is checked."""

import asyncio
import json
import os
from collections import Counter
from pathlib import Path

import pytest

import scenarios.play.processes
from bus.errors import BusError
from core.events.queue import WorkloadAwarded
from core.messages.queue import ListWorkloads
from core.nouns.ids import GLOBAL_LOG
from core.nouns.instant import seconds
from runtime.wiring import Unit, units_of
from scenarios.accounting.witness import Witness
from scenarios.play.processes import make_run_directory, processes_run, put_history, run_processes
from scenarios.scenario import ScenarioError, ScenarioSpec, load_scenario, parse_scenario, with_trace
from scenarios.schema.fleet import FleetSpec, plan_of
from scenarios.schema.history import keep_history
from scenarios.schema.outcome import Outcome
from scenarios.worlds.interface import CannotCause, Disturbance, Link
from scenarios.worlds.processes.deferred_bus import LateBus
from scenarios.worlds.processes.file_activity import has_grown
from scenarios.worlds.processes.proxies import Proxies
from scenarios.worlds.processes.unit_log import UnitLog
from scenarios.worlds.processes.world import ProcessesWorld
from store.memory import MemoryStore
from store.memory_disk import MemoryDisk
from store.port import Row
from store.sqlite import SqliteStore

SMALL = """
name: small
survives: A handful of workloads, whatever befalls one small region.
fleet: {regions: 1, nodes: 4, workers: 2, agents: 1}
workload:
  steady: {workloads: 6, hours: 0.1, compression: 90, minutes_median: 1, minutes_max: 2, gpus_max: 16}
calm: {minutes: 1}
"""
LIBRARY = (
    pytest.param("kill_each_component", marks=pytest.mark.slow),
    pytest.param("quiet_minutes", marks=pytest.mark.slow),
    pytest.param("dashboards_at_noon", marks=pytest.mark.slow),
    pytest.param("controller_dead", marks=pytest.mark.slow),
    pytest.param("drain_with_consent", marks=pytest.mark.slow),
    pytest.param("keeper_stands_still", marks=pytest.mark.slow),
    pytest.param("nats_outage", marks=pytest.mark.slow),
    pytest.param("paused_keepers", marks=pytest.mark.slow),
    pytest.param("primary_wants_it_back", marks=pytest.mark.slow),
    pytest.param("rolling_restart_under_load", marks=pytest.mark.slow),
    pytest.param("sixteen_agents_one_rack", marks=pytest.mark.slow),
    pytest.param("store_killed_mid_commit", marks=pytest.mark.slow),
)
"""Scenarios whose spans are short enough for real processes. A second is a second here, so `make soak` plays them."""
SHORT = sorted(Path(__file__).with_name("short").glob("*.yaml"))
"""Seven scenarios of a quarter of a minute, which every `make test` plays: kills, a lost bus, a storm of submissions, preemption, drains
with controllers, dashboards, and harvested capacity."""
ROLES = (
    "job_queue",
    "placement_store",
    "region_broker",
    "task_control",
    "allocation_agent",
    "worker",
    "reader",
    "auditor",
)
PLAN = plan_of(FleetSpec(regions=2, nodes=4, workers=2), "fleet")
QUEUE = Unit("job_queue")


def small(*faults: str) -> ScenarioSpec:
    """The small scenario with these faults."""
    return parse_scenario(SMALL + "faults:\n" + "".join(f"  - {fault}\n" for fault in faults), "small.yaml")


def a_world(directory: Path) -> ProcessesWorld:
    """One that has not begun."""
    return ProcessesWorld(PLAN, 1, directory, Witness(PLAN))


def is_there(pid: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.processes
async def test_every_role_dies_one_stands_still_and_the_bus_is_away(tmp_path: Path) -> None:
    """Each is killed for real and comes back as another process; what cannot be caused here is skipped and counted."""
    crashes = [f"crash: {{role: {role}, after_seconds: [0, 3], down_seconds: 0.2}}" for role in ROLES]
    spec = small(
        *crashes,
        "pause: {role: worker, after_seconds: 0.5, for_seconds: 0.5}",
        "bus_outage: {after_seconds: 1, for_seconds: 0.5}",
        "disk_full: {after_seconds: 0, role: job_queue}",
    )
    run = await processes_run(spec, 1, make_run_directory(tmp_path, spec))
    world = run.world
    assert isinstance(world, ProcessesWorld)
    try:
        await run.begin()
        names = [unit.name for unit in world.units]
        before = {name: world.plane.supervisor.pid_of(name) for name in names}
        await run.strike()
        await run.calm_down()
        after = {name: world.plane.supervisor.pid_of(name) for name in names}
        await run.conclude()
    finally:
        await run.stop()
    outcome = run.outcome
    assert (True, []) == (outcome.is_good, outcome.problems), outcome
    killed = [name for name in names if before[name] != after[name]]
    assert sorted(ROLES) == sorted(name.partition(".")[0] for name in killed)
    assert not any(is_there(pid) for pid in [*before.values(), *after.values()])
    assert len(ROLES) == outcome.kills == world.plane.supervisor.restarts
    assert {"disk_full": "processes cannot fill a disk"} == outcome.skipped
    assert {"bus_outage": 1, "crash": len(ROLES), "disk_full": 0, "pause": 1} == outcome.strikes
    assert (6, 1) == (sum(outcome.ended.values()), outcome.figures["skipped"])
    assert len(outcome.digest) == 32


@pytest.mark.processes
@pytest.mark.timeout(150)
@pytest.mark.parametrize("name", LIBRARY)
def test_library_in_real_processes(name: str, tmp_path: Path) -> None:
    """The same file as in simulation: nothing of it is skipped, and everything that it expects is so here too."""
    spec = load_scenario(name)
    outcome = run_processes(spec, 1, tmp_path)
    assert_survived(spec, outcome)
    assert sum(workload.workloads for workload in spec.workload) == sum(outcome.ended.values())


@pytest.mark.processes
@pytest.mark.timeout(150)
@pytest.mark.parametrize("path", SHORT, ids=[path.stem for path in SHORT])
def test_short_scenario_in_real_processes(path: Path, tmp_path: Path) -> None:
    """Every submitted workload ends, no invariant is broken, and each fault strikes as often as its file says."""
    spec = load_scenario(str(path))
    outcome = run_processes(spec, 1, tmp_path)
    assert_survived(spec, outcome)
    strikes: Counter[str] = Counter()
    for fault in spec.faults:
        strikes[fault.name] += fault.times
    assert strikes == outcome.strikes
    assert outcome.figures["submitted"] == sum(outcome.ended.values())


def test_short_scenarios_are_seven_and_short() -> None:
    """Each is named as its file is, and its load lasts less than ten seconds: `make test` plays all of them."""
    specs = [load_scenario(str(path)) for path in SHORT]
    assert ["bus_lost", "dashboards", "drained", "harvested", "killed", "preempted", "storm"] == [
        spec.name for spec in specs
    ]
    assert max(spec.span for spec in specs) < 10


def assert_survived(spec: ScenarioSpec, outcome: Outcome) -> None:
    """Nothing was wrong, every expectation was met, and no fault was skipped."""
    assert [] == outcome.violations
    assert [] == outcome.problems
    assert [] == [met for met in outcome.expectations if not met.is_met]
    assert {} == outcome.skipped
    assert {fault.name for fault in spec.faults} == set(outcome.strikes)
    assert "processes" == outcome.world


@pytest.mark.slow
def test_keepers_that_should_not_be_rotten_bytes_and_cuts(tmp_path: Path) -> None:
    """A second keeper and an old build refuse to start, a flipped byte is found, cut nodes come back, poison kills nobody."""
    spec = small(
        "second_keeper: {after_seconds: 0, role: job_queue}",
        "old_build: {after_seconds: 0, role: placement_store, down_seconds: 0}",
        "flipped_byte: {after_seconds: 2, role: job_queue, for_seconds: 0.2}",
        "rack_cut: {after_seconds: 0.2, for_seconds: 2}",
        "message_delay: {share: 0.2}",
        "poison_messages: {after_seconds: 0, messages: 20, seconds: 2, listen_seconds: 0}",
        "region_cut: {}",
        "clock_step: {}",
    )
    outcome = run_processes(spec, 3, tmp_path)
    assert str(tmp_path / "runs" / f"{spec.name}-1") == outcome.directory
    assert (True, []) == (outcome.is_good, outcome.problems), outcome
    assert {"clock_step", "region_cut"} == set(outcome.skipped)
    assert 2 == outcome.kills
    (second,) = (tmp_path / "runs" / "small-1" / "misfits").glob("job_queue-*/output.log")
    assert "LogInUse" in second.read_text()


def test_job_files_are_for_mizzen_up(tmp_path: Path) -> None:
    """And nothing is begun."""
    spec = parse_scenario(SMALL + "jobs: [{file: job.yaml}]", "small.yaml")
    with pytest.raises(ScenarioError, match="play it with `mizzen up FILE`"):
        run_processes(spec, 1, tmp_path)
    assert [] == list(tmp_path.iterdir())


def test_each_run_has_a_directory_of_its_own(tmp_path: Path) -> None:
    """So that no run meets the logs of another."""
    spec = small()
    paths = [make_run_directory(tmp_path, spec) for _ in range(2)]
    assert ["small-1", "small-2"] == [path.name for path in paths]
    assert all((path / "fleet.yaml").is_file() for path in paths)


def test_trace_that_there_is_not_is_named(tmp_path: Path) -> None:
    """By its file."""
    with pytest.raises(ScenarioError, match=r"jobs\.csv\.gz: there is no such file"):
        with_trace(small(), tmp_path)


async def test_history_lies_in_files_as_the_old_build_wrote_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row, the id, the term and the hash."""
    disk = MemoryDisk()
    rows = [Row(n, n, "", "queue", f"w-{n}", b"\x80") for n in range(1, 4)]
    old = await MemoryStore(disk).open(GLOBAL_LOG, "old-id")
    head = await old.append(rows, 7)
    keep_history(tmp_path / "old.logs", {GLOBAL_LOG: disk})
    monkeypatch.setattr(scenarios.play.processes, "HISTORIES", tmp_path)
    directory = tmp_path / "plane"
    directory.mkdir()
    await put_history("old.logs", directory)
    reader = await SqliteStore(directory).reader(GLOBAL_LOG)
    try:
        assert head == await reader.head()
        assert rows == (await reader.read(1, 10, 1 << 20)).rows
    finally:
        await reader.close()


async def test_faults_that_real_processes_cannot_have(tmp_path: Path) -> None:
    """Each is refused with its reason, and nothing has happened."""
    world = a_world(tmp_path)
    with pytest.raises(CannotCause, match="nobody's choice"):
        await world.kill_writing(QUEUE, "lost")
    with pytest.raises(CannotCause, match="not seen"):
        await world.kill_writing(QUEUE, "", sort=WorkloadAwarded)
    with pytest.raises(CannotCause, match="TCP"):
        await world.disturb(Link(), Disturbance(drop=0.1))
    with pytest.raises(CannotCause, match="somebody else's"):
        await world.stop_bus()  # It has no server of its own yet.
    with pytest.raises(CannotCause, match="processes cannot step a clock"):
        await world.step_clock(QUEUE, 1.0)
    assert 0 == world.kills


def test_cuts_are_between_some_and_all() -> None:
    """Both ways, or what one side says; and nobody else is struck."""
    proxies = Proxies(units_of(PLAN), 1)
    all_of_r0 = proxies.ways(Link(("worker.r0.*",)))
    assert 4 == len(all_of_r0) == len(set(all_of_r0))
    (said,) = proxies.ways(Link(("queue",), ("*",), is_one_way=True))
    (heard,) = proxies.ways(Link(("*",), ("queue",), is_one_way=True))
    assert {said, heard} == set(proxies.ways(Link(("*",), ("queue",))))
    assert said is not heard
    assert len(units_of(PLAN)) == len(proxies.ways(Link()))
    with pytest.raises(CannotCause, match="not from some of the others"):
        proxies.ways(Link(("queue",), ("store.r0",)))
    with pytest.raises(CannotCause, match="no process is called nobody"):
        proxies.ways(Link(("nobody",)))


async def test_write_is_seen_from_outside(tmp_path: Path) -> None:
    """A file that appears or is written to has grown; one that is left alone, and one that is not there, have not."""
    path = tmp_path / "a.sqlite-wal"
    assert not await has_grown(path, 0.01)

    async def grows(data: bytes) -> bool:
        async with asyncio.TaskGroup() as group:
            growing = group.create_task(has_grown(path, 10.0))
            await asyncio.sleep(0)  # It has looked once.
            path.write_bytes(data)
        return growing.result()

    assert await grows(b"a")
    assert not await has_grown(path, 0.01)
    assert await grows(b"ab")


async def test_user_of_a_plane_that_is_not_up() -> None:
    """Is told so, as by any bus that is not there; users ask again."""
    with pytest.raises(BusError, match="its plane is not up"):
        await LateBus("client.user").ask(ListWorkloads(), seconds(1))


def told(path: Path, **fields: str) -> None:
    """A process writes a line."""
    with path.open("a") as file:
        file.write(json.dumps(fields) + "\n")


def test_file_of_a_process(tmp_path: Path) -> None:
    """It is up once it says so; expected deaths are no mistakes; one that is not told of is, unless somebody killed it."""
    path = tmp_path / "queue.log"
    log = UnitLog(path)
    log.read()
    assert not log.is_up
    told(path, event="unit_started")
    with path.open("a") as file:
        file.write('no line of ours\n{"event": "unit_di')  # Half written.
    log.read()
    assert (True, "") == (log.is_up, log.death)
    log.ended(was_killed=True, exit_code=-9)
    assert (False, "", "") == (log.is_up, log.death, log.mistake)
    with path.open("a") as file:
        file.write("\n")
    told(path, event="unit_died", error="LogInUse: another has it")
    log.ended(was_killed=False, exit_code=1)
    assert ("LogInUse: another has it", "") == (log.death, log.mistake)
    told(path, event="unit_started")
    log.ended(was_killed=False, exit_code=-11)
    assert "exit code -11" in log.mistake
    log.mistake = ""
    told(path, event="unit_died", error="KeyError: 7", place="host.py:1")
    log.read()
    assert "KeyError: 7" == log.mistake
    told(path, event="keeper_stopped", log="global", digest="abc")
    log.read()
    assert {"global": "abc"} == log.stopped


def test_file_that_had_grown_too_long_is_another_one(tmp_path: Path) -> None:
    """It is read from its beginning."""
    path = tmp_path / "queue.log"
    log = UnitLog(path)
    path.write_text("x" * 1000 + "\n")
    log.read()
    path.unlink()
    told(path, event="unit_started")
    log.read()
    assert log.is_up
