"""Packed and spread as two columns of one pool."""

import random

import numpy as np
import pytest

from core.sharing.building import JobProgress, Pool, built
from core.sharing.jobs import SharingJob
from core.sharing.policies import POLICIES
from core.sharing.problem import MILLIONTHS, SharingProblem
from core.sharing.speeds import SPREAD, Shape, SpeedTable
from runtime.solvers.sharing import solve_shares
from tests.core.sharing.instances import BATCHES, assert_possible

AWARE = tuple(
    name
    for name in ("fifo", "makespan", "max_min", "max_throughput", "sjf", "water_filling")
    if name in POLICIES
)
"""Policies that leave no GPU idle on which a job would be faster."""
TYPES = ("v100", "p100", "k80")


def of_jobs(count: int, *, is_by_job: bool) -> SharingProblem:
    """Jobs of 8 GPUs; V100s lie in nodes of 4, and P100s in nodes of 8, on which the job is slower than packed on V100s."""
    table = SpeedTable({("LM", 8): {"v100": 20.0, "v100/spread": 5.0, "p100": 8.0, "p100/spread": 6.0}}, {})
    pools = (Pool("eu", "v100", 16, node_gpus=4), Pool("eu", "p100", 8, node_gpus=8))
    jobs = [JobProgress(SharingJob(f"{index}", "LM", 8, 1e4), 1e4, order=index) for index in range(count)]
    return built(jobs, pools, table, is_by_job=is_by_job, has_placement=True).problem


@pytest.mark.parametrize("name", AWARE)
def test_packed_on_the_slower_type_comes_first(name: str) -> None:
    """G27: one job has the P100s; of two, the second has V100s on two nodes, once there is no room on the P100s."""
    packed, spread, p100_packed, p100_spread = range(4)
    shares = solve_shares(name, of_jobs(1, is_by_job=POLICIES[name].is_by_job)).alone
    assert [0, 0, MILLIONTHS, 0] == shares.sum(axis=0).tolist()
    problem = of_jobs(2, is_by_job=POLICIES[name].is_by_job)
    shares = (solve_shares(name, problem).alone * problem.counts[:, None].astype(int)).sum(axis=0)
    assert [0, 0] == [shares[packed], shares[p100_spread]]
    assert [1.0, 1.0] == pytest.approx(
        [shares[spread] / MILLIONTHS, shares[p100_packed] / MILLIONTHS], abs=1e-5
    )


def drawn_problem(seed: int, *, is_by_job: bool) -> SharingProblem:
    """Up to eight jobs of a few models, with measured speeds of both placements on most types."""
    dice = random.Random(f"placement/{seed}")
    alone: dict[Shape, dict[str, float]] = {}
    for model in ("A", "B", "C"):
        for gpus in (1, 2, 4, 8):
            packed = {gpu_type: gpus * dice.uniform(1, 10) for gpu_type in TYPES}
            alone[model, gpus] = packed | {
                gpu_type + SPREAD: packed[gpu_type] * dice.uniform(0.1, 1.0) for gpu_type in TYPES[:2]
            }
    pools = [
        Pool("eu", gpu_type, dice.choice((8, 12)), node_gpus=dice.choice((2, 4, 8))) for gpu_type in TYPES
    ]
    jobs = [
        JobProgress(
            SharingJob(f"{index}", dice.choice("ABC"), dice.choice((1, 2, 4, 8)), 1.0),
            10 ** dice.uniform(3, 5),
            order=index,
        )
        for index in range(dice.randint(2, 8))
    ]
    return built(jobs, pools, SpeedTable(alone, {}), is_by_job=is_by_job, has_placement=True).problem


@pytest.mark.parametrize("name", AWARE)
@pytest.mark.parametrize("seeds", BATCHES)
def test_spread_is_not_used_while_packed_elsewhere_is_faster(seeds: range, name: str) -> None:
    """G27: where a job runs spread, no column in which it is faster has room for that part of its time."""
    spread_used = 0
    for seed in seeds:
        problem = drawn_problem(seed, is_by_job=POLICIES[name].is_by_job)
        shares = solve_shares(name, problem)
        assert_possible(problem, shares)
        busy = shares.alone / MILLIONTHS * (problem.counts * problem.widths)[:, None]
        used = np.bincount(problem.pool_of, busy.sum(axis=0), minlength=len(problem.gpus))
        idle = problem.pool_gpus - used
        for index, column in np.argwhere(shares.alone > MILLIONTHS // 1_000).tolist():
            if problem.columns[column].placement != "spread":
                continue
            spread_used += 1
            speeds = np.where(problem.runs, problem.speeds, 0.0)[index]
            for faster in np.flatnonzero(speeds > speeds[column] * 1.001).tolist():
                same_pool = problem.pool_of[faster] == problem.pool_of[column]
                assert not same_pool, "packed in the same pool is faster and takes the same GPUs"
                assert idle[problem.pool_of[faster]] < busy[index, column], (seed, index, column, faster)
    assert spread_used > len(seeds) / 4
