"""AlloX: the least total completion time, by which job is how many places from the last on which GPU.

A job that is k-th from the last on a GPU adds k times its duration to the total: its own time, and that much wait for each job behind.
So the total is least where jobs are matched to places, (GPU, k), at least cost. GPUs on which all jobs take the same time are one
group: k-th from the last on any of its g GPUs is a place for g jobs, and since an early place costs more than a late one, the places of n
jobs end at ceil(n / g). That makes a transportation problem, whose best vertex is whole, in place of a matrix of jobs by (jobs times GPUs).

Source: Le et al., AlloX, EuroSys 2020. Gavel's `allox` (commit c4fa4009) leaves a job that runs where it runs, and
looks at the oldest three tenths of the others; here all jobs are matched anew. Ages add a constant to the total and change no place.
"""

import numpy as np
from msgspec import Struct

from core.sharing.policies.sjf import shortest_seconds
from core.sharing.problem import MILLIONTHS, BadProblem, Floats, Ints, Shares, SharingProblem
from core.sharing.programmes import LinearProgramme, Rows, Steps

WHOLE = 1e-6
"""By how much a number of jobs may differ from the whole one that it is. One that differs by more is of a solver that returns no vertex
where jobs tie: such jobs share their places."""


VARIABLES_MAX = 4_000_000
"""A programme of 2,000 jobs on 48 GPUs has as many nearly, and takes a gigabyte and a third of a minute."""


class _Places(Struct, frozen=True):
    """The variables: how many jobs of a class are in a place of a group of GPUs."""

    classes: Ints
    groups: Ints
    places: Ints
    """From the last, which is 1."""
    seconds: Floats
    """The duration of one job there."""


class _Groups(Struct, frozen=True):
    """The pools, those on which each job takes the same time as one group."""

    pools: list[list[int]]
    gpus: Ints
    """(groups,)."""
    seconds: Floats
    """(classes, groups) duration of a job in its fastest column; infinite where it does not run."""
    columns: Ints
    """(classes, pools) the fastest column."""


def allox(problem: SharingProblem) -> Steps:
    """Return whole shares for the jobs that are first on a GPU; the objective is the sum of completion times since submission, in seconds.

    Reads steps, age and order. Raises BadProblem for a job of more than one GPU.
    """
    for one in problem.classes:
        if one.gpus != 1:
            raise BadProblem(f"{one.name}: it has {one.gpus} GPUs, and AlloX is for jobs of one GPU alone")
    shortest = float(shortest_seconds(problem).mean())
    groups = _grouped(problem)
    places = _places(problem, groups)
    solution = yield _programme(problem, groups, places, shortest)
    whole = np.rint(solution.values)
    jobs = np.where(np.abs(whole - solution.values) <= WHOLE, whole, solution.values)
    ages = sum(one.age * one.count for one in problem.classes)
    return _first(problem, groups, places, jobs, ages - solution.objective * shortest, solution.by)


def _grouped(problem: SharingProblem) -> _Groups:
    pools = len(problem.gpus)
    best = np.zeros((len(problem.classes), pools))
    columns = np.zeros(best.shape, dtype=np.int64)
    speeds = np.where(problem.runs, problem.speeds, 0.0)
    for column, pool in enumerate(problem.pool_of.tolist()):
        is_faster = speeds[:, column] > best[:, pool]
        best[is_faster, pool] = speeds[is_faster, column]
        columns[is_faster, pool] = column
    alike: dict[bytes, list[int]] = {}
    for pool in range(pools):
        alike.setdefault(best[:, pool].tobytes(), []).append(pool)
    grouped = list(alike.values())
    speed = best[:, [mine[0] for mine in grouped]]
    seconds = np.divide(problem.steps[:, None], speed, out=np.full(speed.shape, np.inf), where=speed > 0)
    gpus = np.array([sum(problem.gpus[pool] for pool in mine) for mine in grouped], dtype=np.int64)
    return _Groups(grouped, gpus, seconds, columns)


def _places(problem: SharingProblem, groups: _Groups) -> _Places:
    parts, variables = [], 0
    for group in range(len(groups.pools)):
        classes = np.flatnonzero(np.isfinite(groups.seconds[:, group]))
        jobs = int(problem.counts[classes].sum())
        most = -(-jobs // max(1, int(groups.gpus[group])))
        variables += most * len(classes)
        if variables > VARIABLES_MAX:
            raise BadProblem(
                f"AlloX cannot match {jobs} jobs on so few GPUs: they have {variables} places, and {VARIABLES_MAX} are the most"
            )
        places = np.repeat(np.arange(1, most + 1, dtype=np.int64), len(classes))
        parts.append((np.tile(classes, most), np.full(len(places), group, dtype=np.int64), places))
    classes, group_of, places = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return _Places(classes, group_of, places, groups.seconds[classes, group_of])


def _programme(problem: SharingProblem, groups: _Groups, places: _Places, unit: float) -> LinearProgramme:
    """Return the programme of the least total time, in units of so many seconds: every job has a place, no place more than its GPUs."""
    count = len(places.classes)
    every = np.arange(count, dtype=np.int64)
    rows = Rows(count)
    rows.add(places.classes, every, 1.0, problem.counts, problem.counts, len(problem.classes))
    deepest = int(places.places.max(initial=1))
    slot, of_slot = np.unique(places.groups * deepest + places.places - 1, return_inverse=True)
    rows.add(of_slot.astype(np.int64), every, 1.0, -np.inf, groups.gpus[slot // deepest], len(slot))
    gpus = groups.gpus[places.groups]
    most = np.minimum(problem.counts[places.classes], gpus)
    return rows.programme(-places.places * places.seconds / unit, np.zeros(count), most)


def _first(
    problem: SharingProblem, groups: _Groups, places: _Places, jobs: Floats, total: float, by: str
) -> Shares:
    """Return the shares of the jobs that are first: on each GPU the one that is farthest from the last.

    Which of its jobs in one place share a GPU with which in the next does not change the total: the shorter run first, then by order.
    """
    running = np.zeros(problem.speeds.shape)
    orders = np.array([one.order for one in problem.classes], dtype=np.int64)
    ranked = np.lexsort((places.classes, orders[places.classes], places.seconds, -places.places))
    free: list[float] = list(problem.gpus)
    for variable in ranked[jobs[ranked] > 0].tolist():
        index, left = int(places.classes[variable]), float(jobs[variable])
        for pool in groups.pools[places.groups[variable]]:
            taken = min(left, free[pool])
            running[index, groups.columns[index, pool]] += taken
            free[pool] -= taken
            left -= taken
    none = np.zeros((len(problem.pairs), len(problem.columns)), dtype=np.int64)
    shares = np.floor(running / problem.counts[:, None] * MILLIONTHS).astype(np.int64)
    return Shares(shares, none, total, by)
