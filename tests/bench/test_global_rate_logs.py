"""Who came too late in a burst, as the logs tell it."""

import pytest

from bench.global_rate_logs import Pending
from core.nouns.ids import WorkloadId
from tests.builders import a_job, a_spec

HIGH, LOW = WorkloadId("w-1"), WorkloadId("w-2")


def waiting(high_gpus: int = 1) -> Pending:
    """One of a high level that waits, and one of a low level that is awarded by the fact 10 and wants two GPUs."""
    pending = Pending()
    pending.submit(HIGH, a_spec(a_job(1, high_gpus), priority=5), 2)
    pending.submit(LOW, a_spec(a_job(1, 2), priority=1), 1)
    pending.drop(LOW)
    return pending


@pytest.mark.parametrize(("gpus", "is_passed"), [(1, True), (2, True), (4, False)])
def test_who_wants_no_more_is_passed(gpus: int, *, is_passed: bool) -> None:
    """By whoever is of a lower level, though it came first."""
    assert is_passed == waiting(gpus).is_passed(LOW, 10)


def test_who_waits_no_longer_is_not_passed() -> None:
    """It was awarded before."""
    pending = waiting()
    pending.drop(HIGH)
    assert not pending.is_passed(LOW, 10)


def test_who_is_behind_is_not_passed() -> None:
    """Of a lower level, or of the same one and submitted later."""
    pending = waiting()
    pending.drop(HIGH)
    pending.submit(WorkloadId("w-3"), a_spec(a_job(1, 1), priority=1), 3)
    pending.submit(WorkloadId("w-4"), a_spec(a_job(1, 1), priority=0), 0)
    assert not pending.is_passed(LOW, 10)


@pytest.mark.parametrize(("returned", "is_passed"), [(9, True), (11, False)])
def test_who_was_declined_after_the_award_is_not_passed(returned: int, *, is_passed: bool) -> None:
    """It waits again when the other is bound, which was awarded while it did not."""
    pending = waiting()
    pending.drop(HIGH)
    pending.give_back(HIGH, returned)
    assert is_passed == pending.is_passed(LOW, 10)
