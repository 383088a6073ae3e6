"""Functions run on what services hold for them, in a simulated plane: where tasks serve, while they do, and for whom they say."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import structlog
from msgspec.structs import replace

from core.messages.queue import Acknowledged, CancelWorkload, Submitted, SubmitWorkload
from core.nouns.function import CallOutcome, FunctionSpec, WarmSpans
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import MILLISECOND, Nanoseconds, seconds
from core.nouns.quantities import Amount
from core.nouns.workload import Emulation, JobSpec, Kind, Phase, RetryLimits, Serves, WorkloadSpec
from runtime.clock import Clock
from runtime.fleet_file import RegionSpec
from runtime.virtual_loop import VirtualLoop
from scenarios.play.function_caller import FunctionCaller
from scenarios.schema.fleet import FleetSpec, plan_of
from scenarios.worlds.simulated.world import START, SimulatedWorld

FLEET = FleetSpec({"r0": RegionSpec(nodes=4, gpu_type="H100", workers=2, agents=1, functions=True)})
ML, NLP = TenantName("ml"), TenantName("nlp")
GIB = 1 << 30
HOLDS = Amount(1_000, 4_000, 16 * GIB)
YEAR = Nanoseconds(365 * 24 * 3_600 * seconds(1))
CALL = Nanoseconds(100 * MILLISECOND)
SERVING = WorkloadSpec(
    "serving",
    (JobSpec("main", 2, HOLDS, "H100", Emulation(YEAR), serves=Serves.OWN),),
    tenant=ML,
    kind=Kind.SERVICE,
    retry=RetryLimits(task_failed=1),
)


def a_function(tenant: TenantName = ML) -> FunctionSpec:
    """One for a core, warm after two seconds."""
    return FunctionSpec(
        tenant, "f", "0123abcd", Amount(0, 1_000, GIB), warm=WarmSpans(seconds(0.1), seconds(2))
    )


class Plane:
    """A simulated plane, with a user and callers."""

    def __init__(self, world: SimulatedWorld) -> None:
        self.world = world
        self._user = world.user("client.user")
        self._submitted = 0

    async def serve(self, spec: WorkloadSpec = SERVING) -> WorkloadId:
        """Submit a service, and wait until it runs."""
        self._submitted += 1
        answer = await self._user.ask(SubmitWorkload(spec, "user", key=str(self._submitted)), seconds(5))
        assert isinstance(answer, Submitted), answer
        await self.until(answer.workload, Phase.RUNNING)
        return answer.workload

    async def cancel(self, workload: WorkloadId) -> None:
        """Cancel a service, and wait until it has ended."""
        assert isinstance(await self._user.ask(CancelWorkload(workload), seconds(5)), Acknowledged)
        await self.until(workload, Phase.CANCELLED)

    async def until(self, workload: WorkloadId, phase: Phase) -> None:
        """Wait until a workload has come to a phase."""
        rows = self.world.unit("job_queue").state.image.workloads.rows
        async with asyncio.timeout(60):
            while rows[workload].phase is not phase:
                await self.world.sleep(0.1)

    def caller(self, tenant: TenantName = ML) -> FunctionCaller:
        """One that lives as long as the plane."""
        loop = self.world.loop
        name = f"c-{tenant}"
        found = FunctionCaller(self.world.user(f"caller.{name}"), Clock(loop, loop.now_ns()), tenant, name)
        loop.create_task(found.run(), name=name)
        return found

    def used(self) -> Amount:
        """What executors of all servers use now."""
        found = Amount()
        for one in self.world.all:
            for amount in one.executors.used().values() if one.executors is not None else ():
                found = found.plus(amount)
        return found


async def answered(caller: FunctionCaller, count: int) -> None:
    """Wait until so many calls have answers, all of them done."""
    async with asyncio.timeout(120):
        await caller.all_answered(count)
    assert [CallOutcome.DONE] * count == [one.outcome for one in caller.answers.values()]


def play(script: Callable[[Plane], Coroutine[Any, Any, None]]) -> None:
    """Run a script against a plane in virtual time."""
    loop = VirtualLoop(START)

    async def run() -> None:
        world = SimulatedWorld(plan_of(FLEET, "fleet"), 1, loop)
        try:
            await world.start()
            await world.sleep(20)
            await script(Plane(world))
            assert [] == world.failures
            assert [] == world.physics.problems
        finally:
            await world.stop()

    try:
        with structlog.testing.capture_logs():
            loop.run_until_complete(run())
    finally:
        loop.cancel_all()
        loop.close()


def test_calls_run_while_a_service_serves() -> None:
    """Before one does they wait, and so do those that ran at its end and that come after it; they go on when the next one runs."""

    async def script(plane: Plane) -> None:
        caller = plane.caller()
        for _ in range(10):
            caller.call(a_function(), CALL)
        await plane.world.sleep(10)
        assert {} == caller.answers
        first = await plane.serve()
        await answered(caller, 10)
        for _ in range(5):
            caller.call(a_function(), seconds(10))
        await plane.world.sleep(3)
        assert 5_000 == plane.used().cpu_milli
        await plane.cancel(first)
        for _ in range(5):
            caller.call(a_function(), CALL)
        await plane.world.sleep(60)
        assert 10 == len(caller.answers)
        assert Amount() == plane.used()
        await plane.serve()
        await answered(caller, 20)

    play(script)


def test_calls_of_a_task_that_stops_run_again_elsewhere() -> None:
    """Executors leave it before it has ended: of two services one goes, with long calls on both."""

    async def script(plane: Plane) -> None:
        caller = plane.caller()
        first, _ = await plane.serve(), await plane.serve()
        for _ in range(16):
            caller.call(a_function(), seconds(10))
        await plane.world.sleep(8)
        assert 16_000 == plane.used().cpu_milli
        await plane.cancel(first)
        assert 8_000 == plane.used().cpu_milli
        await answered(caller, 16)

    play(script)


def test_a_tenants_functions_stay_out_of_what_others_hold() -> None:
    """And get in where an operator holds it for all."""

    async def script(plane: Plane) -> None:
        caller = plane.caller(NLP)
        await plane.serve()
        caller.call(a_function(NLP), CALL)
        await plane.world.sleep(10)
        assert {} == caller.answers
        (job,) = SERVING.jobs
        await plane.serve(replace(SERVING, name="all", jobs=(replace(job, serves=Serves.ALL),)))
        await answered(caller, 1)

    play(script)


@pytest.mark.parametrize("misfortune", ["tasks fail", "power is cut"])
def test_capacity_goes_with_the_tasks_of_a_machine(misfortune: str) -> None:
    """No executor outlives them for a moment, and calls run once the service does again."""

    async def script(plane: Plane) -> None:
        caller = plane.caller()
        await plane.serve()
        for _ in range(8):
            caller.call(a_function(), seconds(10))
        await plane.world.sleep(8)
        assert 8_000 == plane.used().cpu_milli
        for unit in plane.world.all:
            if unit.spool is not None and misfortune == "tasks fail":
                unit.spool.fail_all(9)
            elif unit.spool is not None:
                unit.lose_power()
                unit.start_soon()
        assert Amount() == plane.used()
        await answered(caller, 8)

    play(script)
