"""Which nodes belong to which pool, as a mixed integer programme, by HiGHS. Its oracle is runtime/solvers/pools_reference.py.

    moved[c, p]    whole   nodes of a cell that move to a pool
    total[p, t]    whole   units of a pool
    largest[p, t]  whole   units of a pool in its largest domain, or more
    short_now, short, gained [p, t]   GPUs, see core/pooling/figures.py

A cell is the nodes of one or more classes that neither a cost nor a row tells apart: classes that differ in their zones, for example. Moves of a
cell are dealt out to its classes in a fixed order. A unit is the greatest number of GPUs that divides the GPUs of each node of a type. A shortage
is a convex function of units and a gain a concave one; the rows state both by their values at whole units. For nodes of one size the programme is
then a flow from pool to pool once `largest` is whole, so most other values are whole of themselves, and a run takes a tenth of a second. An
answer for nodes of several sizes is rounded: each value up or down, by a second and small programme.

source    RAS (SOSP'21): whole numbers by class of like servers, and the sum over domains less the largest at least the need
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import ceil, gcd, isfinite

import highspy
import numpy as np
from msgspec import Struct

from core.pooling.figures import (
    Floats,
    Ints,
    cost_of,
    gpus_of,
    left_of,
    objective_of,
    short_now_of,
    short_of,
    spread_by_type,
    worth_by_type,
)
from core.pooling.problem import MOVE, SHORT_NOW, Moved, NodeClass, Pooled, PoolingProblem
from runtime.errors import NotSolved

GAP = 1e-5
"""Gap of an answer, relative to the cost of its moves, at which HiGHS stops."""
GAP_MAX = 5e-3
"""Relative gap above which a rounded answer of a large problem is improved. Below the gap, improving costs many times the seconds of rounding."""
GAP_SHORTAGE = 1e-5
"""Relative gap at which HiGHS stops to make the weighted shortage less. Below 90,000 weighted GPUs the least is found exactly."""
SECONDS_MAX = 10.0
"""Of one run. Only an answer that met this limit may depend on the machine. With thousands of whole numbers HiGHS looks at its clock seldom."""
SMALL = 500
"""Columns of moves up to which an answer is within `GAP`, and the shortage exactly the least."""
LARGE = 2_000
"""Columns of moves above which a rounded answer is not improved: HiGHS would take minutes."""
MARGINS = (0, 1, 2, 4, 8, 16)
"""Units beyond the needs that are tried, in this order, before an answer is rounded. Only for types with nodes of several sizes."""
SHORTAGE_SLACK = 1e-3
"""GPUs by which the weighted shortage, a whole number, may miss its bound while costs are made least."""
WHOLE = 1e-6
"""By how much a whole number may be missed."""

_INFINITE = highspy.kHighsInf
_INFEASIBLE = (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible)


class _Cell(Struct):
    """Nodes that neither a cost nor a row tells apart."""

    like: NodeClass
    members: list[int] = []
    """Places in the problem's classes, ascending."""
    count: int = 0


class _Pair(Struct, frozen=True):
    """Columns of a pool and a type. -1: there is none."""

    pool: int
    node_type: int
    unit: int
    """GPUs."""
    total: int
    largest: int
    short_now: int
    short: int
    gained: int


class _Found(Struct, frozen=True):
    """Moves, and the least that the objective can be at their shortage."""

    moves: tuple[Moved, ...]
    bound: float


class _Outcome(Struct, frozen=True):
    """Values of the columns after one run, their objective, and the bound that the run proved."""

    values: Floats
    objective: float
    bound: float

    @property
    def distance(self) -> float:
        """Return the most by which another answer can be better."""
        return self.objective - self.bound


def solve_pools(problem: PoolingProblem) -> Pooled:
    """Return the checked answer. Raises NotSolved."""
    types = range(len(problem.node_types))
    # 1. Types have nothing in common but the bound on moves. If that does not bind, the best answers of each are the best of all.
    found = [_Stated(problem, (node_type,)).solved() for node_type in types]
    moves = tuple(sorted((move for one in found for move in one.moves), key=_place))
    bound = sum(one.bound for one in found)
    # 2. Else they are solved as one.
    if sum(move.count for move in moves) > problem.moves_max:
        joint = _Stated(problem, types).solved()
        moves, bound = joint.moves, joint.bound
    return _answer(problem, _Found(moves, bound))


def _answer(problem: PoolingProblem, found: _Found) -> Pooled:
    """Return the answer with its figures, all computed from its counts. Raises NotSolved if the counts do not hold."""
    moved: dict[int, int] = defaultdict(int)
    for move in found.moves:
        moved[move.node_class] += move.count
        if move.count < 0 or move.pool == problem.classes[move.node_class].pool:
            raise NotSolved("HiGHS's answer has a move of less than no node, or to where the node is")
    if any(count > problem.classes[index].count for index, count in moved.items()):
        raise NotSolved("HiGHS's answer moves more nodes of a class than there are")
    if sum(moved.values()) > problem.moves_max:
        raise NotSolved("HiGHS's answer moves more nodes than may be moved")
    gpus = gpus_of(problem, found.moves)
    cost, objective = cost_of(problem, found.moves), objective_of(problem, found.moves)
    bound = min(found.bound, objective)
    return Pooled(
        moves=found.moves,
        cost=cost,
        objective=objective,
        bound=bound,
        gap=(objective - bound) / max(cost, MOVE),
        short_now=_rows(short_now_of(problem, gpus)),
        short=_rows(short_of(problem, gpus)),
        has=_rows(gpus.sum(axis=2)),
        left=_rows(left_of(gpus)),
    )


class _Stated:
    """The programme of some types of a problem, and its runs."""

    def __init__(self, problem: PoolingProblem, types: Sequence[int]) -> None:
        self.problem = problem
        self.columns = _Columns()
        self.cells = _cells(problem, types)
        self.moved: dict[tuple[int, int], int] = {}
        """Columns by cell and pool."""
        self.pairs: list[_Pair] = []
        self.margins: dict[int, int] = {}
        """By row of a need, GPUs that the row grows by with each unit beyond the need; only of types with nodes of several sizes."""
        self._gpus, self._worth, self._spread = (
            gpus_of(problem),
            worth_by_type(problem),
            spread_by_type(problem),
        )
        self._flows: dict[tuple[int, int, int], dict[int, int]] = defaultdict(dict)
        """GPUs that a pool gains or loses with each node of a column, by pool, type and domain."""
        self._state_moves()
        for pool in range(len(problem.pools)):
            for node_type in types:
                if problem.spreads[pool] or self._is_useful(pool, node_type):
                    self._state_pair(pool, node_type)
        weights: dict[int, float] = {}
        for pair in self.pairs:
            if pair.short_now >= 0:
                weights[pair.short_now] = SHORT_NOW + (pair.short < 0)
            if pair.short >= 0:
                weights[pair.short] = 1
        self.weights: dict[int, float] = weights
        """Of the weighted shortage."""
        self._row_of_shortage = len(self.columns.row_least)
        self.columns.row(-_INFINITE, self.weights)

    def solved(self) -> _Found:
        """Return the moves of least cost at the least shortage. Raises NotSolved."""
        if not self.columns.costs:
            return _Found((), 0.0)
        # 1. Most problems can be solved without a shortage.
        found = self._cheapest(0)
        # 2. Else the shortage is made least first.
        if found is None:
            found = self._cheapest(self._least_shortage())
        if found is None:
            raise NotSolved("HiGHS found no answer of the least shortage in time")
        counts = {key: round(float(found.values[column])) for key, column in self.moved.items()}
        return _Found(_dealt(self.problem, self.cells, counts), found.bound)

    def _least_shortage(self) -> int:
        """Return the least weighted shortage. In a large problem the shortage may be one that only parts of nodes reach. Raises NotSolved."""
        found = self._run(gaps=(GAP_SHORTAGE, 0.9), is_relaxed=len(self.moved) > SMALL, is_shortage=True)
        if found is None:
            raise NotSolved("HiGHS found no least shortage in time, although to move nothing is an answer")
        return ceil(found.objective - WHOLE)

    def _cheapest(self, shortage: int) -> _Outcome | None:
        """Return the answer of least cost that has no more shortage, or None. The answer of a large problem may have a few GPUs more."""
        # 1. Whole numbers are asked of the largest domains only. If all nodes of a type are alike, most of the others are whole of themselves.
        relaxed = self._run(shortage, is_relaxed=True)
        if relaxed is None or self._is_whole(relaxed.values):
            return relaxed
        # 2. The others are rounded, each up or down.
        cost, is_small = self._cost_of(relaxed), len(self.moved) <= SMALL
        found = self._rounded(shortage, relaxed)
        # 3. In a small problem all are whole from the start, if rounding was not close.
        if is_small and (found is None or found.distance > GAP * cost):
            found = self._improved(shortage, found, GAP * cost)
            if found is None and not shortage:
                return None
        # 4. In a large problem a few GPUs more may be short: a shortage that parts of nodes avoid, rounding may not.
        if found is None:
            shortage, found = self._rounded_short(relaxed)
        if found is not None and found.distance > GAP_MAX * cost and len(self.moved) <= LARGE:
            found = self._improved(shortage, found, GAP_MAX / 10 * cost)
        return found

    def _cost_of(self, found: _Outcome) -> float:
        """Return the cost of moves to which gaps are relative."""
        moved = list(self.moved.values())
        return max(MOVE, float(found.values[moved] @ np.array(self.columns.costs)[moved]))

    def _rounded(self, shortage: int, relaxed: _Outcome) -> _Outcome | None:
        """Return an answer with each value rounded up or down, or None if none is found."""
        for margin in MARGINS if self.margins and not shortage else MARGINS[:1]:
            wider = self._run(shortage, margin=margin, is_relaxed=True) if margin else relaxed
            if wider is None:
                return None
            near = self._run(shortage, near=wider.values)
            if near is not None:
                return _Outcome(near.values, near.objective, relaxed.bound)
        return None

    def _rounded_short(self, relaxed: _Outcome) -> tuple[int, _Outcome | None]:
        """Return the least shortage with each value rounded up or down, and an answer that has it."""
        short = self._run(gaps=(GAP_SHORTAGE, 0.9), near=relaxed.values, is_shortage=True)
        shortage = 0 if short is None else round(short.objective)
        near, bound = self._run(shortage, near=relaxed.values), self._run(shortage, is_relaxed=True)
        if near is None or bound is None:
            return shortage, None
        return shortage, _Outcome(near.values, near.objective, bound.bound)

    def _improved(self, shortage: int, found: _Outcome | None, gap: float) -> _Outcome | None:
        """Return the best answer that is found in time, with all whole numbers as they are stated."""
        better = self._run(shortage, gaps=(0.0, gap), start=found)
        if better is None or found is None:
            return found if better is None else better
        return _Outcome(better.values, better.objective, max(found.bound, better.bound))

    def _is_whole(self, values: Floats) -> bool:
        moved = values[list(self.moved.values())]
        return bool((np.abs(moved - np.rint(moved)) <= WHOLE).all())

    def _is_useful(self, pool: int, node_type: int) -> bool:
        """Return whether nodes of the type may be of use to the pool. To all other pools no node is moved."""
        return self.problem.needs[pool][node_type] > 0 or self.problem.wants[pool][node_type] > 0

    def _state_moves(self) -> None:
        problem, pools = self.problem, range(len(self.problem.pools))
        for index, cell in enumerate(self.cells):
            like, mine = cell.like, {}
            for pool in pools:
                if pool == like.pool or not self._is_useful(pool, like.node_type):
                    continue
                column = self.columns.column(problem.cost(like, pool), 0, cell.count, is_whole=True)
                mine[column] = 1
                self.moved[index, pool] = column
                self._flows[pool, like.node_type, like.domain][column] = like.gpus
                self._flows[like.pool, like.node_type, like.domain][column] = -like.gpus
            if len(mine) > 1:
                self.columns.row(-_INFINITE, mine, cell.count)
        most = min(problem.moves_max, sum(cell.count for cell in self.cells))
        self.columns.row(-_INFINITE, dict.fromkeys(self.moved.values(), 1), most)

    def _state_pair(self, pool: int, node_type: int) -> None:
        """State the units of a type that a pool has, and the GPUs that the pool lacks and gains."""
        problem, columns = self.problem, self.columns
        need, want = problem.needs[pool][node_type], problem.wants[pool][node_type]
        survives, spreads = problem.survives[pool] and need > 0, problem.spreads[pool]
        of_type = self._gpus[:, node_type].sum(axis=0)
        sizes = {cell.like.gpus for cell in self.cells if cell.like.node_type == node_type}
        unit = max(1, gcd(*sizes))
        has, units = int(self._gpus[pool, node_type].sum()) // unit, int(of_type.sum()) // unit
        total, largest, short_now, short, gained = columns.column(0, 0, units, is_whole=True), -1, -1, -1, -1
        flows: dict[int, float] = {total: 1}
        for domain in range(len(problem.domains)):
            of_domain = self._flows.get((pool, node_type, domain), {})
            flows |= {column: -gpus // unit for column, gpus in of_domain.items()}
        columns.row(has, flows, has)
        if survives or spreads:
            cost = float(self._spread[node_type]) * unit if spreads else 0.0
            largest = columns.column(cost, 0, int(of_type.max(initial=0)) // unit, is_whole=True)
            for domain in np.flatnonzero(of_type).tolist():
                of_domain = self._flows.get((pool, node_type, domain), {})
                entries = {column: -gpus // unit for column, gpus in of_domain.items()}
                columns.row(int(self._gpus[pool, node_type, domain]) // unit, {largest: 1, **entries})
        if need > 0:
            short_now = self._state_short(need, {total: 1}, unit, has_margin=len(sizes) > 1)
        if survives:
            short = self._state_short(need, {total: 1, largest: -1}, unit, has_margin=len(sizes) > 1)
        if want > 0:
            gained = self._state_gained(want, total, has, unit, float(self._worth[node_type]))
        self.pairs.append(_Pair(pool, node_type, unit, total, largest, short_now, short, gained))

    def _state_short(self, need: int, units: Mapping[int, int], unit: int, *, has_margin: bool) -> int:
        """Return a column of GPUs by which units fall short of a need: the convex function through its values at whole units, or more."""
        short = self.columns.column(0, 0, need)
        last = need % unit
        for step, least in ((unit, need), (last, last * (need // unit + 1))):
            if not step:
                continue
            if has_margin:
                self.margins[len(self.columns.row_least)] = step
            self.columns.row(least, {short: 1, **{column: step * sign for column, sign in units.items()}})
        return short

    def _state_gained(self, want: int, total: int, has: int, unit: int, worth: float) -> int:
        """Return a column of GPUs that a pool gains: the concave function through its values at whole units, or less."""
        gained = self.columns.column(-worth, -unit * has, want)
        self.columns.row(unit * has, {total: unit, gained: -1})
        last, whole = want % unit, want // unit
        if last:
            self.columns.row(last * has + last * whole - unit * whole, {total: last, gained: -1})
        return gained

    def _run(
        self,
        shortage: float = _INFINITE,
        *,
        margin: int = 0,
        is_relaxed: bool = False,
        is_shortage: bool = False,
        near: Floats | None = None,
        start: _Outcome | None = None,
        gaps: tuple[float, float] = (GAP, GAP * MOVE),
    ) -> _Outcome | None:
        """Return the best answer that HiGHS found, or None if there is none or none was found in time. Raises NotSolved.

        shortage     the most that the weighted shortage may be
        margin       units beyond the needs that are asked for
        is_relaxed   whether only the largest domains are whole
        is_shortage  whether the weighted shortage is made least, and not the cost
        near         values of which each move is one, rounded up or down
        start        an answer to improve
        gaps         relative and absolute, at which HiGHS stops; a shortage is a whole number, so less than 1 is none
        """
        model = self.columns.model([pair.largest for pair in self.pairs] if is_relaxed else None)
        most = np.array(self.columns.row_most)
        most[self._row_of_shortage] = shortage + SHORTAGE_SLACK if shortage else 0
        model.row_upper_ = most
        if margin:
            least = np.array(self.columns.row_least)
            least[list(self.margins)] += margin * np.array(list(self.margins.values()))
            model.row_lower_ = least
        if is_shortage:
            costs = np.zeros(len(self.columns.costs))
            costs[list(self.weights)] = list(self.weights.values())
            model.col_cost_ = costs
        if near is not None:
            moved = list(self.moved.values())
            lower, upper = np.array(self.columns.least), np.array(self.columns.most)
            lower[moved] = np.maximum(lower[moved], np.floor(near[moved] + WHOLE))
            upper[moved] = np.minimum(upper[moved], np.ceil(near[moved] - WHOLE))
            model.col_lower_, model.col_upper_ = lower, upper
        return _solve(model, gaps, start)


class _Columns:
    """Columns and rows of a programme, as they are stated one after the other."""

    def __init__(self) -> None:
        self.costs: list[float] = []
        self.most: list[float] = []
        self.least: list[float] = []
        self.whole: list[int] = []
        self.row_least: list[float] = []
        self.row_most: list[float] = []
        self.starts: list[int] = [0]
        self.places: list[int] = []
        self.values: list[float] = []

    def column(self, cost: float, least: float, most: float, *, is_whole: bool = False) -> int:
        """Add a column and return its place."""
        self.costs.append(cost)
        self.least.append(least)
        self.most.append(most)
        if is_whole:
            self.whole.append(len(self.costs) - 1)
        return len(self.costs) - 1

    def row(self, least: float, entries: Mapping[int, float], most: float = _INFINITE) -> None:
        """Add a row."""
        self.row_least.append(least)
        self.row_most.append(most)
        self.places += entries
        self.values += entries.values()
        self.starts.append(len(self.places))

    def model(self, whole: Sequence[int] | None = None) -> highspy.HighsLp:
        """Return the programme as HiGHS takes it, with other columns than stated whole if so asked; -1 is none."""
        kinds = [highspy.HighsVarType.kContinuous] * len(self.costs)
        for place in self.whole if whole is None else whole:
            if place >= 0:
                kinds[place] = highspy.HighsVarType.kInteger
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = len(self.costs), len(self.row_least)
        model.col_cost_ = np.array(self.costs)
        model.col_lower_, model.col_upper_ = np.array(self.least), np.array(self.most)
        model.row_lower_, model.row_upper_ = np.array(self.row_least), np.array(self.row_most)
        model.integrality_ = kinds
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.array(self.starts, dtype=np.int32)
        model.a_matrix_.index_ = np.array(self.places, dtype=np.int32)
        model.a_matrix_.value_ = np.array(self.values)
        return model


def _solve(model: highspy.HighsLp, gaps: tuple[float, float], start: _Outcome | None) -> _Outcome | None:
    """Return the best answer that HiGHS found, or None if there is none or none was found in time. Raises NotSolved."""
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("time_limit", SECONDS_MAX)
    solver.setOptionValue("mip_rel_gap", gaps[0])
    solver.setOptionValue("mip_abs_gap", gaps[1])
    solver.passModel(model)
    if start is not None:
        solution = highspy.HighsSolution()
        solution.col_value = start.values.tolist()
        solver.setSolution(solution)
    solver.run()
    status, info = solver.getModelStatus(), solver.getInfo()
    if status in _INFEASIBLE:
        return None
    if status not in {highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kTimeLimit}:
        raise NotSolved(f"HiGHS ended without an answer: {solver.modelStatusToString(status)}")
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None
    objective = float(info.objective_function_value)
    is_mixed = highspy.HighsVarType.kInteger in model.integrality_
    bound = float(info.mip_dual_bound) if is_mixed else objective
    return _Outcome(np.asarray(solver.getSolution().col_value), objective, bound) if isfinite(bound) else None


def _cells(problem: PoolingProblem, types: Sequence[int]) -> list[_Cell]:
    """Return the classes of some types as cells. Zones cost nothing, nor does a move that has begun of a node that is not in use."""
    cells: dict[tuple[object, ...], _Cell] = {}
    for index, one in enumerate(problem.classes):
        if one.node_type not in types or not one.count or not one.gpus:
            continue
        going = one.going if one.is_in_use else -1
        key = (one.node_type, one.domain, one.pool, going, one.is_in_use, one.gpus)
        cell = cells.setdefault(key, _Cell(one))
        cell.members.append(index)
        cell.count += one.count
    return list(cells.values())


def _dealt(
    problem: PoolingProblem, cells: Sequence[_Cell], counts: Mapping[tuple[int, int], int]
) -> tuple[Moved, ...]:
    """Return moves of classes for moves of cells. Nodes that are on their way to a pool come first, and then the classes in their order."""
    left = [one.count for one in problem.classes]
    wanted = dict(counts)
    found: dict[tuple[int, int], int] = defaultdict(int)
    for is_first in (True, False):
        for (index, pool), count in wanted.items():
            rest = count
            for member in cells[index].members:
                if is_first and problem.classes[member].going != pool:
                    continue
                taken = min(left[member], rest)
                left[member] -= taken
                found[member, pool] += taken
                rest -= taken
            wanted[index, pool] = rest
    if any(wanted.values()):
        raise NotSolved("HiGHS's answer moves more nodes of a class than there are")
    return tuple(Moved(member, pool, count) for (member, pool), count in sorted(found.items()) if count)


def _rows(figures: Ints) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(row) for row in figures.tolist())


def _place(move: Moved) -> tuple[int, int]:
    return move.node_class, move.pool
