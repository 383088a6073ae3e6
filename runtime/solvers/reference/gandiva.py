"""Gandiva, as it is stated: jobs in pairs that are worth it, and equal time for all pairs and all jobs without one."""

from collections.abc import Sequence

import numpy as np

from core.sharing.problem import Floats, SharingProblem

Team = tuple[int, ...]
"""The classes of two jobs that share GPUs, or of one job alone."""


def gandiva(problem: SharingProblem, teams: Sequence[Team]) -> Floats:
    """Return the mean speed of the jobs of each class, when they are drawn into these teams. (classes,) steps a second."""
    total = np.zeros(len(problem.classes))
    for team in teams:
        width = problem.classes[team[0]].gpus
        times = [gpus / len(teams) / width for gpus in problem.gpus]
        cut = max(1.0, sum(times))
        for pool, time in enumerate(times):
            for one, speed in zip(team, speeds_in_pool(problem, team, pool), strict=True):
                total[one] += speed * time / cut
    mean: Floats = total / problem.counts
    return mean


def speeds_in_pool(problem: SharingProblem, team: Team, pool: int) -> tuple[float, ...]:
    """Return the speeds of a team's jobs while it has GPUs of the pool: together where that is worth it, else by turns."""
    columns = [column for column in range(len(problem.columns)) if problem.pool_of[column] == pool]
    alone = [
        max((float(problem.speeds[one, column]) for column in columns), default=0.0)
        if problem.classes[one].gpus <= problem.gpus[pool]
        else 0.0
        for one in team
    ]
    if len(team) == 1:
        return tuple(alone)
    best, found = 0.0, (alone[0] / 2, alone[1] / 2)
    for column in columns:
        both = together(problem, team, column)
        if both is not None and sum(both_divided(problem, team, column, both)) > best:
            best, found = sum(both_divided(problem, team, column, both)), both
    return found


def together(problem: SharingProblem, team: Team, column: int) -> tuple[float, float] | None:
    """Return the speeds of two jobs together; None where they are not kept together."""
    pool = int(problem.pool_of[column])
    for pair in problem.pairs:
        if (
            sorted(team) != sorted((pair.first, pair.second))
            or problem.classes[team[0]].gpus > problem.gpus[pool]
        ):
            continue
        both = float(pair.speeds[0, column]), float(pair.speeds[1, column])
        if team != (pair.first, pair.second):
            both = both[1], both[0]
        if min(both) > 0 and sum(both_divided(problem, team, column, both)) >= 1:
            return both
    return None


def both_divided(
    problem: SharingProblem, team: Team, column: int, both: tuple[float, float]
) -> tuple[float, float]:
    """Return both speeds, each divided by the speed alone; 0 where one does not run alone."""
    alone = [float(problem.speeds[one, column]) for one in team]
    return (both[0] / alone[0], both[1] / alone[1]) if min(alone) > 0 else (0.0, 0.0)
