"""Two jobs on the same GPUs: the published optima, and that pairs which are not worth it may be left out."""

import numpy as np
import pytest
from msgspec.structs import replace

from bench.support.sharing.drawn import drawn_jobs
from bench.support.sharing.tables import GAVEL_TYPES, gavel_table, has_gavel
from core.sharing.building import JobProgress, Pool, built
from core.sharing.jobs import SharingJob
from core.sharing.pairs import worthwhile
from core.sharing.policies import POLICIES
from core.sharing.problem import MILLIONTHS, PairSpeeds
from runtime.solvers.sharing import solve_shares
from tests.core.sharing.instances import BATCHES, assert_possible, drawn, job_speeds, of_speeds

OBJECTIVES = tuple(
    name for name in ("makespan", "max_min", "max_throughput", "water_filling") if name in POLICIES
)
"""Policies whose objective is a function of speeds, and is solved for exactly."""


@pytest.mark.parametrize(
    ("count", "level"), [(32, 1.076319), (128, 1.089986), (512, 1.107829), (10_000, 1.101210)]
)
def test_published_levels(count: int, level: float) -> None:
    """G14, vector D: from the list of jobs on, the highest level with space sharing is Gavel's to 1e-6."""
    if not has_gavel():
        pytest.skip("the measured speeds are not there")
    jobs = [
        JobProgress(SharingJob(f"{index}", job.model, 1, 1.0), 1.0)
        for index, job in enumerate(drawn_jobs(count))
    ]
    pools = [Pool("here", gpu_type, count // 4) for gpu_type in GAVEL_TYPES]
    problem = built(jobs, pools, gavel_table(), has_pairs=True).problem
    shares = solve_shares("max_min", problem)
    assert level == pytest.approx(shares.objective, abs=1e-6)
    assert_possible(problem, shares)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("seeds", BATCHES)
def test_pairs_that_are_not_worth_it_change_nothing(seeds: range, name: str) -> None:
    """G14: without them the optimum is the same, as two jobs can have the same speeds by turns on the same GPUs."""
    dropped = 0
    for seed in seeds:
        problem = drawn(seed, has_pairs=True, is_by_job=POLICIES[name].is_by_job)
        fewer = replace(problem, pairs=worthwhile(problem, problem.pairs))
        dropped += len(problem.pairs) - len(fewer.pairs)
        with_all, with_fewer = solve_shares(name, problem), solve_shares(name, fewer)
        assert with_all.objective == pytest.approx(with_fewer.objective, rel=1e-6)
    assert dropped > len(seeds) / 4


def test_wide_jobs_share_too() -> None:
    """Fault 8: two jobs of four GPUs on four, each with .8 of its speed beside the other, run together all of the time (G14)."""
    alone = np.array([[10.0], [30.0]])
    problem = of_speeds(alone.tolist(), [4], gpus=[4, 4])
    problem = replace(problem, pairs=(PairSpeeds(0, 1, alone * 0.8),))
    shares = solve_shares("max_min", problem)
    assert ([[0], [0]], [[MILLIONTHS]]) == (shares.alone.tolist(), shares.together.tolist())
    assert [8.0, 24.0] == pytest.approx(job_speeds(problem, shares))


@pytest.mark.parametrize("name", sorted(set(POLICIES) - {"allox"}))
def test_two_that_cannot_share_never_do(name: str) -> None:
    """G14: a pair with speeds of (0, 0) on the K80 has no time there, though with time it would gain much on the V100."""
    problem = of_speeds([[10.0, 9.0]] * 6, [1, 1], steps=[1_000.0] * 6)
    pairs = tuple(
        PairSpeeds(first, second, np.array([[9.0, 0.0]] * 2))
        for second in range(6)
        for first in range(second)
    )
    shares = solve_shares(name, replace(problem, pairs=pairs))
    assert not shares.together[:, 1].any()
    assert_possible(replace(problem, pairs=pairs), shares)
