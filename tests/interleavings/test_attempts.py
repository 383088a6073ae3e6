"""From the grant to the recorded end: a gang starts as a whole or not at all, runs once, and ends once, whatever is late
or lost between broker and workers, and whoever of them dies.
"""

import pytest

from core.images.region import AttemptPhase
from core.messages.broker import StopAttempt
from core.messages.store import OrderStop, RecordCheckpoint, RecordEnd, RecordStarted
from core.messages.workers import (
    BeatHeard,
    EndRecorded,
    PrepareTasks,
    StartTasks,
    StopTasks,
    TasksPhase,
    WorkerBeat,
    WorkerReport,
)
from core.nouns.ids import WorkloadId, region_log
from core.nouns.workload import EndCause, Phase, WorkloadSpec
from tests.interleavings.stage import R0, SMALL, Stage, a_job, ended, play, staged

GRANTED, STARTED = AttemptPhase.GRANTED, AttemptPhase.STARTED
LOG = region_log(R0)
W0, W1 = "worker.r0.w0", "worker.r0.w1"
WORKER_0 = WorkloadId("w0")
"""What facts about the first worker are about."""


def a_gang(span: float, checkpoint_every: float = 0.0) -> WorkloadSpec:
    """A gang that needs both workers."""
    return a_job(span, gpus=8, tasks=2, checkpoint_every=checkpoint_every)


@pytest.mark.parametrize("is_stop_lost", [False, True])
def test_start_is_late_by_a_loss_and_a_return(is_stop_lost: bool) -> None:
    """T26: the word to start comes when the worker was lost, its attempt ended, and it is back: it must not start,
    whether or not it has heard by then that the attempt is over.
    """

    async def body(stage: Stage) -> None:
        starts = stage.script.hold(StartTasks, hearer=W0, where=lambda message: message.epoch == 1)
        workload = await stage.submit(a_gang(60))
        await stage.until(lambda: bool(starts.messages))
        stops = stage.script.hold(StopTasks, hearer=W0) if is_stop_lost else None
        cut = stage.world.network.cut([W0], ["*"])
        await stage.until_recorded("NodesLost", WORKER_0)
        await stage.until_recorded("AttemptEnded", workload)
        assert [EndCause.NODE_LOST] == stage.causes(workload)
        stage.world.network.heal(cut)
        back = stage.script.keep(BeatHeard, hearer=W0)
        await stage.until(lambda: bool(back.messages))
        if stops is None:
            await stage.until_recorded("NodesReturned", WORKER_0)
        starts.let_go()
        await stage.sleep(5)
        assert not [start for start in stage.watch.started if start == ("worker.r0.w0", workload, 1)]
        if stops is not None:
            stops.let_go()
        await stage.finish()
        assert Phase.COMPLETED == stage.row(workload).phase
        assert stage.row(workload).epoch >= 2

    play(body, SMALL, 7)


@staged(SMALL)
async def test_start_is_late_while_the_worker_is_cut_off(stage: Stage) -> None:
    """A worker that hears nothing but a word to start, long after its beats were last acknowledged, does not obey."""
    starts = stage.script.hold(StartTasks, hearer=W0, where=lambda message: message.epoch == 1)
    workload = await stage.submit(a_gang(60))
    await stage.until(lambda: bool(starts.messages))
    unheard = stage.script.drop(BeatHeard, StopTasks, hearer=W0)
    silent = stage.script.drop(WorkerBeat, WorkerReport, sender=W0)
    await stage.until_recorded("AttemptEnded", workload)
    starts.let_go()
    await stage.sleep(5)
    assert ("worker.r0.w0", workload, 1) not in stage.watch.started
    unheard.end()
    silent.end()
    await stage.finish()
    assert Phase.COMPLETED == stage.row(workload).phase


@staged(SMALL)
async def test_stop_is_lost_again_and_again(stage: Stage) -> None:
    """It is said until a report shows that it was heard; the capacity is not free before the nodes are empty."""
    workload = await stage.run_to(STARTED, a_gang(1000))
    lost = stage.script.drop(StopTasks, count=15)
    await stage.cancel(workload)
    await stage.until(lambda: 15 == lost.dropped)
    assert stage.region().capacity.holding(workload, 1) is not None
    assert stage.watch.runs(workload)
    await stage.finish()
    assert (Phase.CANCELLED, 1) == ended(stage, workload)
    assert ["ClaimGranted", "GangStarted", "StopOrdered", "AttemptEnded"] == stage.events(LOG, workload)


@staged(SMALL)
async def test_every_report_is_lost_for_a_while(stage: Stage) -> None:
    """What a report does not tell the next beat does: the gang starts and ends all the same, in one attempt."""
    stage.script.drop(WorkerReport)
    workload = await stage.submit(a_gang(20))
    await stage.until_recorded("AttemptEnded", workload)
    await stage.finish()
    assert (Phase.COMPLETED, 1) == ended(stage, workload)


@pytest.mark.parametrize("has_broker_died", [False, True])
def test_reports_are_repeated_long_after_the_end_was_recorded(has_broker_died: bool) -> None:
    """Old reports and beats of an ended attempt, in any order, change nothing: nothing is recorded, nothing is started."""

    async def body(stage: Stage) -> None:
        said = stage.script.keep(
            WorkerReport, WorkerBeat, RecordStarted, RecordEnd, RecordCheckpoint, EndRecorded
        )
        workload = await stage.submit(a_gang(20, checkpoint_every=5))
        await stage.until_recorded("AttemptEnded", workload)
        await stage.sleep(5)
        assert {TasksPhase.ENDED} <= {
            message.tasks.phase for message in said.messages if isinstance(message, WorkerReport)
        }
        said.end()
        await stage.sleep(100)
        assert stage.attempt(workload) is None, "forgotten"
        if has_broker_died:
            await stage.restart("broker.r0")
        before = len(stage.facts(LOG))
        for _ in range(2):
            said.repeat()
            await stage.sleep(7)
            said.kept.reverse()
        assert before == len(stage.facts(LOG))
        again = await stage.submit(a_gang(20))
        await stage.until_in(STARTED, again)
        said.repeat()
        await stage.finish()
        assert (Phase.COMPLETED, 1) == ended(stage, again)
        assert (Phase.COMPLETED, 1) == ended(stage, workload)

    play(body, SMALL, 7)


@pytest.mark.parametrize("phase", [GRANTED, STARTED])
def test_worker_dies_in_the_middle_of_a_gang(phase: AttemptPhase) -> None:
    """Its tasks do not notice; the next worker finds them in the spool, and the attempt goes on."""

    async def body(stage: Stage) -> None:
        held = stage.script.hold(StartTasks, hearer=W1) if phase == GRANTED else None
        workload = await stage.run_to(phase, a_gang(60))
        if held is not None:
            await stage.until(lambda: bool(held.messages))
        stage.kill(W0)
        await stage.sleep(8)
        if held is not None:
            held.let_go()
        await stage.start(W0)
        await stage.finish()
        assert (Phase.COMPLETED, 1) == ended(stage, workload)
        assert 2 == len(stage.watch.started)

    play(body, SMALL, 7)


@staged(SMALL)
async def test_worker_is_dead_when_its_tasks_end(stage: Stage) -> None:
    """The end is found by the next worker, and is the end it was."""
    workload = await stage.run_to(STARTED, a_gang(10))
    stage.kill(W0)
    await stage.sleep(15)
    await stage.start(W0)
    await stage.finish()
    assert (Phase.COMPLETED, 1) == ended(stage, workload)


@pytest.mark.parametrize("down", [3.0, 60.0])
def test_nodes_lose_power_under_a_gang(down: float) -> None:
    """M25: what ran there is gone: the rest of the gang stops, the attempt ends as a lost node, or a failed one where
    the worker was back before it counted as lost, and the next one resumes what was saved.
    """

    async def body(stage: Stage) -> None:
        workload = await stage.run_to(STARTED, a_gang(60, checkpoint_every=10))
        await stage.until_recorded("CheckpointCommitted", workload)
        stage.lose_power(W1)
        await stage.sleep(down)
        await stage.start(W1)
        await stage.finish()
        assert (Phase.COMPLETED, 2) == ended(stage, workload)
        assert [
            EndCause.NODE_FAILED if down < 20 else EndCause.NODE_LOST,
            EndCause.COMPLETED,
        ] == stage.causes(workload)
        assert 1 == stage.row(workload).resume_epoch or stage.row(workload).resume_epoch == 2
        assert stage.row(workload).resume_step >= 10_000

    play(body, SMALL, 7)


@pytest.mark.parametrize("kind", [PrepareTasks, StartTasks, RecordStarted])
def test_cancelled_while_starting(kind: type) -> None:
    """Prepared, half started or running and not recorded: the whole gang stops, and the late word starts nothing."""

    async def body(stage: Stage) -> None:
        late = stage.script.hold(kind)
        workload = await stage.run_to(GRANTED, a_gang(1000))
        await stage.until(lambda: bool(late.messages))
        await stage.cancel(workload)
        await stage.until_recorded("StopOrdered", workload)
        late.let_go()
        await stage.finish()
        assert (Phase.CANCELLED, 1) == ended(stage, workload)
        assert [EndCause.CANCELLED] == stage.causes(workload)

    play(body, SMALL, 7)


@staged(SMALL)
async def test_half_a_gang_cannot_be_started(stage: Stage) -> None:
    """When not all ranks are up in time all stop: the attempt ends as a failed start, which is not the user's retry."""
    stage.script.drop(StartTasks, hearer=W1, where=lambda message: message.epoch == 1)
    workload = await stage.run_to(GRANTED, a_gang(1000))
    await stage.until_recorded("AttemptEnded", workload)
    assert [EndCause.START_FAILED] == stage.causes(workload)
    await stage.until_in(STARTED, workload, 2)
    row = stage.row(workload)
    assert (0, 1) == (row.tasks_failed, row.starts_failed)
    await stage.cancel(workload)


@staged(SMALL)
async def test_stop_overtakes_the_start(stage: Stage) -> None:
    """A worker that heard the stop first is above the word to start, whenever that comes."""
    starts = stage.script.hold(StartTasks, PrepareTasks, hearer=W0)
    workload = await stage.run_to(GRANTED, a_gang(1000))
    await stage.until(lambda: bool(starts.messages))
    await stage.cancel(workload)
    await stage.until_recorded("AttemptEnded", workload)
    starts.let_go()
    await stage.sleep(5)
    assert ("worker.r0.w0", workload, 1) not in stage.watch.started
    await stage.finish()
    assert (Phase.CANCELLED, 1) == ended(stage, workload)


@staged(SMALL)
async def test_end_cannot_be_recorded_for_a_while(stage: Stage) -> None:
    """The end of every share is reported until the log has it, though the broker dies in between and the store too."""
    ends = stage.script.drop(RecordEnd)
    workload = await stage.run_to(STARTED, a_gang(10))
    await stage.until(lambda: ends.dropped > 2)
    await stage.restart("broker.r0")
    await stage.until(lambda: ends.dropped > 5)
    await stage.restart("store.r0")
    ends.end()
    await stage.finish()
    assert (Phase.COMPLETED, 1) == ended(stage, workload)
    assert 1 == stage.events(LOG, workload).count("AttemptEnded")


@staged(SMALL)
async def test_end_recorded_is_lost(stage: Stage) -> None:
    """The worker goes on reporting its end, the log does not grow by it, and in the end it may forget."""
    lost = stage.script.drop(EndRecorded)
    workload = await stage.run_to(STARTED, a_gang(10))
    await stage.until_recorded("AttemptEnded", workload)
    await stage.sleep(200)
    assert lost.dropped > 10
    assert 1 == stage.events(LOG, workload).count("AttemptEnded")
    spool = stage.unit(W0).spool
    assert spool is not None
    assert [(workload, 1)] == [key.attempt for key in spool.shares]
    lost.end()
    await stage.finish()
    assert (Phase.COMPLETED, 1) == ended(stage, workload)


@staged(SMALL)
async def test_stop_order_is_late_by_an_epoch(stage: Stage) -> None:
    """An order to stop names its attempt: arriving in the life of the next one it stops nothing."""
    orders = stage.script.keep(OrderStop, StopTasks, StopAttempt)
    workload = await stage.run_to(STARTED, a_gang(40))
    stage.lose_power(W0)
    await stage.sleep(1)
    await stage.start(W0)
    await stage.until_in(STARTED, workload, 2)
    assert orders.messages
    orders.repeat()
    await stage.finish()
    assert (Phase.COMPLETED, 2) == ended(stage, workload)
    assert [EndCause.NODE_FAILED, EndCause.COMPLETED] == stage.causes(workload)
