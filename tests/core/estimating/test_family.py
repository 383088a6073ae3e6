"""Which names mean the same work again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.estimating.family import NAMELESS, family_of
from tests.core.properties import PROPERTY

NAMES = st.text("abfhTvZ019._-", min_size=1, max_size=20).map(lambda text: f"n{text}")


@pytest.mark.parametrize(
    ("family", "names"),
    [
        ("train", ["train", "train-1", "train-17", "train_0042", "train.3"]),
        ("nightly", ["nightly-2026-03-01", "nightly.20260302", "nightly_20260302T010000Z"]),
        ("llama-7b-run", ["llama-7b-run1", "llama-7b-run31-9f3ac21e", "llama-7b-run-2e0c5f7a1b"]),
        ("bert-v", ["bert-v2", "bert-v3-2026.01.05", "bert-v"]),
        ("deadbeef", ["deadbeef", "deadbeef-1"]),
        (NAMELESS, ["17", "2026-03-01", "9f3ac21e"]),
    ],
)
def test_counters_are_no_part_of_a_family(family: str, names: list[str]) -> None:
    """M36: numbers, dates and hashes, wherever they stand, and however parts are joined."""
    assert {family} == {family_of(name) for name in names}


@pytest.mark.parametrize(
    "names", [("llama-7b", "llama-13b"), ("moe-8x7b", "moe-8x22b"), ("train", "eval"), ("a-b", "ab")]
)
def test_other_work_is_another_family(names: tuple[str, str]) -> None:
    """M36: sizes of models are no numbers of runs."""
    one, other = names
    assert family_of(one) != family_of(other)


@PROPERTY
@given(NAMES, st.integers(0, 10**6))
def test_a_number_behind_a_name_changes_nothing(name: str, number: int) -> None:
    """M36: and a family is its own family."""
    family = family_of(name)
    assert family in (family_of(f"{name}-{number}"), NAMELESS)
    assert family == NAMELESS or family == family_of(family)
