"""Finish-time fairness: the published optimum, the reference on drawn problems, and jobs of every age."""

import random

import numpy as np
import pytest
from msgspec.structs import replace

from core.sharing.policies.finish_time import promised_speeds, ratios_of
from core.sharing.problem import MILLIONTHS, SharingProblem
from runtime.solvers.sharing import solve_shares
from tests.core.sharing.instances import BATCHES, assert_possible, drawn, job_speeds, of_speeds

SPEEDS = (
    (32.35338, 35.86920, 4.79529), (29.94716, 35.82535, 7.17582), (24.09323, 22.30494, 7.05208),
    (17.99491, 11.67550, 1.80653), (10.30026, 7.72278, 0.88558), (11.39613, 9.05299, 2.30052),
    (7.78726, 4.88832, 1.23657), (4.39477, 2.61947, 0.61902), (2.49677, 1.58435, 0.34722),
    (11.06409, 9.53725, 5.46738), (10.62089, 7.86922, 3.50742), (8.61776, 5.09183, 1.75223),
    (5.44611, 3.07354, 0.98158), (1.59514, 1.67770, 0.45833), (109.16662, 90.77591, 25.48550),
    (81.65163, 77.08468, 23.79443), (64.74245, 58.17267, 17.14229), (45.23737, 35.76638, 11.49965),
    (28.23996, 21.15753, 6.05420), (23.31763, 48.88239, 32.85930), (13.28257, 30.74444, 20.04995),
    (7.46963, 16.59664, 10.44122), (3.90605, 8.89666, 5.30025), (2.84151, 5.54844, 2.69878),
    (7.17577, 5.68135, 3.43877), (4.42609, 2.40267, 0.50477),
)  # fmt: skip
"""Steps a second of 26 models on a V100, a P100 and a K80: simulation_throughputs.json of Gavel's repository, commit c4fa4009 (MIT)."""


def published(count: int) -> SharingProblem:
    """The jobs of Gavel's own sweep of solve times, and ages of up to half of their isolated times."""
    dice = random.Random(2)
    speeds, seconds = [], []
    for _ in range(count):
        dice.uniform(0, 1)
        seconds.append(60 * 10 ** (dice.uniform(3, 4) if dice.random() >= 0.8 else dice.uniform(1.5, 3)))
        speeds.append(dice.choice(SPEEDS))
    steps = [one * speed[0] for one, speed in zip(seconds, speeds, strict=True)]
    problem = of_speeds(speeds, [count // 4] * 3, steps=steps)
    isolated = problem.steps / problem.isolated_speeds
    return with_ages(problem, (isolated * np.random.default_rng(2).uniform(0, 0.5, count)).tolist())


def with_ages(problem: SharingProblem, ages: list[float]) -> SharingProblem:
    """The same jobs, submitted so many seconds ago."""
    classes = tuple(replace(one, age=age) for one, age in zip(problem.classes, ages, strict=True))
    return replace(problem, classes=classes)


@pytest.mark.parametrize(("count", "ratio"), [(512, 1.08811), (2_048, 1.09601)])
def test_published_optimum(count: int, ratio: float) -> None:
    """G8, vector E: the published optimum, to a tenth of the tolerance that it has; and the shares keep that ratio."""
    problem = published(count)
    shares = solve_shares("finish_time", problem)
    assert ratio == pytest.approx(shares.objective, rel=1e-4)
    assert_possible(problem, shares)
    worst = ratios_of(problem, np.array(job_speeds(problem, shares))).max()
    assert shares.objective == pytest.approx(float(worst), rel=1e-4)


@pytest.mark.parametrize("has_pairs", [False, True])
@pytest.mark.parametrize("seeds", BATCHES)
def test_ratio_is_that_of_the_reference(seeds: range, *, has_pairs: bool) -> None:
    """G8, G12, G13, G14: with weights, widths, ages and pairs as in the programme that is stated; and what comes out is possible."""
    from runtime.solvers.reference.finish_time import (
        finish_time,
    )  # Imports cvxpy, which every process of the tests would load.

    for seed in seeds:
        problem = drawn(seed, is_by_job=True, has_pairs=has_pairs)
        shares = solve_shares("finish_time", problem)
        assert finish_time(problem) == pytest.approx(shares.objective, rel=1e-5)
        assert_possible(problem, shares)
        worst = ratios_of(problem, np.array(job_speeds(problem, shares))).max()
        assert shares.objective == pytest.approx(float(worst), rel=1e-3)


@pytest.mark.parametrize("seed", range(20))
def test_new_jobs_are_no_slower_than_on_their_own_part(seed: int) -> None:
    """G3: without ages no job's ratio is above 1, weights or not: all parts of the fleet can be had together."""
    problem = drawn(seed, is_by_job=True)
    problem = replace(
        problem, classes=tuple(replace(one, age=0.0, isolated_age=0.0) for one in problem.classes)
    )
    shares = solve_shares("finish_time", problem)
    assert shares.objective <= 1.0 + 1e-6
    speeds = np.array(job_speeds(problem, shares))
    assert (speeds >= promised_speeds(problem) * (1.0 - 1e-4)).all()
    equal = replace(problem, classes=tuple(replace(one, weight=1.0) for one in problem.classes))
    assert equal.isolated_speeds.tolist() == pytest.approx(promised_speeds(equal).tolist())


def test_weight_scales_the_promise() -> None:
    """G2: of new jobs one with twice the weight has twice the speed."""
    problem = of_speeds([[10.0]] * 3, [1], weight=[2.0, 1.0, 1.0], steps=[100.0] * 3)
    assert [5.0, 2.5, 2.5] == pytest.approx(
        job_speeds(problem, solve_shares("finish_time", problem)), rel=1e-4
    )


def test_older_job_is_faster() -> None:
    """G8: of two equal jobs the one that waited for half of its isolated time catches up: (1/2 + 1/2 / y) = 1/2 / (1 - y)."""
    problem = of_speeds([[1.0], [1.0]], [1], steps=[100.0, 100.0])
    problem = with_ages(problem, [100.0, 0.0])
    shares = solve_shares("finish_time", problem)
    old, new = job_speeds(problem, shares)
    # The isolated time is 200 s: 100 + 100 / y seconds of one, and 100 / (1 - y) of the other.
    expected = (np.sqrt(5.0) - 1.0) / 2.0
    assert (expected, 1.0 - expected) == pytest.approx((old, new), rel=1e-4)
    assert (100.0 + 100.0 / expected) / 200.0 == pytest.approx(shares.objective, rel=1e-6)


def test_unknown_steps_count_as_endless() -> None:
    """G8: a job without known steps has what one with very many has, whatever its age."""
    speeds, pools = [[40, 10], [12, 4], [100, 50]], [1, 1]
    unknown = of_speeds(speeds, pools, steps=[0.0, 1e3, 1e3], age=[70.0, 70.0, 0.0])
    many = of_speeds(speeds, pools, steps=[1e12, 1e3, 1e3], age=[70.0, 70.0, 0.0])
    first, second = (solve_shares("finish_time", one) for one in (unknown, many))
    assert first.objective == pytest.approx(second.objective, rel=1e-6)
    all_unknown = of_speeds(speeds, pools)
    fair = solve_shares("max_min", all_unknown)
    inverse = 1.0 / solve_shares("finish_time", all_unknown).objective
    # The isolated time of three jobs on two GPUs is two thirds of the proportional one.
    assert fair.objective * 3 / 2 == pytest.approx(inverse, rel=1e-6)


def test_hopeless_job_takes_no_more_than_helps_it() -> None:
    """G4: a job that is late beyond repair sets the bound; what it cannot use others have, and no GPU is idle."""
    problem = of_speeds([[10, 1], [10, 1], [10, 9]], [1, 1], steps=[10.0, 1e4, 1e4], age=[1e9, 0.0, 0.0])
    shares = solve_shares("finish_time", problem)
    assert_possible(problem, shares)
    late, slow, quick = job_speeds(problem, shares)
    assert late == pytest.approx(10.0, rel=1e-3)
    assert slow > 0.0
    assert quick == pytest.approx(9.0, rel=1e-2)
    assert 2 * MILLIONTHS == pytest.approx(int(shares.alone.sum()), abs=10)


def test_all_but_finished_job_is_not_forgotten() -> None:
    """G8: a job with a step left of a million has a share that is not rounded to nothing."""
    problem = of_speeds([[10.0]] * 2, [1], steps=[1.0, 1e6], isolated_age=[1e6, 0.0])
    finished, other = job_speeds(problem, solve_shares("finish_time", problem))
    assert finished > 1e-3
    assert other > 9.9


def test_like_jobs_may_be_one_class() -> None:
    """G1: three jobs in a class have what three classes of one job have."""
    one = of_speeds([[40, 10], [12, 40]], [2, 1], count=[3, 1], steps=[1e4, 2e4], age=[50.0, 0.0])
    each = of_speeds(
        [[40, 10]] * 3 + [[12, 40]], [2, 1], steps=[1e4] * 3 + [2e4], age=[50.0, 50.0, 50.0, 0.0]
    )
    first, second = solve_shares("finish_time", one), solve_shares("finish_time", each)
    assert first.objective == pytest.approx(second.objective, rel=1e-6)
