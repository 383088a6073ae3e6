"""Finish-time fairness: the job that is delayed most, compared with a fleet of its own, is delayed as little as it can be.

A job's *ratio* is the time from its submission to its end over what that would have been on an equal part of every pool:

    (age + steps / speed) / (isolated age + steps / isolated speed)

The programme minimises the largest ratio. For one bound of the ratio the speeds that a job needs are known, and
`steps / speed <= bound * promised - age` is a rotated second-order cone of speed and bound, so that one conic programme finds both.
A second, linear one gives the GPUs that no ratio needs to those whose normalised speed gains most by them.

A weight scales the part of the fleet that a job is compared with: weight / (sum of all weights) of every pool, and no more time than
there is. The parts of all jobs can be had together, so no ratio exceeds 1 while no job is older than its isolated age. Isolated ages
are those of the caller, counted at whatever part the jobs had then.

A job whose remaining steps are unknown (0) counts as endless: its ratio is isolated speed / speed, the limit for many steps. A job that
is older than all that it was promised sets the bound alone, and the others then share what is left by total normalised speed.

Source: OSDI 2020, section 4.2, after Mahajan et al., Themis, NSDI 2020. The published code keeps the isolated ages between calls and
does not read weights; here both are fields of the problem.
"""

import numpy as np

from core.sharing.cones import SECOND_ORDER, TRIPLE, ConeRows, fitted
from core.sharing.faces import chosen
from core.sharing.problem import Floats, SharingProblem
from core.sharing.programmes import Cone, ConicProgramme, Steps
from core.sharing.times import Times, times_of

TIGHT = 1e-6
"""Relative. An interior point ends in the middle of all best values, where a class that can have more than it needs has more. If none has
more by this much, then all best values have the same speeds, and nothing is left to choose."""

DELAY_MAX = 1_000.0
"""The most that the age of a job counts, relative to the whole time that it was promised: beyond that, shares for the others would be less
than the millionths in which shares are told."""
REST_LEAST = 1e-3
"""The least that the time left counts, relative to the same: a job that is all but done still has some speed."""


def finish_time(problem: SharingProblem) -> Steps:
    """Return the shares with the least largest ratio; its objective is that ratio."""
    times = times_of(problem)
    speeds = promised_speeds(problem)
    delay, rest = _parts(problem, speeds)
    solution = yield _programme(times, speeds, delay, rest)
    # Of the values that are within every bound: the ratio that they keep, and so speeds that can be had.
    values = fitted(times, solution.values)
    reached = times.speeds_of(values) / speeds
    ratio = float((delay + rest / reached).max())
    needed = rest / (ratio - delay)
    if problem.last is not None or (reached > needed * (1.0 + TIGHT)).any():
        values, _ = yield from chosen(times, speeds * needed)
    return times.shares(values, ratio, solution.by)


def promised_speeds(problem: SharingProblem) -> Floats:
    """Return the speed of a job that has its weighted part of every pool. (classes,) steps a second.

    With equal weights that is `problem.isolated_speeds`.
    """
    weights = (problem.counts * problem.weights).sum()
    part = problem.weights / weights * problem.pool_gpus.sum() / problem.widths
    found: Floats = problem.proportional_speeds * np.minimum(1.0, part)
    return found


def ratios_of(problem: SharingProblem, speeds: Floats) -> Floats:
    """Return the ratio of a job of each class at these speeds. (classes,); infinite at speed 0."""
    promised = promised_speeds(problem)
    delay, rest = _parts(problem, promised)
    with np.errstate(divide="ignore"):
        found: Floats = delay + rest * promised / speeds
    return found


def _parts(problem: SharingProblem, promised: Floats) -> tuple[Floats, Floats]:
    """Return the two parts of each ratio at the promised speed: the age, at most `DELAY_MAX`, and the time that is left.

    (classes,) each, relative to the whole time that was promised.
    """
    ages = np.array([one.age for one in problem.classes])
    isolated_ages = np.array([one.isolated_age for one in problem.classes])
    left = problem.steps / promised
    is_endless = problem.steps <= 0
    whole = np.where(is_endless, 1.0, isolated_ages + left)
    delay = np.minimum(np.where(is_endless, 0.0, ages / whole), DELAY_MAX)
    return delay, np.maximum(np.where(is_endless, 1.0, left / whole), REST_LEAST)


def _programme(times: Times, promised: Floats, delay: Floats, rest: Floats) -> ConicProgramme:
    """Minimise the bound, with `speed * (bound - delay) >= rest` for each class; speeds relative to the promised one.

    The product of two is at least `rest` where (their sum, their difference, 2 sqrt(rest)) is in the second-order cone.
    """
    count, classes = times.count, len(times.problem.classes)
    of_class, variable, speed = times.speeds
    relative = speed * times.most[variable] / (promised * times.problem.counts)[of_class]
    bound, every = np.full(classes, count, dtype=np.int64), np.arange(classes, dtype=np.int64)
    rows = ConeRows(count + 1)
    rows.bound(times)
    # Both factors of one size: bounds are far above 1 when a job is late. The product is the same.
    scale = np.sqrt(delay.max() - delay + 1.0)
    relative *= scale[of_class]
    offset = np.stack([-delay / scale, delay / scale, 2.0 * np.sqrt(rest)], axis=1).ravel()
    rows.add(
        [Cone(SECOND_ORDER, TRIPLE)] * classes,
        np.concatenate([TRIPLE * of_class, TRIPLE * of_class + 1, TRIPLE * every, TRIPLE * every + 1]),
        np.concatenate([variable, variable, bound, bound]),
        np.concatenate([relative, relative, 1.0 / scale, -1.0 / scale]),
        offset,
    )
    cost = np.zeros(count + 1)
    cost[count] = 1.0
    return rows.programme(cost)
