"""Whether shares are within the time of each job and the GPUs of each pool, to the last millionth.

Shares are rounded down, but a share that a solver gave as 0.0249999999 is told as 0.025, and of a pool with thousands of jobs that can be a
few millionths of a GPU too many. These are taken off again; more than that is no rounding, and is told in a sentence.
"""

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from core.sharing.problem import MILLIONTHS, Floats, Ints, Shares, SharingProblem

ROUNDED_MAX = 1e-5
"""The most that is taken off as rounding, relative to the bound: solvers miss rows by up to a tenth of that."""


def excess_of(problem: SharingProblem, shares: Shares) -> str:
    """Return one sentence on the first bound that the shares do not keep; empty: they keep all."""
    alone, together = (len(problem.classes), len(problem.columns)), (len(problem.pairs), len(problem.columns))
    if (shares.alone.shape, shares.together.shape) != (alone, together):
        return f"shares are for {alone} classes and columns and {together} pairs and columns"
    if (shares.alone < 0).any() or (shares.together < 0).any():
        return "a share is less than nothing"
    wrong = np.argwhere((shares.alone > 0) & ~problem.runs)
    if len(wrong):
        one, column = problem.classes[wrong[0][0]], problem.columns[wrong[0][1]]
        return f"{one.name} does not run on {column.gpu_type} in {column.region}, and has a share there"
    if (shares.alone > MILLIONTHS).any() or (shares.together > problem.counts.sum() * MILLIONTHS).any():
        return "a share is more than all of the time of its jobs"
    time, gpus = _used(problem, shares)
    for one, used in zip(problem.classes, time.tolist(), strict=True):
        if used > one.count * MILLIONTHS:
            return f"{one.name} has {used / one.count / MILLIONTHS:.6f} of its time, which is more than all"
    for pool, used in enumerate(gpus.tolist()):
        if used > problem.gpus[pool] * MILLIONTHS:
            column = problem.columns[int(np.flatnonzero(problem.pool_of == pool)[0])]
            where = f"of {column.gpu_type} in {column.region}"
            return f"{used / MILLIONTHS:.6f} GPUs {where} are shared out, and there are {problem.gpus[pool]}"
    return ""


def within_bounds(problem: SharingProblem, shares: Shares) -> Shares:
    """Return the shares, scaled down by the part by which rounding exceeds the time of a class or the GPUs of a pool."""
    alone, together = shares.alone, shares.together
    for index, part in _too_much(_used(problem, shares)[0], problem.counts):
        mine = np.arange(len(problem.classes)) == index
        paired = np.array([index in {pair.first, pair.second} for pair in problem.pairs], dtype=np.bool_)
        alone, together = _scaled(alone, mine[:, None], part), _scaled(together, paired[:, None], part)
    left = replace(shares, alone=alone, together=together)
    for pool, part in _too_much(_used(problem, left)[1], problem.pool_gpus):
        mine = problem.pool_of == pool
        alone, together = _scaled(alone, mine[None, :], part), _scaled(together, mine[None, :], part)
    return replace(shares, alone=alone, together=together)


def _used(problem: SharingProblem, shares: Shares) -> tuple[Ints, Ints]:
    """Return the time that the jobs of each class have together, and the GPUs of each pool that are in use, in millionths."""
    counts = np.array([one.count for one in problem.classes], dtype=np.int64)
    widths = np.array([one.gpus for one in problem.classes], dtype=np.int64)
    time = shares.alone.sum(axis=1) * counts
    by_column = (shares.alone * (counts * widths)[:, None]).sum(axis=0)
    for pair, mine in zip(problem.pairs, shares.together, strict=True):
        time[pair.first] += mine.sum()
        time[pair.second] += mine.sum()
        by_column += mine * widths[pair.first]
    gpus = np.zeros(len(problem.gpus), dtype=np.int64)
    np.add.at(gpus, problem.pool_of, by_column)
    return time, gpus


def _too_much(used: Ints, bounds: Floats) -> list[tuple[int, float]]:
    """Return where more is used than there is, and the part of it that there is."""
    limits = bounds * MILLIONTHS
    found = [(int(place), float(limits[place] / used[place])) for place in np.flatnonzero(used > limits)]
    assert all(part >= 1.0 - ROUNDED_MAX for _, part in found), "shares exceed a bound by more than rounding"
    return found


def _scaled(shares: Ints, where: NDArray[np.bool_], part: float) -> Ints:
    return np.where(where, np.floor(shares * part).astype(np.int64), shares)
