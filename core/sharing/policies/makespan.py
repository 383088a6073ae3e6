"""Makespan: the job that ends last ends as early as it can.

If the last job ends after 1 / z seconds, then each has a speed of at least its steps times z. So the largest z is the answer of one
linear programme, where the published code bisects to within 5 %.

The programme has no row for a job that needs so little that others of its kind make up for it (core/sharing/gathering.py). How much each
needs is not known before; so a first programme tells no jobs of one kind apart, which gives a bound of z. Only where a job cannot do with
any mix of hardware at that bound, a second one has rows for such jobs.

Source: OSDI 2020, section 4.2.
"""

from collections.abc import Generator

import numpy as np

from core.sharing.faces import chosen
from core.sharing.gathering import Gathered, gathered
from core.sharing.policies.max_min import highest_level
from core.sharing.problem import BadProblem, Floats, SharingProblem
from core.sharing.programmes import Programme, Solution, Steps
from core.sharing.times import Times, times_of

LEAST = 1e-7
"""The least part of its fastest speed that a job is taken to need: a tenth of a millionth of its time, which no share can tell."""
WIDER = 1.0 + 1e-6
"""By how much the bound that a programme gave is raised before it is relied on."""


def makespan(problem: SharingProblem) -> Steps:
    """Return the shares with which the last job ends first; the objective is when that is, in seconds.

    Reads steps. Raises BadProblem.
    """
    for one in problem.classes:
        if one.steps <= 0:
            raise BadProblem(
                f"{one.name}: how many steps it has left is not known, and the policy ends all of them together"
            )
    # The speeds with which all jobs end when the longest does that has its fastest hardware to itself: nothing ends earlier.
    fastest = np.where(problem.runs, problem.speeds, 0.0).max(axis=1)
    longest = float((problem.steps / fastest).max())
    speeds = np.maximum(problem.steps / longest, LEAST * fastest)
    few, few_times, level = yield from _level(problem, speeds)
    times = times_of(problem)
    if problem.last is None:
        some, by = yield from chosen(few_times, level * few.mean(problem.counts, speeds))
        values = few.spread(times, few_times, some, level * speeds)
    else:
        # Each job stays near its own last shares, so that all are told apart.
        values, by = yield from chosen(times, level * speeds)
    return times.shares(values, longest / level, by)


def _level(
    problem: SharingProblem, speeds: Floats
) -> Generator[Programme, Solution, tuple[Gathered, Times, float]]:
    """Find the highest level at which every job has its speed times the level.

    speeds    (classes,) steps a second of a job at level 1. No level is higher, though gathered jobs could have more in the mean
    returns   the level, and the gathered problem that is exact for it
    """
    few = gathered(problem, np.zeros(len(speeds)))
    times = times_of(few.problem)
    level = yield from highest_level(times, few.mean(problem.counts, speeds))
    bound = min(1.0, level * WIDER)
    exact = gathered(problem, bound * speeds)
    if len(exact.problem.classes) == len(few.problem.classes):
        return few, times, min(1.0, level)
    times = times_of(exact.problem)
    level = yield from highest_level(times, exact.mean(problem.counts, speeds))
    return exact, times, min(1.0, level)
