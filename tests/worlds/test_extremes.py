"""Whatever submission accepts, no component raises: a workload with extreme values is refused, waits with a reason, or starts."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
import structlog
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from bus.port import Bus
from core.messages.base import Answer, Message, Refused
from core.messages.moves import MoveWorkload
from core.messages.pipelines import (
    CancelPipeline,
    ListPipelines,
    PipelineAccepted,
    PipelineCancelled,
    PipelineShown,
    ShowPipeline,
    SubmitPipeline,
    TestPipeline,
)
from core.messages.queue import (
    CancelWorkload,
    ChangeWorkload,
    ExplainWorkload,
    ListWorkloads,
    ShowWorkload,
    Submitted,
    SubmitWorkload,
    WorkloadExplained,
)
from core.messages.starts import ListStarts, TestSubmission
from core.messages.tenants import ListTenants, SetDeadlineBudget, SetTenant, TenantAnswered
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.instant import seconds
from core.nouns.limits import BUDGET_GPU_HOURS_MAX, BUDGET_PERIOD_MAX, SPAN_MAX, TASKS_MAX
from core.nouns.pipeline import PipelineSpec
from core.nouns.quantities import Amount
from core.nouns.tenant import Budget, TenantSettings
from core.nouns.workload import UNNAMED, Emulation, JobSpec, Phase, WorkloadSpec
from runtime.fleet_file import RegionSpec
from runtime.virtual_loop import VirtualLoop
from scenarios.schema.fleet import FleetSpec, plan_of
from scenarios.worlds.simulated.world import START, SimulatedWorld
from tests.core.properties import PROPERTY
from tests.worlds.extremes import longest_pipeline, missing_fields, mostly_accepted, pipelines

R0 = RegionName("r0")
FLEET = FleetSpec(
    {
        "r0": RegionSpec(
            nodes=4, gpu_type="H100", workers=2, agents=2, nodes_per_rack=2, zones=2, gpu_memory=80 << 30,
            island=4, cpu_nodes=2,
        ),
        "r1": RegionSpec(nodes=4, gpu_type="A100", workers=1, agents=1),
        "r2": RegionSpec(nodes=1, gpu_type="B200", workers=1, agents=1),
    }
)  # fmt: skip
"""Several zones, types and machines without GPUs; region `r2` has no nodes while its worker is down."""
FILLER = WorkloadSpec(
    "filler", (JobSpec("main", 1, Amount(8_000, 1_000, 1 << 30), "H100", Emulation(SPAN_MAX)),), priority=0
)

LONGEST = replace(FILLER, priority=6, max_duration=SPAN_MAX, grace=SPAN_MAX)
"""No victim; the end of such work, in two hundred years, is the earliest start of another."""


class Plane:
    """A plane in a simulated world, and its user."""

    def __init__(self, world: SimulatedWorld) -> None:
        self.world = world
        self.user: Bus = world.user("client.user")
        self.asked = 0

    async def ask(self, message: Message) -> Answer:
        """Return the answer of the plane."""
        answer = await self.user.ask(message, seconds(5))
        assert isinstance(answer, Answer)
        return answer

    async def submit(self, spec: WorkloadSpec) -> Answer:
        """Submit a workload, once."""
        self.asked += 1
        return await self.ask(SubmitWorkload(spec, "user", key=f"key-{self.asked}"))

    async def start(self, *, has_empty_region: bool) -> None:
        """Start all units, the worker of the last region only if all regions are to have nodes."""
        if has_empty_region:
            empty = next(
                unit for unit in self.world.all if unit.unit.role == "worker" and unit.unit.region == "r2"
            )
            empty.downs += 1
            await self.world.start()
            empty.kill()
        else:
            await self.world.start()
        await self.world.sleep(20)

    def assert_nothing_raised(self) -> None:
        """Assert that no unit died of anything."""
        assert [] == self.world.failures
        assert {} == {unit.unit.name: unit.deaths for unit in self.world.all if unit.deaths}

    def phase_of(self, workload: WorkloadId) -> Phase:
        """Return a workload's phase, as the queue knows it."""
        phase: Phase = self.world.unit("job_queue").state.image.workloads.rows[workload].phase
        return phase


def play(script: Callable[[Plane], Coroutine[Any, Any, None]]) -> None:
    """Run a script against a plane in virtual time."""
    loop = VirtualLoop(START)

    async def run() -> None:
        plane = Plane(SimulatedWorld(plan_of(FLEET, "fleet"), 1, loop))
        try:
            await script(plane)
            plane.assert_nothing_raised()
        finally:
            await plane.world.stop()

    try:
        with structlog.testing.capture_logs():
            loop.run_until_complete(run())
    finally:
        loop.cancel_all()
        loop.close()


async def assert_told(plane: Plane, spec: WorkloadSpec, answer: Answer) -> None:
    """Assert that a submission was refused with its problems, or that its workload waits with a reason or has started."""
    if isinstance(answer, Refused):
        assert answer.problems, answer
        return
    assert isinstance(answer, Submitted), answer
    if plane.phase_of(answer.workload) is not Phase.PENDING:
        return
    told = await plane.ask(ExplainWorkload(answer.workload))
    assert isinstance(told, WorkloadExplained)
    assert told.reason, (spec, told)


def test_every_field_of_a_submission_has_extreme_values() -> None:
    """A new field of a workload needs values in tests/worlds/extremes.py."""
    assert [] == missing_fields()


DRAWN = given(st.lists(mostly_accepted(), min_size=1, max_size=4), st.integers(0, 4), st.booleans())


@settings(PROPERTY, max_examples=15)
@DRAWN
def test_no_component_raises_whatever_is_submitted(
    specs: Sequence[WorkloadSpec],
    fillers: int,
    has_empty_region: bool,  # drawn
) -> None:
    """From the submission over bids, claims and starts to the end, with victims, reservations and questions of users."""
    play(lambda plane: submit_all(plane, specs, fillers, has_empty_region=has_empty_region))


@pytest.mark.slow
@pytest.mark.timeout(900)
@settings(PROPERTY, max_examples=300)
@DRAWN
def test_no_component_raises_whatever_is_submitted_for_long(
    specs: Sequence[WorkloadSpec],
    fillers: int,
    has_empty_region: bool,  # drawn
) -> None:
    """The same, of many more workloads."""
    play(lambda plane: submit_all(plane, specs, fillers, has_empty_region=has_empty_region))


async def submit_all(
    plane: Plane, specs: Sequence[WorkloadSpec], fillers: int, *, has_empty_region: bool
) -> None:
    """Submit workloads beside others that hold nodes, ask about them, change, move and cancel them."""
    await plane.start(has_empty_region=has_empty_region)
    for number in range(fillers):
        assert isinstance(await plane.submit((FILLER, LONGEST)[number % 2]), Submitted)
    await plane.world.sleep(10)
    answers = []
    for spec in specs:
        await plane.ask(TestSubmission(spec, "user"))
        answers.append(await plane.submit(spec))
    # Long enough for a reservation after refusals, and for a preempted victim to leave.
    await plane.world.sleep(100)
    for spec, answer in zip(specs, answers, strict=True):
        await assert_told(plane, spec, answer)
    for question in (ListWorkloads(), ListStarts(), ListTenants()):
        await plane.ask(question)
    for spec, answer in zip(specs, answers, strict=True):
        if isinstance(answer, Submitted):
            await plane.ask(ShowWorkload(answer.workload))
            more = tuple(replace(job, tasks=TASKS_MAX) for job in spec.jobs)
            await plane.ask(ChangeWorkload(answer.workload, 0, more))
            await plane.ask(MoveWorkload(answer.workload, 1, RegionName("r1"), 0))
    await plane.world.sleep(60)
    for answer in answers:
        if isinstance(answer, Submitted):
            await plane.ask(CancelWorkload(answer.workload))
    await plane.world.sleep(200)


@settings(PROPERTY, max_examples=30)
@example([longest_pipeline()], False)
@given(st.lists(pipelines(), min_size=1, max_size=4), st.booleans())
def test_no_component_raises_whatever_pipeline_is_submitted(
    specs: Sequence[PipelineSpec],
    is_budgeted: bool,  # drawn
) -> None:
    """With spans and sizes as long and large as they may be, under a budget or none, from the submission to the end."""
    play(lambda plane: submit_pipelines(plane, specs, is_budgeted=is_budgeted))


async def submit_pipelines(plane: Plane, specs: Sequence[PipelineSpec], *, is_budgeted: bool) -> None:
    """Submit pipelines, ask about them, learn from their runs, submit them again, and cancel them."""
    await plane.start(has_empty_region=False)
    if is_budgeted:
        await plane.ask(SetTenant(UNNAMED, TenantSettings(), 0))
        budget = Budget(BUDGET_GPU_HOURS_MAX, BUDGET_PERIOD_MAX)
        assert isinstance(await plane.ask(SetDeadlineBudget(UNNAMED, budget, 1)), TenantAnswered)
    accepted = []
    for _ in range(2):
        for spec in specs:
            await plane.ask(TestPipeline(spec, "user"))
            plane.asked += 1
            answer = await plane.ask(SubmitPipeline(spec, "user", f"key-{plane.asked}"))
            assert isinstance(answer, PipelineAccepted) or (isinstance(answer, Refused) and answer.problems)
            if isinstance(answer, PipelineAccepted):
                accepted.append(answer.pipeline)
        await plane.world.sleep(300)
        for pipeline in accepted:
            assert isinstance(await plane.ask(ShowPipeline(pipeline)), PipelineShown)
        await plane.ask(ListPipelines())
    for pipeline in accepted:
        assert isinstance(await plane.ask(CancelPipeline(pipeline)), PipelineCancelled)
    await plane.world.sleep(200)
    rows = plane.world.unit("job_queue").state.image.pipelines.rows
    assert all(row.outcome for row in rows.values())


def test_job_that_no_node_could_hold_kills_no_agent() -> None:
    """Three million CPUs a task: refused with the largest node; or accepted while a region has no nodes yet, where it waits."""
    wide = WorkloadSpec(
        "wide", (JobSpec("main", 1, Amount(1_000, 3_000_000_000), "any", Emulation(seconds(30))),)
    )

    async def refused(plane: Plane) -> None:
        await plane.start(has_empty_region=False)
        answer = await plane.submit(wide)
        assert isinstance(answer, Refused)
        assert "never_fits" == answer.reason
        assert (
            "no node of the fleet has more than 96 (the largest is one of type H100 in region r0)"
            in answer.problems[0]
        )

    async def waits(plane: Plane) -> None:
        await plane.start(has_empty_region=True)
        answer = await plane.submit(wide)
        assert isinstance(answer, Submitted)
        after_it = await plane.submit(replace(FILLER, jobs=(replace(FILLER.jobs[0], need=Amount(1_000)),)))
        assert isinstance(after_it, Submitted)
        await plane.world.sleep(60)
        assert Phase.PENDING == plane.phase_of(answer.workload)
        assert Phase.RUNNING == plane.phase_of(after_it.workload)
        told = await plane.ask(ExplainWorkload(answer.workload))
        assert isinstance(told, WorkloadExplained)
        assert told.reason

    play(refused)
    play(waits)
