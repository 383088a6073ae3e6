"""From the award to the grant: whatever is late, lost, repeated or crashes between queue, agents and store, one attempt
comes of one award.
"""

import pytest
from msgspec.structs import replace

from core.codec import decode_event
from core.events.queue import WorkloadAwarded
from core.events.region import ClaimGranted
from core.fact import Event
from core.images.region import AttemptPhase
from core.messages.agents import ClaimAnswered, PlaceAward
from core.messages.broker import ExecuteAward, WithdrawAward
from core.messages.logs import FactsTold, HeadTold, LogPage
from core.messages.store import DeclineAward, SubmitClaim
from core.nouns.ids import GLOBAL_LOG, AgentName, ClaimId, region_log
from core.nouns.instant import SECOND
from core.nouns.limits import FORGET_INTERVAL, HEAD_SILENCE_MAX
from core.nouns.workload import EndCause, Phase
from store.memory_disk import Fate
from tests.interleavings.script import Where
from tests.interleavings.stage import R0, SMALL, Stage, a_job, ended, play, staged

GRANTED, STARTED = AttemptPhase.GRANTED, AttemptPhase.STARTED
LOG = region_log(R0)


def tells(event: type[Event]) -> Where:
    """Whether an announcement holds such an event."""
    return lambda told: any(isinstance(decode_event(fact.event), event) for fact in told.facts)


@staged(SMALL)
async def test_queue_dies_when_it_is_about_to_hear_of_the_grant(stage: Stage) -> None:
    """Started again it finds the award standing and the grant in the region's log: the same attempt goes on."""
    died = stage.script.at(lambda: stage.kill("queue"), FactsTold, hearer="queue", where=tells(ClaimGranted))
    workload = await stage.submit(a_job())
    await stage.until(lambda: died.has_happened)
    await stage.sleep(3)
    await stage.start("queue")
    await stage.finish()
    assert (Phase.COMPLETED, 1) == ended(stage, workload)
    assert 1 == stage.events(LOG, workload).count("ClaimGranted")


@pytest.mark.parametrize("fate", list(Fate))
def test_queue_dies_between_a_durable_award_and_telling_it(fate: Fate) -> None:
    """M26: durable, it is said after the restart, under its epoch; lost, nobody heard of it, and the epoch is free."""

    async def body(stage: Stage) -> None:
        died = stage.kill_at_sync("queue", GLOBAL_LOG, WorkloadAwarded, fate)
        said = stage.script.keep(ExecuteAward)
        workload = await stage.submit(a_job())
        await stage.until(lambda: bool(died))
        assert [] == said.messages
        assert (fate == Fate.KEPT) == ("WorkloadAwarded" in stage.events(GLOBAL_LOG, workload))
        await stage.sleep(3)
        await stage.start("queue")
        await stage.finish()
        assert (Phase.COMPLETED, 1) == ended(stage, workload)
        assert 1 == stage.events(GLOBAL_LOG, workload).count("WorkloadAwarded")

    play(body, SMALL, 7)


@pytest.mark.parametrize("fate", list(Fate))
def test_store_dies_between_a_durable_grant_and_its_answer(fate: Fate) -> None:
    """M26, L6: the agent says its claim again: it is answered with the grant that stands, or judged as if for the first
    time.
    """

    async def body(stage: Stage) -> None:
        died = stage.kill_at_sync("store.r0", LOG, ClaimGranted, fate)
        answers = stage.script.keep(ClaimAnswered)
        workload = await stage.submit(a_job())
        await stage.until(lambda: bool(died))
        assert [] == answers.messages
        await stage.sleep(3)
        await stage.start("store.r0")
        await stage.finish()
        assert (Phase.COMPLETED, 1) == ended(stage, workload)
        assert 1 == stage.events(LOG, workload).count("ClaimGranted")
        assert {"granted"} >= {answer.verdict for answer in answers.messages}

    play(body, SMALL, 7)


@staged(SMALL)
async def test_claim_is_repeated_under_another_id(stage: Stage) -> None:
    """L5: one grant for each award: whoever claims again, under whatever id and for whatever nodes, gets the same
    answer, and after the end a no.
    """
    claims = stage.script.keep(SubmitClaim, where=lambda message: message.claim.claim != "other")
    answers = stage.script.keep(ClaimAnswered, where=lambda answer: answer.claim == "other")
    workload = await stage.run_to(GRANTED, a_job(30))
    claim = claims.messages[0].claim
    elsewhere = tuple(replace(spread, nodes=(1 - spread.nodes[0],)) for spread in claim.spreads)
    other = SubmitClaim(R0, replace(claim, claim=ClaimId("other"), spreads=elsewhere))
    stage.user.say(other)
    await stage.until_in(STARTED, workload)
    stage.user.say(other)
    await stage.until_recorded("AttemptEnded", workload)
    stage.user.say(other)
    await stage.until(lambda: 3 == len(answers.messages))
    await stage.sleep(3 * FORGET_INTERVAL / SECOND)
    assert stage.attempt(workload) is None, (
        "forgotten, because the queue's log shows that nothing can come of it"
    )
    stage.user.say(other)
    claims.repeat()
    await stage.until(lambda: 4 == len(answers.messages))
    assert ["granted", "granted", "refused", "refused"] == [answer.verdict for answer in answers.messages]
    assert 1 == stage.events(LOG, workload).count("ClaimGranted")
    assert (Phase.COMPLETED, 1) == ended(stage, workload)


@staged(SMALL)
async def test_claim_arrives_before_the_store_has_read_the_award(stage: Stage) -> None:
    """It waits until the store has read so far, and is granted then: never refused for an award that stands."""
    answers = stage.script.keep(ClaimAnswered)
    claims = stage.script.keep(SubmitClaim)
    unread = stage.script.hold(FactsTold, HeadTold, sender="queue", hearer="store.r0")
    unread_too = stage.script.hold(LogPage, hearer="store.r0")
    workload = await stage.submit(a_job())
    await stage.until(lambda: bool(claims.messages))
    await stage.sleep(0.5)
    assert [] == answers.messages
    assert stage.attempt(workload) is None
    unread.let_go()
    unread_too.let_go()
    await stage.until_in(GRANTED, workload)
    assert 1 == len(claims.messages)
    await stage.until(lambda: bool(answers.messages))
    await stage.finish()
    assert ["granted"] == [answer.verdict for answer in answers.messages]
    assert (Phase.COMPLETED, 1) == ended(stage, workload)


@staged(SMALL)
async def test_store_is_long_in_reading_the_award(stage: Stage) -> None:
    """Longer than a claim waits there, the agent says it again: still it is neither refused nor declined."""
    answers = stage.script.keep(ClaimAnswered)
    unread = stage.script.hold(FactsTold, HeadTold, sender="queue", hearer="store.r0")
    unread_too = stage.script.hold(LogPage, hearer="store.r0")
    workload = await stage.submit(a_job())
    await stage.sleep(3 * HEAD_SILENCE_MAX / SECOND)
    assert [] == answers.messages
    unread.let_go()
    unread_too.let_go()
    await stage.until_in(GRANTED, workload)
    await stage.finish()
    assert (Phase.COMPLETED, 1) == ended(stage, workload)
    assert "AwardDeclined" not in stage.events(LOG, workload)


@staged(SMALL)
async def test_store_that_starts_again_judges_no_claim_on_an_old_view(stage: Stage) -> None:
    """Restarted while the queue's log cannot be had, it knows no awards: the claim waits, and is granted in the end."""
    claims = stage.script.hold(SubmitClaim)
    workload = await stage.submit(a_job())
    await stage.until(lambda: bool(claims.messages))
    cut = stage.world.network.cut(["queue", "reader.global"], ["store.r0"])
    await stage.restart("store.r0")
    answers = stage.script.keep(ClaimAnswered)
    claims.let_go()
    await stage.sleep(4)
    assert [] == answers.messages
    stage.world.network.heal(cut)
    await stage.until_in(GRANTED, workload)
    await stage.finish()
    assert (Phase.COMPLETED, 1) == ended(stage, workload)


@staged(SMALL)
async def test_decline_comes_before_the_claim(stage: Stage) -> None:
    """The claim was long on its way, the queue asked for its award back: declined stays declined, and the next epoch runs."""
    answers = stage.script.keep(ClaimAnswered)
    claims = stage.script.hold(SubmitClaim, where=lambda message: message.claim.epoch == 1)
    workload = await stage.submit(a_job())
    await stage.until_recorded("AwardDeclined", workload)
    claims.let_go()
    await stage.until_in(GRANTED, workload, 2)
    claims.let_go()
    await stage.finish()
    assert (Phase.COMPLETED, 2) == ended(stage, workload)
    assert 1 == stage.events(LOG, workload).count("ClaimGranted")
    assert {"refused"} == {answer.verdict for answer in answers.messages if answer.epoch == 1}


@staged(SMALL)
async def test_claim_comes_before_the_decline(stage: Stage) -> None:
    """Granted is granted: a decline that was overtaken changes nothing."""
    claims = stage.script.hold(SubmitClaim)
    declines = stage.script.hold(DeclineAward)
    workload = await stage.submit(a_job())
    await stage.until(lambda: bool(declines.messages))
    claims.let_go()
    await stage.until_in(GRANTED, workload)
    declines.let_go()
    await stage.finish()
    assert (Phase.COMPLETED, 1) == ended(stage, workload)
    assert "AwardDeclined" not in stage.events(LOG, workload)


@pytest.mark.parametrize("has_broker_read", [True, False])
def test_withdrawal_is_late_and_finds_the_grant(has_broker_read: bool) -> None:
    """Asked for its award back after the grant, the region keeps it: be it the broker that sees the grant, or the store."""

    async def body(stage: Stage) -> None:
        claims = stage.script.hold(SubmitClaim)
        withdrawals = stage.script.hold(WithdrawAward)
        declines = stage.script.keep(DeclineAward)
        workload = await stage.submit(a_job(60))
        await stage.until(lambda: bool(withdrawals.messages))
        unread = (
            [] if has_broker_read else [stage.script.hold(FactsTold, HeadTold, LogPage, hearer="broker.r0")]
        )
        claims.let_go()
        await stage.until_in(GRANTED, workload)
        await stage.sleep(0.1)
        withdrawals.let_go()
        await stage.sleep(0.1)
        assert has_broker_read == (declines.messages == [])
        for hold in unread:
            hold.let_go()
        await stage.until_in(STARTED, workload)
        for _ in range(3):
            withdrawals.let_go()
            declines.repeat()
            await stage.sleep(1)
        await stage.finish()
        assert (Phase.COMPLETED, 1) == ended(stage, workload)
        assert ["WorkloadSubmitted", "WorkloadAwarded", "WorkloadBound", "AttemptClosed"] == stage.events(
            GLOBAL_LOG, workload
        )

    play(body, SMALL, 7)


@staged(SMALL)
async def test_withdrawal_of_an_older_epoch_is_late(stage: Stage) -> None:
    """What was meant for the first award does nothing to the second, neither while the first decline is remembered nor
    when it is long forgotten.
    """
    claims = stage.script.hold(SubmitClaim, where=lambda message: message.claim.epoch == 1)
    withdrawals = stage.script.keep(WithdrawAward, where=lambda message: message.epoch == 1)
    declines = stage.script.keep(DeclineAward, where=lambda message: message.epoch == 1)
    workload = await stage.submit(a_job(300))
    await stage.until_recorded("AwardDeclined", workload)
    assert withdrawals.messages
    second = stage.script.hold(SubmitClaim, where=lambda message: message.claim.epoch == 2)
    await stage.until(lambda: bool(second.messages))
    withdrawals.repeat()
    declines.repeat()
    await stage.sleep(1)
    second.let_go()
    await stage.until_in(STARTED, workload, 2)
    withdrawals.repeat()
    declines.repeat()
    claims.let_go()
    await stage.until(lambda: stage.attempt(workload, 1) is None)
    withdrawals.repeat()
    declines.repeat()
    claims.let_go()
    await stage.sleep(5)
    assert stage.attempt(workload, 1) is None
    assert stage.is_in(STARTED, workload, 2)
    await stage.finish()
    assert (Phase.COMPLETED, 2) == ended(stage, workload)
    assert 1 == stage.events(LOG, workload).count("AwardDeclined")


@staged(SMALL)
async def test_two_agents_are_handed_the_same_award(stage: Stage) -> None:
    """Each claims it under an id of its own, on nodes of its own choice: one is granted, and both are told so."""
    answers = stage.script.keep(ClaimAnswered)
    handed = stage.script.keep(PlaceAward)
    claims = stage.script.hold(SubmitClaim)
    workload = await stage.submit(a_job())
    await stage.until(lambda: bool(handed.messages))
    first = handed.messages[0]
    other = AgentName("a1" if first.agent == "a0" else "a0")
    stage.user.say(replace(first, agent=other, award=replace(first.award, spreads=())))
    await stage.until(lambda: 2 == len({message.claim.agent for message in claims.messages}))
    claims.let_go()
    await stage.until(lambda: 2 == len({answer.agent for answer in answers.messages}))
    assert {"granted"} == {answer.verdict for answer in answers.messages}
    await stage.finish()
    assert (Phase.COMPLETED, 1) == ended(stage, workload)
    assert 1 == stage.events(LOG, workload).count("ClaimGranted")


@staged(SMALL)
async def test_agent_dies_with_its_claim(stage: Stage) -> None:
    """P2: the claim is still on its way, its agent gone: granted or said anew by another, it is one attempt."""
    claims = stage.script.hold(SubmitClaim)
    workload = await stage.submit(a_job())
    await stage.until(lambda: bool(claims.messages))
    stage.kill(f"agent.r0.{claims.messages[0].claim.agent}")
    await stage.until(lambda: 2 == len({message.claim.agent for message in claims.messages}), 60)
    claims.let_go()
    await stage.finish()
    assert Phase.COMPLETED == stage.row(workload).phase
    assert 1 == stage.events(LOG, workload).count("ClaimGranted")


@staged(SMALL)
async def test_cancelled_while_awarded(stage: Stage) -> None:
    """The award is asked back, and ends when the region's log shows the decline; the claim that comes then is refused."""
    claims = stage.script.hold(SubmitClaim)
    workload = await stage.submit(a_job())
    await stage.until(lambda: bool(claims.messages))
    await stage.cancel(workload)
    assert Phase.AWARDED == stage.row(workload).phase
    await stage.until(lambda: Phase.CANCELLED == stage.row(workload).phase, 5)
    assert ["AwardDeclined"] == stage.events(LOG, workload)
    claims.let_go()
    await stage.finish()
    assert (Phase.CANCELLED, 1) == ended(stage, workload)
    assert "ClaimGranted" not in stage.events(LOG, workload)


@staged(SMALL)
async def test_cancelled_while_the_claim_overtakes_the_decline(stage: Stage) -> None:
    """Granted in spite of the cancel, it is stopped, and ends cancelled: nothing of it is left."""
    claims = stage.script.hold(SubmitClaim)
    declines = stage.script.hold(DeclineAward)
    workload = await stage.submit(a_job(1000))
    await stage.until(lambda: bool(claims.messages))
    await stage.cancel(workload)
    await stage.until(lambda: bool(declines.messages))
    claims.let_go()
    await stage.until_in(GRANTED, workload)
    declines.let_go()
    await stage.finish()
    assert (Phase.CANCELLED, 1) == ended(stage, workload)
    assert [EndCause.CANCELLED] == stage.causes(workload)


@staged(SMALL)
async def test_award_is_lost_until_the_queue_has_said_it_often(stage: Stage) -> None:
    """Silence never frees an award: said again it is heard in the end, and no other epoch was needed."""
    lost = stage.script.drop(ExecuteAward, count=5)
    workload = await stage.submit(a_job())
    await stage.until(lambda: 5 == lost.dropped)
    await stage.finish()
    assert (Phase.COMPLETED, 1) == ended(stage, workload)
