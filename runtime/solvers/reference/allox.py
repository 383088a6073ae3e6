"""AlloX as it is stated: jobs by (GPU, place from the last), as one matrix, matched by the Hungarian method; and every schedule of a few jobs."""

from itertools import product

import numpy as np
from scipy.optimize import linear_sum_assignment

from core.sharing.problem import SharingProblem


def allox(problem: SharingProblem) -> float:
    """Return the least sum of completion times since submission, in seconds."""
    seconds, ages = _jobs(problem)
    jobs = len(seconds)
    matrix = np.concatenate([place * seconds + ages[:, None] for place in range(1, jobs + 1)], axis=1)
    chosen = linear_sum_assignment(np.where(np.isfinite(matrix), matrix, 1e15))
    return float(matrix[chosen].sum())


def firsts(problem: SharingProblem) -> list[frozenset[tuple[int, int]]]:
    """Return for each best schedule which job is first on a GPU of which pool: (job, pool). All schedules are tried; for a few jobs."""
    seconds, _ = _jobs(problem)
    pool_of = [pool for pool, gpus in enumerate(problem.gpus) for _ in range(gpus)]
    found: list[tuple[float, frozenset[tuple[int, int]]]] = []
    for gpus in product(range(len(pool_of)), repeat=len(seconds)):
        total, first = 0.0, []
        for gpu, pool in enumerate(pool_of):
            mine = sorted((float(seconds[job, gpu]), job) for job, on in enumerate(gpus) if on == gpu)
            total += sum(time * (len(mine) - place) for place, (time, _) in enumerate(mine))
            first += [(job, pool) for _, job in mine[:1]]
        found.append((total, frozenset(first)))
    least = min(total for total, _ in found)
    return [first for total, first in found if total <= least * (1 + 1e-9)]


def _jobs(problem: SharingProblem) -> tuple[np.ndarray, np.ndarray]:
    """Return (jobs, GPUs) durations on every single GPU, and (jobs,) ages."""
    speeds = np.zeros((len(problem.classes), 0))
    for pool, gpus in enumerate(problem.gpus):
        mine = problem.speeds[:, problem.pool_of == pool].max(axis=1, keepdims=True)
        speeds = np.concatenate([speeds, np.repeat(mine, gpus, axis=1)], axis=1)
    with np.errstate(divide="ignore"):
        seconds = np.array([[one.steps] for one in problem.classes]) / speeds
    return seconds, np.array([one.age for one in problem.classes])
