"""Capacity promised over victims: granted in the batch that ends the last of them, and withdrawn without harm to anybody
who was not told yet.
"""

import pytest
from msgspec.structs import replace

from core.codec import decode_event
from core.events.region import AttemptEnded, ClaimGranted, ClaimPromised
from core.images.region import AttemptPhase
from core.messages.agents import ClaimAnswered
from core.messages.store import DeclineAward, OrderStop
from core.messages.workers import StopTasks
from core.nouns.ids import WorkloadId, region_log
from core.nouns.operation import ControlSpec
from core.nouns.workload import EndCause, Phase, WorkloadSpec
from store.memory_disk import Fate
from tests.interleavings.stage import ONE_NODE, R0, SMALL, Stage, a_job, ended, play, staged

PROMISED, GRANTED, STARTED = AttemptPhase.PROMISED, AttemptPhase.GRANTED, AttemptPhase.STARTED
LOG = region_log(R0)


async def a_promise(
    stage: Stage, victim_span: float = 1000, span: float = 20
) -> tuple[WorkloadId, WorkloadId]:
    """A low one that runs, and a high one that is promised its node; nobody has been told yet, if that is held."""
    victim = await stage.run_to(STARTED, a_job(victim_span, priority=1, checkpoint_every=5))
    return victim, await stage.run_to(PROMISED, a_job(span, priority=5))


@staged(ONE_NODE)
async def test_promise_is_kept(stage: Stage) -> None:
    """P25: the victim is told to stop, ends as preempted, and its node is granted in the same batch; it runs on
    afterwards.
    """
    victim, workload = await a_promise(stage, victim_span=40)
    await stage.until_in(GRANTED, workload)
    assert [EndCause.PREEMPTED] == stage.causes(victim)
    assert_one_batch(stage, victim, workload)
    await stage.finish()
    assert (Phase.COMPLETED, 1) == ended(stage, workload)
    assert (Phase.COMPLETED, 2) == ended(stage, victim)


def assert_one_batch(stage: Stage, victim: WorkloadId, workload: WorkloadId) -> None:
    """The grant stands beside the end of the victim, with one cause, so that no crash can come between."""
    file = stage.world.store.disk(LOG).file(LOG)
    assert file is not None
    rows = [(row, decode_event(row.event)) for row in file.rows]
    ((end, _),) = [pair for pair in rows if isinstance(pair[1], AttemptEnded) and pair[1].workload == victim][
        :1
    ]
    ((grant, _),) = [
        pair for pair in rows if isinstance(pair[1], ClaimGranted) and pair[1].workload == workload
    ]
    assert end.sequence + 1 == grant.sequence
    assert end.cause == grant.cause


@staged(ONE_NODE)
async def test_victim_ends_by_itself(stage: Stage) -> None:
    """It completes before it was told to stop: its end is its own, and the promise is kept by it all the same."""
    orders = stage.script.hold(OrderStop)
    victim, workload = await a_promise(stage, victim_span=15)
    await stage.until_in(GRANTED, workload)
    assert orders.messages
    assert [EndCause.COMPLETED] == stage.causes(victim)
    assert_one_batch(stage, victim, workload)
    orders.let_go()
    await stage.finish()
    assert (Phase.COMPLETED, 1) == ended(stage, victim)
    assert (Phase.COMPLETED, 1) == ended(stage, workload)


@pytest.mark.parametrize("fate", list(Fate))
def test_store_dies_between_the_end_of_the_victim_and_the_grant(fate: Fate) -> None:
    """There is nothing between them: both are in the log, or neither, and then both come again."""

    async def body(stage: Stage) -> None:
        victim, workload = await a_promise(stage, victim_span=40)
        died = stage.kill_at_sync("store.r0", LOG, AttemptEnded, fate)
        await stage.until(lambda: bool(died))
        assert ("AttemptEnded" in stage.events(LOG, victim)) == (
            "ClaimGranted" in stage.events(LOG, workload)
        )
        await stage.sleep(2)
        await stage.start("store.r0")
        await stage.finish()
        assert_one_batch(stage, victim, workload)
        assert Phase.COMPLETED == stage.row(workload).phase
        assert Phase.COMPLETED == stage.row(victim).phase

    play(body, ONE_NODE, 7)


@pytest.mark.parametrize("fate", list(Fate))
def test_store_dies_between_a_durable_promise_and_its_answer(fate: Fate) -> None:
    """The agent is told again that it is promised; the promise is one, and reserved once."""

    async def body(stage: Stage) -> None:
        victim = await stage.run_to(STARTED, a_job(40, priority=1))
        died = stage.kill_at_sync("store.r0", LOG, ClaimPromised, fate)
        answers = stage.script.keep(ClaimAnswered)
        workload = await stage.submit(a_job(20, priority=5))
        await stage.until(lambda: bool(died))
        assert [] == answers.messages
        await stage.start("store.r0")
        await stage.finish()
        assert 1 == stage.events(LOG, workload).count("ClaimPromised")
        assert (Phase.COMPLETED, 1) == ended(stage, workload)
        assert Phase.COMPLETED == stage.row(victim).phase

    play(body, ONE_NODE, 7)


@staged(ONE_NODE)
async def test_promise_is_withdrawn_before_the_victim_was_told(stage: Stage) -> None:
    """Cancelled while nobody has been told to stop: the victim is spared, and runs to its end in its first attempt."""
    orders = stage.script.hold(OrderStop)
    victim, workload = await a_promise(stage, victim_span=60)
    await stage.until(lambda: bool(orders.messages))
    await stage.cancel(workload)
    await stage.until(lambda: Phase.CANCELLED == stage.row(workload).phase)
    stage.script.drop(OrderStop)
    orders.held.clear()
    await stage.finish()
    assert (Phase.COMPLETED, 1) == ended(stage, victim)
    assert [EndCause.COMPLETED] == stage.causes(victim)


@staged(ONE_NODE)
async def test_order_to_stop_a_victim_is_late_by_the_withdrawal(stage: Stage) -> None:
    """The order was on its way when the promise was withdrawn: the victim is spared all the same."""
    orders = stage.script.hold(OrderStop)
    victim, workload = await a_promise(stage, victim_span=60)
    await stage.until(lambda: bool(orders.messages))
    await stage.cancel(workload)
    await stage.until_recorded("AwardDeclined", workload)
    orders.let_go()
    await stage.finish()
    assert (Phase.COMPLETED, 1) == ended(stage, victim)
    assert [EndCause.COMPLETED] == stage.causes(victim)


@staged(ONE_NODE)
async def test_promise_is_withdrawn_after_the_victim_was_told(stage: Stage) -> None:
    """Too late to be spared, it ends and is placed anew; what it left belongs to nobody."""
    stops = stage.script.hold(StopTasks)
    victim, workload = await a_promise(stage, victim_span=60)
    await stage.until_recorded("StopOrdered", victim)
    await stage.cancel(workload)
    await stage.until_recorded("AwardDeclined", workload)
    stops.let_go()
    await stage.finish()
    assert (Phase.CANCELLED, 1) == ended(stage, workload)
    assert (Phase.COMPLETED, 2) == ended(stage, victim)
    assert [EndCause.PREEMPTED, EndCause.COMPLETED] == stage.causes(victim)


@staged(ONE_NODE)
async def test_decline_of_a_promise_is_late_by_the_grant(stage: Stage) -> None:
    """Promised, then granted, and only then asked back: granted is granted, and the cancel stops it as any attempt."""
    declines = stage.script.hold(DeclineAward)
    victim, workload = await a_promise(stage, victim_span=60, span=1000)
    await stage.cancel(workload)
    await stage.until(lambda: bool(declines.messages))
    await stage.until_in(GRANTED, workload)
    declines.let_go()
    await stage.finish()
    assert (Phase.CANCELLED, 1) == ended(stage, workload)
    assert [EndCause.CANCELLED] == stage.causes(workload)
    assert (Phase.COMPLETED, 2) == ended(stage, victim)


@staged(SMALL)
async def test_node_is_lost_while_promised(stage: Stage) -> None:
    """The promise is broken, given back, and the workload placed elsewhere; its victim there was lost with the node."""
    first = await stage.run_to(STARTED, a_job(300, priority=1))
    second = await stage.run_to(STARTED, a_job(300, priority=1))
    stops = stage.script.hold(StopTasks)
    workload = await stage.run_to(PROMISED, a_job(20, priority=5))
    claim = stage.region().capacity.promise(workload, 1)
    assert claim is not None
    ((victim, _),) = claim.victims
    name = f"worker.r0.{stage.region().capacity.worker_of[claim.spreads[0].nodes[0]]}"
    stage.lose_power(name)
    await stage.until_recorded("NodesLost", WorkloadId(name.rpartition(".")[2]))
    await stage.until_recorded("AwardDeclined", workload)
    stops.let_go()
    await stage.sleep(10)
    await stage.start(name)
    await stage.finish(2000)
    assert Phase.COMPLETED == stage.row(workload).phase
    assert stage.row(workload).epoch >= 2
    for one in (first, second):
        assert Phase.COMPLETED == stage.row(one).phase
    assert victim in (first, second)


@staged(ONE_NODE)
async def test_store_dies_while_promised(stage: Stage) -> None:
    """A promise is a fact: it stands after a restart of the store and of the broker, and is kept."""
    stops = stage.script.hold(StopTasks)
    victim, workload = await a_promise(stage, victim_span=60)
    await stage.until_recorded("StopOrdered", victim)
    await stage.restart("store.r0")
    await stage.restart("broker.r0")
    assert stage.is_in(PROMISED, workload)
    stops.let_go()
    await stage.finish()
    assert (Phase.COMPLETED, 1) == ended(stage, workload)
    assert Phase.COMPLETED == stage.row(victim).phase


@staged(ONE_NODE)
async def test_lower_work_does_not_slip_in(stage: Stage) -> None:
    """While the victim ends its node is reserved: what waits with lower priority does not get it in between."""
    victim, workload = await a_promise(stage, victim_span=60)
    low = [await stage.submit(a_job(20, priority=0)) for _ in range(3)]
    await stage.until_in(STARTED, workload)
    await stage.finish()
    assert (Phase.COMPLETED, 1) == ended(stage, workload)
    grants = [fact.event.workload for fact in stage.facts(LOG) if isinstance(fact.event, ClaimGranted)]
    assert [victim, workload] == grants[:2]
    assert {victim, *low} == set(grants[2:])


@staged(SMALL)
async def test_victim_is_cut_off_before_it_was_told(stage: Stage) -> None:
    """Ordered to stop and then lost with its node, it ends by the log's word, as preempted, though it may still run where
    nobody can reach it; back again it is stopped there. Its next attempt runs meanwhile, as after any lost node.
    """
    stage.has_cut_workers = True
    other = await stage.run_to(STARTED, a_job(25, priority=5))
    stops = stage.script.drop(
        StopTasks, where=lambda message: message.epoch == 1 and message.workload == "w-2"
    )
    victim, workload = await a_promise(stage, victim_span=600, span=1000)
    await stage.until_recorded("StopOrdered", victim)
    (node,) = stage.region().capacity.holdings[victim][1].claim.spreads[0].nodes
    stage.world.network.cut([f"worker.r0.{stage.region().capacity.worker_of[node]}"], ["*"])
    await stage.until_recorded("AttemptEnded", victim)
    assert [EndCause.PREEMPTED] == stage.causes(victim)
    await stage.cancel(workload)
    await stage.until(lambda: bool(stage.watch.overlaps))
    assert Phase.COMPLETED == stage.row(other).phase
    assert stage.attempt(victim) is not None, (
        "remembered yet as preempted, which is not to be mistaken for alive"
    )
    stops.end()
    await stage.finish(2000)
    assert Phase.COMPLETED == stage.row(victim).phase


def a_controlled_job(span: float) -> WorkloadSpec:
    """Of low priority; its controller is nobody who answers."""
    return replace(a_job(span, priority=1, checkpoint_every=5), control=ControlSpec("nobody"))


@staged(ONE_NODE)
async def test_controller_that_says_nothing_has_its_time(stage: Stage) -> None:
    """N4: who is promised its room waits until the deadline, and no longer; then it is told, and is back afterwards."""
    victim = await stage.run_to(STARTED, a_controlled_job(200))
    workload = await stage.run_to(PROMISED, a_job(20, priority=5))
    await stage.until_recorded("OperationsRequested", victim)
    await stage.sleep(50)
    assert "StopOrdered" not in stage.events(LOG, victim)
    await stage.until_in(GRANTED, workload)
    assert_one_batch(stage, victim, workload)
    await stage.finish()
    assert (Phase.COMPLETED, 1) == ended(stage, workload)
    assert (Phase.COMPLETED, 2) == ended(stage, victim)


@staged(ONE_NODE)
async def test_promise_is_withdrawn_while_its_victim_is_asked(stage: Stage) -> None:
    """N4: nobody has told the victim: it runs on to its end, and its controller's operation is over."""
    victim = await stage.run_to(STARTED, a_controlled_job(150))
    workload = await stage.run_to(PROMISED, a_job(20, priority=5))
    await stage.until_recorded("OperationsRequested", victim)
    await stage.cancel(workload)
    await stage.until_recorded("OperationsDone", victim)
    await stage.finish()
    assert (Phase.COMPLETED, 1) == ended(stage, victim)
    assert [EndCause.COMPLETED] == stage.causes(victim)


@staged(ONE_NODE)
async def test_store_and_broker_restart_while_a_victim_is_asked(stage: Stage) -> None:
    """N4: the promise, its deadline and the asked controller are in the log; a lengthened wait is all that comes of it."""
    victim = await stage.run_to(STARTED, a_controlled_job(300))
    workload = await stage.run_to(PROMISED, a_job(20, priority=5))
    await stage.until_recorded("OperationsRequested", victim)
    for name in ("store.r0", "broker.r0", "control.r0"):
        stage.kill(name)
        await stage.sleep(3)
        await stage.start(name)
    await stage.finish()
    assert 1 == stage.events(LOG, victim).count("OperationsRequested")
    assert 1 == stage.events(LOG, workload).count("ClaimPromised")
    assert (Phase.COMPLETED, 1) == ended(stage, workload)
    assert (Phase.COMPLETED, 2) == ended(stage, victim)
