"""What is due to whom, and by how much somebody is behind that."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.nouns.ids import TenantName
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.ranking.fair_lag import Claimant, FairShare, dues, lag_after, max_min
from tests.core.properties import PROPERTY

A, B, C = TenantName("a"), TenantName("b"), TenantName("c")
GPU = 1_000
CAP = seconds(3_600)


@pytest.mark.parametrize(
    ("capacity", "wanted", "weights", "shares"),
    [
        (10, (0, 0), (1, 1), (0, 0)),
        (10, (3, 4), (1, 1), (3, 4)),
        (10, (8, 8), (1, 1), (5, 5)),
        (10, (8, 8), (1, 4), (2, 8)),
        (12, (1, 20, 20), (4, 1, 1), (1, 5.5, 5.5)),
        (12, (20, 2, 20), (2, 2, 1), (20 / 3, 2, 10 / 3)),
    ],
)
def test_fair_shares_are_weighted_max_min(
    capacity: float, wanted: tuple[float, ...], weights: tuple[float, ...], shares: tuple[float, ...]
) -> None:
    """No tenant gets more than it wants, and the rest is shared by weight."""
    assert pytest.approx(list(shares)) == max_min(capacity, wanted, weights)


amounts = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), min_size=1, max_size=6)


@given(st.integers(0, 100), amounts)
def test_shares_are_max_min(capacity: int, claims: list[tuple[int, int]]) -> None:
    """All is given out, or all that is wanted; who has less than they want has for their weight no less than anybody."""
    wanted, weights = [float(want) for want, _ in claims], [float(weight) for _, weight in claims]
    shares = max_min(float(capacity), wanted, weights)
    assert pytest.approx(min(capacity, sum(wanted))) == sum(shares)
    levels = [share / weight for share, weight in zip(shares, weights, strict=True)]
    for share, want, level in zip(shares, wanted, levels, strict=True):
        assert -1e-9 <= share <= want + 1e-9
        assert share >= want - 1e-9 or level >= max(levels) - 1e-9


test_shares_are_max_min = PROPERTY(test_shares_are_max_min)


def test_shares_are_due_only_beside_other_tenants() -> None:
    """Of the GPUs in use, and not of all there are; types are added up, and a tenant that has all it wants is not told."""
    h100 = {
        A: Claimant(held=30 * GPU, wanted=10 * GPU, entitled=10 * GPU),
        B: Claimant(held=6 * GPU, wanted=20 * GPU, entitled=20 * GPU),
        C: Claimant(held=4 * GPU, wanted=0, entitled=20 * GPU),
    }
    entitled = {A: 10 * GPU, B: 20 * GPU, C: 20 * GPU}
    assert {A: FairShare(12 * GPU, 10 * GPU), B: FairShare(24 * GPU, 20 * GPU)} == dues(
        {"H100": h100}, entitled
    )
    a100 = {B: Claimant(5 * GPU, 0, 0), C: Claimant(1 * GPU, 8 * GPU, 0)}
    assert {
        A: FairShare(12 * GPU, 10 * GPU),
        B: FairShare(27 * GPU, 20 * GPU),
        C: FairShare(7 * GPU, 20 * GPU),
    } == dues({"H100": h100, "A100": a100}, entitled)
    alone = {"H100": {A: Claimant(30 * GPU, 50 * GPU, 0), C: Claimant(4 * GPU, 0, 0)}}
    assert {} == dues(alone, {}) == dues({}, {})  # It wants more, and nobody has any of it.


def test_entitled_to_nothing_is_lent_something() -> None:
    """It counts as if entitled to one GPU."""
    found = dues(
        {"H100": {A: Claimant(0, 8 * GPU, 0), B: Claimant(24 * GPU, 8 * GPU, 3 * GPU)}}, {B: 3 * GPU}
    )
    assert {A: FairShare(6 * GPU, GPU), B: FairShare(18 * GPU, 3 * GPU)} == found


def test_lag_is_told_in_all_that_one_is_entitled_to() -> None:
    """Of types as well with which it has nothing to do now: an hour behind is as many GPU-hours whatever it waits for."""
    a100 = {"A100": {A: Claimant(0, 8 * GPU, 0), B: Claimant(16 * GPU, 0, 7 * GPU)}}
    assert {A: FairShare(2 * GPU, 100 * GPU), B: FairShare(14 * GPU, 9 * GPU)} == dues(
        a100, {A: 100 * GPU, B: 9 * GPU}
    )


def test_lag_grows_with_the_missing_share() -> None:
    """In time of all that it is entitled to; never beyond the cap, and not while nothing is due."""
    due = FairShare(12 * GPU, 4 * GPU)
    assert 20 * SECOND == lag_after(Nanoseconds(0), due, 4 * GPU, 10 * SECOND, CAP)
    assert -10 * SECOND == lag_after(Nanoseconds(0), due, 16 * GPU, 10 * SECOND, CAP)
    assert CAP == lag_after(Nanoseconds(0), due, 0, 7_200 * SECOND, CAP)
    assert -CAP == lag_after(Nanoseconds(0), due, 900 * GPU, 7_200 * SECOND, CAP)
    assert 5 == lag_after(Nanoseconds(5), None, 16 * GPU, 10 * SECOND, CAP)
