"""What a policy asks a solver: a programme, as sparse arrays, and its solution.

A policy is a generator: it yields a programme and is sent the solution, as often as it needs, and returns the shares. So a policy is
pure, and which solver answers is the business of runtime/solvers.
"""

from collections.abc import Generator

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from core.sharing.problem import Floats, Ints, Shares


class Matrix(Struct, frozen=True):
    """A sparse matrix by its entries; entries of one place add up."""

    rows: Ints
    columns: Ints
    values: Floats
    shape: tuple[int, int]


class LinearProgramme(Struct, frozen=True):
    """Maximise `gain @ x`, with `least <= x <= most` and `row_least <= matrix @ x <= row_most`.

    Every variable is bounded, so that any dual prices of rows prove a bound of the objective.
    """

    gain: Floats
    least: Floats
    most: Floats
    matrix: Matrix
    row_least: Floats
    row_most: Floats


class Cone(Struct, frozen=True):
    """A convex cone that consecutive rows must lie in: `zero`, `positive`, `second_order` or `exponential`."""

    kind: str
    size: int


class ConicProgramme(Struct, frozen=True):
    """Minimise `cost @ x`, with `offset - matrix @ x` in the product of the cones."""

    cost: Floats
    matrix: Matrix
    offset: Floats
    cones: tuple[Cone, ...]


Programme = LinearProgramme | ConicProgramme


class Solution(Struct, frozen=True):
    """An answer that was checked: feasible, and at its dual bound."""

    values: Floats
    objective: float
    prices: Floats
    """(rows,) duals: what the objective of a linear programme gains by a unit more of each row's bound."""
    by: str


Steps = Generator[Programme, Solution, Shares]
"""A policy under way."""


def summed(places: Ints, values: Floats, count: int) -> Floats:
    """Return the sum of the values of each place. (count,)."""
    return np.asarray(np.bincount(places, values, minlength=count), dtype=np.float64)


class Rows:
    """The rows of a programme, gathered block by block."""

    def __init__(self, columns: int) -> None:
        """Of a programme with so many variables."""
        self._columns = columns
        self._rows: list[Ints] = []
        self._at: list[Ints] = []
        self._values: list[Floats] = []
        self._least: list[Floats] = []
        self._most: list[Floats] = []
        self._count = 0

    def add(
        self,
        rows: NDArray[np.int64],
        columns: NDArray[np.int64],
        values: Floats | float,
        least: Floats | float,
        most: Floats | float,
        count: int,
    ) -> None:
        """Add `count` rows with entries at (rows, columns), where the first of the new rows is row 0."""
        self._rows.append(rows + self._count)
        self._at.append(columns)
        self._values.append(np.broadcast_to(np.asarray(values, dtype=np.float64), rows.shape))
        self._least.append(np.broadcast_to(np.asarray(least, dtype=np.float64), (count,)))
        self._most.append(np.broadcast_to(np.asarray(most, dtype=np.float64), (count,)))
        self._count += count

    def more(self, columns: Ints, values: Floats | float) -> None:
        """Add one entry to each of the last `len(columns)` rows."""
        count = len(columns)
        self._rows.append(np.arange(self._count - count, self._count, dtype=np.int64))
        self._at.append(columns)
        self._values.append(np.broadcast_to(np.asarray(values, dtype=np.float64), (count,)))

    def programme(self, gain: Floats, least: Floats, most: Floats) -> LinearProgramme:
        """Return the programme of these rows."""
        matrix = Matrix(
            np.concatenate(self._rows),
            np.concatenate(self._at),
            np.concatenate(self._values),
            (self._count, self._columns),
        )
        return LinearProgramme(
            gain, least, most, matrix, np.concatenate(self._least), np.concatenate(self._most)
        )
