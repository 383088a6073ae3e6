"""Min cost as it is stated, a ratio of sums over jobs, and solved in another way than ours: by Dinkelbach's method.

Each step maximises speed - ratio * price for the last ratio; at the best ratio the maximum is 0.
"""

from collections.abc import Sequence

import cvxpy
import numpy as np
from msgspec.structs import replace

from core.sharing.problem import SharingProblem
from runtime.solvers.reference.stated import Stated, stated

STEPS_MAX = 50
"""Ratios that are tried; each is closer to the best than the one before, and five are usual."""
CLOSE = 1e-9


def min_cost(problem: SharingProblem, promised: Sequence[int] = ()) -> float:
    """Return the most steps for a dollar, of problems without pairs, where the promises of these classes are kept."""
    one = stated(replace(problem, pairs=()))
    prices = np.array([column.price for column in problem.columns])
    cost = cvxpy.sum(one.widths @ one.share @ prices)
    speed = cvxpy.sum(one.speeds)
    limits = [*one.limits, *_kept(problem, one, promised)]
    ratio = 0.0
    for _ in range(STEPS_MAX):
        programme = cvxpy.Problem(cvxpy.Maximize(speed - ratio * cost), limits)
        programme.solve(solver=cvxpy.HIGHS)
        better = float(speed.value / cost.value) if cost.value > CLOSE else ratio
        if better <= ratio * (1.0 + CLOSE):
            break
        ratio = better
    return ratio * 3_600.0


def can_keep(problem: SharingProblem, promised: Sequence[int]) -> bool:
    """Return whether the promises of these classes can be kept together."""
    one = stated(problem)
    programme = cvxpy.Problem(cvxpy.Minimize(0), [*one.limits, *_kept(problem, one, promised)])
    programme.solve(solver=cvxpy.HIGHS)
    return bool(programme.status == cvxpy.OPTIMAL)


def _kept(problem: SharingProblem, one: Stated, promised: Sequence[int]) -> list[cvxpy.Constraint]:
    needs = [
        (job, problem.classes[index].steps / problem.classes[index].within)
        for job, index in enumerate(one.jobs)
        if index in promised
    ]
    return [one.speeds[job] / need >= 1 for job, need in needs]
