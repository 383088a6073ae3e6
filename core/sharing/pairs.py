"""Space sharing: which classes of jobs are worth a place on the same GPUs.

Two jobs are worth it in a column where their speeds together, each divided by its speed alone there, sum to more than 1. Where they do
not, the two can have the same speeds by taking turns on the same GPUs in no more time: a of the time for the one, b for the other, where
a + b <= 1 are the two divided speeds. So no policy that looks at speeds and capacity loses by leaving the pair out.

Source: OSDI 2020, space sharing, with a row for every pair of jobs; here there is one for every pair of classes.
"""

from collections.abc import Sequence

import numpy as np

from core.sharing.problem import BadProblem, Floats, PairSpeeds, SharingProblem
from core.sharing.speeds import SPREAD, Shape, SpeedTable

PAIRS_MAX = 250_000
"""Pairs of classes: 700 classes of one width. Beyond, a programme takes minutes, and classes of several jobs should be used."""


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
