"""The variables that all policies share: how many jobs of a class run in a column at a time, alone or as pairs.

Units: jobs. Of a class with 40 jobs, 10 in a column means that each spends a quarter of its time there; of pairs, how many pairs
run. So the rows are: jobs of a class ≤ its count, and GPUs in a pool ≤ its GPUs, where a pair takes the GPUs of one job.
"""

import numpy as np
from msgspec import Struct

from core.sharing.problem import MILLIONTHS, Floats, Ints, Shares, SharingProblem
from core.sharing.programmes import Rows, summed

ROUNDING = 1e-8
"""The part of itself that is added to a share before it is rounded down, so that a quarter that is solved as 0.2499999999 is a quarter."""


class Times(Struct, frozen=True):
    """The variables of one problem: those of jobs alone by class and column, then those of pairs by pair and column."""

    problem: SharingProblem
    classes: Ints
    """(variables,) the class; of a pair, the first of the two."""
    columns: Ints
    """(variables,) the column."""
    most: Floats
    """(variables,) what a variable can be at most."""
    alone: int
    """How many of the variables are of jobs alone."""
    pairs: Ints
    """(pair variables,) the pair of each variable behind those."""
    members: tuple[Ints, Ints, Floats]
    """Entries (class, variable, jobs of the class that one unit of the variable occupies)."""
    speeds: tuple[Ints, Ints, Floats]
    """Entries (class, variable, steps a second of all jobs of the class by one unit of the variable)."""

    @property
    def count(self) -> int:
        """Return how many variables there are."""
        return len(self.classes)

    def bound(self, rows: Rows) -> None:
        """Add the rows of time and of capacity."""
        problem = self.problem
        of_class, variable, jobs = self.members
        count = len(problem.classes)
        rows.add(of_class, variable, jobs, -np.inf, problem.counts, count)
        every = np.arange(self.count, dtype=np.int64)
        pools, widths = problem.pool_of[self.columns], problem.widths[self.classes]
        rows.add(pools, every, widths, -np.inf, problem.pool_gpus, len(problem.gpus))

    def speeds_of(self, values: Floats) -> Floats:
        """Return the steps a second of one job of each class, on average. (classes,)."""
        of_class, variable, speed = self.speeds
        total = summed(of_class, speed * values[variable], len(self.problem.classes))
        found: Floats = total / self.problem.counts
        return found

    def shares(
        self, values: Floats, objective: float = 0.0, by: str = "", notes: tuple[str, ...] = ()
    ) -> Shares:
        """Return the shares that these values of the variables are, rounded down."""
        problem = self.problem
        alone = np.zeros((len(problem.classes), len(problem.columns)))
        each = values[: self.alone] / problem.counts[self.classes[: self.alone]]
        alone[self.classes[: self.alone], self.columns[: self.alone]] = each
        together = np.zeros((len(problem.pairs), len(problem.columns)))
        together[self.pairs, self.columns[self.alone :]] = values[self.alone :]
        return Shares(_millionths(alone), _millionths(together), objective, by, notes)

    def values(self, shares: Shares) -> Floats:
        """Return the values of the variables that are these shares. (variables,)."""
        mine, columns = self.classes[: self.alone], self.columns[: self.alone]
        alone = shares.alone[mine, columns] / MILLIONTHS * self.problem.counts[mine]
        together = shares.together[self.pairs, self.columns[self.alone :]] / MILLIONTHS
        found: Floats = np.concatenate([alone, together])
        return found


def times_of(problem: SharingProblem) -> Times:
    """Return the variables of a problem: none where a class has no speed, or where a pair makes no headway."""
    classes, columns = np.nonzero(problem.runs)
    classes, columns = classes.astype(np.int64), columns.astype(np.int64)
    alone = len(classes)
    every = np.arange(alone, dtype=np.int64)
    members: list[tuple[Ints, Ints, Floats]] = [(classes, every, np.ones(alone))]
    speeds: list[tuple[Ints, Ints, Floats]] = [(classes, every, problem.speeds[classes, columns])]
    most = [
        np.minimum(
            problem.counts[classes], problem.pool_gpus[problem.pool_of[columns]] / problem.widths[classes]
        )
    ]
    pair_of, pair_columns = _pair_places(problem)
    if len(pair_of):
        first = np.array([pair.first for pair in problem.pairs], dtype=np.int64)[pair_of]
        second = np.array([pair.second for pair in problem.pairs], dtype=np.int64)[pair_of]
        both = np.array([pair.speeds for pair in problem.pairs])
        every = np.arange(alone, alone + len(pair_of), dtype=np.int64)
        for number, mine in enumerate((first, second)):
            members.append((mine, every, np.ones(len(pair_of))))
            speeds.append((mine, every, both[pair_of, number, pair_columns]))
        limit = problem.pool_gpus[problem.pool_of[pair_columns]] / problem.widths[first]
        most.append(np.minimum(limit, np.minimum(problem.counts[first], problem.counts[second])))
        classes, columns = np.concatenate([classes, first]), np.concatenate([columns, pair_columns])
    return Times(
        problem,
        classes,
        columns,
        np.concatenate(most),
        alone,
        pair_of,
        _joined(members),
        _joined(speeds),
    )


def _pair_places(problem: SharingProblem) -> tuple[Ints, Ints]:
    """Return (pair, column) of each place where two jobs can share: both run there, and at least one makes headway."""
    pairs, columns = [], []
    for index, pair in enumerate(problem.pairs):
        is_alone = problem.runs[pair.first] & problem.runs[pair.second]
        is_double = pair.first != pair.second or problem.classes[pair.first].count > 1
        found = np.flatnonzero(is_alone & (pair.speeds.max(axis=0) > 0)) if is_double else np.zeros(0)
        pairs.append(np.full(len(found), index, dtype=np.int64))
        columns.append(found.astype(np.int64))
    none = np.zeros(0, dtype=np.int64)
    return np.concatenate([none, *pairs]), np.concatenate([none, *columns])


def _joined(parts: list[tuple[Ints, Ints, Floats]]) -> tuple[Ints, Ints, Floats]:
    classes, variables, values = zip(*parts, strict=True)
    return np.concatenate(classes), np.concatenate(variables), np.concatenate(values)


def _millionths(shares: Floats) -> Ints:
    return np.floor(np.clip(shares, 0.0, None) * (MILLIONTHS * (1.0 + ROUNDING))).astype(np.int64)
