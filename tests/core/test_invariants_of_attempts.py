"""What the queue records of attempts: that it follows from how they ended, from what their user wants, and from what was
saved; each check finds exactly what was broken on purpose.
"""

import pytest
from msgspec.structs import replace

from core.events.queue import (
    AttemptClosed,
    CancelRequested,
    RankedBid,
    RegionAdded,
    WorkloadAwarded,
    WorkloadHeld,
    WorkloadReleased,
)
from core.events.region import AttemptEnded, CheckpointCommitted
from core.fact import Event
from core.images import GlobalImage, RegionImage
from core.invariants.consistency import check_global_fact, check_region_fact
from core.nouns.ids import GLOBAL_LOG, RegionName, WorkloadId
from core.nouns.workload import EndCause, Phase, RetryLimits
from tests.builders import (
    EU,
    EU_LOG,
    US,
    a_claim,
    a_fact,
    a_queue,
    a_region,
    a_spec,
    attempt,
    granted,
    joined,
    submitted,
)

W1 = WorkloadId("w-1")
CLAIM = a_claim("w-1", award_sequence=3)
HELD = granted(CLAIM)
ENDED = AttemptEnded(*attempt("w-1"), EndCause.PREEMPTED)
CLOSED = AttemptClosed(W1, 1, EndCause.PREEMPTED, Phase.PENDING, EU, 7)
COMPLETED = AttemptClosed(W1, 1, EndCause.COMPLETED, Phase.COMPLETED, EU, 7)


def standing(epoch: int = 1) -> WorkloadAwarded:
    """Its award."""
    return WorkloadAwarded(W1, epoch, EU, 0, ())


def told(event: Event, *history: Event, regions: dict[RegionName, RegionImage] | None = None) -> list[str]:
    """What a fact of the queue breaks after these."""
    before = a_queue(RegionAdded(EU), RegionAdded(US), submitted(1), *history)
    return check_global_fact(a_fact(event, 9, log=GLOBAL_LOG), before, regions or {})


def happened(event: Event, *history: Event, queue: GlobalImage | None = None) -> list[str]:
    """What a fact of a region breaks after these."""
    found = check_region_fact(EU, a_fact(event, 9, log=EU_LOG), a_region(joined(), *history), queue)
    return [text for _, text in found]


def test_award_of_a_held_or_cancelled_workload() -> None:
    """No workload starts that is held, or that is to be cancelled; once it is released it may."""
    hold, release = WorkloadHeld(W1, 1), WorkloadReleased(W1, 2)
    assert ["w-1: awarded while it is held"] == told(standing(), hold)
    assert [] == told(standing(), hold, release)
    assert ["w-1: awarded while it is to be cancelled"] == told(standing(), CancelRequested(W1))


def test_award_that_passes_over_the_best_bid() -> None:
    """The lowest score has it, and of two alike the first region by its name; an award by hand names no bids."""
    better, worse = RankedBid(US, (0, 1)), RankedBid(EU, (0, 2))
    assert [] == told(WorkloadAwarded(W1, 1, US, 0, (better, worse)))
    assert ["w-1: awarded to eu, which did not make the best bid"] == told(
        WorkloadAwarded(W1, 1, EU, 0, (better, worse))
    )
    alike = (RankedBid(EU, (0, 1)), better)
    assert [] == told(WorkloadAwarded(W1, 1, EU, 0, alike))
    assert 1 == len(told(WorkloadAwarded(W1, 1, US, 0, alike)))


SAVED = AttemptClosed(W1, 1, EndCause.PREEMPTED, Phase.PENDING, EU, 7, 1, 400)


def test_award_away_from_home() -> None:
    """Whom a bid pushes out counts first, then how much of the data is at home elsewhere, then all else."""
    home = RankedBid(US, (0, 0, 0, 4, 4, 900))
    away = RankedBid(EU, (0, 0, 0, 1, 1, 0), 1)
    over_others = RankedBid(US, (1, 1, 50, 1, 1, 0))
    assert [] == told(WorkloadAwarded(W1, 1, US, 0, (home, away)))
    assert ["w-1: awarded to eu, which did not make the best bid"] == told(
        WorkloadAwarded(W1, 1, EU, 0, (home, away))
    )
    assert [] == told(WorkloadAwarded(W1, 1, EU, 0, (away, over_others)))


def test_award_that_resumes_another_checkpoint() -> None:
    """The newest, or nothing where there is none."""
    assert [] == told(WorkloadAwarded(W1, 2, EU, 0, (), 1, 400), standing(), SAVED)
    assert ["w-1: awarded to resume nothing, and the newest is step 400 of epoch 1"] == told(
        standing(2), standing(), SAVED
    )
    assert ["w-1: awarded to resume step 9 of epoch 1, and the newest is nothing"] == told(
        WorkloadAwarded(W1, 1, EU, 0, (), 1, 9)
    )


def closed_by(cause: EndCause, phase: Phase, epoch: int = 1) -> AttemptClosed:
    """The queue's word on an attempt's end."""
    return AttemptClosed(W1, epoch, cause, phase, EU, 7)


def told_of_end(event: Event, *history: Event, retries: int = 0) -> list[str]:
    """What the queue's word breaks on a workload whose user allows so many retries."""
    spec = a_spec(retry=RetryLimits(task_failed=retries, start_failed=retries))
    before = a_queue(RegionAdded(EU), submitted(1, spec), standing(), *history)
    return check_global_fact(a_fact(event, 9, log=GLOBAL_LOG), before, {})


@pytest.mark.parametrize(
    ("cause", "phase"),
    [
        (EndCause.COMPLETED, Phase.COMPLETED),
        (EndCause.TASK_FAILED, Phase.FAILED),
        (EndCause.START_FAILED, Phase.FAILED),
        (EndCause.TIMEOUT, Phase.TIMEOUT),
        (EndCause.NODE_LOST, Phase.PENDING),
        (EndCause.PREEMPTED, Phase.PENDING),
        (EndCause.REQUEUED, Phase.PENDING),
    ],
)
@pytest.mark.parametrize(
    "said", [Phase.PENDING, Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED, Phase.TIMEOUT]
)
def test_phase_of_a_workload_follows_from_the_end_of_its_attempt(
    cause: EndCause, phase: Phase, said: Phase
) -> None:
    """No user's retries are used up by faults of others, and nothing has completed that did not."""
    text = f"w-1: AttemptClosed of epoch 1 by {cause} makes it {said}, and it should be {phase}"
    assert ([] if said == phase else [text]) == told_of_end(closed_by(cause, said))


@pytest.mark.parametrize("cause", [EndCause.TASK_FAILED, EndCause.START_FAILED])
def test_failure_is_final_exactly_when_retries_are_used_up(cause: EndCause) -> None:
    """One retry: the first failure is not the end, and the second is."""
    assert [] == told_of_end(closed_by(cause, Phase.PENDING), retries=1)
    text = f"w-1: AttemptClosed of epoch 1 by {cause} makes it FAILED, and it should be PENDING"
    assert [text] == told_of_end(closed_by(cause, Phase.FAILED), retries=1)
    failed_once = (closed_by(cause, Phase.PENDING), standing(2))
    assert [] == told_of_end(closed_by(cause, Phase.FAILED, 2), *failed_once, retries=1)
    text = f"w-1: AttemptClosed of epoch 2 by {cause} makes it PENDING, and it should be FAILED"
    assert [text] == told_of_end(closed_by(cause, Phase.PENDING, 2), *failed_once, retries=1)


@pytest.mark.parametrize("cause", [EndCause.CANCELLED, EndCause.NODE_LOST, EndCause.TASK_FAILED])
def test_only_a_workload_that_was_to_be_cancelled_is_cancelled(cause: EndCause) -> None:
    """Whatever its attempt ended of, unless it had completed."""
    wanted = CancelRequested(W1)
    assert [] == told_of_end(closed_by(cause, Phase.CANCELLED), wanted)
    assert [] == told_of_end(closed_by(EndCause.COMPLETED, Phase.COMPLETED), wanted)
    assert 1 == len(told_of_end(closed_by(cause, Phase.PENDING), wanted))
    assert 1 == len(told_of_end(closed_by(cause, Phase.CANCELLED)))


def test_end_by_another_cause_than_the_region_shows() -> None:
    """What the queue records is what happened."""
    failed = AttemptEnded(*attempt("w-1"), EndCause.TASK_FAILED, 1)
    text = "w-1: AttemptClosed of epoch 1 says completed, and eu shows task_failed"
    assert [text] == told(COMPLETED, standing(), regions={EU: a_region(joined(), HELD, failed)})


def test_end_that_forgets_a_checkpoint() -> None:
    """The newest that the region committed, or the one from which the attempt began."""
    saves = [
        HELD,
        CheckpointCommitted(*attempt("w-1"), 200),
        CheckpointCommitted(*attempt("w-1"), 400),
        ENDED,
    ]
    regions = {EU: a_region(joined(), *saves)}
    text = "w-1: AttemptClosed of epoch 1 keeps {}, and the newest is step 400 of epoch 1"
    assert [] == told(SAVED, standing(), regions=regions)
    assert [text.format("nothing")] == told(CLOSED, standing(), regions=regions)
    older = AttemptClosed(W1, 1, EndCause.PREEMPTED, Phase.PENDING, EU, 7, 1, 200)
    assert [text.format("step 200 of epoch 1")] == told(older, standing(), regions=regions)


def test_end_without_a_checkpoint_keeps_the_one_before() -> None:
    """An attempt that saved nothing takes nothing away."""
    ended = AttemptEnded(*attempt("w-1", 2), EndCause.NODE_LOST)
    regions = {EU: a_region(joined(), granted(a_claim("w-1", 2)), ended)}
    history = (standing(), SAVED, WorkloadAwarded(W1, 2, EU, 0, (), 1, 400))
    kept = AttemptClosed(W1, 2, EndCause.NODE_LOST, Phase.PENDING, EU, 7, 1, 400)
    assert [] == told(kept, *history, regions=regions)
    text = "w-1: AttemptClosed of epoch 2 keeps nothing, and the newest is step 400 of epoch 1"
    assert [text] == told(replace(kept, saved_epoch=0, saved_step=0), *history, regions=regions)


def test_grant_that_resumes_another_checkpoint_than_its_award() -> None:
    """What is done is not done again, and what was not saved is not taken for done."""
    resumes = a_queue(
        RegionAdded(EU), submitted(1), standing(), SAVED, WorkloadAwarded(W1, 2, EU, 0, (), 1, 400)
    )
    claim = replace(a_claim("w-1", 2, award_sequence=5), resume_epoch=1, resume_step=400)
    assert [] == happened(granted(claim), queue=resumes)
    afresh = granted(replace(claim, resume_epoch=0, resume_step=0))
    text = "w-1.2: granted to resume nothing, and awarded with step 400 of epoch 1"
    assert [text] == happened(afresh, queue=resumes)
    assert [] == happened(afresh), "without the queue's image nobody knows"


def test_completed_attempt_of_which_a_task_failed() -> None:
    """Only what ended well has completed."""
    done = AttemptEnded(*attempt(), EndCause.COMPLETED)
    assert [] == happened(done, granted(CLAIM))
    assert ["w-1.1: completed, and a task exited with 3"] == happened(
        replace(done, exit_code=3), granted(CLAIM)
    )
    failed = AttemptEnded(*attempt(), EndCause.TASK_FAILED, 3)
    assert [] == happened(failed, granted(CLAIM))
