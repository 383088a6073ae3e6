"""Isolated: every job has an equal part of every pool, as if the fleet were cut into as many fleets as there are jobs.

The yardstick of finish-time fairness, and a policy to compare with.

Source: Gavel's `isolated` (stanford-futuredata/gavel, commit c4fa4009).
"""

import numpy as np

from core.sharing.greedy import fastest_columns
from core.sharing.problem import MILLIONTHS, Shares, SharingProblem
from core.sharing.programmes import Steps


def isolated(problem: SharingProblem) -> Steps:
    """Return for each of n jobs 1/n of each pool's GPUs, in its fastest column there, and no more time than there is."""
    yield from ()
    jobs = sum(one.count for one in problem.classes)
    alone = np.zeros(problem.speeds.shape, dtype=np.int64)
    pool_of: list[int] = problem.pool_of.tolist()
    for index, columns in enumerate(fastest_columns(problem)):
        for column in fastest_of_pools(columns, pool_of).values():
            alone[index, column] = equal_part(problem, pool_of[column], jobs, problem.classes[index].gpus)
    return Shares(alone, np.zeros((len(problem.pairs), len(problem.columns)), dtype=np.int64), by="formula")


def fastest_of_pools(columns: list[int], pool_of: list[int]) -> dict[int, int]:
    """Return the first of these columns by pool."""
    return {pool_of[column]: column for column in reversed(columns)}


def equal_part(
    problem: SharingProblem, pool: int, parts: int, gpus: int, slots: int = 1, among: int = 1
) -> int:
    """Return the share of time on a pool that one of so many equal parts of the fleet gives to a job, rounded down.

    gpus      of the job
    slots     parts that are given, to `among` jobs: each has the mean
    returns   millionths: pool's GPUs / (parts x gpus), divided by the sum over all pools where that is more than 1
    """
    whole = max(parts * gpus, sum(problem.gpus))
    return slots * problem.gpus[pool] * MILLIONTHS // (whole * among)
