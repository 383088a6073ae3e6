"""How long it takes until enough GPUs came free."""

import pytest

from core.estimating.waits import HALF_LIFE, LN2, LONGEST, Flow, expected_rate, span_until
from core.nouns.instant import SECOND, Instant, Nanoseconds, seconds
from tests.builders import START

HOUR = seconds(3_600)
GPU = 1_000_000
"""Millionths."""


def test_what_is_free_is_not_waited_for() -> None:
    """Nothing is missing, or less."""
    assert 0 == span_until(0, GPU, 8_000) == span_until(-5_000, GPU, 8_000)


def test_wait_is_what_is_missing_by_its_rate() -> None:
    """Eight GPUs at four an hour are two hours, and no wait is longer than a month."""
    assert 2 * HOUR == span_until(8_000, 4 * GPU, 100_000)
    assert LONGEST == span_until(10**9, 1, 1_000)


def test_where_no_rate_is_known_all_comes_free_in_a_day() -> None:
    """Some guess is better than none: its band is wide."""
    assert 6 * HOUR == span_until(6_000, 0, 24_000)


def test_what_runs_frees_its_gpus_once_in_its_time() -> None:
    """Eight GPUs for two hours are four an hour; a moment counts as a second."""
    assert 4 * GPU == expected_rate(8_000, Nanoseconds(2 * HOUR))
    assert 3_600 * GPU == expected_rate(1_000, Nanoseconds(1))


def test_rate_is_what_came_free_of_late() -> None:
    """What is expected to stands in for it as long as nothing has; and what came free long ago fades."""
    flow = Flow()
    assert 0 == flow.rate(START)
    flow.expected = 4 * GPU
    assert 4 * GPU == flow.rate(START)
    now = START
    for _ in range(6_000):
        now = Instant(now + 10 * SECOND)
        flow.free(50, now)  # 18 GPUs an hour.
    assert 18 * GPU == pytest.approx(flow.rate(now), rel=0.01)
    later = Instant(now + HALF_LIFE)
    assert 9 * GPU == pytest.approx(flow.rate(later), rel=0.01)
    assert LN2 * GPU == pytest.approx(Flow(GPU, now).rate(now) * HALF_LIFE / HOUR, rel=0.01)
