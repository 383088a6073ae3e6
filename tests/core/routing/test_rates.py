"""Estimates of load: a true window, against counts of all calls; and the published estimate, against values worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.nouns.instant import MILLISECOND, SECOND, Instant, Nanoseconds, after, seconds
from core.nouns.quantities import Amount
from core.routing.policy import Load
from core.routing.rates import KINDS, RUN_TIMES_MAX, WINDOW_SECONDS, CallRates, PublishedRates, RunTimes
from core.rules.harvest.odds import MILLION, loss_odds
from tests.core.properties import PROPERTY
from tests.core.routing.servers import CORE, NOW

gaps = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 2 * SECOND), st.integers(0, 90).map(lambda many: many * SECOND)),
        st.integers(1, 5),
    ),
    min_size=1,
    max_size=30,
)


@PROPERTY
@given(gaps, st.integers(0, 100 * SECOND))
def test_rate_is_of_the_last_minute(arrivals: list[tuple[int, int]], later: int) -> None:
    """H-5: calls of the present second and the 59 before, over just that time; in the first minute over the time since the first call."""
    rates, at, heard = CallRates(), NOW, []
    for gap, calls in arrivals:
        at = after(at, Nanoseconds(gap))
        rates.called(at, calls)
        heard += [at] * calls
    now = after(at, Nanoseconds(later))
    first = (now // SECOND - WINDOW_SECONDS + 1) * SECOND
    counted = sum(one >= first for one in heard)
    span = max(SECOND, now - max(first, heard[0]))
    assert counted == rates.counted(now)
    assert counted * SECOND / span == pytest.approx(rates.load(now, CORE).rate)


def test_rate_falls_when_calls_stop() -> None:
    """H-5: to nothing within a minute, by decisions alone."""
    rates = CallRates()
    for second in range(120):
        rates.called(after(NOW, seconds(second)), 3)
    last = after(NOW, seconds(119))
    found = [rates.load(after(last, seconds(later)), CORE).rate for later in (0, 30, 59, 60)]
    assert [3.05, 1.5, 0.05, 0.0] == pytest.approx(found, abs=0.06)


def test_remembered_rate_is_that_of_before() -> None:
    """A router's first decisions go by the load of before its start, which fades as if no call came."""
    rates = CallRates.remembered(NOW, 2.5, seconds(4))
    assert rates.load(NOW, CORE).rate == pytest.approx(2.5, rel=0.02)
    assert seconds(4) == rates.load(NOW, CORE).run_time
    assert rates.load(after(NOW, seconds(30)), CORE).rate == pytest.approx(1.25, rel=0.05)
    assert 0 == rates.load(after(NOW, seconds(60)), CORE).rate


def test_run_time_is_smoothed() -> None:
    """The mean of the first 16, then a sixteenth of each new one."""
    rates = CallRates()
    for run_time in range(1, 17):
        rates.ran(Nanoseconds(run_time))
    assert 8.5 == pytest.approx(rates.run_time)
    rates.ran(Nanoseconds(24))
    assert 8.5 + (24 - 8.5) / 16 == pytest.approx(rates.run_time)


def test_need_is_by_littles_law() -> None:
    """H-5: 2.5 calls a second of 2 s need five executors; parts of units count as whole ones."""
    load = Load(2.5, seconds(2), Amount(300, 1_000, 7))
    assert 5.0 == load.running
    assert Amount(1_500, 5_000, 35) == load.total
    assert Amount(1, 1, 1) == Load(0.001, seconds(1), Amount(1, 1, 1)).total


def test_published_rate_is_nearly_one_over_the_last_gap() -> None:
    """H-5: windows of 10 s and 60 s are compared with milliseconds, so one quick pair of calls is taken for a load a thousand times higher."""
    rates, true = PublishedRates(), CallRates()
    at = NOW
    for gap in (10, 10, 10, 0.1):
        at = after(at, seconds(gap))
        rates.called(at)
        true.called(at)
    assert 10.0 == pytest.approx(rates.load(at, CORE).rate)
    assert 4 / 20.1 == pytest.approx(true.load(at, CORE).rate, rel=0.01)
    assert 10.0 == pytest.approx(rates.load(after(at, seconds(3_600)), CORE).rate), "also an hour later"


def test_published_rate_within_a_window() -> None:
    """Calls less than 60 ms apart are counted together."""
    rates = PublishedRates()
    for milliseconds in (0, 5, 11, 31, 51, 72):
        rates.called(Instant(NOW + milliseconds * MILLISECOND))
    assert 3 / 0.061 == pytest.approx(rates.load(NOW, CORE).rate), "three in the 61 ms after the first window"


def test_published_run_time_is_a_mean_of_five() -> None:
    """The first one until there are five, then that of the last whole batch."""
    rates, found = PublishedRates(), []
    for run_time in (10, 20, 30, 40, 50, 100, 100):
        rates.ran(Nanoseconds(run_time))
        found.append(rates.load(NOW, CORE).run_time)
    assert [10, 10, 10, 10, 30, 30, 30] == found


# The spread of run times.

spans = st.integers(MILLISECOND, 86_400 * SECOND)


def times_of(spread: list[int]) -> RunTimes:
    """What is learned from these run times."""
    times = RunTimes()
    for ran in spread:
        times.add(Nanoseconds(ran))
    return times


@PROPERTY
@given(
    st.one_of(
        st.lists(spans, min_size=1, max_size=200),
        st.lists(st.integers(18 * SECOND, 34 * SECOND), min_size=1, max_size=200),
    ),
    st.integers(SECOND, 45 * SECOND),
)
def test_time_beyond_the_grace_is_nearly_exact(spread: list[int], grace: int) -> None:
    """H-9: E[max(0, run time − grace)] to 1/128 of the grace; so to a tenth where it is more than 10/128 of it."""
    weighted = times_of(spread).weighted()
    exact = sum(max(0, ran - grace) for ran in spread) / len(spread)
    found = sum(weight * max(0, ran - grace) for ran, weight in weighted) / sum(one for _, one in weighted)
    assert exact - grace / 128 - 1 <= found <= exact + 1


def test_odds_near_the_grace_are_not_nothing() -> None:
    """Of run times on both sides of it, though their mean is below."""
    spread = [number * SECOND for number in (18, 20, 22, 24, 26, 28, 31, 32, 33, 34)]
    assert 278 == pytest.approx(loss_odds(MILLION, times_of(spread).weighted(), seconds(30)), rel=0.02)


def test_spread_is_bounded_and_keeps_its_tail() -> None:
    """A run in a hundred that takes an hour, each another time, shows in the mean after any number of runs, and their kinds are few."""
    times = RunTimes()
    for number in range(5 * RUN_TIMES_MAX):
        times.add(Nanoseconds((3_000 + number % 1_201) * SECOND if number % 100 == 0 else SECOND + number))
    weighted = times.weighted()
    mean = sum(weight * ran for ran, weight in weighted) / sum(weight for _, weight in weighted)
    assert 37 == pytest.approx(mean / SECOND, rel=0.1)
    assert len(weighted) < 2 * KINDS
    assert all(SECOND <= ran <= 4_200 * SECOND for ran, _ in weighted)


def test_rest_is_that_of_calls_that_ran_for_longer() -> None:
    """H-10: the longer a call of a long tail has run, the more is left of it."""
    times = times_of([SECOND] * 98 + [100 * SECOND, 1_000 * SECOND])
    assert 11 == pytest.approx((times.expected_rest(Nanoseconds(SECOND // 2)) or 0) / SECOND, abs=1)
    assert 540 * SECOND == times.expected_rest(seconds(10))
    assert 500 * SECOND == times.expected_rest(seconds(500))
    assert times.expected_rest(seconds(1_000)) is None
    assert RunTimes().expected_rest(seconds(1)) is None
