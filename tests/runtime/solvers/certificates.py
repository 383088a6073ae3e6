"""Programmes that prove what shares promise: how fast a class could be while others keep what they have."""

import numpy as np

from core.sharing.policies import POLICIES
from core.sharing.problem import Floats, SharingProblem
from core.sharing.programmes import Rows, summed
from core.sharing.times import Times, times_of
from runtime.solvers.linear import solve_linear
from runtime.solvers.sharing import solve


def highest_speed(problem: SharingProblem, index: int, floors: Floats) -> float:
    """The highest speed of a job of the class while each other class keeps its floor. (classes,) steps a second."""
    of_class, variable, speed = times_of(problem).speeds
    mine = of_class == index
    gain = summed(variable[mine], speed[mine], times_of(problem).count) / problem.counts[index]
    found, _ = best(problem, np.where(np.arange(len(floors)) == index, 0.0, floors), gain)
    return found


def best(problem: SharingProblem, floors: Floats, gain: Floats) -> tuple[float, Floats]:
    """The largest `gain @ variables` while each class has its floor, and the speeds of the classes there."""
    times: Times = times_of(problem)
    unit = float(np.abs(gain).max())
    rows = Rows(times.count)
    times.bound(rows)
    of_class, variable, speed = times.speeds
    scale = 1.0 / (problem.counts * problem.proportional_speeds)
    least = floors * (1.0 - 1e-9) / problem.proportional_speeds
    rows.add(of_class, variable, speed * scale[of_class], least, np.inf, len(floors))
    solution = solve_linear(rows.programme(gain / unit, np.zeros(times.count), times.most))
    return unit * solution.objective, times.speeds_of(solution.values)


def speeds_before_rounding(name: str, problem: SharingProblem) -> Floats:
    """The speeds of the classes by a policy's last programme. (classes,) steps a second."""
    steps, times = POLICIES[name].steps(problem), times_of(problem)
    solution = solve(next(steps))
    try:
        while True:
            solution = solve(steps.send(solution))
    except StopIteration:
        return times.speeds_of(solution.values[: times.count])
