"""Regions that do not answer: what waits for them, who may give them up, and what becomes of what was left there."""

from typing import Any

import pytest

from core.events.queue import AttemptClosed, WorkloadAwarded, WorkloadBound, WorkloadsForgotten
from core.events.region import AttemptEnded, AttemptsForgotten, CheckpointCommitted
from core.events.regions import RegionAbandoned, RegionReadmitted
from core.fact import Event
from core.messages.agents import BidSettled
from core.messages.base import BusBack, BusLost, LogHeard, LogSilent, Refused
from core.messages.queue import CancelWorkload
from core.messages.regions import (
    AbandonRegion,
    ListedRegion,
    ListRegions,
    ReadmitRegion,
    RegionAnswered,
    RegionsListed,
)
from core.nouns.ids import RegionName
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import BLOCKED_INTERVAL, HEAD_SILENCE_MAX, NAME_LENGTH_MAX, RETENTION
from core.nouns.reasons import Reason
from core.nouns.workload import Consent, EndCause, Phase
from tests.builders import EU, EU_LOG, US, a_spec, attempt
from tests.components.support.job_queue import (
    W1,
    Start,
    a_job_queue,
    asked,
    auction_of,
    bid,
    running,
    shown,
    submit,
)
from tests.components.support.machine import Machine
from tests.matching import facts, said_once

WORSE = (0, 0, 0, 9, 9, 9)
PATIENCE = seconds(60)
LITTLE = Nanoseconds(1)


def runs_in_eu(start: Start, **spec: Any) -> Machine[Any]:  # Any: fields of the spec
    """One workload runs in a region, and has saved its third step."""
    queue = a_job_queue(start)
    awarded_to_eu(queue, **spec)
    running(queue)
    queue.fact(EU_LOG, CheckpointCommitted(*attempt(), 3))
    queue.wake()
    return queue


def awarded_to_eu(queue: Machine[Any], **spec: Any) -> None:  # Any: fields of the spec
    """Both regions bid."""
    submit(queue, a_spec(**spec))
    auction = auction_of(queue.wake())
    bid(queue, auction, US, score=WORSE)
    bid(queue, auction, EU)
    queue.hear_due_once()
    assert EU == queue.state.image.workloads.rows[W1].region


def given_up(consent: Consent, *, phase: Phase = Phase.PENDING, sequence: int = 4) -> AttemptClosed:
    """The fact that its first attempt goes on elsewhere."""
    return AttemptClosed(W1, 1, EndCause.ABANDONED, phase, EU, sequence, 1, 3, consent)


def abandon(queue: Machine[Any], revision: int = 0, *, is_forced: bool = False) -> list[Event]:
    """An operator gives a region up."""
    return facts(queue.hear(AbandonRegion(EU, revision, is_forced, "olga")))


def region(queue: Machine[Any], name: RegionName = EU) -> ListedRegion:
    """What is told of it."""
    listed = said_once(queue.hear(ListRegions()), RegionsListed)
    assert [EU, US] == [row.region for row in listed.rows]
    return next(row for row in listed.rows if row.region == name)


# Silence.


def test_silence_frees_nothing(start: Start) -> None:
    """However long it lasts: who did not agree to run twice does not."""
    queue = runs_in_eu(start)
    queue.hear(LogSilent(EU_LOG))
    assert [] == facts(queue.wait(Nanoseconds(RETENTION)))
    assert (Phase.RUNNING, EU) == (shown(queue).phase, shown(queue).region)


def test_workload_that_moves_after_a_while(start: Start) -> None:
    """It goes on from what its region had shown, and is asked for elsewhere; not a moment before."""
    queue = runs_in_eu(start, move_after=PATIENCE)
    queue.hear(LogSilent(EU_LOG))
    assert [] == facts(queue.wait(Nanoseconds(PATIENCE - LITTLE)))
    decision = queue.wait(LITTLE)
    assert [given_up(Consent.WORKLOAD)] == facts(decision)
    assert Phase.PENDING == shown(queue).phase
    bid(queue, auction_of(decision), US)
    (award,) = [event for event in facts(queue.wake()) if isinstance(event, WorkloadAwarded)]
    assert (US, 2, 1, 3) == (award.region, award.epoch, award.resume_epoch, award.resume_step)


def test_award_of_which_nothing_was_heard_moves_too(start: Start) -> None:
    """It may have been granted there."""
    queue = a_job_queue(start)
    awarded_to_eu(queue, move_after=PATIENCE)
    queue.hear(LogSilent(EU_LOG))
    closed = AttemptClosed(W1, 1, EndCause.ABANDONED, Phase.PENDING, EU, 0, consent=Consent.WORKLOAD)
    assert [closed] == facts(queue.wait(PATIENCE))


def test_region_that_answers_in_time(start: Start) -> None:
    """Silence is counted anew each time."""
    queue = runs_in_eu(start, move_after=PATIENCE)
    for _ in range(3):
        queue.hear(LogSilent(EU_LOG))
        assert [] == facts(queue.wait(Nanoseconds(PATIENCE - LITTLE)))
        queue.hear(LogHeard(EU_LOG))
        assert [] == facts(queue.wait(PATIENCE))


def test_queue_without_a_bus_counts_no_regions_silence(start: Start) -> None:
    """It counts from the bus's return, whether the silence was told before or after."""
    queue = runs_in_eu(start, move_after=PATIENCE)
    queue.hear(LogSilent(EU_LOG))
    queue.hear(BusLost())
    assert [] == facts(queue.wait(Nanoseconds(2 * PATIENCE)))
    queue.hear(LogSilent(EU_LOG))
    assert [] == facts(queue.wait(Nanoseconds(2 * PATIENCE)))
    queue.hear(BusBack())
    assert [] == facts(queue.wait(Nanoseconds(PATIENCE - LITTLE)))
    assert [given_up(Consent.WORKLOAD)] == facts(queue.wait(LITTLE))


def test_restart_lengthens_patience_and_never_shortens_it(start: Start) -> None:
    """A queue that starts while the region is silent counts from its start."""
    queue = runs_in_eu(start, move_after=PATIENCE)
    queue.hear(LogSilent(EU_LOG))
    queue.wait(Nanoseconds(PATIENCE - LITTLE))
    queue = queue.restart()
    queue.hear(LogSilent(EU_LOG))
    assert [] == facts(queue.wait(Nanoseconds(PATIENCE - LITTLE)))
    assert [given_up(Consent.WORKLOAD)] == facts(queue.wait(LITTLE))


def test_end_that_the_log_shows_counts(start: Start) -> None:
    """What is known of it is more than that it is agreed to know nothing."""
    queue = runs_in_eu(start)
    queue.hear(LogSilent(EU_LOG))
    queue.hear(AbandonRegion(EU, 0))
    queue.fact(EU_LOG, AttemptEnded(*attempt(), EndCause.COMPLETED))
    (closed,) = facts(queue.wake())
    assert isinstance(closed, AttemptClosed)
    assert (EndCause.COMPLETED, Phase.COMPLETED) == (closed.cause, closed.phase)


# Operators.


def test_abandoned_region_is_not_asked(start: Start) -> None:
    """Its workloads go on elsewhere, whatever the region says of itself, and no request is sent to it any more."""
    queue = runs_in_eu(start)
    queue.hear(LogSilent(EU_LOG))
    queue.wake()
    assert [] == facts(queue.wait(seconds(100)))
    assert [RegionAbandoned(EU, 1, "olga")] == abandon(queue)
    assert [given_up(Consent.OPERATOR)] == facts(queue.hear_due_once())
    opened = queue.wake()
    assert [(W1, US)] == asked(opened)
    bid(queue, auction_of(opened), US)
    queue.wake()
    queue.hear(LogHeard(EU_LOG))
    submit(queue)
    assert {US} == {name for _, name in asked(queue.wake())}


def test_region_that_answers_is_not_given_up_by_mistake(start: Start) -> None:
    """It can be emptied without anything running twice; who insists may."""
    queue = runs_in_eu(start)
    answer = queue.hear(AbandonRegion(EU, 0))
    assert [] == facts(answer)
    assert Reason.REGION_ANSWERS == said_once(answer, Refused).reason
    assert [RegionAbandoned(EU, 1, "olga")] == abandon(queue, is_forced=True)


def test_queue_that_has_just_started_has_not_listened_yet(start: Start) -> None:
    """A region of which it knows nothing may answer in a moment."""
    queue = runs_in_eu(start)
    queue = Machine(queue.component, at=queue.now, unknown=(EU_LOG,), logs=queue.logs, crew=queue.crew)
    assert Reason.REGION_ANSWERS == said_once(queue.hear(AbandonRegion(EU, 0)), Refused).reason
    queue.wait(HEAD_SILENCE_MAX)
    assert [RegionAbandoned(EU, 1, "olga")] == abandon(queue)


def test_readmitted_region_is_asked_again(start: Start) -> None:
    """Attempts that were left behind there are counted until its log shows their end."""
    queue = runs_in_eu(start)
    queue.hear(LogSilent(EU_LOG))
    abandon(queue)
    bid(queue, auction_of(queue.wake()), US)
    queue.wake()
    row = region(queue)
    assert (True, 1, 4, 0, 1) == (row.is_abandoned, row.revision, row.nodes, row.awards, row.left_behind)
    readmitted = queue.hear(ReadmitRegion(EU, 1, "olga"))
    assert [RegionReadmitted(EU, 2, "olga")] == facts(readmitted)
    assert RegionAnswered(EU, 2) == said_once(readmitted, RegionAnswered)
    assert not region(queue).is_abandoned
    queue.hear(LogHeard(EU_LOG))
    submit(queue)
    assert {EU, US} == {name for _, name in asked(queue.wake())}
    assert (-1, 1) == (region(queue).silent_for, region(queue).left_behind)
    queue.fact(EU_LOG, AttemptEnded(*attempt(), EndCause.ABANDONED))
    assert 0 == region(queue).left_behind
    assert region(queue) == region(queue.restart())


def test_repeat_changes_nothing_and_an_old_word_is_refused(start: Start) -> None:
    """Also one by which a region would be given up again that is back."""
    queue = a_job_queue(start)
    queue.hear(LogSilent(EU_LOG))
    word = AbandonRegion(EU, 0)
    assert 1 == len(facts(queue.hear(word)))
    again = queue.hear(word)
    assert ([], RegionAnswered(EU, 1)) == (facts(again), said_once(again, RegionAnswered))
    queue.hear(ReadmitRegion(EU, 1))
    late = queue.hear(word)
    refusal = said_once(late, Refused)
    assert [] == facts(late)
    assert (Reason.SUPERSEDED, ("revision: it is 2 now",)) == (refusal.reason, refusal.problems)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        pytest.param(AbandonRegion(RegionName("mars"), 0), Reason.UNKNOWN_REGION, id="abandon"),
        pytest.param(ReadmitRegion(RegionName("mars"), 0), Reason.UNKNOWN_REGION, id="readmit"),
        pytest.param(AbandonRegion(EU, 0, by="x" * (NAME_LENGTH_MAX + 1)), Reason.INVALID, id="by"),
    ],
)
def test_invalid_request_about_a_region_is_refused(
    start: Start, message: AbandonRegion | ReadmitRegion, reason: Reason
) -> None:
    """Nothing is recorded."""
    decision = a_job_queue(start).hear(message)
    assert ([], reason) == (facts(decision), said_once(decision, Refused).reason)


# Bad input.


def test_bid_of_a_region_that_was_given_up(start: Start) -> None:
    """It is told why it cannot win, whether it comes before or after; another has it."""
    queue = a_job_queue(start)
    submit(queue)
    auction = auction_of(queue.wake())
    bid(queue, auction, EU)
    abandon(queue, is_forced=True)
    late = said_once(bid(queue, auction, EU), BidSettled)
    assert (False, Reason.REGION_ABANDONED) == (late.has_won, late.reason)
    bid(queue, auction, US, score=WORSE)
    decision = queue.hear_due_once()
    told = {one.region: one for one in decision.messages if isinstance(one, BidSettled)}
    assert (False, Reason.REGION_ABANDONED) == (told[EU].has_won, told[EU].reason)
    assert US == queue.state.image.workloads.rows[W1].region


def test_workload_that_may_run_nowhere_else(start: Start) -> None:
    """It waits, and is told why."""
    queue = a_job_queue(start)
    abandon(queue, is_forced=True)
    submit(queue, a_spec(regions=[EU]))
    assert [] == asked(queue.wake())
    assert Reason.REGION_ABANDONED == shown(queue).reason


# What is left behind.


def test_cancelled_work_of_a_lost_region_ends(start: Start) -> None:
    """Nobody has to wait for a region that is given up."""
    queue = runs_in_eu(start)
    queue.hear(LogSilent(EU_LOG))
    queue.hear(CancelWorkload(W1))
    abandon(queue)
    assert [given_up(Consent.OPERATOR, phase=Phase.CANCELLED)] == facts(queue.wake())


def test_word_of_an_attempt_that_was_given_up_changes_nothing(start: Start) -> None:
    """Neither that it was up, nor what it saved since, nor its end: the newest attempt alone counts."""
    queue = runs_in_eu(start)
    queue.hear(LogSilent(EU_LOG))
    abandon(queue)
    queue.hear_due_once()
    bid(queue, auction_of(queue.wake()), US)
    queue.wake()
    queue.hear(LogHeard(EU_LOG))
    queue.fact(EU_LOG, CheckpointCommitted(*attempt(), 9), AttemptEnded(*attempt(), EndCause.COMPLETED))
    assert [] == [event for event in facts(queue.wake()) if isinstance(event, AttemptClosed | WorkloadBound)]
    row = queue.state.image.workloads.rows[W1]
    assert (US, 2, Phase.AWARDED, 3) == (row.region, row.epoch, row.phase, row.resume_step)


def test_workload_is_remembered_while_something_of_it_may_run(start: Start) -> None:
    """Its region's store must find that it was given up, whenever it is back."""
    queue = runs_in_eu(start)
    queue.hear(LogSilent(EU_LOG))
    queue.hear(CancelWorkload(W1))
    abandon(queue)
    queue.wake()
    assert [] == facts(queue.wait(Nanoseconds(2 * RETENTION)))
    queue.hear(LogHeard(EU_LOG))
    queue.fact(EU_LOG, AttemptEnded(*attempt(), EndCause.ABANDONED), AttemptsForgotten((attempt(),), 9))
    assert [WorkloadsForgotten((W1,))] == facts(queue.wait(BLOCKED_INTERVAL))
