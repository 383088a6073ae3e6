"""Shortest job first: the job with the least time left, on its fastest hardware, is served before all others.

Source: OSDI 2020, section 4.2 (SJF), for one job; the order of all jobs and the rest are as in `fifo`.
"""

import numpy as np

from core.sharing.greedy import served
from core.sharing.problem import BadProblem, Floats, SharingProblem
from core.sharing.programmes import Steps


def sjf(problem: SharingProblem) -> Steps:
    """Return whole shares by time left; the objective is how many jobs run. Reads steps and order. Raises BadProblem."""
    yield from ()
    left = shortest_seconds(problem)
    classes = problem.classes
    return served(
        problem,
        sorted(
            range(len(classes)), key=lambda index: (left[index], classes[index].order, classes[index].name)
        ),
    )


def shortest_seconds(problem: SharingProblem) -> Floats:
    """Return the time that a job of each class needs where it is fastest. (classes,) seconds. Raises BadProblem."""
    for one in problem.classes:
        if one.steps <= 0:
            raise BadProblem(
                f"{one.name}: how many steps it has left is not known, and the policy orders jobs by them"
            )
    found: Floats = problem.steps / np.where(problem.runs, problem.speeds, 0.0).max(axis=1)
    return found
