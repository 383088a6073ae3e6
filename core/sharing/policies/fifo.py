"""First come, first served, by speed: the oldest job has the fastest hardware that is free, and no job overtakes another.

Source: OSDI 2020, section 4.2 (FIFO); there it is also stated as a sum of speeds with weights that fall by arrival.
"""

from core.sharing.greedy import served
from core.sharing.problem import SharingProblem
from core.sharing.programmes import Steps


def fifo(problem: SharingProblem) -> Steps:
    """Return whole shares by arrival; the objective is how many jobs run. Reads the order: each class is one job."""
    yield from ()
    classes = problem.classes
    return served(
        problem, sorted(range(len(classes)), key=lambda index: (classes[index].order, classes[index].name))
    )
