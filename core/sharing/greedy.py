"""Jobs served one after the other, each by the fastest hardware that is free: first come first served, and shortest first.

Shares are whole: a job has all of its time in one column, or none. So pools that look alike stay apart (a job of 3 GPUs does not run on
2 in one region and 1 in another), and a job that is behind the first that fits nowhere waits, even where it would fit: the order holds.

Source: Gavel's `fifo_perf` (stanford-futuredata/gavel, commit c4fa4009). There a job may be given a type on which it has no speed; here
such a type counts as full.
"""

from collections.abc import Sequence

import numpy as np

from core.sharing.problem import MILLIONTHS, Ints, Shares, SharingProblem


def served(problem: SharingProblem, queue: Sequence[int]) -> Shares:
    """Return whole shares: each job to its fastest column with room, up to the first job that fits nowhere.

    queue     classes, in the order in which they are served; of a class with several jobs all, one after the other
    returns   shares, with how many jobs run as their objective; of columns that are equally fast, the first is taken
    """
    free = list(problem.gpus)
    pool_of: list[int] = problem.pool_of.tolist()
    fastest_first = fastest_columns(problem)
    jobs = np.zeros(problem.speeds.shape, dtype=np.int64)
    for index in queue:
        one = problem.classes[index]
        for _ in range(one.count):
            with_room = (column for column in fastest_first[index] if one.gpus <= free[pool_of[column]])
            column = next(with_room, None)
            if column is None:
                return _shares(problem, jobs)
            free[pool_of[column]] -= one.gpus
            jobs[index, column] += 1
    return _shares(problem, jobs)


def fastest_columns(problem: SharingProblem) -> list[list[int]]:
    """Return for each class the columns where it runs, the fastest first."""
    speeds = np.where(problem.runs, problem.speeds, 0.0)
    ranked = np.argsort(-speeds, axis=1, kind="stable").tolist()
    many = problem.runs.sum(axis=1).tolist()
    return [columns[:count] for columns, count in zip(ranked, many, strict=True)]


def _shares(problem: SharingProblem, jobs: Ints) -> Shares:
    """Return the shares when so many jobs of each class run in each column. (classes, columns)."""
    counts = np.array([one.count for one in problem.classes], dtype=np.int64)
    none = np.zeros((len(problem.pairs), len(problem.columns)), dtype=np.int64)
    return Shares(jobs * MILLIONTHS // counts[:, None], none, float(jobs.sum()), "greedy")
