"""Conic programmes of sharing policies, by Clarabel's interior point; and linear ones as conic, where no other method has an answer.

Every answer is checked: the rows lie in their cones, and the duals bound the objective from below as closely as `GAP_MAX`. The check
repairs the duals first, so that they are in the dual cones exactly; then any duals prove a bound.
"""

from collections.abc import Iterator, Mapping, Sequence

import clarabel
import numpy as np
from msgspec import Struct
from scipy import sparse

from core.sharing.cones import EXPONENTIAL, POSITIVE, SECOND_ORDER, ZERO
from core.sharing.problem import Floats, Ints
from core.sharing.programmes import Cone, ConicProgramme, LinearProgramme, Matrix, Solution, summed
from runtime.errors import NotSolved
from runtime.solvers import linear

FEASIBLE = 1e-6
"""By how much a row may be outside its cone, relative to the terms that it sums."""
GAP_MAX = 1e-6
"""By how much the objective may be above its bound, relative to it."""
EXACT = 1e-9
"""Where the solver stops of itself: the differences of logarithms that policies take need more than the check does."""
SECONDS_MAX = 60.0
"""Of one method. The largest programme that is measured, 10,000 classes by 8 columns, takes two."""
TINY = 1e-15
"""The least that the first part of a dual of an exponential cone is away from 0."""
EXPONENT_MAX = 300.0
"""Where the third part of such a dual is cut: so large a one proves nothing."""
CLARABEL, UNSCALED = "clarabel", "clarabel, unscaled"
Methods = Mapping[str, Mapping[str, float | bool]]
"""Settings of the solver, by the name that an answer bears."""
METHODS: Methods = {
    CLARABEL: {},
    UNSCALED: {"equilibrate_enable": False, "max_step_fraction": 0.9},
}
"""In the order in which they are tried. The policies scale their programmes; where the solver does so once more, one in a hundred extreme ones fails."""
_CONES = {
    ZERO: clarabel.ZeroConeT,
    POSITIVE: clarabel.NonnegativeConeT,
    SECOND_ORDER: clarabel.SecondOrderConeT,
    EXPONENTIAL: lambda _: clarabel.ExponentialConeT(),
}
_ENDED = ("Solved", "AlmostSolved", "InsufficientProgress")
"""The states whose values are worth a check: it decides, and not the state."""


def solve_conic(programme: ConicProgramme, methods: Methods = METHODS) -> Solution:
    """Return the checked solution of the first method that has one. Raises NotSolved, with what each method said.

    The prices of the solution are the duals of the rows.
    """
    failed = []
    for method, settings in methods.items():
        try:
            values, duals = _run(programme, settings)
            return checked(programme, values, duals, method)
        except NotSolved as error:
            failed.append(f"{method}: {error}")
    raise NotSolved("; ".join(failed))


def solve_linear_as_conic(programme: LinearProgramme) -> Solution:
    """Return the solution of a linear programme, checked as one. Raises NotSolved."""
    conic = as_conic(programme)
    found = solve_conic(conic.programme)
    prices = conic.prices(found.prices, programme.matrix.shape[0])
    try:
        return linear.checked(programme, found.values, prices, found.by)
    except NotSolved as error:
        raise NotSolved(f"{found.by}: {error}") from error


def checked(programme: ConicProgramme, values: Floats, duals: Floats, by: str) -> Solution:
    """Return the solution, if it is feasible and at its bound. Raises NotSolved."""
    matrix = programme.matrix
    if not np.isfinite(values).all() or not np.isfinite(duals).all():
        raise NotSolved("its answer has values that are no numbers")
    terms = matrix.values * values[matrix.columns]
    rows = programme.offset - summed(matrix.rows, terms, matrix.shape[0])
    sizes = np.abs(programme.offset) + summed(matrix.rows, np.abs(terms), matrix.shape[0])
    worst = _outside(programme.cones, rows, sizes)
    if not worst <= FEASIBLE:
        raise NotSolved(f"its answer is outside a cone by {worst:.1e}")
    objective = float(programme.cost @ values)
    bound = bound_of(programme, values, duals)
    gap = (objective - bound) / max(1.0, abs(bound))
    if not gap <= GAP_MAX:
        raise NotSolved(f"its answer may be {gap:.1e} above the best")
    return Solution(values, objective, duals, by)


def bound_of(programme: ConicProgramme, values: Floats, duals: Floats) -> float:
    """Return the least objective that these duals of the rows leave possible, among values of the size of those given.

    For duals in the dual cones and any feasible x, `cost @ x >= residual @ x - offset @ duals`, where the residual is
    `cost + matrix.T @ duals`. The dual of a row that bounds one variable takes up the residual of that variable, as far as its
    cone allows; the rest counts with the size of the variable, and at least 1.
    """
    matrix = programme.matrix
    duals = _repaired(programme.cones, duals)
    residual = programme.cost + summed(matrix.columns, matrix.values * duals[matrix.rows], matrix.shape[1])
    row, column, factor = _single(programme)
    changed = np.maximum(duals[row] - residual[column] / factor, 0.0) - duals[row]
    duals[row] += changed
    residual += summed(column, factor * changed, len(residual))
    slack = float(np.abs(residual) @ np.maximum(1.0, np.abs(values)))
    return -float(programme.offset @ duals) - slack


class AsConic(Struct, frozen=True):
    """A linear programme in conic form."""

    programme: ConicProgramme
    rows: Ints
    """(conic rows,) the row of the linear programme that each is; those behind its rows are the bounds of its variables."""
    signs: Floats
    """(conic rows,) 1 for the upper bound of a row, and -1 for the lower."""

    def prices(self, duals: Floats, count: int) -> Floats:
        """Return the prices of the first `count` rows of the linear programme."""
        return summed(self.rows, self.signs * duals, count)[:count]


def as_conic(programme: LinearProgramme) -> AsConic:
    """Return a linear programme in conic form: equal bounds are rows of the zero cone, each other bound one of the positive."""
    matrix = programme.matrix
    count, columns = matrix.shape
    every = np.arange(columns, dtype=np.int64)
    entries = sparse.csr_matrix(
        (
            np.concatenate([matrix.values, np.ones(columns)]),
            (np.concatenate([matrix.rows, every + count]), np.concatenate([matrix.columns, every])),
        ),
        shape=(count + columns, columns),
    )
    least = np.concatenate([programme.row_least, programme.least])
    most = np.concatenate([programme.row_most, programme.most])
    is_equal = least == most
    equal = np.flatnonzero(is_equal)
    upper = np.flatnonzero(~is_equal & np.isfinite(most))
    lower = np.flatnonzero(~is_equal & np.isfinite(least))
    rows = np.concatenate([equal, upper, lower])
    signs = np.concatenate([np.ones(len(equal) + len(upper)), -np.ones(len(lower))])
    bounds = np.concatenate([most[equal], most[upper], -least[lower]])
    found = (sparse.diags_array(signs) @ entries[rows]).tocoo()
    whole = Matrix(found.row.astype(np.int64), found.col.astype(np.int64), found.data, found.shape)
    cones = (Cone(ZERO, len(equal)), Cone(POSITIVE, len(upper) + len(lower)))
    return AsConic(
        ConicProgramme(-programme.gain, whole, bounds, tuple(cone for cone in cones if cone.size)),
        rows,
        signs,
    )


def _run(programme: ConicProgramme, options: Mapping[str, float | bool]) -> tuple[Floats, Floats]:
    matrix = programme.matrix
    rows, columns = matrix.shape
    if not all(np.isfinite(one).all() for one in (matrix.values, programme.offset, programme.cost)):
        # The library takes them, and would run to its last step.
        raise NotSolved("the programme has a coefficient that is no number")
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.time_limit = SECONDS_MAX
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = EXACT
    for name, value in options.items():
        setattr(settings, name, value)
    entries = sparse.csc_matrix((matrix.values, (matrix.rows, matrix.columns)), shape=matrix.shape)
    quadratic = sparse.csc_matrix((columns, columns))
    cones = [_CONES[cone.kind](cone.size) for cone in programme.cones]
    assert sum(cone.size for cone in programme.cones) == rows
    solver = clarabel.DefaultSolver(quadratic, programme.cost, entries, programme.offset, cones, settings)
    found = solver.solve()
    if str(found.status) not in _ENDED:
        raise NotSolved(str(found.status))
    return np.array(found.x), np.array(found.z)


def _places(cones: Sequence[Cone]) -> Iterator[tuple[str, Ints]]:
    """Yield each kind of cone, by size, with the rows of all such cones: (cones, size); flat rows are cones of size 1."""
    sizes = np.array([cone.size for cone in cones], dtype=np.int64)
    firsts = np.cumsum(sizes) - sizes
    kinds = np.array([cone.kind for cone in cones])
    for kind in (ZERO, POSITIVE):
        mine = np.flatnonzero(kinds == kind)
        every = [np.arange(firsts[index], firsts[index] + sizes[index]) for index in mine]
        if every:
            yield kind, np.concatenate(every)[:, None]
    for kind in (SECOND_ORDER, EXPONENTIAL):
        for size in np.unique(sizes[kinds == kind]):
            mine = np.flatnonzero((kinds == kind) & (sizes == size))
            yield kind, firsts[mine][:, None] + np.arange(size)[None, :]


def _outside(cones: Sequence[Cone], rows: Floats, sizes: Floats) -> float:
    """Return by how much the rows are outside their cones, at most, relative to the terms of the cone; a term counts as at least 1."""
    worst = 0.0
    for kind, places in _places(cones):
        value, size = rows[places], np.maximum(1.0, sizes[places].max(axis=1))
        if kind == ZERO:
            missed = np.abs(value[:, 0])
        elif kind == POSITIVE:
            missed = -value[:, 0]
        elif kind == SECOND_ORDER:
            missed = np.linalg.norm(value[:, 1:], axis=1) - value[:, 0]
        else:
            # second * exp(first / second) <= third, as logarithms: these are as exact as the first.
            first, second, third = value.T
            is_inside = (second > 0) & (third > 0)
            safe, most = np.where(is_inside, second, 1.0), np.where(is_inside, third, 1.0)
            missed = np.where(is_inside, first - safe * np.log(most / safe), np.inf)
        worst = max(worst, float((missed / size).max()))
    return worst


def _repaired(cones: Sequence[Cone], duals: Floats) -> Floats:
    """Return the duals moved into the dual cones: a part that is too small is raised."""
    found = duals.copy()
    for kind, places in _places(cones):
        value = duals[places]
        if kind == POSITIVE:
            found[places] = np.maximum(value, 0.0)
        elif kind == SECOND_ORDER:
            found[places[:, 0]] = np.maximum(value[:, 0], np.linalg.norm(value[:, 1:], axis=1))
        elif kind == EXPONENTIAL:
            # The dual cone: first < 0, and third >= -first * exp(second / first - 1); or first 0, and the others not negative.
            first = np.minimum(value[:, 0], -TINY)
            least = -first * np.exp(np.minimum(value[:, 1] / first - 1.0, EXPONENT_MAX))
            found[places[:, 0]], found[places[:, 2]] = first, np.maximum(value[:, 2], least)
    return found


def _single(programme: ConicProgramme) -> tuple[Ints, Ints, Floats]:
    """Return the rows that bound one variable from below, one row a variable: rows of the positive cone with a single entry."""
    matrix = programme.matrix
    in_row = np.bincount(matrix.rows, minlength=matrix.shape[0])
    is_flat = np.zeros(matrix.shape[0], dtype=np.bool_)
    for kind, places in _places(programme.cones):
        if kind == POSITIVE:
            is_flat[places] = True
    entries = np.flatnonzero((in_row[matrix.rows] == 1) & is_flat[matrix.rows] & (matrix.values < 0))
    column, first = np.unique(matrix.columns[entries], return_index=True)
    mine = entries[first]
    return matrix.rows[mine], column, matrix.values[mine]
