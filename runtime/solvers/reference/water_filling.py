"""Water-filling as it is stated: level by level, where a mixed integer programme finds the jobs that can rise no more.

Gavel's programmes (commit c4fa4009), a row for each job. There a job can rise if it can have 1.0001 of its level, so that one at level
0 always can and the passes end at it; here it is a part of its level, or of the whole level of an equal share if that is more.
"""

from collections.abc import Callable

import cvxpy
import numpy as np

from core.sharing.problem import Floats, SharingProblem
from runtime.solvers.reference.stated import Stated, stated

RISES = 1e-4
"""The part by which a job must be able to rise. Above the tolerance of an integer, 1e-6, times the largest level."""

EXACT = 1e-7
"""The part of a level that a solver's tolerance may take back."""

TIGHT = {"primal_feasibility_tolerance": 1e-9, "mip_feasibility_tolerance": 1e-9}
"""Levels add up from pass to pass, and so do a solver's errors."""

Weights = Callable[[SharingProblem, Stated, list[bool]], Floats]
"""(jobs,) weights while these jobs are open; 0 for all that do not rise."""


def water_filling(problem: SharingProblem) -> Floats:
    """Return the level of a job of each class: speed by the proportional speed. (classes,)."""
    return _filled(problem, lambda _, one, is_open: one.weights * is_open)


def hierarchical_fair(problem: SharingProblem) -> Floats:
    """Return the same where entities share by weight, and the open jobs of an entity its weight by theirs. (classes,)."""

    def weights(problem: SharingProblem, one: Stated, is_open: list[bool]) -> Floats:
        found = np.zeros(len(one.jobs))
        for job, entity in enumerate(_entities(problem, one)):
            if is_open[job]:
                others = [
                    one.weights[other]
                    for other, name in enumerate(_entities(problem, one))
                    if name == entity and is_open[other]
                ]
                found[job] = _entity_weight(problem, entity) * one.weights[job] / sum(others)
        return found

    return _filled(problem, weights)


def hierarchical_fifo(problem: SharingProblem) -> Floats:
    """Return the same where the open job of an entity that came first has all of its weight; each class is a job. (classes,)."""

    def weights(problem: SharingProblem, one: Stated, is_open: list[bool]) -> Floats:
        found = np.zeros(len(one.jobs))
        for entity in sorted(set(_entities(problem, one))):
            mine = [
                (problem.classes[one.jobs[job]].order, job)
                for job, name in enumerate(_entities(problem, one))
                if name == entity and is_open[job]
            ]
            if mine:
                found[min(mine)[1]] = _entity_weight(problem, entity)
        return found

    return _filled(problem, weights)


def _filled(problem: SharingProblem, weights_of: Weights) -> Floats:
    one = stated(problem)
    ratio = cvxpy.multiply(1.0 / one.proportional_speeds, one.speeds)
    jobs = len(one.jobs)
    levels = np.zeros(jobs)
    is_open = [True] * jobs
    while any(is_open):
        weights = weights_of(problem, one, is_open)
        rising = np.flatnonzero(weights)
        kept = [*one.limits, ratio >= levels * (1.0 - EXACT)]
        rise = cvxpy.min(
            cvxpy.multiply(
                (one.widths / np.where(weights > 0, weights, 1.0))[rising], (ratio - levels)[rising]
            )
        )
        programme = cvxpy.Problem(cvxpy.Maximize(rise), kept)
        programme.solve(solver=cvxpy.HIGHS, **TIGHT)
        # What a solver's tolerance has added cannot be kept.
        levels = np.minimum(levels + float(programme.value) * weights / one.widths, ratio.value)
        can_rise = _can_rise(problem, one, ratio, levels)
        was_open, is_open = is_open, [now and can for now, can in zip(is_open, can_rise, strict=True)]
        if is_open == was_open:
            break
    by_class = np.zeros(len(problem.classes))
    by_class[one.jobs] = levels
    return by_class


def _can_rise(problem: SharingProblem, one: Stated, ratio: cvxpy.Expression, levels: Floats) -> list[bool]:
    """Return which jobs can rise, by as many binary numbers as there are jobs."""
    margin = RISES * np.maximum(levels, min(1.0, sum(problem.gpus) / one.widths.sum()))
    most = float((problem.speeds.max(axis=1)[one.jobs] / one.proportional_speeds).max())
    rises = cvxpy.Variable(len(one.jobs), boolean=True)
    limits = [
        *one.limits,
        ratio >= levels * (1.0 - EXACT),
        ratio >= levels + margin - most * (1 - rises),
        ratio <= levels + margin / 10 + most * rises,
    ]
    programme = cvxpy.Problem(cvxpy.Maximize(cvxpy.sum(rises)), limits)
    programme.solve(solver=cvxpy.HIGHS, **TIGHT)
    return [bool(value > 0.5) for value in rises.value]


def _entities(problem: SharingProblem, one: Stated) -> list[str]:
    return [problem.classes[index].entity for index in one.jobs]


def _entity_weight(problem: SharingProblem, entity: str) -> float:
    found = [weight for name, weight in problem.entity_weights if name == entity]
    return found[0] if found else 1.0
