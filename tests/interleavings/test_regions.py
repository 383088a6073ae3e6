"""Regions that fall silent: what was awarded to them stays theirs until they answer."""

import pytest

from core.images.region import AttemptPhase
from core.messages.base import Message
from core.messages.broker import ExecuteAward
from core.messages.queue import ShowWorkload, WorkloadShown
from core.messages.store import SubmitClaim
from core.nouns.ids import GLOBAL_LOG, region_log
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause, Phase
from tests.interleavings.stage import R0, R1, TWO_REGIONS, Stage, a_job, ended, play, staged

GRANTED, STARTED = AttemptPhase.GRANTED, AttemptPhase.STARTED
REGION_0 = ["*.r0", "*.r0.*", "reader.region.r0"]


def cut_off(stage: Stage) -> None:
    """Nothing passes between the first region and everybody else; inside of it all goes on."""

    def is_inside(name: str) -> bool:
        return name.endswith(".r0") or ".r0." in name

    stage.world.network.cut_where(lambda sender, hearer: is_inside(sender) != is_inside(hearer))


async def shown(stage: Stage, workload: str) -> WorkloadShown:
    """What the user is told."""
    answer: Message = await stage.ask(ShowWorkload(workload))  # type: ignore[arg-type]
    assert isinstance(answer, WorkloadShown)
    return answer


@staged(TWO_REGIONS)
async def test_silent_region_keeps_its_award(stage: Stage) -> None:
    """Told of an award and then cut off for minutes: nobody else gets it, the user is told why, and back again the region
    answers for it.
    """
    claims = stage.script.hold(SubmitClaim)
    workload = await stage.submit(a_job(20, regions=(R0,)))
    await stage.until(lambda: bool(claims.messages))
    cut_off(stage)
    await stage.sleep(300)
    assert (Phase.AWARDED, 1) == ended(stage, workload)
    answer = await shown(stage, workload)
    assert (Reason.REGION_UNREACHABLE, "r0") == (answer.reason, answer.region)
    stage.world.network.heal()
    claims.let_go()
    await stage.finish()
    assert Phase.COMPLETED == stage.row(workload).phase


@staged(TWO_REGIONS)
async def test_silent_region_grants_and_runs_its_award(stage: Stage) -> None:
    """Cut off from the queue alone, it starts the work that it may start; nothing of it is lost when it is back."""
    awards = stage.script.keep(ExecuteAward)
    workload = await stage.submit(a_job(100, regions=(R0,)))
    await stage.until(lambda: bool(awards.messages))
    cut_off(stage)
    await stage.until_in(STARTED, workload)
    await stage.sleep(60)
    assert (Phase.AWARDED, 1) == ended(stage, workload)
    assert stage.watch.runs(workload)
    await stage.sleep(100)
    stage.world.network.heal()
    await stage.finish()
    assert (Phase.COMPLETED, 1) == ended(stage, workload)


@pytest.mark.parametrize("silent", [60, 300])
def test_running_work_does_not_notice_that_its_region_is_silent(silent: float) -> None:
    """T26: it runs on; other work goes to the other region; and its end is known once the region is back."""

    async def body(stage: Stage) -> None:
        workload = await stage.run_to(STARTED, a_job(150, regions=(R0,)))
        await stage.until(lambda: Phase.RUNNING == stage.row(workload).phase)
        cut_off(stage)
        await stage.sleep(10)
        other = await stage.submit(a_job(20))
        await stage.until(lambda: Phase.COMPLETED == stage.row(other).phase)
        assert "ClaimGranted" in stage.events(region_log(R1), other)
        await stage.sleep(silent)
        assert (Phase.RUNNING, 1) == ended(stage, workload)
        stage.world.network.heal()
        await stage.finish()
        assert (Phase.COMPLETED, 1) == ended(stage, workload)

    play(body, TWO_REGIONS, 7)


@staged(TWO_REGIONS)
async def test_silent_region_is_not_asked(stage: Stage) -> None:
    """A workload pinned to it waits, and is told why; it is not put up for auction in vain."""
    cut_off(stage)
    await stage.sleep(10)
    workload = await stage.submit(a_job(20, regions=(R0,)))
    await stage.sleep(60)
    assert (Phase.PENDING, 0) == ended(stage, workload)
    state = stage._state_of(stage.world.unit("job_queue"))
    assert {} == state.auctions.open
    stage.world.network.heal()
    await stage.finish()
    assert (Phase.COMPLETED, 1) == ended(stage, workload)


@staged(TWO_REGIONS)
async def test_cancelled_while_its_region_is_silent(stage: Stage) -> None:
    """The cancel is taken and waits: it is final only when the region shows that nothing runs."""
    workload = await stage.run_to(STARTED, a_job(1000, regions=(R0,)))
    await stage.until(lambda: Phase.RUNNING == stage.row(workload).phase)
    cut_off(stage)
    await stage.sleep(10)
    await stage.cancel(workload)
    await stage.sleep(100)
    assert Phase.RUNNING == stage.row(workload).phase
    assert stage.watch.runs(workload)
    stage.world.network.heal()
    await stage.finish()
    assert (Phase.CANCELLED, 1) == ended(stage, workload)
    assert [EndCause.CANCELLED] == stage.causes(workload)


@staged(TWO_REGIONS)
async def test_queue_starts_while_a_region_is_silent(stage: Stage) -> None:
    """It does not know that region's log, and so neither frees nor awards again what stands there."""
    workload = await stage.run_to(STARTED, a_job(100, regions=(R0,)))
    cut_off(stage)
    await stage.restart("queue")
    await stage.sleep(200)
    assert 1 == stage.row(workload).epoch
    assert stage.row(workload).is_active
    assert 1 == stage.events(GLOBAL_LOG, workload).count("WorkloadAwarded")
    stage.world.network.heal()
    await stage.finish()
    assert (Phase.COMPLETED, 1) == ended(stage, workload)
