"""Rents of typical shapes, by HiGHS: the fluid programme solved with few columns, and again, warm, with those that would earn more,
and for one level of demand after the other.

Its oracle is the same programme as it is stated, with all columns (runtime/solvers/reference/fluid.py).
"""

from collections.abc import Sequence

import highspy
import numpy as np
from numpy.typing import NDArray

from core.nouns.mix import Mix
from core.nouns.prices import Prices
from core.pricing.fluid import LEVELS_OF_DEMAND, Columns, FluidProblem, NodeClass, prices_of
from runtime.errors import NotSolved

ROUNDS_MAX = 60
"""Of adding columns: a dozen are enough for the public lists; the rents of the last round are good prices too."""


def solve_prices(classes: Sequence[NodeClass], mix: Mix, revision: int = 1, arrivals: int = 0) -> Prices:
    """What room on these nodes is worth to this mix. Raises NotSolved."""
    solved = solve(FluidProblem(classes, mix), LEVELS_OF_DEMAND)
    return prices_of(classes, mix, [rents for _, rents in solved], revision, arrivals)


def solve(problem: FluidProblem, levels: Sequence[float]) -> list[tuple[float, list[float]]]:
    """For each level of demand what can be earned in all, and the duals of demand by shape, in GPUs. Raises NotSolved."""
    columns = problem.first_columns()
    if not len(columns.earns):
        return [(0.0, [0.0] * len(problem.shapes)) for _ in levels]
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    rows = len(problem.bounds)
    none = np.zeros(0, dtype=np.int32)
    solver.addRows(rows, np.full(rows, -highspy.kHighsInf), problem.bounds, 0, none, none, np.zeros(0))
    solver.changeObjectiveSense(highspy.ObjSense.kMaximize)
    _add(solver, columns)
    solved = []
    for level in levels:
        for row, bound in enumerate(problem.demand(level).tolist()):
            solver.changeRowBounds(row, -highspy.kHighsInf, bound)
        duals = _solved_with_all(solver, problem)
        solved.append((solver.getObjectiveValue(), duals[: len(problem.shapes)].tolist()))
    return solved


def _solved_with_all(solver: highspy.Highs, problem: FluidProblem) -> NDArray[np.float64]:
    """Solve, add the columns that would earn more, and solve again until there are none: the duals of all rows."""
    duals: NDArray[np.float64] = np.zeros(0)
    for _ in range(ROUNDS_MAX):
        solver.run()
        status = solver.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            raise NotSolved(solver.modelStatusToString(status))
        duals = np.maximum(np.asarray(solver.getSolution().row_dual), 0.0)
        columns = problem.more_columns(duals)
        if columns is None:
            break
        _add(solver, columns)
    return duals


def _add(solver: highspy.Highs, columns: Columns) -> None:
    count = len(columns.earns)
    none, most = np.zeros(count), np.full(count, highspy.kHighsInf)
    entries = len(columns.rows), columns.starts, columns.rows, columns.values
    solver.addCols(count, columns.earns, none, most, *entries)
