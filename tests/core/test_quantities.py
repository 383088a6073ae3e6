"""Amounts: whole numbers with units, added and compared resource by resource."""

from hypothesis import given
from hypothesis import strategies as st

from core.nouns.quantities import MILLI, NOTHING, Amount
from tests.core.properties import PROPERTY

numbers = st.integers(min_value=-(1 << 50), max_value=1 << 50)
amounts = st.builds(Amount, numbers, numbers, numbers)
counts = st.integers(min_value=0, max_value=50)


def test_milli_is_a_thousandth() -> None:
    """One device is a thousand GPU milli."""
    assert 1000 == MILLI


def test_times_multiplies_each_resource() -> None:
    """Three tasks need three times as much of everything."""
    assert Amount(3_000, 6_000, 9) == Amount(1_000, 2_000, 3).times(3)
    assert NOTHING == Amount(1, 2, 3).times(0)


def test_minus_when_too_little_is_there() -> None:
    """What is left may be negative; nobody rounds it away."""
    assert Amount(-500, 1, -2) == Amount(500, 2, 3).minus(Amount(1_000, 1, 5))


def test_covers_only_when_every_resource_suffices() -> None:
    """One resource too little is too little."""
    have = Amount(2_000, 4_000, 100)
    assert have.covers(have)
    assert have.covers(NOTHING)
    assert not have.covers(Amount(2_001, 0, 0))
    assert not have.covers(Amount(0, 4_001, 0))
    assert not have.covers(Amount(0, 0, 101))


@PROPERTY
@given(amounts, amounts)
def test_minus_undoes_plus(one: Amount, other: Amount) -> None:
    """What is added can be taken away again, and the order of adding does not matter."""
    assert one == one.plus(other).minus(other)
    assert one.plus(other) == other.plus(one)


@PROPERTY
@given(amounts, counts)
def test_times_equals_repeated_plus(one: Amount, count: int) -> None:
    """To multiply is to add again and again."""
    total = NOTHING
    for _ in range(count):
        total = total.plus(one)
    assert total == one.times(count)


@PROPERTY
@given(amounts, amounts)
def test_covers_equals_nothing_missing(one: Amount, other: Amount) -> None:
    """One covers another exactly when nothing is negative in what is left."""
    left = one.minus(other)
    is_enough = min(left.gpu_milli, left.cpu_milli, left.memory_bytes) >= 0
    assert is_enough == one.covers(other)
