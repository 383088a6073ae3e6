"""Max-min fairness as it is stated, with a row for each job and for each pair of jobs."""

import cvxpy

from core.sharing.problem import SharingProblem
from runtime.solvers.reference.stated import Stated, stated


def max_min(problem: SharingProblem) -> float:
    """Return the highest level that every job can reach."""
    return level_of(stated(problem))


def level_of(one: Stated) -> float:
    """Return the highest least of speed times GPUs by weight, relative to the proportional speed."""
    factors = one.widths / (one.weights * one.proportional_speeds)
    level = cvxpy.min(cvxpy.multiply(factors, one.speeds))
    problem = cvxpy.Problem(cvxpy.Maximize(level), one.limits)
    problem.solve(solver=cvxpy.CLARABEL)
    return float(problem.value)
