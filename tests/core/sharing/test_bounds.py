"""Shares within the time of jobs and the GPUs of pools, to the last millionth."""

import numpy as np
import pytest
from msgspec.structs import replace

from core.sharing.bounds import excess_of, within_bounds
from core.sharing.problem import MILLIONTHS, PairSpeeds, Shares, SharingProblem
from tests.core.sharing.instances import assert_possible, of_speeds

PROBLEM = replace(
    of_speeds([[4.0, 4.0], [2.0, 2.0]], [100, 8], gpus=[8, 8], count=[500, 3]),
    pairs=(PairSpeeds(0, 1, np.ones((2, 2))),),
)
"""Wide jobs, many of the first: a millionth of the time of each takes 4,000 millionths of a GPU."""


def shares_of(alone: list[list[int]], together: list[int]) -> Shares:
    """Shares of the problem above."""
    return Shares(np.array(alone, dtype=np.int64), np.array([together], dtype=np.int64))


def test_shares_that_fit_stay_as_they_are() -> None:
    """G12: nothing is taken off where all bounds are kept, to the last millionth."""
    full = shares_of([[23_000, 0], [MILLIONTHS // 3, 0]], [0, 1_000_000])
    assert (full.alone.tolist(), full.together.tolist()) == lists_of(within_bounds(PROBLEM, full))
    assert not excess_of(PROBLEM, full)


def lists_of(shares: Shares) -> tuple[list[list[int]], list[list[int]]]:
    """As lists, which compare."""
    return shares.alone.tolist(), shares.together.tolist()


@pytest.mark.parametrize(
    ("shares", "sentence"),
    [
        (
            shares_of([[25_000, 0], [1, 0]], [0, 0]),
            "100.000024 GPUs of v100 in eu are shared out, and there are 100",
        ),
        (
            shares_of([[0, 0], [0, 0]], [0, 1_000_001]),
            "8.000008 GPUs of p100 in eu are shared out, and there are 8",
        ),
        (
            shares_of([[0, 0], [999_999, 0]], [4, 0]),
            "j1 has 1.000000 of its time, which is more than all",
        ),
    ],
)
def test_millionths_of_rounding_are_taken_off(shares: Shares, sentence: str) -> None:
    """G12: of GPUs by jobs alone and by pairs, and of the time of a job that runs alone and beside another."""
    assert sentence == excess_of(PROBLEM, shares)
    less = within_bounds(PROBLEM, shares)
    assert not excess_of(PROBLEM, less)
    assert_possible(PROBLEM, less)
    lost = int((shares.alone - less.alone).sum() + (shares.together - less.together).sum())
    assert 1 <= lost <= 5


def test_more_than_rounding_is_a_mistake() -> None:
    """A policy that gives a tenth too much is wrong, and is not made right by scaling."""
    with pytest.raises(AssertionError, match="more than rounding"):
        within_bounds(PROBLEM, shares_of([[27_500, 0], [0, 0]], [0, 0]))


def test_share_where_a_job_does_not_run_is_told() -> None:
    """G13: a share of a column without speed, or with too few GPUs, is an excess."""
    narrow: SharingProblem = of_speeds([[4.0, 4.0, 0.0]], [8, 4, 8], gpus=[8])
    for column, gpu_type in ((1, "p100"), (2, "k80")):
        alone = np.zeros((1, 3), dtype=np.int64)
        alone[0, column] = 1
        told = excess_of(narrow, Shares(alone, np.zeros((0, 3), dtype=np.int64)))
        assert f"j0 does not run on {gpu_type} in eu, and has a share there" == told
