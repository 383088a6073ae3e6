"""Which of the points that a policy finds equally good: the policy fixes what each class must have, and here the rest is chosen.

A linear objective such as the least of all speeds leaves a whole face of optima, and the point that a solver returns is a matter of
its method. A second programme takes the most total normalised speed on that face, so that no job can gain unless another loses; a
third stays near the shares that hold now, so that fewer jobs move.

In the published simulator the second alone shortened the mean completion time by 4 to 24 % under moderate load (multi-GPU jobs
gained most), and nothing near saturation.
"""

from collections.abc import Generator

import numpy as np

from core.sharing.problem import Floats
from core.sharing.programmes import Programme, Rows, Solution, summed
from core.sharing.times import Times

SLACK = 1e-9
"""By how much, relative, a level that was found may be missed when the rest is chosen: solvers are exact to about as much."""

Choice = Generator[Programme, Solution, tuple[Floats, str]]


def chosen(times: Times, floors: Floats) -> Choice:
    """Choose among all values that give each class at least a speed.

    floors    (classes,) steps a second of a job of each class
    returns   (variables,) values with the most total normalised speed, of these the nearest to the last shares; and who solved
    """
    problem = times.problem
    scale = 1.0 / problem.proportional_speeds
    floors = floors * (1.0 - SLACK)
    of_class, variable, speed = times.speeds
    gain = summed(variable, speed * scale[of_class], times.count)
    rows = Rows(times.count)
    times.bound(rows)
    _floor(rows, times, floors)
    best = yield rows.programme(gain, np.zeros(times.count), times.most)
    if problem.last is None:
        return best.values, best.by
    near = yield from _nearest(times, floors, gain, best)
    return near.values[: times.count], near.by


def _floor(rows: Rows, times: Times, floors: Floats) -> None:
    """Every class has at least its speed. Divided by the proportional speed, so that rows are of one size."""
    problem = times.problem
    of_class, variable, speed = times.speeds
    scale = 1.0 / (problem.proportional_speeds * problem.counts)
    least = floors * problem.counts * scale
    rows.add(of_class, variable, speed * scale[of_class], least, np.inf, len(problem.classes))


def _nearest(
    times: Times, floors: Floats, gain: Floats, best: Solution
) -> Generator[Programme, Solution, Solution]:
    """Of the values with that total speed, those that differ least from the last: the sum of all differences, in GPUs."""
    problem = times.problem
    assert problem.last is not None
    count = times.count
    last = np.minimum(times.values(problem.last), times.most)
    rows = Rows(2 * count)
    times.bound(rows)
    _floor(rows, times, floors)
    every = np.arange(count, dtype=np.int64)
    total = best.objective - SLACK * max(1.0, abs(best.objective))
    rows.add(np.zeros(count, dtype=np.int64), every, gain, total, np.inf, 1)
    # The second half of the variables is what each of the first gains over the last shares: at least value - last.
    rows.add(every, every, 1.0, -np.inf, last, count)
    rows.more(every + count, -1.0)
    widths = problem.widths[times.classes]
    # GPUs that are taken up and those that are let go, as total GPUs in use may differ: |d| = 2 max(d, 0) - d.
    cost = np.concatenate([widths, -2.0 * widths])
    zeros = np.zeros(2 * count)
    return (yield rows.programme(cost, zeros, np.concatenate([times.most, times.most])))
