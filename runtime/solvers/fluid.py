"""Rents of typical shapes, by HiGHS: the fluid programme solved with few columns, and again, warm, with those that would earn more.

Its oracle is the same programme as it is stated, with all columns (runtime/solvers/fluid_reference.py).
"""

from collections.abc import Sequence

import highspy
import numpy as np
from numpy.typing import NDArray

from core.nouns.mix import Mix
from core.nouns.prices import Prices
from core.pricing.fluid import LEVELS_OF_DEMAND, FluidProblem, NodeClass, prices_of
from runtime.errors import NotSolved

ROUNDS_MAX = 60
"""Of adding columns: a dozen are enough for the public lists; the rents of the last round are good prices too."""


def solve_prices(classes: Sequence[NodeClass], mix: Mix, revision: int = 1, arrivals: int = 0) -> Prices:
    """What room on these nodes is worth to this mix. Raises NotSolved."""
    rents = [rents_of(FluidProblem(classes, mix, level))[1] for level in LEVELS_OF_DEMAND]
    return prices_of(classes, mix, rents, revision, arrivals)


def rents_of(problem: FluidProblem) -> tuple[float, list[float]]:
    """What can be earned in all, and the duals of demand by shape, in GPUs. Raises NotSolved."""
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    rows = len(problem.bounds)
    none = np.zeros(0, dtype=np.int32)
    solver.addRows(rows, np.full(rows, -highspy.kHighsInf), problem.bounds, 0, none, none, np.zeros(0))
    solver.changeObjectiveSense(highspy.ObjSense.kMaximize)
    columns = problem.first_columns()
    if not len(columns.earns):
        return 0.0, [0.0] * len(problem.shapes)
    duals: NDArray[np.float64] = np.zeros(rows)
    for _ in range(ROUNDS_MAX):
        count = len(columns.earns)
        upper = np.full(count, highspy.kHighsInf)
        solver.addCols(
            count,
            columns.earns,
            np.zeros(count),
            upper,
            len(columns.rows),
            columns.starts,
            columns.rows,
            columns.values,
        )
        solver.run()
        status = solver.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            raise NotSolved(solver.modelStatusToString(status))
        duals = np.maximum(np.asarray(solver.getSolution().row_dual), 0.0)
        more = problem.more_columns(duals)
        if more is None:
            break
        columns = more
    return solver.getObjectiveValue(), duals[: len(problem.shapes)].tolist()
