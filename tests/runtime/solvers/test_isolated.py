"""Isolated: an equal part of every pool."""

import numpy as np
import pytest

from runtime.solvers.reference.isolated import isolated
from runtime.solvers.sharing import solve_shares
from tests.core.sharing.instances import BATCHES, assert_possible, drawn, job_speeds, of_speeds


def test_each_has_an_equal_part() -> None:
    """Of 2 and 3 GPUs four jobs have a half and three quarters, cut to all of the time; a job of two GPUs has half of that."""
    problem = of_speeds([[1, 1]] * 4, [2, 3], gpus=[1, 1, 1, 2])
    shares = solve_shares("isolated", problem)
    assert [[400_000, 600_000]] * 3 + [[250_000, 375_000]] == shares.alone.tolist()


@pytest.mark.parametrize("seeds", BATCHES)
def test_speeds_are_those_of_the_reference(seeds: range) -> None:
    """G11, G12: by class and merged pools as by job; finish-time fairness compares with the same speeds."""
    for seed in seeds:
        problem = drawn(seed, has_pairs=True)
        shares = solve_shares("isolated", problem)
        assert_possible(problem, shares)
        speeds = job_speeds(problem, shares)
        assert isolated(problem) == pytest.approx(speeds, rel=1e-4)
        assert isolated(problem) == pytest.approx(problem.isolated_speeds)
        assert not np.any(shares.together)
