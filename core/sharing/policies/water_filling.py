"""Water-filling: all jobs rise together, and when some cannot rise any more the others go on without them; also by a hierarchy.

A job's level is its speed relative to its speed on a proportional part of the fleet. Max-min fairness stops at the first level at
which a job is *saturated*: it has all of its time on its fastest hardware, or all that the others leave. Here the others go on. Each
pass is one programme: how far do the open classes rise, in proportion to their weights, while every class keeps what it has? Those
whose speed has a price at that level limit it, so they are saturated, one at least in every pass. Others may be saturated without
a price; they stop the next pass, and then a second programme finds all of them at once.

In a hierarchy the weights change from pass to pass. Entities share by their weights; in an entity the open jobs share its weight
by theirs, or the open job that came first has all of it.

Source: OSDI 2020, section 4.3. There a mixed integer programme finds the saturated jobs. No integers are needed: if each of several
classes can rise alone, then so can all at once, by the mean of the ways to do it.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from core.sharing.faces import SLACK, chosen
from core.sharing.problem import Floats, Ints, SharingProblem
from core.sharing.programmes import LinearProgramme, Rows, Solution, Steps
from core.sharing.times import Times, times_of

RISE = 1e-6
"""A class is open while it can rise by this part of its speed: of what it has, or if that is more of its speed on an equal part of the
fleet. Of n classes each is at most n times that below its level."""
PRICED = 1e-6
"""A class limits a level if it has this part of the price, which is 1 in total. Solvers are exact to a hundredth of that."""

Mask = NDArray[np.bool_]
Weights = Callable[[SharingProblem, Mask], Floats]
"""Returns the weight of a job of each class, (classes,), while these classes are open; 0 for classes that are not, or wait."""


def water_filling(problem: SharingProblem) -> Steps:
    """Return the shares with the highest least level, of these those with the highest second, and so on.

    The objective is the first level, that of max-min fairness.
    """
    return (yield from _filled(problem, _flat))


def hierarchical_fair(problem: SharingProblem) -> Steps:
    """Return the shares by water-filling where entities share by weight, and the open jobs of each share its weight by theirs."""
    return (yield from _filled(problem, _fair))


def hierarchical_fifo(problem: SharingProblem) -> Steps:
    """Return the shares by water-filling where entities share by weight, and the open job that came first has all of it.

    Reads the order: each class is one job.
    """
    return (yield from _filled(problem, _fifo))


def _flat(problem: SharingProblem, is_open: Mask) -> Floats:
    return np.where(is_open, problem.weights, 0.0)


def _fair(problem: SharingProblem, is_open: Mask) -> Floats:
    entity_of, entity_weights = _entities(problem)
    open_weights = _flat(problem, is_open)
    totals = np.bincount(entity_of, open_weights * problem.counts)[entity_of]
    parts = np.divide(open_weights, totals, out=np.zeros(len(entity_of)), where=totals > 0)
    found: Floats = entity_weights[entity_of] * parts
    return found


def _fifo(problem: SharingProblem, is_open: Mask) -> Floats:
    entity_of, entity_weights = _entities(problem)
    classes = problem.classes
    found = np.zeros(len(classes))
    served: dict[int, int] = {}
    for index in sorted(
        np.flatnonzero(is_open).tolist(), key=lambda one: (classes[one].order, classes[one].name)
    ):
        entity = int(entity_of[index])
        if served.setdefault(entity, index) == index:
            found[index] = entity_weights[entity] / classes[index].count
    return found


def _entities(problem: SharingProblem) -> tuple[Ints, Floats]:
    """Return the entity of each class, (classes,), and the weights of the entities, (entities,)."""
    names, entity_of = np.unique([one.entity for one in problem.classes], return_inverse=True)
    weights = dict(problem.entity_weights)
    return entity_of.astype(np.int64), np.array([weights.get(name, 1.0) for name in names.tolist()])


def _filled(problem: SharingProblem, weights_of: Weights) -> Steps:
    """Fill level by level."""
    times = times_of(problem)
    isolated = problem.isolated_speeds
    floors = np.zeros(len(problem.classes))
    is_open = np.ones(len(problem.classes), dtype=np.bool_)
    levels = []
    for _ in problem.classes:  # Each pass saturates a class, so there are no more.
        # 1. How far do the open classes rise together, and which of them limit that?
        rates = problem.proportional_speeds * weights_of(problem, is_open) / problem.widths
        solution = yield _rise(times, floors, rates)
        level, is_limiting = _read(times, rates, solution)
        levels.append(level)
        is_open &= ~is_limiting
        # 2. Where a solver's last digit is missing, the speed that it has proven to be possible.
        floors = np.minimum(floors + level * rates, times.speeds_of(solution.values[: times.count]))
        # 3. No rise: some are saturated without a price. Find all of these at once.
        if is_open.any() and float((level * rates / isolated).max()) < RISE:
            solution = yield _rises(times, floors, is_open)
            is_open[np.flatnonzero(is_open)[solution.values[times.count :] < 0.5]] = False
        if not is_open.any():
            break
    # 4. All are saturated; the shares nearest to the last are chosen among those with the same speeds.
    values, by = yield from chosen(times, floors)
    return times.shares(values, levels[0], by)


def _rise(times: Times, floors: Floats, rates: Floats) -> LinearProgramme:
    """Return the programme of how far the classes rise at their rates, while all keep what they have.

    floors    (classes,) steps a second of a job that each has
    rates     (classes,) steps a second of a job by a unit of the level; 0: it does not rise
    """
    problem = times.problem
    rising = np.flatnonzero(rates)
    isolated = problem.isolated_speeds
    unit = _unit(problem, rates)
    rows = Rows(times.count + 1)
    times.bound(rows)
    _keep(rows, times, floors, 1.0 / isolated, rising, times.count, unit * rates[rising] / isolated[rising])
    gain = np.zeros(times.count + 1)
    gain[times.count] = 1.0
    # A bound that no level reaches, so that the rows have the whole price.
    most = 2.0 * float((_fastest(times)[rising] / (unit * rates[rising])).min())
    return rows.programme(gain, np.zeros(times.count + 1), np.append(times.most, most))


def _read(times: Times, rates: Floats, solution: Solution) -> tuple[float, Mask]:
    """Return the level, and the classes that limit it: a unit less of their speed would raise it, so that none of them can rise alone."""
    problem = times.problem
    unit = _unit(problem, rates)
    # By the programme's dual, these parts sum to 1.
    prices = -solution.prices[-len(problem.classes) :] * unit * rates / problem.isolated_speeds
    return unit * solution.objective, prices >= min(PRICED, float(prices.max()))


def _unit(problem: SharingProblem, rates: Floats) -> float:
    """Return the level at which the class that gains most has gained its isolated speed: of the size of the rows."""
    return 1.0 / float((rates / problem.isolated_speeds).max())


def _rises(times: Times, floors: Floats, is_open: Mask) -> LinearProgramme:
    """Return the programme of the most classes that rise by `RISE`, while all keep what they have: at once, and so all that can.

    The variables behind those of time are 1 for each open class that can rise, and 0 for the others.
    """
    problem = times.problem
    mine = np.flatnonzero(is_open)
    scale = 1.0 / np.maximum(floors, problem.isolated_speeds)
    at = np.arange(times.count, times.count + len(mine), dtype=np.int64)
    rows = Rows(times.count + len(mine))
    times.bound(rows)
    _keep(rows, times, floors, scale, mine, at, np.full(len(mine), RISE))
    gain = np.append(np.zeros(times.count), np.ones(len(mine)))
    return rows.programme(gain, np.zeros(len(gain)), np.append(times.most, np.ones(len(mine))))


def _keep(
    rows: Rows, times: Times, floors: Floats, scale: Floats, mine: Ints, at: Ints | int, rise: Floats
) -> None:
    """Add that every class keeps its speed, and that each of `mine` has `rise` more by a unit of the variable `at`.

    scale   (classes,) by which a row is multiplied; rise   (mine,) already scaled
    """
    of_class, variable, speed = times.speeds
    per_job = scale / times.problem.counts
    rows.add(
        np.concatenate([of_class, mine]),
        np.concatenate([variable, np.broadcast_to(at, mine.shape)]),
        np.concatenate([speed * per_job[of_class], -rise]),
        floors * (1.0 - SLACK) * scale,
        np.inf,
        len(floors),
    )


def _fastest(times: Times) -> Floats:
    """Return the speed that a job of each class has at most. (classes,) steps a second."""
    of_class, _, speed = times.speeds
    found = np.zeros(len(times.problem.classes))
    np.maximum.at(found, of_class, speed)
    return found
