"""Max-min fairness: the class that is worst off is as well off as it can be.

What is compared is the speed of a job relative to its speed on a proportional part of the fleet, divided by its weight and times its
GPUs: a job of weight 2 gets twice the speed, and one that takes four GPUs gets a quarter of the time.

Source: OSDI 2020, section 4.1 (LAS). Agnostic: the same with all speeds equal, as schedulers do that know no hardware.
"""

from collections.abc import Generator

import numpy as np
from msgspec.structs import replace

from core.sharing.faces import chosen
from core.sharing.problem import Column, Floats, SharingProblem, merged, split_again
from core.sharing.programmes import LinearProgramme, Programme, Rows, Solution, Steps
from core.sharing.times import Times, times_of


def max_min(problem: SharingProblem) -> Steps:
    """Return the shares with the highest least speed; among these, those with the most total speed."""
    times = times_of(problem)
    units = units_of(problem)
    level = yield from highest_level(times, units)
    values, by = yield from chosen(times, level * units)
    return times.shares(values, level, by)


def max_min_agnostic(problem: SharingProblem) -> Steps:
    """Return the shares with the highest least time, whatever the hardware: a job has of every type the part that its GPUs are.

    So pools that all jobs can use are one, and its shares are split by GPUs. In a pool a job runs in its fastest column.
    """
    pools = range(len(problem.gpus))
    columns = np.array([np.flatnonzero(problem.pool_of == pool)[0] for pool in pools], dtype=np.int64)
    speeds = np.where(problem.runs, problem.speeds, 0.0)
    fastest = np.zeros((len(problem.classes), len(pools)), dtype=np.int64)
    for pool in pools:
        mine = np.flatnonzero(problem.pool_of == pool)
        fastest[:, pool] = mine[speeds[:, mine].argmax(axis=1)]
    every = np.arange(len(problem.classes))[:, None]
    last = problem.last
    if last is not None:
        by_pool = problem.pool_of[:, None] == np.arange(len(pools))
        none = np.zeros((0, len(pools)), dtype=np.int64)
        last = replace(last, alone=last.alone @ by_pool, together=none)
    alike, split = merged(
        replace(
            problem,
            columns=tuple(Column(problem.columns[column].region, "any") for column in columns.tolist()),
            speeds=np.where(speeds[every, fastest] > 0, 1.0, 0.0),
            pools=(),
            pairs=(),
            last=last,
        )
    )
    found = yield from max_min(alike)
    shares = split_again(found, split)
    alone = np.zeros(problem.speeds.shape, dtype=np.int64)
    alone[every, fastest] = shares.alone
    return replace(shares, alone=alone, together=problem.none_together)


def units_of(problem: SharingProblem) -> Floats:
    """Return the speed of a job of each class at level 1. (classes,) steps a second."""
    found: Floats = problem.proportional_speeds * problem.weights / problem.widths
    return found


def highest_level(times: Times, units: Floats) -> Generator[Programme, Solution, float]:
    """Return the highest level at which each class has its unit times the level.

    units   (classes,) steps a second of a job at level 1

    An equal part of the fleet for each job is possible, so what is solved is by how much more than that each can have. That is 1 and more,
    whatever the units are, and a solver's tolerance is of 1.
    """
    equal = float((times.problem.isolated_speeds / units).min())
    solution = yield level_programme(times, equal * units)
    return equal * solution.objective


def level_programme(times: Times, units: Floats) -> LinearProgramme:
    """Return the programme of the highest level at which each class has its unit times the level.

    units   (classes,) steps a second of a job at level 1
    """
    problem = times.problem
    count = times.count
    rows = Rows(count + 1)
    times.bound(rows)
    of_class, variable, speed = times.speeds
    scale = 1.0 / (units * problem.counts)
    rows.add(of_class, variable, speed * scale[of_class], 0.0, np.inf, len(problem.classes))
    rows.more(np.full(len(problem.classes), count, dtype=np.int64), -1.0)
    gain = np.zeros(count + 1)
    gain[count] = 1.0
    fastest = np.where(problem.runs, problem.speeds, 0.0).max(axis=1)
    most = np.append(times.most, (2.0 * fastest / units).min())
    return rows.programme(gain, np.zeros(count + 1), most)
