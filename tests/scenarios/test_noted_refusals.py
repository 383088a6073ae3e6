"""Why a job waits, told by a queue that was killed and started again while no agent answers: on a whole simulated plane."""

import asyncio

import structlog

from core.messages.base import Message
from core.messages.queue import Submitted, SubmitWorkload
from core.nouns.ids import WorkloadId
from core.nouns.instant import seconds
from core.nouns.limits import NOTED_INTERVAL
from core.nouns.reasons import Reason
from core.nouns.workload import WorkloadSpec
from mizzen.views.workloads.explain import explained, lines_of
from runtime.virtual_loop import VirtualLoop
from scenarios.play.run import WARM_UP
from scenarios.scenario import parse_scenario
from scenarios.worlds.simulated.world import START, SimulatedWorld
from tests.builders import a_job, a_spec

PLAN = """\
name: two
survives: One region of two nodes.
fleet: {regions: 1, nodes: 2, workers: 1}
workload: [steady: {workloads: 1, hours: 1}]
calm: {minutes: 1}
expectations: [submitted == 1]
"""
LONG = 2 * NOTED_INTERVAL / seconds(1) + 5
"""Seconds after which a reason is recorded."""


async def _told(world: SimulatedWorld) -> tuple[list[str], list[str]]:
    """What a user is told of a job that finds no capacity, before the queue is killed, and after it has started again."""
    user = world.user("user")
    await world.start()
    await asyncio.sleep(WARM_UP["simulated"])

    async def submitted(spec: WorkloadSpec) -> WorkloadId:
        answer: Message = await user.ask(SubmitWorkload(spec, "ada"), seconds(2))
        assert isinstance(answer, Submitted), answer
        return answer.workload

    async def told(workload: WorkloadId) -> list[str]:
        explanation, known = await explained(user, workload)
        return lines_of(explanation, known.telling.story)

    endless = a_job(2, 8)
    await submitted(a_spec(endless, priority=6))
    await asyncio.sleep(5)
    waits = await submitted(a_spec(a_job(1, 8)))
    await asyncio.sleep(LONG)
    before = await told(waits)
    for unit in world.all:
        if unit.unit.role in ("allocation_agent", "job_queue"):
            unit.kill()
    await world.unit("job_queue").start()
    await asyncio.sleep(8)
    after = await told(waits)
    await world.stop()
    return before, after


def test_queue_that_was_killed_still_tells_why_a_job_waits() -> None:
    """M11: the reason, the figures and since when are facts; with every agent dead, nothing else could tell them."""
    loop = VirtualLoop(START)
    try:
        world = SimulatedWorld(parse_scenario(PLAN, "two.yaml").plan, 1, loop)
        with structlog.testing.capture_logs():
            before, after = loop.run_until_complete(_told(world))
    finally:
        loop.cancel_all()
        loop.close()
    assert Reason.NO_CAPACITY in before[0]
    assert before[-1].rstrip().endswith("so for 20s"), before
    assert after[0] == before[0]
    assert "main needs 1 x 8 GPUs" in after[-1]
    assert after[-1].rstrip().endswith("so for 28s"), after
