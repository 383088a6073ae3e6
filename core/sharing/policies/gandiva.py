"""Gandiva: jobs in random pairs when there are more than the GPUs hold, and equal time for all, whatever they gain by it.

A pair is kept where both make headway and their speeds together, each divided by the speed alone, sum to at least 1; on other hardware its two jobs take turns,
and two jobs that are worth it nowhere are drawn again. The draw is by the names of the jobs, so that the same jobs are always drawn
alike. The jobs of a class are interchangeable: a class has the sum of what its jobs drew, and each job the mean.

Source: Xiao et al., Gandiva, OSDI 2018, as Gavel's `gandiva` has it (stanford-futuredata/gavel, commit c4fa4009). There the sum is taken
over all types at once, and a pair without speed on some type is never kept.
"""

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from itertools import pairwise

import numpy as np

from core.sharing.greedy import fastest_columns
from core.sharing.pairs import gains
from core.sharing.policies.isolated import equal_part, fastest_of_pools
from core.sharing.problem import Shares, SharingProblem
from core.sharing.programmes import Steps

DRAWS_MAX = 10
"""A job that ten others were no good beside runs alone."""
ALONE = -1

Team = tuple[int, int, int]
"""The pair in the problem and its two classes; of a job alone, `ALONE` and its class twice."""


def gandiva(problem: SharingProblem) -> Steps:
    """Return equal time on every pool for every team, which is a pair or a job alone."""
    yield from ()
    teams = Counter(teams_of(problem))
    parts = teams.total()
    pool_of: list[int] = problem.pool_of.tolist()
    own = [fastest_of_pools(columns, pool_of) for columns in fastest_columns(problem)]
    shared = _shared_columns(problem)
    # Slots of alone are halves, as two that take turns have half a slot each.
    halves = np.zeros(problem.speeds.shape, dtype=np.int64)
    slots = np.zeros((len(problem.pairs), len(problem.columns)), dtype=np.int64)
    for (pair, first, second), count in teams.items():
        for pool in range(len(problem.gpus)):
            if pair != ALONE and pool in shared[pair]:
                slots[pair, shared[pair][pool]] += count
                continue
            for one in (first, second):
                if pool in own[one]:
                    halves[one, own[one][pool]] += count
    alone, together = np.zeros_like(halves), np.zeros_like(slots)
    for index, column in np.argwhere(halves).tolist():
        job, pool = problem.classes[index], pool_of[column]
        given = int(halves[index, column])
        alone[index, column] = equal_part(problem, pool, parts, job.gpus, given, 2 * job.count)
    for pair, column in np.argwhere(slots).tolist():
        gpus, given = problem.classes[problem.pairs[pair].first].gpus, int(slots[pair, column])
        together[pair, column] = equal_part(problem, pool_of[column], parts, gpus, given)
    return Shares(alone, together, by="draw")


def teams_of(problem: SharingProblem) -> list[Team]:
    """Return every job once, alone or in one pair with a job of its width. All are alone where the fleet holds all of them."""
    jobs = [(index, number) for index, one in enumerate(problem.classes) for number in range(one.count)]
    wanted = sum(one.count * one.gpus for one in problem.classes)
    teams: list[Team] = []
    if wanted > sum(problem.gpus):
        shared = _shared_columns(problem)
        known = {(one.first, one.second): index for index, one in enumerate(problem.pairs) if shared[index]}
        known |= {(second, first): index for (first, second), index in known.items()}
        for draw in range(DRAWS_MAX):
            jobs.sort(key=lambda job: _drawn(problem, job, draw))
            jobs.sort(key=lambda job: problem.classes[job[0]].gpus)
            drawn, jobs = _paired(jobs, known)
            teams += drawn
    return teams + [(ALONE, index, index) for index, _ in jobs]


def _paired(
    jobs: Sequence[tuple[int, int]], known: dict[tuple[int, int], int]
) -> tuple[list[Team], list[tuple[int, int]]]:
    """Return the teams of neighbours that are worth it, and the jobs that are left."""
    teams: list[Team] = []
    left: list[tuple[int, int]] = []
    is_taken = False
    for job, other in pairwise([*jobs, (-1, 0)]):
        pair = known.get((job[0], other[0]))
        if is_taken:
            is_taken = False
        elif pair is None:
            left.append(job)
        else:
            teams.append((pair, job[0], other[0]))
            is_taken = True
    return teams, left


def _drawn(problem: SharingProblem, job: tuple[int, int], draw: int) -> bytes:
    text = f"{draw}/{job[1]}/{problem.classes[job[0]].name}"
    return blake2b(text.encode(), digest_size=8).digest()


def _shared_columns(problem: SharingProblem) -> list[dict[int, int]]:
    """Return for each pair by pool the column where its jobs do most together, where that is as much as one alone."""
    if not problem.pairs:
        return []
    found: list[dict[int, int]] = []
    for pair, row in zip(problem.pairs, gains(problem, problem.pairs).tolist(), strict=True):
        best: dict[int, int] = {}
        slower = pair.speeds.min(axis=0).tolist()
        for column, pool in enumerate(problem.pool_of.tolist()):
            is_kept = slower[column] > 0 and row[column] >= 1.0
            if is_kept and (pool not in best or row[column] > row[best[pool]]):
                best[pool] = column
        found.append(best)
    return found
