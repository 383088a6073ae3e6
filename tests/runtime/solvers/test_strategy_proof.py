"""Strategy-proof sharing: worked examples, the reference on drawn problems, and lies that do not pay."""

import numpy as np
import pytest
from msgspec.structs import replace

from core.sharing.policies.strategy_proof import proportionally_fair
from core.sharing.problem import MILLIONTHS, Floats, SharingProblem
from runtime.solvers.sharing import solve, solve_shares
from tests.core.sharing.instances import BATCHES, assert_possible, drawn, job_speeds, of_speeds


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_equal_jobs_on_one_gpu(count: int) -> None:
    """G11: each of n has 1/n, and keeps ((n - 1) / n) ** (n - 1) of it: without it the others had 1 / (n - 1) each."""
    problem = of_speeds([[10.0]] * count, [1])
    kept = ((count - 1) / count) ** (count - 1)
    shares = solve_shares("strategy_proof", problem)
    assert [kept / count * MILLIONTHS] * count == pytest.approx(shares.alone[:, 0].tolist(), abs=2)
    assert 1 / count == pytest.approx(shares.objective, rel=1e-6)
    assert "clarabel" == shares.by


@pytest.mark.parametrize("seeds", BATCHES)
def test_speeds_are_those_of_the_reference(seeds: range) -> None:
    """G11, G12, G13: by classes and merged columns as by jobs, with weights and widths; and what comes out is possible."""
    from runtime.solvers.reference.strategy_proof import (
        strategy_proof,
    )  # Imports cvxpy, which every process of the tests would load.

    for seed in seeds:
        problem = drawn(seed, jobs=4)
        shares = solve_shares("strategy_proof", problem)
        mean, speeds = strategy_proof(problem)
        assert mean == pytest.approx(shares.objective, rel=1e-6)
        assert speeds.tolist() == pytest.approx(job_speeds(problem, shares), rel=1e-4)
        assert_possible(problem, shares)


def test_no_job_keeps_less_than_its_part() -> None:
    """G11: the mechanism promises every job 1/e of its proportionally fair speed."""
    least = 1.0
    for seed in range(20):
        problem = drawn(seed)
        steps = proportionally_fair(problem)
        solution = solve(next(steps))
        with pytest.raises(StopIteration) as found:
            steps.send(solution)
        _, logs, _ = found.value.value
        shares = solve_shares("strategy_proof", problem)
        kept = np.array(job_speeds(problem, shares)) / problem.proportional_speeds / np.exp(logs)
        least = min(least, float(kept.min()))
        assert kept.max() <= 1.0 + 1e-6
    assert np.exp(-1.0) * (1.0 - 1e-4) <= least <= 0.5, "some job pays half, and none more than it must"


def test_lies_pay_elsewhere_and_not_here() -> None:
    """G11: of lies about speeds none gains by a ten-thousandth, and of the same lies one gains a tenth under max-min."""
    gains: dict[str, list[float]] = {"strategy_proof": [], "max_min": []}
    for seed in range(6):
        dice = np.random.default_rng(seed)
        speeds = 10 ** dice.uniform(-0.5, 0.5, (4, 3))
        problem = of_speeds(speeds.tolist(), [1, 1, 1])
        for policy, mine in gains.items():
            honest = own_speed(policy, problem, speeds)
            for _ in range(6):
                told = speeds.copy()
                told[0] *= 10 ** dice.uniform(-1, 1, 3)
                lied = own_speed(policy, of_speeds(told.tolist(), [1, 1, 1]), speeds)
                mine.append(lied / honest - 1.0)
    assert max(gains["strategy_proof"]) <= 1e-4
    assert max(gains["max_min"]) >= 0.1


def own_speed(policy: str, problem: SharingProblem, speeds: Floats) -> float:
    """The true speed of the first job with the shares that the told speeds give."""
    return float(solve_shares(policy, problem).alone[0] @ speeds[0]) / MILLIONTHS


def test_pairs_are_left_out() -> None:
    """G11: a job's speed beside another would hang on the other's share."""
    problem = drawn(3, has_pairs=True)
    assert problem.pairs
    with_pairs, without = (
        solve_shares("strategy_proof", one) for one in (problem, replace(problem, pairs=()))
    )
    assert with_pairs.alone.tolist() == without.alone.tolist()
    assert (len(problem.pairs), 0) == (len(with_pairs.together), int(with_pairs.together.sum()))
