"""For how long offers are given back for others who are ahead (docs/decisions/0035-awards-by-rank.md)."""

import pytest

from components.job_queue.state.deferrals import (
    PUT_OFF_MAX,
    PUT_OFF_PAUSE,
    PUT_OFF_REMEMBERED,
    PUT_OFF_SPAN,
    PutOffs,
)
from core.nouns.ids import WorkloadId
from core.nouns.instant import SECOND, Instant, Nanoseconds, after

W1, W2 = WorkloadId("w-1"), WorkloadId("w-2")
NOW = Instant(SECOND)


def tried(every: int, until: int) -> list[int]:
    """When offers are given back, if there is reason to each so many nanoseconds; from the first time on."""
    put_offs, found = PutOffs(), []
    for passed in range(0, until, every):
        if put_offs.may_give_back(W1, Instant(NOW + passed)):
            put_offs.add(W1, Instant(NOW + passed))
            found.append(passed)
    return found


def test_offers_are_given_back_for_a_span_and_then_taken() -> None:
    """So long as there is no pause. Once they were taken the next time is as good as the first."""
    every = SECOND // 10
    (*found, again) = tried(every, PUT_OFF_SPAN + PUT_OFF_PAUSE)
    assert list(range(0, PUT_OFF_SPAN, every)) == found
    assert PUT_OFF_SPAN - every + PUT_OFF_PAUSE == again


@pytest.mark.parametrize("passed", [PUT_OFF_SPAN, PUT_OFF_SPAN + PUT_OFF_PAUSE - 1])
def test_who_had_no_offer_meanwhile_gives_back_anew(passed: int) -> None:
    """Once at the beginning of the span is no reason to pass anybody after it."""
    put_offs = PutOffs()
    put_offs.add(W1, NOW)
    again = Instant(NOW + passed)
    assert not put_offs.gives_way(W1, again)
    assert put_offs.may_give_back(W1, again)
    put_offs.add(W1, again)
    assert put_offs.gives_way(W1, Instant(again + PUT_OFF_SPAN - 1))
    assert not put_offs.gives_way(W1, Instant(again + PUT_OFF_SPAN))


@pytest.mark.parametrize("every", [PUT_OFF_PAUSE, PUT_OFF_SPAN, PUT_OFF_REMEMBERED - 1])
def test_nobody_is_put_off_for_ever_by_pauses(every: Nanoseconds) -> None:
    """With whatever pauses that are shorter than what is remembered; then offers are taken, at least once."""
    found = tried(every, 3 * PUT_OFF_MAX)
    assert list(range(0, PUT_OFF_MAX, every)) == [passed for passed in found if passed < PUT_OFF_MAX]
    later = [passed for passed in range(PUT_OFF_MAX, 2 * PUT_OFF_MAX, every) if passed not in found]
    assert later
    assert later[0] < PUT_OFF_MAX + every


def test_nobody_gives_way_beyond_the_end() -> None:
    """Near it neither, though the last run of them has just begun."""
    put_offs = PutOffs()
    for passed in range(0, PUT_OFF_MAX, PUT_OFF_PAUSE):
        put_offs.add(W1, Instant(NOW + passed))
    assert put_offs.gives_way(W1, Instant(NOW + PUT_OFF_MAX - 1))
    assert not put_offs.gives_way(W1, Instant(NOW + PUT_OFF_MAX))


def test_nothing_is_held_against_who_was_answered() -> None:
    """Nor against anybody else."""
    put_offs = PutOffs()
    put_offs.add(W1, NOW)
    put_offs.add(W2, NOW)
    put_offs.drop(W1)
    assert [False, True] == [put_offs.gives_way(one, NOW) for one in (W1, W2)]


def test_only_what_was_lately_is_kept() -> None:
    """Who was put off again is kept from then on."""
    put_offs = PutOffs()
    for number in range(1_000):
        put_offs.add(WorkloadId(f"w-{number}"), NOW)
    put_offs.add(W1, after(NOW, PUT_OFF_PAUSE))
    put_offs.add(W2, after(NOW, PUT_OFF_REMEMBERED))
    assert [W1, W2] == list(put_offs._known)
