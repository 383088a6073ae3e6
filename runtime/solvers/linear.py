"""Linear programmes of sharing policies, by HiGHS: its simplex, and if that fails its interior point. Every answer is checked.

A check costs two products with the matrix, and proves more than a status does: that the values are feasible, and that the prices of
the rows bound the objective from above as closely as `GAP_MAX`.
"""

from collections.abc import Callable, Sequence

import highspy
import numpy as np
from numpy.typing import NDArray

from core.sharing.problem import Floats
from core.sharing.programmes import LinearProgramme, Solution, summed
from runtime.errors import NotSolved

FEASIBLE = 1e-6
"""By how much a row may be missed, relative to its bound."""
GAP_MAX = 1e-6
"""By how much the objective may be below its bound, relative to it, and to 1 where that is more: policies scale their programmes to 1."""
SIMPLEX, INTERIOR_POINT = "highs simplex", "highs interior point"
METHODS = {SIMPLEX: "simplex", INTERIOR_POINT: "ipm"}

Solve = Callable[[LinearProgramme, str], tuple[Floats, Floats]]


def solve_linear(programme: LinearProgramme, methods: Sequence[str] = tuple(METHODS)) -> Solution:
    """Return the checked solution of the first method that has one. Raises NotSolved, with what each method said."""
    failed = []
    for method in methods:
        try:
            values, prices = _run(programme, METHODS[method])
            return checked(programme, values, prices, method)
        except NotSolved as error:
            failed.append(f"{method}: {error}")
    raise NotSolved("; ".join(failed))


def checked(programme: LinearProgramme, values: Floats, prices: Floats, by: str) -> Solution:
    """Return the solution, if it is feasible and at its bound. Raises NotSolved."""
    values = np.clip(values, programme.least, programme.most)
    matrix = programme.matrix
    sums = summed(matrix.rows, matrix.values * values[matrix.columns], matrix.shape[0])
    size = summed(matrix.rows, np.abs(matrix.values * values[matrix.columns]), matrix.shape[0])
    missed = np.maximum(programme.row_least - sums, sums - programme.row_most)
    worst = float((missed / np.maximum(1.0, size)).max(initial=0.0))
    if not worst <= FEASIBLE:
        raise NotSolved(f"its answer misses a row by {worst:.1e}")
    objective = float(programme.gain @ values)
    bound = bound_of(programme, prices)
    gap = (bound - objective) / max(1.0, abs(bound))
    if not gap <= GAP_MAX:
        raise NotSolved(f"its answer may be {gap:.1e} below the best")
    return Solution(values, objective, prices, by)


def bound_of(programme: LinearProgramme, prices: Floats) -> float:
    """Return what the objective can be at most, by these prices of the rows. Any prices give a bound; the duals give the closest.

    A price of the wrong sign for a row without that bound counts as 0.
    """
    matrix = programme.matrix
    prices = np.where((prices > 0) & np.isinf(programme.row_most), 0.0, prices)
    prices = np.where((prices < 0) & np.isinf(programme.row_least), 0.0, prices)
    priced = summed(matrix.columns, matrix.values * prices[matrix.rows], matrix.shape[1])
    reduced = programme.gain - priced
    of_rows = np.where(prices > 0, programme.row_most, np.where(prices < 0, programme.row_least, 0.0))
    of_columns = np.where(reduced > 0, programme.most, programme.least)
    return float(prices @ of_rows + reduced @ of_columns)


def _run(programme: LinearProgramme, method: str) -> tuple[Floats, Floats]:
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("solver", method)
    solver.setOptionValue("primal_feasibility_tolerance", 1e-9)
    solver.setOptionValue("dual_feasibility_tolerance", 1e-9)
    solver.passModel(_model(programme))
    solver.run()
    status = solver.getModelStatus()
    if status != highspy.HighsModelStatus.kOptimal:
        raise NotSolved(solver.modelStatusToString(status))
    found = solver.getSolution()
    return np.asarray(found.col_value), np.asarray(found.row_dual)


def _model(programme: LinearProgramme) -> highspy.HighsLp:
    starts, rows, values = by_column(programme)
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = programme.matrix.shape
    model.sense_ = highspy.ObjSense.kMaximize
    model.col_cost_ = programme.gain
    model.col_lower_, model.col_upper_ = programme.least, programme.most
    model.row_lower_, model.row_upper_ = programme.row_least, programme.row_most
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_, model.a_matrix_.index_, model.a_matrix_.value_ = starts, rows, values
    return model


def by_column(programme: LinearProgramme) -> tuple[NDArray[np.int32], NDArray[np.int32], Floats]:
    """Return the matrix in compressed columns, entries of one place added up: starts, rows and values."""
    matrix = programme.matrix
    place = matrix.columns * matrix.shape[0] + matrix.rows
    unique, inverse = np.unique(place, return_inverse=True)
    values = summed(inverse, matrix.values, len(unique))
    columns, rows = np.divmod(unique, matrix.shape[0])
    starts = np.searchsorted(columns, np.arange(matrix.shape[1] + 1))
    return starts.astype(np.int32), np.asarray(rows, dtype=np.int32), values
