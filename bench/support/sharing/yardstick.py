"""The published policies that ours are held to: max-min as one programme, and FIFO with its own rule for hardware without a speed.

The published max-min solves one linear programme by an interior-point method, so its shares are a point in the middle of the optimal
face, and not one that was chosen (core/sharing/faces.py). The published FIFO gives a job the fastest type with room; where the job has
no speed on any such type it is left out, and later jobs pass it.

source    OSDI 2020, section 4; the authors' `max_min_fairness_perf` and `fifo_perf`, stanford-futuredata/gavel at c4fa4009, read and
          not copied
"""

import numpy as np

from core.sharing.policies.max_min import level_programme, units_of
from core.sharing.problem import MILLIONTHS, Shares, SharingProblem
from core.sharing.replay import Chooser
from core.sharing.times import times_of
from runtime.solvers.conic import solve_linear_as_conic
from runtime.solvers.sharing import solve


def plain_max_min(problem: SharingProblem) -> Shares:
    """Return a point in the middle of the optimal face of max-min fairness."""
    times = times_of(problem)
    solution = solve(level_programme(times, units_of(problem)), (solve_linear_as_conic,))
    return times.shares(solution.values[: times.count], solution.objective, solution.by)


def published_fifo(problem: SharingProblem) -> Shares:
    """Return whole shares by arrival. Each class must be one job, and each column a pool."""
    left = list(problem.gpus)
    alone = np.zeros(problem.speeds.shape, dtype=np.int64)
    for index in sorted(range(len(problem.classes)), key=lambda index: problem.classes[index].order):
        width = problem.classes[index].gpus
        fits = [column for column, gpus in enumerate(left) if gpus >= width]
        if not fits:
            break
        fastest = max(fits, key=lambda column: float(problem.speeds[index, column]))
        if problem.speeds[index, fastest] > 0:
            alone[index, fastest] = MILLIONTHS
            left[fastest] -= width
    return Shares(alone, np.zeros((len(problem.pairs), len(problem.columns)), dtype=np.int64))


PLAIN_MAX_MIN = Chooser(plain_max_min, is_by_job=True)
PUBLISHED_FIFO = Chooser(published_fifo, is_by_job=True)
