"""Isolated, as it is stated: with n jobs, each has GPUs / n of every pool, and time for as many of them as it needs at once."""

import numpy as np

from core.sharing.problem import Floats, SharingProblem


def isolated(problem: SharingProblem) -> Floats:
    """Return the speed of a job of each class. (classes,) steps a second."""
    jobs = [one for one in problem.classes for _ in range(one.count)]
    speeds = []
    for index, job in enumerate(problem.classes):
        times = [gpus / len(jobs) / job.gpus for gpus in problem.gpus]
        cut = max(1.0, sum(times))
        speed = 0.0
        for pool, time in enumerate(times):
            mine = [
                float(problem.speeds[index, column])
                for column in range(len(problem.columns))
                if problem.pool_of[column] == pool and problem.gpus[pool] >= job.gpus
            ]
            speed += max(mine, default=0.0) * time / cut
        speeds.append(speed)
    return np.array(speeds)
