"""Checks that ask a plane in calm: each is silent on one that is sound, and tells of one that was broken on purpose."""

import re
from collections.abc import Awaitable, Callable

import pytest
import structlog
from msgspec.structs import replace

from core.messages.queue import CancelWorkload
from core.nouns.ids import GLOBAL_LOG
from core.nouns.workload import Phase
from runtime.virtual_loop import VirtualLoop
from scenarios.check import Check
from scenarios.checks.invariants import Invariants
from scenarios.checks.liveness import Liveness
from scenarios.checks.serves_again import ServesAgain
from scenarios.play.probes import STORIES, probes_of
from scenarios.play.run import Run
from scenarios.play.simulated import simulated_run
from scenarios.scenario import parse_scenario
from scenarios.schema.outcome import Outcome
from scenarios.worlds.simulated.world import START, SimulatedWorld

CALM = parse_scenario(
    """
name: calm
survives: A handful of workloads on hardware of two sorts. All of them end.
fleet:
  regions:
    r0: {nodes: 1, gpu_type: H100, workers: 1}
    r1: {nodes: 1, gpu_type: A100, workers: 1}
    r2: {nodes: 1, gpu_type: H100, workers: 1}
workload:
  - steady: {workloads: 4, hours: 0.01, minutes_median: 0.1, minutes_max: 0.2, gpus_max: 4, fails_share: 0, cancels_share: 0}
calm: {minutes: 30}
""",
    "calm.yaml",
)
WORKLOADS = 4
SERVES_AGAIN = ServesAgain()
Body = Callable[[Run], Awaitable[None]]


def in_calm(body: Body) -> Run:
    """Play the scenario until all has ended, and let something happen then."""

    async def main() -> None:
        try:
            await run.begin()
            await run.strike()
            await run.calm_down()
            assert await run.world.is_quiet()
            await body(run)
        finally:
            await run.stop()

    loop = VirtualLoop(START)
    run = simulated_run(CALM, 1, loop)
    try:
        with structlog.testing.capture_logs():
            loop.run_until_complete(main())
    finally:
        loop.cancel_all()
        loop.close()
    return run


def told_by(check: Check, breaks: Body | None = None) -> list[str]:
    """What a check says of the plane once it was broken so, or was not."""
    found: list[str] = []

    async def body(run: Run) -> None:
        if breaks is not None:
            await breaks(run)
        found.extend(await check.in_calm(run))

    in_calm(body)
    return found


async def kill_auditor(run: Run) -> None:
    """It is not started again."""
    await run.world.kill(next(unit for unit in run.world.units if unit.role == "auditor"))


async def slow_all_tasks(run: Run) -> None:
    """Whatever starts takes a thousand times as long."""
    for unit in run.world.units:
        if unit.role == "worker":
            await run.world.slow_tasks(unit, 1000.0)


async def break_all_nodes(run: Run) -> None:
    """Whatever starts dies at once."""
    for unit in run.world.units:
        if unit.role == "worker":
            await run.world.break_nodes(unit, 1)


def test_sound_plane_serves_again() -> None:
    """Nothing is found, every probe ends as it should within a minute, and nothing of them is left."""
    ended: dict[str, Phase] = {}
    spans: list[float] = []

    async def body(run: Run) -> None:
        begun = run.world.now()
        assert [] == await SERVES_AGAIN.in_calm(run)
        spans.append(run.world.now() - begun)
        assert await run.world.is_quiet()
        assert [] == run.world.spool_problems()
        for check in CALM.checks:
            assert [] == await check.at_end(run)
        accepted = run.users.accepted.items()
        ended.update({key: run.witness.ended[workload] for key, workload in accepted if "probe" in key})

    run = in_calm(body)
    assert len(ended) == len(probes_of(run))
    assert spans[0] < 60
    for region in ("r0", "r1"):
        wanted = [Phase.COMPLETED, Phase.FAILED, Phase.COMPLETED, Phase.CANCELLED, Phase.COMPLETED]
        assert wanted == [ended[f"probe/{region}/{name}"] for name in STORIES]
    assert ["probe/r2/one that completes"] == [key for key in ended if key.startswith("probe/r2/")]


def test_probes_are_in_no_figure() -> None:
    """Figures are of the scenario's own load."""
    outcomes: list[Outcome] = []

    async def body(run: Run) -> None:
        await run.conclude()
        outcomes.append(run.outcome)

    run = in_calm(body)
    assert "" == outcomes[0].first_problem()
    assert (WORKLOADS, WORKLOADS) == (outcomes[0].figures["submitted"], sum(outcomes[0].ended.values()))
    assert WORKLOADS + len(probes_of(run)) == len(run.users.accepted)


def test_plane_with_tasks_that_do_not_get_on() -> None:
    """Each probe tells the state that it waited for in vain, and is cancelled then."""
    found = told_by(SERVES_AGAIN, slow_all_tasks)
    late = "after 120 s it is still not so that it is COMPLETED"
    assert any(text.startswith("serving again in r2, one that completes (w-") for text in found)
    assert any(text.endswith(late) for text in found)
    assert not any("goes on" in text for text in found)
    assert not any("one that is cancelled" in text for text in found)


def test_plane_with_tasks_that_all_fail() -> None:
    """The workload that should complete does not, and the one that should fail exits with another code."""
    found = told_by(SERVES_AGAIN, break_all_nodes)
    assert any(text.endswith("it is FAILED, and should be COMPLETED") for text in found)
    assert any("its attempts ended by task_failed, and should by completed" in text for text in found)
    assert any("its tasks exited with 7, and its attempts with [1, 1]" in text for text in found)


def test_nothing_is_tried_on_a_plane_that_did_not_calm_down() -> None:
    """Liveness says what is wrong with it; where it is not asked, this does."""
    assert [] == told_by(SERVES_AGAIN, kill_auditor)

    async def alone(run: Run) -> None:
        await kill_auditor(run)
        run.spec = replace(run.spec, checks=(SERVES_AGAIN,))

    assert ["the plane did not calm down, so that nothing could be tried"] == told_by(SERVES_AGAIN, alone)


def test_auditor_that_does_not_answer() -> None:
    """To hear nothing from it is a problem of its own."""
    assert [] == told_by(Invariants())
    assert ["the plane's auditor does not answer"] == told_by(Invariants(), kill_auditor)


def test_auditor_that_found_something() -> None:
    """Whatever it found while it lived is told, with the first of it."""

    async def plant(run: Run) -> None:
        assert isinstance(run.world, SimulatedWorld)
        state = run.world.unit("auditor").state
        state.regions["r0"].capacity.gpu.held[0] += 1000
        assert [] == await SERVES_AGAIN.in_calm(run), "facts for it to look at"

    (text,) = told_by(Invariants(), plant)
    assert re.match(r"the plane's auditor found \d+ violations: rule 1: node 0: gpu free", text), text


def test_auditor_that_is_behind() -> None:
    """Facts that it never heard of it has not checked."""

    async def deafen(run: Run) -> None:
        run.witness.facts[GLOBAL_LOG] += 1

    (text,) = told_by(Invariants(), deafen)
    assert text.startswith("the plane's auditor has checked "), text
    assert text.endswith(" facts of global"), text


@pytest.mark.parametrize(("waited", "count"), [(5.0, 0), (20.0, 1)])
def test_request_without_an_answer(waited: float, count: int) -> None:
    """Once it has waited for long enough, in calm, it is a problem that names the request."""

    async def ask_in_vain(run: Run) -> None:
        await run.world.kill(next(unit for unit in run.world.units if unit.role == "job_queue"))
        (workload, *_) = run.users.workloads()
        run.users.begin(run.users.cancel(workload), "in vain")
        await run.world.sleep(waited)
        assert [CancelWorkload(workload)] == run.users.unanswered(0.0)

    found = told_by(Liveness(), ask_in_vain)
    assert ["CancelWorkload of w-1 was never answered"] * count == found


def test_answered_request_waits_no_more() -> None:
    """Whatever the answer was."""

    async def ask(run: Run) -> None:
        await run.users.cancel(run.users.workloads()[0])
        assert [] == run.users.unanswered(0.0)

    assert [] == told_by(Liveness(), ask)
