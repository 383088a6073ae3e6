"""Space sharing: which classes of jobs are worth a place on the same GPUs, and which two jobs run there together in a round.

Two jobs are worth it in a column where their speeds together, each divided by its speed alone there, sum to more than 1. Where they do
not, the two can have the same speeds by taking turns on the same GPUs in no more time: a of the time for the one, b for the other, where
a + b <= 1 are the two divided speeds. So no policy that looks at speeds and capacity loses by leaving the pair out.

Source: OSDI 2020, space sharing, with a row for every pair of jobs; here there is one for every pair of classes.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from core.sharing.problem import BadProblem, Floats, PairSpeeds, SharingProblem
from core.sharing.speeds import SPREAD, Shape, SpeedTable

PAIRS_MAX = 250_000
"""Pairs of classes: 700 classes of one width. Beyond, a programme takes minutes, and classes of several jobs should be used."""


class Wanted(NamedTuple):
    """Pairs of jobs that are to run in a column in a round."""

    pair: int
    """Index of the pair of classes in the problem."""
    column: int
    jobs: int
    """How many pairs of jobs."""


class Partners(NamedTuple):
    """Two jobs that run together on the same GPUs."""

    first: str
    second: str
    column: int


Lag = Callable[[str, int, int], float]
"""By job, pair and column: rounds owed less rounds received."""


def pairs_of(problem: SharingProblem, shapes: Sequence[Shape], table: SpeedTable) -> tuple[PairSpeeds, ...]:
    """Return the pairs of classes of equal width that are worth it, with their speeds in the columns where they are.

    shapes    (classes,) the row of the table for each class
    table     where the speeds of two in a column are not known, they do not share there. Raises BadProblem
    """
    keys = [column.gpu_type + SPREAD * (column.placement == "spread") for column in problem.columns]
    known: dict[tuple[Shape, Shape], Floats] = {}
    found = []
    for first, one in enumerate(problem.classes):
        for second in range(first, len(shapes)):
            if one.gpus != problem.classes[second].gpus or (first == second and one.count < 2):
                continue
            shared = shapes[first], shapes[second]
            if shared not in known:
                by_type = table.together.get(shared, {})
                known[shared] = np.array([by_type.get(key, (0.0, 0.0)) for key in keys]).T
            found.append(PairSpeeds(first, second, known[shared]))
        if len(found) > PAIRS_MAX:
            raise BadProblem(f"{len(shapes)} classes of jobs make too many pairs: the most are {PAIRS_MAX}")
    return worthwhile(problem, found)


def worthwhile(problem: SharingProblem, pairs: Sequence[PairSpeeds]) -> tuple[PairSpeeds, ...]:
    """Return the pairs that are worth it in some column, with speeds of (0, 0) in the others."""
    if not pairs:
        return ()
    is_worth = gains(problem, pairs) > 1.0
    return tuple(
        PairSpeeds(pair.first, pair.second, np.where(columns, pair.speeds, 0.0))
        for pair, columns in zip(pairs, is_worth, strict=True)
        if columns.any()
    )


def gains(problem: SharingProblem, pairs: Sequence[PairSpeeds]) -> Floats:
    """Return the sum of both speeds, each divided by the speed alone. (pairs, columns); 0 where one of the two does not run alone."""
    first = np.array([pair.first for pair in pairs], dtype=np.int64)
    second = np.array([pair.second for pair in pairs], dtype=np.int64)
    both = np.array([pair.speeds for pair in pairs]).reshape(len(pairs), 2, len(problem.columns))
    alone = np.where(problem.runs, problem.speeds, np.inf)
    can = problem.runs[first] & problem.runs[second]
    found: Floats = np.where(can, both[:, 0] / alone[first] + both[:, 1] / alone[second], 0.0)
    return found


def partners(
    problem: SharingProblem, members: Sequence[Sequence[str]], wanted: Sequence[Wanted], lag: Lag
) -> list[Partners]:
    """Return which jobs run together in a round: of each class those that lag most, the largest lag with the largest, ties by id.

    members   (classes,) ids of the jobs of each class
    wanted    served in this order; no job is in two pairs
    returns   fewer than wanted, where a class has no more jobs
    """
    taken: dict[str, None] = {}
    found = []
    for pair, column, jobs in wanted:
        first, second = problem.pairs[pair].first, problem.pairs[pair].second
        queues = [
            sorted(
                (one for one in members[index] if one not in taken),
                key=lambda job: (-lag(job, pair, column), job),
            )
            for index in (first, second)
        ]
        if first == second:
            queues = [queues[0][0::2], queues[0][1::2]]
        for mine, other in list(zip(*queues, strict=False))[:jobs]:
            taken[mine] = taken[other] = None
            found.append(Partners(mine, other, column))
    return found
