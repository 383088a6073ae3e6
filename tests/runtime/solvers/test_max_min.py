"""Max-min fairness: the worked example to the last digit, and the reference on drawn problems."""

import numpy as np
import pytest
from msgspec.structs import replace

from runtime.solvers.sharing import solve_shares
from tests.core.sharing.instances import BATCHES, assert_possible, drawn, job_speeds, of_speeds


def test_worked_example() -> None:
    """G1, vector A: three jobs on a V100 and a K80 have 12/11 of an equal share, each, and there is one way to give it."""
    problem = of_speeds([[40, 10], [12, 4], [100, 50]], [1, 1])
    shares = solve_shares("max_min", problem)
    assert 8 / 11 == pytest.approx(shares.objective)
    assert [[454_545, 0], [454_545, 90_909], [90_909, 909_090]] == shares.alone.tolist()
    assert [200 / 11, 64 / 11, 600 / 11] == pytest.approx(job_speeds(problem, shares), rel=1e-5)


@pytest.mark.parametrize("has_pairs", [False, True])
@pytest.mark.parametrize("seeds", BATCHES)
def test_level_is_that_of_the_reference(seeds: range, *, has_pairs: bool) -> None:
    """G1, G12, G14: by classes and merged columns as by jobs; and what comes out is possible."""
    from runtime.solvers.reference.max_min import (
        max_min,
    )  # Imports cvxpy, which every process of the tests would load.

    for seed in seeds:
        problem = drawn(seed, jobs=4 if has_pairs else 6, has_pairs=has_pairs)
        shares = solve_shares("max_min", problem)
        assert max_min(problem) == pytest.approx(shares.objective, rel=1e-6)
        assert_possible(problem, shares)
        speeds = np.array(job_speeds(problem, shares))
        levels = speeds * problem.widths / (problem.weights * problem.proportional_speeds)
        assert shares.objective == pytest.approx(levels.min(), rel=1e-4)


@pytest.mark.parametrize("seeds", BATCHES)
def test_agnostic_level_is_that_of_equal_speeds(seeds: range) -> None:
    """G1: the level is the reference's for a fleet on which all speeds are 1, also with the shares before; no job runs in vain (G12, G13)."""
    from runtime.solvers.reference.max_min import max_min

    for seed in seeds:
        problem = drawn(seed)
        alike = replace(problem, speeds=np.where(problem.runs, 1.0, 0.0))
        shares = solve_shares("max_min_agnostic", problem)
        assert max_min(alike) == pytest.approx(shares.objective, rel=1e-6)
        again = solve_shares("max_min_agnostic", replace(problem, last=shares))
        for one in (shares, again):
            assert_possible(problem, one)
        assert (np.abs(again.alone - shares.alone) <= 10).all(), "what holds is kept"


def test_agnostic_shares_are_a_part_of_every_type() -> None:
    """Six jobs that run on all types have a third of each pool between two, though a programme may have any other mix."""
    problem = of_speeds([[9, 3, 1]] * 2 + [[1, 2, 3]] * 4, [1, 2, 3])
    assert [[166_666, 333_333, 500_000]] * 6 == solve_shares("max_min_agnostic", problem).alone.tolist()


def test_agnostic_job_is_placed_as_is_best_for_it() -> None:
    """Of a type's two columns, packed and spread, a job is in the one where it is faster."""
    problem = of_speeds([[5, 9, 1], [5, 2, 1]], [1, 1, 1])
    both = replace(problem, gpus=(1, 1), pools=(0, 0, 1))
    assert [[0, 500_000, 500_000], [500_000, 0, 500_000]] == solve_shares(
        "max_min_agnostic", both
    ).alone.tolist()


def test_weight_and_width_scale_the_share() -> None:
    """G2: twice the weight is twice the speed, and a job of four GPUs has a quarter of the time of one with one."""
    problem = of_speeds([[10, 10]] * 3, [1, 1], weight=[2.0, 1.0, 1.0])
    shares = solve_shares("max_min", problem)
    first, second, third = job_speeds(problem, shares)
    assert (1.0, 1.0) == pytest.approx((second / third, first / second / 2), rel=1e-4)
    wide = of_speeds([[10, 10]] * 8, [4, 4], gpus=[4, *[1] * 7], weight=[1.0] * 8)
    times = solve_shares("max_min", wide).alone.sum(axis=1)
    assert times[1] == pytest.approx(min(4 * times[0], 1_000_000), rel=1e-4)
