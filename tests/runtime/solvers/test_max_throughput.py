"""Max throughput: the most steps, whoever makes them."""

import pytest

from runtime.solvers.sharing import solve_shares
from tests.core.sharing.instances import BATCHES, assert_possible, crowded, drawn, job_speeds, of_speeds


def test_the_fastest_have_all() -> None:
    """G11: steps are counted as they are, so the job with few large ones has nothing, though it would gain four times on the V100."""
    problem = of_speeds([[40.0, 10.0], [4.0, 1.0], [100.0, 50.0]], [1, 1])
    shares = solve_shares("max_throughput", problem)
    assert [[0, 1_000_000], [0, 0], [1_000_000, 0]] == shares.alone.tolist()
    assert 110.0 == pytest.approx(shares.objective)


@pytest.mark.parametrize("seeds", BATCHES)
def test_total_is_that_of_the_reference(seeds: range) -> None:
    """G11, G12: by class and merged pools as by job, with pairs and without."""
    from runtime.solvers.reference.max_throughput import max_throughput

    for seed in seeds:
        problem = (drawn, crowded)[seed % 2](seed, jobs=5, has_pairs=seed % 4 > 1)
        shares = solve_shares("max_throughput", problem)
        assert max_throughput(problem) == pytest.approx(shares.objective, rel=1e-6)
        assert_possible(problem, shares)
        speeds = zip(job_speeds(problem, shares), problem.classes, strict=True)
        assert shares.objective == pytest.approx(sum(speed * one.count for speed, one in speeds), rel=1e-4)
