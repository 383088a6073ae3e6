"""Credit, against values that were worked out by hand, and the decay of use against what its halves must be."""

from decimal import Context, Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.nouns.instant import SECOND, Instant, Nanoseconds, seconds
from core.nouns.ranking import CreditSettings
from core.ranking.credit import FadingUse, charged, credit, faded, share_credit
from core.ranking.decay import ONE, left_after
from tests.core.properties import PROPERTY

HOUR = 3_600
HALF_LIFE = seconds(24 * HOUR)
PLAIN = CreditSettings(age_weight=7, age_cap=Nanoseconds(100), share_weight=600)

# age, use, use of all, tenants, credit: 7 * min(age, 100) + 600 * (1 - use / (all / tenants))
GOLDEN = [
    (0, 0, 0, 1, 600),
    (0, 0, 90, 3, 600),
    (0, 30, 90, 3, 0),
    (0, 60, 90, 3, -600),
    (0, 90, 90, 3, -1_200),
    (0, 90, 90, 1, 0),
    (10, 0, 90, 3, 670),
    (10, 15, 90, 3, 370),
    (99, 30, 90, 3, 693),
    (100, 30, 90, 3, 700),
    (101, 30, 90, 3, 700),
    (5_000, 45, 90, 3, 400),
    (50, 1, 7, 2, 779),
]
"""The last: 350 + 600 * (1 - 2/7) = 778.57, up to a whole number."""


@pytest.mark.parametrize(("age", "use", "use_all", "tenants", "expected"), GOLDEN)
def test_credit_is_the_formula(age: int, use: int, use_all: int, tenants: int, expected: int) -> None:
    """M7: values worked out by hand."""
    assert expected == credit(PLAIN, age, use, use_all, 1, tenants)


def test_age_counts_up_to_its_cap() -> None:
    """M7: each nanosecond up to the cap adds its weight, those beyond nothing."""
    found = [credit(PLAIN, age, 1, 2, 1, 2) for age in range(120)]
    assert [7] * 100 + [0] * 19 == [after - before for before, after in pairwise(found)]


def test_share_falls_with_use() -> None:
    """M7: who uses more has less, the others of the same use more; and the mean has nothing."""
    settings = CreditSettings()
    own = [share_credit(settings, use, 100 + use, 1, 2) for use in range(0, 1_000, 10)]
    assert own == sorted(own, reverse=True)
    assert len(own) == len(set(own))
    others = [share_credit(settings, 50, 100 + use, 1, 2) for use in range(0, 1_000, 10)]
    assert others == sorted(others)
    assert 0 == share_credit(settings, 70, 140, 1, 2)


def test_share_goes_by_weight() -> None:
    """M7: of two whose weights are 3 to 1 use of 3 to 1 is even; who used as much as the other is behind with the lower weight."""
    settings = CreditSettings()
    assert 0 == share_credit(settings, 75, 100, 3, 4) == share_credit(settings, 25, 100, 1, 4)
    assert share_credit(settings, 50, 100, 3, 4) > 0 > share_credit(settings, 50, 100, 1, 4)


def test_use_fades_by_half() -> None:
    """800 GPU-seconds, and nothing held since."""
    use = FadingUse(800_000, 0, Instant(5))
    spans = [Instant(5 + number * HALF_LIFE) for number in range(4)]
    assert [800_000, 400_000, 200_000, 100_000] == [faded(use, now, HALF_LIFE) for now in spans]


def test_held_gpus_are_charged_by_the_second() -> None:
    """Eight GPUs: a second of them is 8 GPU-seconds; a half-life is half of the use from holding them for ever."""
    use = FadingUse(0, 8_000, Instant(0))
    assert 8_000 == faded(use, Instant(SECOND), HALF_LIFE)
    # 8 GPUs * 86,400 s / ln 2 = 997,190.812 GPU-seconds.
    assert 997_190_812 == pytest.approx(faded(use, Instant(100 * HALF_LIFE), HALF_LIFE), abs=1)
    assert 498_595_406 == pytest.approx(faded(use, Instant(HALF_LIFE), HALF_LIFE), abs=1)


def test_charge_equals_a_sum_over_small_steps() -> None:
    """Six hours of 8 GPUs after 1,000 GPU-hours, against the midpoint rule with 10,000 steps."""
    use = FadingUse(1_000 * HOUR * 1_000, 8_000, Instant(0))
    steps, span = 10_000, 6 * HOUR
    width = span / steps
    held = sum(8_000 * width * 0.5 ** ((span - (step + 0.5) * width) / (24 * HOUR)) for step in range(steps))
    expected = 1_000 * HOUR * 1_000 * 0.5 ** (6 / 24) + held
    assert expected == pytest.approx(faded(use, Instant(seconds(span)), HALF_LIFE), rel=1e-8)


@PROPERTY
@given(
    st.integers(0, 10**17),
    st.integers(0, 10**9),
    st.integers(1, 10**18),
    st.integers(SECOND, 3 * 10**16).map(Nanoseconds),
)
def test_use_is_rounded_once(old: int, gpu_milli: int, span: int, half_life: Nanoseconds) -> None:
    """What decimals of 80 digits come to, rounded: whatever is used, held and long ago."""
    exact = Context(prec=80)
    left = exact.exp(exact.divide(exact.multiply(exact.ln(2), -span), half_life))
    steady = exact.divide(gpu_milli * half_life, exact.multiply(exact.ln(2), SECOND))
    expected = exact.add(steady, exact.multiply(left, exact.subtract(old, steady)))
    found = faded(FadingUse(old, gpu_milli, Instant(7)), Instant(7 + span), half_life)
    assert exact.to_integral_value(expected) == found


@PROPERTY
@given(st.integers(0, 10**18), st.integers(SECOND, 10**17).map(Nanoseconds))
def test_decay_is_right_to_29_decimals(span: int, half_life: Nanoseconds) -> None:
    """Against decimals of 80 digits."""
    exact = Context(prec=80)
    expected = exact.exp(exact.divide(exact.multiply(exact.ln(2), -span), half_life))
    assert abs(exact.subtract(exact.divide(left_after(span, half_life), ONE), expected)) < Decimal("1e-29")


changes = st.lists(st.tuples(st.integers(0, 10 * HOUR), st.integers(0, 10**6)), min_size=1, max_size=20)


@PROPERTY
@given(changes, st.integers(0, 10**12))
def test_it_does_not_matter_how_often_it_is_charged(steps: list[tuple[int, int]], old: int) -> None:
    """With a charge at every change, and with another one amid each span: equal but for half a unit of rounding a charge."""
    plain = often = FadingUse(old, 0, Instant(0))
    for count, gpu_milli in steps:
        now = Instant(plain.at + count * SECOND)
        middle = Instant((plain.at + now) // 2)
        often = charged(often, often.gpu_milli, middle, HALF_LIFE)
        plain, often = (charged(use, gpu_milli, now, HALF_LIFE) for use in (plain, often))
    assert plain.at == often.at
    assert abs(plain.gpu_milli_seconds - often.gpu_milli_seconds) <= 2 * len(steps) + 1
