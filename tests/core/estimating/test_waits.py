"""How long it takes until enough GPUs came free."""

import pytest

from core.estimating.waits import HALF_LIFE, LN2, LONGEST, Flow, expected_rate, rate_of, span_until
from core.nouns.instant import SECOND, Instant, Nanoseconds, seconds
from tests.builders import START

HOUR = seconds(3_600)
GPU = 1_000_000
"""Millionths."""


def test_free_capacity_is_not_waited_for() -> None:
    """Nothing is missing, or less."""
    assert 0 == span_until(0, GPU) == span_until(-5_000, GPU)


def test_wait_is_the_shortage_divided_by_its_rate() -> None:
    """Eight GPUs at four an hour are two hours, and no wait is longer than a month."""
    assert 2 * HOUR == span_until(8_000, 4 * GPU)
    assert LONGEST == span_until(10**9, 1)


def test_where_no_rate_is_known_all_comes_free_in_a_day() -> None:
    """Some guess is better than none: its band is wide."""
    assert 6 * HOUR == span_until(6_000, rate_of(0, 0, 24_000))


def test_running_work_frees_its_gpus_once_in_its_time() -> None:
    """Eight GPUs for two hours are four an hour; a moment counts as a second."""
    assert 4 * GPU == expected_rate(8_000, Nanoseconds(2 * HOUR))
    assert 3_600 * GPU == expected_rate(1_000, Nanoseconds(1))


def test_rate_is_of_recently_freed_gpus() -> None:
    """GPUs that came free long ago fade."""
    flow, now = Flow(), START
    assert 0 == flow.lately(START)
    flow.begin(GPU, START)
    for _ in range(6_000):
        now = Instant(now + 10 * SECOND)
        flow.free(50, now)  # 18 GPUs an hour.
    assert 18 * GPU == pytest.approx(flow.lately(now), rel=0.01)
    later = Instant(now + seconds(4_800))
    assert 9 * GPU == pytest.approx(flow.lately(later), rel=0.01)
    assert LN2 * GPU == pytest.approx(Flow(GPU, now).lately(now) * HALF_LIFE / HOUR, rel=0.01)


def test_young_flow_is_told_over_its_age() -> None:
    """From the first minutes on it is what came free by the time that has passed, and never over less than some minutes."""
    flow, now = Flow(), START
    for minute in range(1, 100):
        flow.begin(0, START)
        now = Instant(START + seconds(60 * minute))
        flow.free(2_000, now)
        if minute >= 10:
            assert 120 * GPU == pytest.approx(flow.lately(now), rel=0.1)
    sudden = Flow(since=START)
    sudden.free(1_000, START)
    assert sudden.lately(START) < 10 * GPU
    assert 18 * GPU == rate_of(18 * GPU, 400 * GPU, 24_000) == rate_of(18 * GPU, 0, 24_000)


def test_quiet_hours_have_a_floor_and_no_cliff() -> None:
    """One run ended, and for two days nothing does: what is expected stands in for it, up to all in a day."""
    flow = Flow()
    flow.begin(2 * GPU, Instant(START - 100 * HOUR))
    flow.free(32_000, START)
    spans = [
        span_until(8_000, rate_of(flow.lately(Instant(START + hour * HOUR)), flow.expected, 24_000))
        for hour in range(48)
    ]
    assert spans == sorted(spans)
    assert spans[0] < 2 * HOUR
    assert 8 * HOUR == spans[-1]
    assert GPU == rate_of(1, 5 * GPU, 24_000)
    assert GPU // 2 == rate_of(1, GPU // 2, 24_000)
    assert 5 * GPU == rate_of(0, 5 * GPU, 24_000), "nothing has come free yet"
    assert 1 == rate_of(0, 0, 0)
