"""What is given up is given up with consent, and nothing of it counts any more; each check finds what was broken on purpose."""

import pytest

from core.events.queue import AttemptClosed, CancelRequested, RegionAdded, WorkloadAwarded
from core.events.region import CheckpointCommitted, StopOrdered
from core.events.regions import RegionAbandoned, RegionReadmitted
from core.fact import Event
from core.images import RegionImage
from core.invariants.consistency import check_global_fact, check_one_live, check_region_fact, citation_of
from core.nouns.ids import GLOBAL_LOG, RegionName, WorkloadId
from core.nouns.workload import Consent, EndCause, Phase
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
GIVEN_UP = RegionAbandoned(EU, 1, "olga")
HISTORY = (RegionAdded(EU), RegionAdded(US), submitted(1), WorkloadAwarded(W1, 1, EU, 0, ()))
SHOWS = {
    EU: a_region(joined(), granted(a_claim("w-1", award_sequence=4)), CheckpointCommitted(*attempt(), 3))
}


def closed(
    consent: Consent = Consent.OPERATOR, phase: Phase = Phase.PENDING, saved: tuple[int, int] = (1, 3)
) -> AttemptClosed:
    """It goes on elsewhere."""
    return AttemptClosed(W1, 1, EndCause.ABANDONED, phase, EU, 3, *saved, consent)


def told(event: Event, *more: Event, regions: dict[RegionName, RegionImage] = SHOWS) -> list[str]:
    """What a fact of the queue breaks after these."""
    return check_global_fact(a_fact(event, 9, log=GLOBAL_LOG), a_queue(*HISTORY, *more), regions)


def test_it_is_given_up_with_consent() -> None:
    """An operator's, as long as the region is not taken back, or its own, given with its submission."""
    assert [] == told(closed(), GIVEN_UP)
    no_one = "w-1: AttemptClosed of epoch 1 in eu gives it up, and nobody agreed to that"
    assert [no_one] == told(closed())
    assert [no_one] == told(closed(Consent.WORKLOAD), GIVEN_UP)
    assert [no_one] == told(closed(Consent.NOBODY), GIVEN_UP)
    assert [no_one] == told(closed(), GIVEN_UP, RegionReadmitted(EU, 2))
    moves = a_queue(*HISTORY[:2], submitted(1, a_spec(move_after=9)), *HISTORY[3:])
    assert [] == check_global_fact(a_fact(closed(Consent.WORKLOAD), 9, log=GLOBAL_LOG), moves, SHOWS)


@pytest.mark.parametrize(
    ("saved", "is_right"), [((0, 0), True), ((1, 3), True), ((1, 2), True), ((1, 4), False), ((2, 3), False)]
)
def test_it_goes_on_from_a_checkpoint_that_its_region_showed(
    saved: tuple[int, int], *, is_right: bool
) -> None:
    """From less than the newest, if no more was known; never from a checkpoint that was not there."""
    wanted = (
        []
        if is_right
        else [f"w-1: AttemptClosed of epoch 1 keeps step {saved[1]} of epoch {saved[0]}, and eu shows step 3"]
    )
    assert wanted == told(closed(saved=saved), GIVEN_UP)


def test_abandoned_workload_that_was_to_be_cancelled_is_cancelled() -> None:
    """No other workload ends by it."""
    assert [] == told(closed(phase=Phase.CANCELLED), CancelRequested(W1), GIVEN_UP)
    assert ["w-1: AttemptClosed of epoch 1 makes it PENDING, and it should be CANCELLED"] == told(
        closed(), CancelRequested(W1), GIVEN_UP
    )
    assert 1 == len(told(closed(phase=Phase.COMPLETED), GIVEN_UP, regions={}))


def test_two_may_run_where_it_was_agreed() -> None:
    """The older one, until its region has read of it; without consent, never; and a later end leaves it be."""
    regions = {**SHOWS, US: a_region(joined(), granted(a_claim("w-1", 2)))}
    again = WorkloadAwarded(W1, 2, US, 0, (), 1, 3)
    assert ["w-1: live attempts eu:1, us:2"] == check_one_live(W1, regions)
    assert [] == check_one_live(W1, regions, a_queue(*HISTORY, GIVEN_UP, closed(), again))
    ended = AttemptClosed(W1, 2, EndCause.COMPLETED, Phase.COMPLETED, US, 9, 1, 3)
    found = told(ended, GIVEN_UP, closed(), again, regions=SHOWS)
    assert [] == [text for text in found if "still has attempt" in text]


def test_region_grants_abandoned_work_before_it_has_read_of_it() -> None:
    """The region could not know, and that was agreed to."""
    grant = a_fact(granted(a_claim("w-1", award_sequence=4)), 9, log=EU_LOG)
    for more, found in (((), 0), ((GIVEN_UP, closed(saved=(0, 0))), 0)):
        assert found == len(check_region_fact(EU, grant, a_region(joined()), a_queue(*HISTORY, *more)))


def test_region_stops_it_for_that_reason_only_if_it_is_so() -> None:
    """It says up to where it has read, so that both are looked at together; and what it saves then does not count."""
    stopped = StopOrdered(*attempt(), EndCause.ABANDONED, global_sequence=6)
    fact = a_fact(stopped, 9, log=EU_LOG)
    assert (GLOBAL_LOG, 6) == citation_of(stopped)
    assert [(3, "w-1.1: stopped as given up, and its award stands")] == check_region_fact(
        EU, fact, SHOWS[EU], a_queue(*HISTORY)
    )
    assert [] == check_region_fact(EU, fact, SHOWS[EU], a_queue(*HISTORY, GIVEN_UP, closed()))
    stopping = a_region(joined(), granted(a_claim("w-1", award_sequence=4)), stopped)
    saved = a_fact(CheckpointCommitted(*attempt(), 5), 9, log=EU_LOG)
    assert [(3, "w-1.1: saved something after it was given up")] == check_region_fact(
        EU, saved, stopping, None
    )
