"""Makespan: by hand, the published optima, the reference, and that like jobs are told apart where it matters."""

import random

import numpy as np
import pytest

from bench.support.sharing.drawn import drawn_jobs, problem_by_job
from bench.support.sharing.tables import has_gavel
from core.sharing.faces import chosen
from core.sharing.gathering import gathered
from core.sharing.policies.max_min import level_programme
from core.sharing.problem import BadProblem, SharingProblem
from core.sharing.programmes import LinearProgramme
from core.sharing.times import times_of
from runtime.solvers.linear import solve_linear
from runtime.solvers.sharing import solve_shares
from tests.core.sharing.instances import BATCHES, assert_possible, crowded, drawn, job_speeds, of_speeds


def test_all_end_together() -> None:
    """One GPU, and 100 and 300 seconds of work: after 400 seconds both end."""
    problem = of_speeds([[10.0], [10.0]], [1], steps=[1_000.0, 3_000.0])
    shares = solve_shares("makespan", problem)
    assert 400.0 == pytest.approx(shares.objective)
    assert [[250_000], [750_000]] == shares.alone.tolist()


def test_the_longest_job_bounds_the_rest() -> None:
    """A job of 300 seconds on the V100 has it alone; the other ends earlier, as it has the K80 for itself."""
    problem = of_speeds([[10.0, 5.0], [10.0, 5.0]], [1, 1], steps=[1_000.0, 3_000.0])
    shares = solve_shares("makespan", problem)
    assert 300.0 == pytest.approx(shares.objective)
    assert [[0, 1_000_000], [1_000_000, 0]] == shares.alone.tolist()


def test_like_jobs_do_not_lend_each_other_time() -> None:
    """On a fleet with room for all, jobs of one kind end together with the longest, which has its fastest type already."""
    problem = of_speeds([[10.0, 10.0]] * 3, [2, 2], steps=[1_000.0, 3_000.0, 2_000.0])
    shares = solve_shares("makespan", problem)
    assert 300.0 == pytest.approx(shares.objective)
    assert [1_000_000] * 3 == shares.alone.sum(axis=1).tolist()


@pytest.mark.parametrize(
    ("count", "parts", "seconds"), [(512, 4, 557_862.0), (2_048, 4, 596_349.0), (2_048, 32, 711_766.0)]
)
def test_published_makespans(count: int, parts: int, seconds: float) -> None:
    """G7, vector E: the optimum to the digits with which it is published, a hundred-thousandth and less."""
    if not has_gavel():
        pytest.skip("the measured speeds are not there")
    problem = problem_by_job(drawn_jobs(count), parts=parts)
    shares = solve_shares("makespan", problem)
    assert seconds == pytest.approx(shares.objective, abs=0.5)
    assert_possible(problem, shares)


@pytest.mark.parametrize("has_pairs", [False, True])
@pytest.mark.parametrize("seeds", BATCHES)
def test_seconds_are_those_of_the_reference(seeds: range, *, has_pairs: bool) -> None:
    """G7: the optimum, within a millionth; every job ends by then but for the rounding of its shares."""
    from runtime.solvers.reference.makespan import makespan

    for seed in seeds:
        problem = (drawn, crowded)[seed % 2](seed, has_pairs=has_pairs, is_by_job=True)
        shares = solve_shares("makespan", problem)
        assert makespan(problem) == pytest.approx(shares.objective, rel=1e-6)
        assert_possible(problem, shares)
        needed = problem.steps / shares.objective
        lost = problem.speeds.sum(axis=1) * 2e-6
        assert (np.array(job_speeds(problem, shares)) >= needed - lost).all()


@pytest.mark.parametrize("seeds", BATCHES)
def test_gathered_jobs_are_exact(seeds: range) -> None:
    """G4, G7: with rows for few of the jobs alone, the makespan and the most total speed after it are those of rows for all."""
    fewer = 0
    for seed in seeds:
        problem = of_three_models(seed)
        shares = solve_shares("makespan", problem)
        seconds, total = told_apart(problem)
        assert seconds == pytest.approx(shares.objective, rel=1e-7)
        assert_possible(problem, shares)
        speeds = np.array(job_speeds(problem, shares))
        assert total == pytest.approx((speeds / problem.proportional_speeds).sum(), rel=1e-5)
        assert (speeds >= problem.steps / seconds - problem.speeds.sum(axis=1) * 2e-6).all()
        rows = len(gathered(problem, problem.steps / seconds).problem.classes)
        fewer += 3 < rows < len(problem.classes)
    assert fewer > len(seeds) / 2


def test_steps_must_be_known() -> None:
    """A job of which nobody knows the steps is named."""
    with pytest.raises(BadProblem, match=r"^j1: how many steps"):
        solve_shares("makespan", of_speeds([[1.0], [1.0]], [1], steps=[5.0, 0.0]))


def of_three_models(seed: int) -> SharingProblem:
    """Forty jobs of three models on two or three types; some are so long that they need the faster types."""
    dice = random.Random(f"models/{seed}")
    types = dice.randint(2, 3)
    models = [[dice.uniform(5, 20) * ratio for ratio in (1.0, 0.5, 0.2)[:types]] for _ in range(3)]
    of = [dice.randrange(3) for _ in range(40)]
    widths = (1, 1, 2)
    return of_speeds(
        [models[one] for one in of],
        [dice.randint(4, 12) for _ in range(types)],
        gpus=[widths[one] for one in of],
        steps=[10 ** dice.uniform(2, 4.5) for _ in of],
    )


def told_apart(problem: SharingProblem) -> tuple[float, float]:
    """The makespan, and the most total normalised speed at it, by programmes with a row for each job."""
    times = times_of(problem)
    longest = float((problem.steps / problem.speeds.max(axis=1)).max())
    level = solve_linear(level_programme(times, problem.steps / longest)).objective
    programme = next(chosen(times, level * problem.steps / longest))
    assert isinstance(programme, LinearProgramme)
    return longest / level, solve_linear(programme).objective
