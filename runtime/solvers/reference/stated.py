"""The variables and limits of sharing as the papers state them: one row a job, or a pair of jobs, and no classes.

Slow on purpose, and written apart from what it checks.
"""

from itertools import combinations

import cvxpy
import numpy as np
from msgspec import Struct

from core.sharing.problem import Floats, SharingProblem


class Stated(Struct, frozen=True):
    """Of every job its share of the time in every column, and what follows from that."""

    jobs: list[int]
    """(jobs,) the class of each job."""
    share: cvxpy.Variable
    """(jobs, columns) fractions of the time, alone."""
    speeds: cvxpy.Expression
    """(jobs,) steps a second."""
    limits: list[cvxpy.Constraint]
    widths: Floats
    """(jobs,)."""
    weights: Floats
    """(jobs,)."""
    steps: Floats
    """(jobs,)."""
    proportional_speeds: Floats
    """(jobs,) on all pools, by their GPUs."""


def stated(problem: SharingProblem) -> Stated:
    """Return the variables and limits of a problem."""
    jobs = [index for index, one in enumerate(problem.classes) for _ in range(one.count)]
    of = np.array(jobs, dtype=np.int64)
    columns = len(problem.columns)
    share = cvxpy.Variable((len(jobs), columns), nonneg=True)
    widths = problem.widths[of]
    fits = widths[:, None] <= np.array([problem.gpus[pool] for pool in problem.pool_of])[None, :]
    speed = np.where(fits, problem.speeds[of], 0.0)
    limits = [share[speed == 0] == 0] if (speed == 0).any() else []
    speeds = cvxpy.sum(cvxpy.multiply(speed, share), axis=1)
    busy = cvxpy.sum(share, axis=1)
    taken = widths @ share
    for pair in problem.pairs:
        mine, others = np.flatnonzero(of == pair.first), np.flatnonzero(of == pair.second)
        both = (
            list(combinations(mine, 2))
            if pair.first == pair.second
            else [(a, b) for a in mine for b in others]
        )
        runs = (pair.speeds.max(axis=0) > 0) & (speed[mine[0]] > 0) & (speed[others[0]] > 0)
        if not both or not runs.any():
            continue
        shared = cvxpy.Variable((len(both), columns), nonneg=True)
        limits.append(shared[:, ~runs] == 0)
        for number in (0, 1):
            member = np.zeros((len(jobs), len(both)))
            member[[two[number] for two in both], range(len(both))] = 1.0
            speeds = speeds + member @ (shared @ pair.speeds[number])
            busy = busy + member @ cvxpy.sum(shared, axis=1)
        taken = taken + problem.classes[pair.first].gpus * cvxpy.sum(shared, axis=0)
    limits.append(busy <= 1)
    for pool, gpus in enumerate(problem.gpus):
        limits.append(cvxpy.sum(taken[np.flatnonzero(problem.pool_of == pool)]) <= gpus)
    best = np.zeros((len(jobs), len(problem.gpus)))
    for column, pool in enumerate(problem.pool_of):
        best[:, pool] = np.maximum(best[:, pool], speed[:, column])
    proportional = best @ np.array(problem.gpus, dtype=float) / sum(problem.gpus)
    return Stated(jobs, share, speeds, limits, widths, problem.weights[of], problem.steps[of], proportional)
