"""Finish-time fairness as it is stated: the largest ratio of finishing times, a row for each job."""

import cvxpy
import numpy as np

from core.sharing.problem import SharingProblem
from runtime.solvers.reference.stated import stated


def finish_time(problem: SharingProblem) -> float:
    """Return the least largest ratio, with every job's steps known.

    The part of a pool that a job is compared with is its weight by the sum of all, and all of its time at most.
    """
    one = stated(problem)
    ages = np.array([problem.classes[index].age for index in one.jobs])
    isolated_ages = np.array([problem.classes[index].isolated_age for index in one.jobs])
    gpus = np.array(problem.gpus, dtype=float)
    shares = np.outer(one.weights / one.weights.sum() / one.widths, gpus)
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1.0)
    best = np.zeros_like(shares)
    for row, index in enumerate(one.jobs):
        for column, pool in enumerate(problem.pool_of):
            if problem.classes[index].gpus <= problem.gpus[pool]:
                best[row, pool] = max(best[row, pool], problem.speeds[index, column])
    isolated = isolated_ages + one.steps / (best * shares).sum(axis=1)
    # Speeds are in units of the isolated ones: those of models are orders of magnitude apart.
    unit = (best * shares).sum(axis=1)
    times = cvxpy.multiply(one.steps / unit, cvxpy.inv_pos(cvxpy.multiply(1.0 / unit, one.speeds)))
    ratio = cvxpy.max(cvxpy.multiply(1.0 / isolated, ages + times))
    programme = cvxpy.Problem(cvxpy.Minimize(ratio), one.limits)
    programme.solve(solver=cvxpy.CLARABEL)
    return float(programme.value)
