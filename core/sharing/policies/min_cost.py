"""Min cost: the most steps for a dollar, with the promises kept that can be.

What is as large as can be is the total speed by the total price of the GPUs in use: a ratio of sums. It is one linear programme in all
times multiplied by one number, which is chosen so that the price is fixed (Charnes and Cooper). The published code adds up the ratios
of the jobs instead, which fills every GPU whatever it costs. A second programme takes the most total speed at the best ratio: the same mix on
one GPU and on all is equally cheap.

A promise of a job is a speed: steps left by seconds left. Promises go first. If not all can be kept, then the parts of them that are
missing are as few as can be in total, if equal those of the ones due later; and each that is given up is named:

1. A promise beyond what the job reaches with all of its time.
2. Of those with a part of their speed, the one that is due last. What it had goes to the others, and so on, up to `PASSES_MAX` times.
3. When none has a part, those with nothing: no GPU is left for them.

Of all that were given up, the `TRIED_AGAIN_MAX` that are due first are tried once more, one by one.

Source: OSDI 2020, section 4.2; Charnes and Cooper, Programming with linear fractional functionals, 1962.
"""

from collections.abc import Generator

import numpy as np
from numpy.typing import NDArray

from core.sharing.policies.max_throughput import total_speeds
from core.sharing.problem import Floats, Ints, SharingProblem
from core.sharing.programmes import LinearProgramme, Programme, Rows, Solution, Steps
from core.sharing.times import Times, times_of

TRIED_AGAIN_MAX = 16
"""One programme each."""
PASSES_MAX = 16
"""Programmes that look which promises can be kept. Each but the first saves a promise at best, and a policy is solved every round."""
FIRST = 1e-3
"""By how much more a part of the promise counts that is due first: it decides between parts that are equal."""
MISSED = 1e-6
"""By how much, relative, a promise may be missed and is kept all the same: shares are rounded to a millionth."""
SLACK = 1e-9
"""By how much, relative, the ratio that was found may be missed when the rest is chosen."""
UNKNOWN_PRICE = 1.0
"""Dollars of one GPU for an hour, where no price is known at all: then the most steps for a GPU are the most for a dollar."""
HOUR = 3_600.0

Mask = NDArray[np.bool_]


def min_cost(problem: SharingProblem) -> Steps:
    """Return the shares with the most steps for a dollar, which is the objective.

    Reads steps and promises. The notes name each promise that is given up, and each GPU type without a price.
    """
    times = times_of(problem)
    prices, notes = _prices(problem)
    needs, unknown = _needs(problem)
    needs, broken = yield from _kept(times, needs)
    cost = problem.widths[times.classes] * prices[times.columns]
    speeds = total_speeds(times)
    best = yield from _best_ratio(times, needs, cost, speeds)
    solution = yield _most_speed(times, needs, cost, speeds, best)
    return times.shares(solution.values, best * HOUR, solution.by, (*notes, *unknown, *broken))


def _prices(problem: SharingProblem) -> tuple[Floats, tuple[str, ...]]:
    """Return dollars of a GPU for an hour by column, and what to say: one without a price costs as much as the dearest."""
    prices = np.array([column.price for column in problem.columns])
    highest = float(prices.max(initial=0.0)) or UNKNOWN_PRICE
    without = [
        f"{column.gpu_type} in {column.region}{f' ({column.placement})' if column.placement else ''}"
        for column in problem.columns
        if column.price <= 0
    ]
    notes = tuple(
        f"{name}: its price is not known, so one GPU for an hour counts as {highest:g} dollars, as much as the dearest"
        for name in without
    )
    return np.where(prices > 0, prices, highest), notes


def _needs(problem: SharingProblem) -> tuple[Floats, tuple[str, ...]]:
    """Return the speed that each class is promised, (classes,) and 0 for none; and sentences for promises that mean nothing."""
    within = np.array([one.within for one in problem.classes])
    needs = np.divide(problem.steps, within, out=np.zeros(len(within)), where=within > 0)
    unknown = tuple(
        f"{one.name}: how many steps it has left is not known, so that its promise counts for nothing"
        for one in problem.classes
        if one.within > 0 and one.steps <= 0
    )
    return needs, unknown


def _kept(times: Times, needs: Floats) -> Generator[Programme, Solution, tuple[Floats, tuple[str, ...]]]:
    """Find which promises are kept. Returns the speeds needed for them, 0 for all others, and a sentence for each given up."""
    classes = times.problem.classes
    fastest = np.zeros(len(classes))
    of_class, _, speed = times.speeds
    np.maximum.at(fastest, of_class, speed)
    is_beyond = needs > fastest * (1.0 + MISSED)
    is_kept = np.zeros(len(classes), dtype=np.bool_)
    is_open = (needs > 0) & ~is_beyond
    for _ in range(PASSES_MAX):
        if not is_open.any():
            break
        mine = np.flatnonzero(is_open)
        solution = yield _least_missing(times, np.where(is_kept, needs, 0.0), needs, mine)
        parts = solution.values[times.count :]
        is_kept[mine[parts >= 1.0 - MISSED]] = True
        has_part = mine[(parts < 1.0 - MISSED) & (parts > MISSED)].tolist()
        is_open &= ~is_kept
        if not has_part:
            break
        is_open[max(has_part, key=lambda one: (classes[one].within, classes[one].order, one))] = False
    # One that was given up may fit after all, since others were given up after it.
    given_up = np.flatnonzero((needs > 0) & ~is_beyond & ~is_kept).tolist()
    for index in sorted(given_up, key=lambda one: (classes[one].within, classes[one].order, one))[
        :TRIED_AGAIN_MAX
    ]:
        solution = yield _least_missing(times, np.where(is_kept, needs, 0.0), needs, np.array([index]))
        is_kept[index] = solution.values[times.count] >= 1.0 - MISSED
    broken = []
    for index in np.flatnonzero((needs > 0) & ~is_kept).tolist():
        one = classes[index]
        why = (
            f"and reaches {fastest[index]:.4g} with all of its time"
            if is_beyond[index]
            else "and the GPUs that this takes are promised to others"
        )
        broken.append(
            f"{one.name}: its promise cannot be kept, as for {one.steps:g} steps in {one.within:g} s it needs {needs[index]:.4g} a second, {why}"
        )
    return np.where(is_kept, needs, 0.0), tuple(broken)


def _least_missing(times: Times, floors: Floats, needs: Floats, mine: Ints) -> LinearProgramme:
    """Return the programme of the largest sum of parts that these classes have of the speeds that they need, while floors hold."""
    rows = Rows(times.count + len(mine))
    times.bound(rows)
    _floor(rows, times, floors)
    every = np.arange(len(mine), dtype=np.int64)
    of_class, variable, speed = times.speeds
    place = np.full(len(floors), -1, dtype=np.int64)
    place[mine] = every
    is_mine = place[of_class] >= 0
    own = of_class[is_mine]
    relative = speed[is_mine] / (needs * times.problem.counts)[own]
    rows.add(
        np.concatenate([place[own], every]),
        np.concatenate([variable[is_mine], every + times.count]),
        np.concatenate([relative, -np.ones(len(mine))]),
        0.0,
        np.inf,
        len(mine),
    )
    due = np.array([times.problem.classes[index].within for index in mine.tolist()])
    gain = np.append(np.zeros(times.count), 1.0 + FIRST * due.min() / due)
    return rows.programme(gain, np.zeros(len(gain)), np.append(times.most, np.ones(len(mine))))


def _best_ratio(
    times: Times, needs: Floats, cost: Floats, speeds: Floats
) -> Generator[Programme, Solution, float]:
    """Find the most total speed for a dollar an hour, with the promises kept.

    The variables are the times multiplied by a number, and that number. It is such that the price is that of all GPUs, and so at least
    1. Shares with the best ratio can be enlarged until a pool is full or a class has all of its time, and the ratio stays or gets
    better; the least price of that bounds the number.
    """
    count = times.count
    # What is fixed is the price of all that every variable can be; the unit of speed makes the best ratio of a variable 1.
    price = float(cost @ times.most)
    unit = float((speeds / cost).max())
    limits = _limits(times)
    least = _least_price(times, cost)
    matrix = limits.matrix
    size = matrix.shape[0]
    number = np.full(size, count, dtype=np.int64)
    rows = Rows(count + 1)
    rows.add(
        np.concatenate([matrix.rows, np.arange(size)]),
        np.concatenate([matrix.columns, number]),
        np.concatenate([matrix.values, -limits.row_most]),
        -np.inf,
        0.0,
        size,
    )
    rows.add(np.zeros(count, dtype=np.int64), np.arange(count, dtype=np.int64), cost / price, 1.0, 1.0, 1)
    promised = np.flatnonzero(needs)
    _floor(rows, times, needs, is_homogeneous=True)
    rows.more(np.full(len(promised), count, dtype=np.int64), -(1.0 - MISSED))
    most = price / least
    solution = yield rows.programme(
        np.append(speeds / (unit * price), 0.0), np.zeros(count + 1), np.append(times.most * most, most)
    )
    return unit * solution.objective


def _most_speed(times: Times, needs: Floats, cost: Floats, speeds: Floats, ratio: float) -> LinearProgramme:
    """Return the programme of the most total speed at the best ratio."""
    rows = Rows(times.count)
    times.bound(rows)
    _floor(rows, times, needs)
    # In units of what all would bring at that ratio.
    unit = ratio * float(cost @ times.most)
    zeros = np.zeros(times.count, dtype=np.int64)
    rows.add(zeros, np.arange(times.count, dtype=np.int64), (speeds - ratio * cost) / unit, -SLACK, np.inf, 1)
    return rows.programme(speeds / unit, np.zeros(times.count), times.most)


def _floor(rows: Rows, times: Times, needs: Floats, *, is_homogeneous: bool = False) -> None:
    """Add a row for each class that needs a speed: what it has, by what it needs, is 1; or 0, where another entry stands for the need."""
    promised = np.flatnonzero(needs)
    place = np.full(len(needs), -1, dtype=np.int64)
    place[promised] = np.arange(len(promised))
    of_class, variable, speed = times.speeds
    is_mine = place[of_class] >= 0
    own = of_class[is_mine]
    relative = speed[is_mine] / (needs * times.problem.counts)[own]
    least = 0.0 if is_homogeneous else 1.0 - MISSED
    rows.add(place[own], variable[is_mine], relative, least, np.inf, len(promised))


def _limits(times: Times) -> LinearProgramme:
    """Return the rows of time and capacity alone."""
    rows = Rows(times.count)
    times.bound(rows)
    none = np.zeros(times.count)
    return rows.programme(none, none, times.most)


def _least_price(times: Times, cost: Floats) -> float:
    """Return what it costs at least to fill a row: a class that runs all of its time, or a pool that is full."""
    matrix = _limits(times).matrix
    row_most = _limits(times).row_most
    cheapest = np.full(matrix.shape[0], np.inf)
    np.minimum.at(cheapest, matrix.rows, cost[matrix.columns] / matrix.values)
    return float((cheapest * row_most)[np.isfinite(cheapest)].min())
