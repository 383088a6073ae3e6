"""The rows of a conic programme, gathered block by block, and the step from its values to shares that are possible to the last GPU.

The form is that of the solver: minimise `cost @ x` with `offset - matrix @ x` in a product of cones. Here each row is given as the
affine expression that must lie in the cone, which is the form in which papers state it.
"""

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from core.sharing.problem import Floats, Ints
from core.sharing.programmes import Cone, ConicProgramme, LinearProgramme, Matrix, Rows, summed
from core.sharing.times import Times

ZERO, POSITIVE, SECOND_ORDER, EXPONENTIAL = "zero", "positive", "second_order", "exponential"
TRIPLE = 3
"""Rows of a rotated second-order cone and of an exponential one."""


class ConeRows:
    """The rows of a conic programme."""

    def __init__(self, columns: int) -> None:
        """Of a programme with so many variables."""
        self._columns = columns
        self._rows: list[Ints] = []
        self._at: list[Ints] = []
        self._values: list[Floats] = []
        self._offsets: list[Floats] = []
        self._cones: list[Cone] = []
        self._count = 0

    def add(
        self,
        cones: list[Cone],
        rows: NDArray[np.int64],
        columns: NDArray[np.int64],
        values: Floats | float,
        offset: Floats,
    ) -> None:
        """Add rows that must lie in the cones: `values @ x + offset`, where the first of the new rows is row 0.

        rows, columns, values   (entries,) of the expression; offset   (new rows,)
        """
        assert sum(cone.size for cone in cones) == len(offset)
        self._rows.append(rows + self._count)
        self._at.append(columns)
        self._values.append(np.broadcast_to(np.asarray(values, dtype=np.float64), rows.shape))
        self._offsets.append(offset)
        self._cones += cones
        self._count += len(offset)

    def bound(self, times: Times) -> None:
        """Add the rows of time and of capacity, and that no time is less than 0, for the first `times.count` variables.

        These are parts of `times.most`, and the rows are parts of their bounds: so all are between 0 and 1, whatever the number of
        jobs and GPUs, and a solver's tolerance means the same everywhere.
        """
        limits = limits_of(times)
        matrix = limits.matrix
        parts = matrix.values * times.most[matrix.columns] / limits.row_most[matrix.rows]
        ones = np.ones(matrix.shape[0])
        self.add([Cone(POSITIVE, matrix.shape[0])], matrix.rows, matrix.columns, -parts, ones)
        every = np.arange(times.count, dtype=np.int64)
        self.add([Cone(POSITIVE, times.count)], every, every, 1.0, np.zeros(times.count))

    def programme(self, cost: Floats) -> ConicProgramme:
        """Return the programme of these rows."""
        matrix = Matrix(
            np.concatenate(self._rows),
            np.concatenate(self._at),
            -np.concatenate(self._values),
            (self._count, self._columns),
        )
        return ConicProgramme(cost, matrix, np.concatenate(self._offsets), tuple(self._cones))


def fitted(times: Times, values: Floats) -> Floats:
    """Return the values of the variables of time, scaled down by the part by which they exceed a row of time or capacity.

    A solver is exact to about a hundred-millionth; what leaves a policy is within every bound.

    values    (variables or more,) as solved, parts of `times.most`; those behind the variables of time are left out
    returns   (variables,) jobs
    """
    found = np.clip(values[: times.count], 0.0, 1.0) * times.most
    limits = limits_of(times)
    matrix = limits.matrix
    sums = summed(matrix.rows, matrix.values * found[matrix.columns], matrix.shape[0])
    scaled: Floats = found / max(1.0, float((sums / limits.row_most).max(initial=0.0)))
    return scaled


def limits_of(times: Times) -> LinearProgramme:
    """Return the rows of time and capacity, all with upper bounds above 0: a pool without GPUs has no variable, and any bound does."""
    rows = Rows(times.count)
    times.bound(rows)
    none = np.zeros(times.count)
    limits = rows.programme(none, none, times.most)
    return replace(limits, row_most=np.where(limits.row_most > 0, limits.row_most, 1.0))
