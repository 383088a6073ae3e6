"""The partial allocation mechanism as it is stated: geometric means of all jobs, and of all but one."""

import cvxpy
import numpy as np

from core.sharing.problem import Floats, SharingProblem
from runtime.solvers.reference.stated import Stated, stated


def strategy_proof(problem: SharingProblem) -> tuple[float, Floats]:
    """Return the geometric mean of normalised speeds by weight, and the speeds after all have paid: (classes,), of one job.

    Of each class one job is left out in its turn: like jobs pay alike.
    """
    one = stated(problem)
    everyone = np.ones(len(one.jobs))
    speeds = _speeds(one, everyone)
    found = np.zeros(len(problem.classes))
    for index, first in zip(*np.unique(one.jobs, return_index=True), strict=True):
        others = everyone.copy()
        others[first] = 0.0
        without = _speeds(one, others)
        is_there = others > 0
        losses = (speeds[is_there] / without[is_there]) ** (one.weights[is_there] / one.weights[first])
        found[index] = speeds[first] * losses.prod()
    mean = np.exp(one.weights @ np.log(speeds / one.proportional_speeds) / one.weights.sum())
    return float(mean), found


def _speeds(one: Stated, present: Floats) -> Floats:
    """Return the speeds with the largest geometric mean of those present, the others having nothing. (jobs,)."""
    normalised = cvxpy.multiply(1.0 / one.proportional_speeds, one.speeds)
    mine = np.flatnonzero(present)
    limits = [*one.limits, *(one.share[index] == 0 for index in np.flatnonzero(present == 0))]
    mean = one.weights[mine] @ cvxpy.log(normalised[mine])
    if len(mine):
        cvxpy.Problem(cvxpy.Maximize(mean), limits).solve(solver=cvxpy.CLARABEL)
    found = np.zeros(len(one.jobs))
    found[mine] = one.speeds.value[mine] if len(mine) else 0.0
    return found
