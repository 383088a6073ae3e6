"""Max throughput as it is stated: the largest sum of the speeds of all jobs."""

import cvxpy

from core.sharing.problem import SharingProblem
from runtime.solvers.reference.stated import stated


def max_throughput(problem: SharingProblem) -> float:
    """Return the most steps a second in total."""
    one = stated(problem)
    programme = cvxpy.Problem(cvxpy.Maximize(cvxpy.sum(one.speeds)), one.limits)
    programme.solve(solver=cvxpy.HIGHS)
    return float(programme.value)
