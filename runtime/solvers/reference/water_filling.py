"""Water-filling as it is stated: level by level, with a row for each job, and job by job whether it can rise any more.

The published code asks that of all jobs at once, by a mixed integer programme with large factors (Gavel, commit c4fa4009). Of 3,000 drawn
problems it has other levels for a dozen at least: some by the margin of 1.0001 by which it tells a rise, some by the whole level of a job.
"""

from collections.abc import Callable

import cvxpy
import numpy as np

from core.sharing.problem import Floats, SharingProblem
from runtime.solvers.reference.stated import Stated, stated

RISES = 1e-6
"""The part of its level, or of that of an equal share if it is more, by which a job must be able to rise."""

EXACT = 1e-9
"""The part of a level that a solver's tolerance may take back."""

TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
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
    jobs = len(one.jobs)
    ratio = cvxpy.multiply(1.0 / one.proportional_speeds, one.speeds)
    kept, chosen = cvxpy.Parameter(jobs), cvxpy.Parameter(jobs)
    limits = [*one.limits, ratio >= kept]
    alone = cvxpy.Problem(cvxpy.Maximize(chosen @ ratio), limits)
    equal = min(1.0, sum(problem.gpus) / one.widths.sum())
    levels = np.zeros(jobs)
    is_open = [True] * jobs
    while any(is_open):
        weights = weights_of(problem, one, is_open)
        rising = np.flatnonzero(weights)
        units = (one.widths / np.where(weights > 0, weights, 1.0))[rising]
        together = cvxpy.min(cvxpy.multiply(units, (ratio - levels)[rising]))
        kept.value = levels * (1.0 - EXACT)
        rise = _most(cvxpy.Problem(cvxpy.Maximize(together), limits))
        # What a solver's tolerance has added cannot be kept.
        levels = np.minimum(levels + rise * weights / one.widths, ratio.value)
        kept.value = levels * (1.0 - EXACT)
        gains = np.full(jobs, np.inf)
        for job in np.flatnonzero(is_open):
            chosen.value = np.eye(jobs)[job]
            gains[job] = (_most(alone) - levels[job]) / max(levels[job], equal)
        # One at least is at its level: where two types are nearly equally fast, what others may lose can be more than the margin.
        limit = max(RISES, gains[rising].min())
        is_open = [bool(is_open[job] and gains[job] > limit) for job in range(jobs)]
    by_class = np.zeros(len(problem.classes))
    by_class[one.jobs] = levels
    return by_class


def _most(programme: cvxpy.Problem) -> float:
    programme.solve(solver=cvxpy.HIGHS, **TIGHT)
    return float(programme.value)


def _entities(problem: SharingProblem, one: Stated) -> list[str]:
    return [problem.classes[index].entity for index in one.jobs]


def _entity_weight(problem: SharingProblem, entity: str) -> float:
    found = [weight for name, weight in problem.entity_weights if name == entity]
    return found[0] if found else 1.0
