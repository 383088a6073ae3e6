"""Max throughput: the most steps a second of all jobs together, whatever each gets.

Steps are counted as they are, so models with short steps win and others may have nothing. To compare with: that is how Sia's authors used
Gavel (SOSP 2023).

Source: OSDI 2020, section 4.2.
"""

import numpy as np

from core.sharing.problem import Floats, SharingProblem
from core.sharing.programmes import Rows, Steps, summed
from core.sharing.times import Times, times_of


def max_throughput(problem: SharingProblem) -> Steps:
    """Return the shares with the most total speed; the objective is that speed, in steps a second."""
    times = times_of(problem)
    rows = Rows(times.count)
    times.bound(rows)
    # Speeds of models are orders of magnitude apart: in units of the fastest, so that a tolerance means the same for all problems.
    gain = total_speeds(times)
    unit = float(gain.max())
    solution = yield rows.programme(gain / unit, np.zeros(times.count), times.most)
    return times.shares(solution.values, unit * solution.objective, solution.by)


def total_speeds(times: Times) -> Floats:
    """Return by variable the steps a second of all jobs by one unit of it. (variables,)."""
    _, variable, speed = times.speeds
    return summed(variable, speed, times.count)
