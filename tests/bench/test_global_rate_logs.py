"""Who came too late in a burst, and who holds what when it is over, as the logs tell it."""

import pytest

from bench.support.planet.rate_from_logs import Pending, Told, add_region, told_by_queue
from core.events.queue import (
    AttemptClosed,
    AwardReturned,
    WorkloadAwarded,
    WorkloadBound,
)
from core.events.region import GangStarted
from core.fact import Event
from core.nouns.ids import GLOBAL_LOG, WorkloadId
from core.nouns.workload import EndCause, Phase
from tests.builders import EU, a_claim, a_job, a_spec, facts_of, granted, submitted

HIGH, LOW = WorkloadId("w-1"), WorkloadId("w-2")


def waiting(high_gpus: int = 1) -> Pending:
    """One of a high level that waits, and one of a low level that is awarded by the fact 10 and wants two GPUs."""
    pending = Pending()
    pending.submit(HIGH, a_spec(a_job(1, high_gpus), priority=5), 2)
    pending.submit(LOW, a_spec(a_job(1, 2), priority=1), 1)
    pending.drop(LOW)
    return pending


@pytest.mark.parametrize(("gpus", "is_passed"), [(1, True), (2, True), (4, False)])
def test_workload_of_no_more_gpus_is_passed(gpus: int, *, is_passed: bool) -> None:
    """A waiting workload is passed by an award of a lower level, though that was submitted first."""
    assert is_passed == waiting(gpus).is_passed(LOW, 10)


def test_awarded_workload_is_not_passed() -> None:
    """It was awarded before."""
    pending = waiting()
    pending.drop(HIGH)
    assert not pending.is_passed(LOW, 10)


def test_workload_behind_the_award_is_not_passed() -> None:
    """A workload is behind when its level is lower, or equal and it was submitted later."""
    pending = waiting()
    pending.drop(HIGH)
    pending.submit(WorkloadId("w-3"), a_spec(a_job(1, 1), priority=1), 3)
    pending.submit(WorkloadId("w-4"), a_spec(a_job(1, 1), priority=0), 0)
    assert not pending.is_passed(LOW, 10)


@pytest.mark.parametrize(("returned", "is_passed"), [(9, True), (11, False)])
def test_workload_declined_after_the_award_is_not_passed(returned: int, *, is_passed: bool) -> None:
    """When the other workload is bound, this one waits again; the other was awarded while it did not."""
    pending = waiting()
    pending.drop(HIGH)
    pending.give_back(HIGH, returned)
    assert is_passed == pending.is_passed(LOW, 10)


# A whole log.

FIRST, SECOND, THIRD = WorkloadId("w-1"), WorkloadId("w-2"), WorkloadId("w-3")


def told(*events: Event) -> Told:
    """Of three submissions, of the levels 1, 5 and 0, of which the second wants two GPUs and the others one; and then these."""
    specs = (
        a_spec(a_job(1, 1), priority=1),
        a_spec(a_job(1, 2), priority=5),
        a_spec(a_job(1, 1), priority=0),
    )
    before = [submitted(number, spec) for number, spec in enumerate(specs, 1)]
    return told_by_queue(facts_of((*before, *events), log=GLOBAL_LOG))


def awarded(workload: WorkloadId, epoch: int = 1) -> Event:
    """To the one region."""
    return WorkloadAwarded(workload, epoch, EU, 0, ())


def started(workload: WorkloadId, epoch: int = 1) -> tuple[Event, Event]:
    """Awarded, and then bound."""
    return awarded(workload, epoch), WorkloadBound(workload, epoch, EU, 1)


def ended(workload: WorkloadId, phase: Phase = Phase.PENDING, cause: EndCause = EndCause.PREEMPTED) -> Event:
    """Its first attempt is over, for somebody else unless told otherwise."""
    return AttemptClosed(workload, 1, cause, phase, EU, 2)


def test_preempted_workload_holds_nothing() -> None:
    """Else more would be held than there is: the wide workload of a high level has its capacity."""
    found = told(*started(FIRST), ended(FIRST), *started(SECOND))
    assert ([SECOND], 1, 0, 0) == (list(found.held), found.preempted, found.returned, found.inversions)
    assert 2 == len(found.waits)


def test_restarted_workload_holds_its_capacity_again() -> None:
    """Both of its attempts were bound."""
    found = told(*started(FIRST), ended(FIRST), *started(FIRST, epoch=2))
    assert ([FIRST], [(FIRST, 1), (FIRST, 2)]) == (list(found.held), list(found.bound))


@pytest.mark.parametrize(
    ("claims", "gangs", "lacking"),
    [
        pytest.param((1, 2), (1, 2), 0, id="all"),
        pytest.param((2,), (1, 2), 1, id="never granted"),
        pytest.param((1, 2), (2,), 1, id="never started"),
        pytest.param((1, 2, 2), (1, 2), 1, id="granted twice"),
        pytest.param((1, 2), (1, 2, 2), 1, id="started twice"),
        pytest.param((1, 1), (1, 1), 2, id="another attempt"),
    ],
)
def test_every_bound_attempt_is_in_its_regions_log(
    claims: tuple[int, ...], gangs: tuple[int, ...], lacking: int
) -> None:
    """That of who was pushed out too, by its epoch."""
    found = told(*started(FIRST), ended(FIRST), *started(FIRST, epoch=2))
    grants = [granted(a_claim(FIRST, epoch)) for epoch in claims]
    add_region(found, facts_of([*grants, *(GangStarted(FIRST, epoch) for epoch in gangs)]))
    assert lacking == found.lacking


def test_preempted_workload_waits_again() -> None:
    """A workload behind it that is awarded afterwards passes it; one that was awarded before does not."""
    assert 1 == told(*started(FIRST), ended(FIRST), *started(THIRD)).inversions
    late, bound = started(THIRD)
    assert 0 == told(*started(FIRST), late, ended(FIRST), bound).inversions


def test_declined_workload_waits_again() -> None:
    """A workload behind it that is awarded afterwards passes it."""
    declined = AwardReturned(FIRST, 1, "no_capacity", EU, 1)
    assert 1 == told(awarded(FIRST), declined, *started(THIRD)).inversions


def test_ended_workload_is_not_passed() -> None:
    """An ended workload waits for nothing."""
    assert 0 == told(*started(FIRST), ended(FIRST, Phase.COMPLETED), *started(THIRD)).inversions


def test_awards_that_came_to_nothing_are_told() -> None:
    """Declined by the region, or ended for another reason than somebody else, before all tasks were up or after."""
    declined = AwardReturned(FIRST, 1, "no_capacity", EU, 1)
    failed, lost = ended(SECOND, cause=EndCause.START_FAILED), ended(THIRD, cause=EndCause.NODE_LOST)
    found = told(awarded(FIRST), declined, awarded(SECOND), failed, *started(THIRD), lost)
    assert ([], 0, 3) == (list(found.held), found.preempted, found.returned)
