"""The face of all shares that are equally good by max-min fairness: how much total speed they have, a row for each job."""

import cvxpy

from core.sharing.problem import SharingProblem
from runtime.solvers.reference.stated import stated


def totals(problem: SharingProblem, level: float) -> tuple[float, float]:
    """Return the least and the most total normalised speed of shares in which every job has that level."""
    one = stated(problem)
    ratio = cvxpy.multiply(1.0 / one.proportional_speeds, one.speeds)
    reached = cvxpy.multiply(one.widths / one.weights, ratio) >= level * (1.0 - 1e-9)
    found = []
    for objective in (cvxpy.Minimize(cvxpy.sum(ratio)), cvxpy.Maximize(cvxpy.sum(ratio))):
        programme = cvxpy.Problem(objective, [*one.limits, reached])
        programme.solve(solver=cvxpy.HIGHS)
        found.append(float(programme.value))
    return found[0], found[1]
