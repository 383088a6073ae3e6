"""Bands around estimates hold what they say, also when errors come in crowds and when all becomes otherwise."""

import random
from collections.abc import Callable

import pytest

from core.codec import encode
from core.estimating.bands import FARTHEST, Bands, Group, StartEstimate, group_of
from core.estimating.waits import LONGEST
from core.nouns.instant import SECOND, Instant, Nanoseconds, after, seconds
from core.nouns.limits import BAND_RATIOS_MAX, BAND_SAMPLE_INTERVAL
from tests.builders import START

Error = Callable[[random.Random, int], float]
"""By how many octaves a start differs from what the model says, at a number of it."""


def judged(count: int, error: Error, *, every: float = 400, late: int = 0) -> list[int]:
    """What came of so many estimates, one after the other or each known only when so many later ones were said."""
    dice, bands = random.Random(1), Bands()
    said: list[tuple[StartEstimate, Nanoseconds, bool]] = []
    outcomes = []
    for number in range(count):
        at = Instant(START + seconds(every * number))
        span = seconds(dice.choice((20, 200, 2_000)))
        estimate = bands.around(span, 1_000)
        waited = seconds(span / SECOND * 2 ** error(dice, number))
        said.append((estimate, waited, bands.said(estimate, at)))
        if len(said) > late:
            first, waited, is_sampled = said.pop(0)
            outcomes.append(bands.came(first, waited, is_sampled=is_sampled))
    return outcomes


def share(outcomes: list[int]) -> float:
    """Of those that were inside."""
    return outcomes.count(0) / len(outcomes)


@pytest.mark.parametrize(
    ("error", "late"),
    [
        (lambda dice, _: dice.gauss(0, 1), 0),
        (lambda dice, _: 2 + dice.expovariate(1), 0),
        (lambda dice, _: dice.choice((-3, 3)) + dice.random(), 100),
        # Crowds of 50 that err together, each known only when 50 more were said.
        (lambda dice, number: random.Random(number // 50).gauss(0, 2) + dice.gauss(0, 0.1), 50),
        # From the middle on everything takes eight times as long.
        (lambda dice, number: dice.gauss(0, 0.5) + 3 * (number > 2_000), 20),
    ],
    ids=("spread", "one-sided", "two-sided", "crowds", "changes"),
)
def test_four_of_five_starts_are_inside(error: Error, late: int) -> None:
    """Whatever the errors are like, and wherever the model is off; of either side a tenth or so is left out."""
    outcomes = judged(4_000, error, late=late)
    assert 0.75 <= share(outcomes) <= 0.88
    assert 0.04 <= outcomes.count(-1) / len(outcomes) <= 0.16


def test_band_is_no_wider_than_it_must_be() -> None:
    """Where the model is right to a tenth, so is the band, and it is around what the model lacks."""
    dice, bands = random.Random(1), Bands()
    for number in range(400):
        estimate = bands.around(seconds(100), 1_000)
        waited = seconds(300 * 2 ** dice.uniform(-0.15, 0.15))
        is_sampled = bands.said(estimate, Instant(START + seconds(400 * number)))
        bands.came(estimate, waited, is_sampled=is_sampled)
    estimate = bands.around(seconds(100), 1_000)
    assert 290 <= estimate.middle / SECOND <= 310
    assert estimate.low < estimate.middle < estimate.high
    assert estimate.high < 1.3 * estimate.low


def test_with_nothing_known_a_band_is_wide() -> None:
    """An eighth to eightfold of what the model says."""
    estimate = Bands().around(seconds(80), 1_000)
    spans = [span / SECOND for span in (estimate.low, estimate.middle, estimate.high)]
    assert [10, 80, 640] == pytest.approx(spans, rel=0.01)
    assert 0 == Bands().around(Nanoseconds(0), 1_000).low


def test_new_group_asks_those_that_wait_too() -> None:
    """What starts at once says nothing of what waits; another wait does, until there is enough of one's own."""
    bands = Bands()
    for number in range(40):
        at = Instant(START + number * BAND_SAMPLE_INTERVAL)
        for span, waited in ((0, 1), (100, 403)):
            estimate = bands.around(seconds(span), 1_000)
            bands.came(estimate, seconds(waited), is_sampled=bands.said(estimate, at))
    assert 4 == pytest.approx(bands.around(seconds(10_000), 1_000).middle / seconds(10_000), rel=0.01)
    assert seconds(1) == pytest.approx(bands.around(Nanoseconds(0), 64_000).middle, rel=0.01)


def test_groups_are_by_length_and_width() -> None:
    """Spans of like length, and whether it needs more than a node."""
    spans = (0, 1, 60, 61, 960, 961, 10**6)
    groups = [group_of(seconds(span), 8_000) for span in spans]
    assert ["now", "1m", "1m", "16m", "16m", "longer", "longer"] == groups
    assert "16m, wide" == group_of(seconds(61), 8_001)


def test_shortest_wait_of_a_crowd_does_not_set_the_estimate() -> None:
    """Of each hundred that are submitted within a minute one starts at once, and its wait is the first known; all others wait."""
    dice, bands = random.Random(3), Bands()
    for crowd in range(100):
        at = Instant(START + seconds(600 * crowd))
        estimates = [bands.around(seconds(100), 1_000) for _ in range(100)]
        sampled = [
            bands.said(estimate, after(at, seconds(number / 2))) for number, estimate in enumerate(estimates)
        ]
        assert 1 == sampled.count(True)
        quick = dice.randrange(100)
        came = sorted((0 if number == quick else 400, number) for number in range(100))
        for waited, number in came:
            bands.came(estimates[number], seconds(waited), is_sampled=sampled[number])
    estimate = bands.around(seconds(100), 1_000)
    assert 400 == pytest.approx(estimate.middle / SECOND, rel=0.01)
    assert estimate.low > seconds(300)


def test_equal_states_make_equal_bands_and_asking_changes_nothing() -> None:
    """It is a function of what is remembered."""
    one, other = Bands(), Bands()
    for number in range(50):
        for bands in (one, other):
            bands.around(seconds(5_000), 64_000)
            estimate = bands.around(seconds(100 + number), 1_000)
            is_sampled = bands.said(estimate, Instant(START + seconds(number * 100)))
            bands.came(estimate, seconds(number), is_sampled=is_sampled)
    assert encode(one) == encode(other)
    assert one.around(seconds(77), 1_000) == other.around(seconds(77), 1_000)
    assert ["16m"] == list(one.groups)


def test_memory_is_bounded() -> None:
    """Of a group the newest count, and of a crowd one."""
    for every, remembered in ((BAND_SAMPLE_INTERVAL, BAND_RATIOS_MAX), (1, 1)):
        bands = Bands()
        for number in range(2 * BAND_RATIOS_MAX):
            estimate = bands.around(seconds(100), 1_000)
            is_sampled = bands.said(estimate, Instant(START + number * every))
            bands.came(estimate, seconds(number), is_sampled=is_sampled)
        (group,) = bands.groups.values()
        assert remembered == len(group.ratios)


@pytest.mark.parametrize("count", [8, 15, 19])
def test_band_of_a_few_starts_is_around_their_middle(count: int) -> None:
    """An eighth to eightfold of it, wherever the model is off."""
    bands = Bands()
    for number in range(count):
        estimate = bands.around(seconds(100), 1_000)
        is_sampled = bands.said(estimate, Instant(START + number * BAND_SAMPLE_INTERVAL))
        bands.came(estimate, seconds(3_200), is_sampled=is_sampled)
    estimate = bands.around(seconds(100), 1_000)
    spans = [span / SECOND for span in (estimate.low, estimate.middle, estimate.high)]
    assert [400, 3_200, 25_600] == pytest.approx(spans, rel=0.01)


def test_nothing_is_told_to_be_farther_than_a_year() -> None:
    """However late the starts were that are known: the longest span of the model, and one start of which came days after a moment."""
    bands = Bands({"1m": Group([0] * 19 + [14_800]), "longer": Group([62_000] * 30)})
    for span in (0, 30, 86_400, 30 * 86_400):
        for wide in (1_000, 64_000):
            estimate = bands.around(seconds(span), wide)
            assert 0 <= estimate.low <= estimate.middle <= estimate.high <= FARTHEST
            encode(estimate)
    assert FARTHEST == bands.around(LONGEST, 1_000).middle


def test_workload_that_leaves_the_queue_leaves_its_place_in_the_sample() -> None:
    """The next that is submitted is remembered instead of it."""
    bands = Bands()
    estimate = bands.around(seconds(100), 1_000)
    assert bands.said(estimate, START)
    assert not bands.said(estimate, after(START, seconds(1)))
    bands.unsaid(estimate)
    assert bands.said(estimate, after(START, seconds(2)))
