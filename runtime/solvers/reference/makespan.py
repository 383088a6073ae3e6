"""Makespan as it is stated: the longest of steps by speed, a row for each job."""

import cvxpy

from core.sharing.problem import SharingProblem
from runtime.solvers.reference.stated import stated


def makespan(problem: SharingProblem) -> float:
    """Return after how many seconds the last job ends, at the earliest."""
    one = stated(problem)
    # In the unit in which the job that needs most of its hardware has speed 1.
    longest = float((one.steps / problem.speeds.max(axis=1)[one.jobs]).max())
    slowest = cvxpy.min(cvxpy.multiply(longest / one.steps, one.speeds))
    programme = cvxpy.Problem(cvxpy.Maximize(slowest), one.limits)
    programme.solve(solver=cvxpy.HIGHS)
    return longest / float(programme.value)
