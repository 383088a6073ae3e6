"""Which nodes belong to which pool, stated plainly as a mixed integer programme: the oracle of runtime/solvers/pools.py, for small cases.

Nothing is left out, merged or rounded: there is a whole number for each class and pool, and each row is a sentence of
core/pooling/problem.py.

    nodes[c, p]      whole   nodes of a class that are to be in a pool
    short_now[p, t]  >= 0    GPUs that a pool lacks with all its domains
    short[p, t]      >= 0    the same after the loss of any one domain, if the pool is to survive that
    largest[p, t]    >= 0    GPUs in the largest domain of a pool that spreads
"""

import cvxpy
import numpy as np
from msgspec import Struct

from core.pooling.figures import Floats, Ints
from core.pooling.problem import MOVE_IN_USE, SHORT_NOW, SPREAD, WANT, PoolingProblem
from runtime.errors import NotSolved

GAP = 1e-9
"""Relative gap at which HiGHS stops."""
SHORTAGE_SLACK = 0.01
"""GPUs by which the weighted shortage, a whole number, may miss its least while costs are made least."""


class PoolsOptimum(Struct, frozen=True):
    """The figures of a best answer."""

    shortage: int
    """Weighted."""
    cost: int
    """Of the moves."""
    worth: float
    """Of the GPUs that pools with work that waits gain."""
    spread: float
    """Cost of what is in the largest domains of pools that spread."""
    moved: int
    """Nodes."""
    moved_in_use: int
    """Nodes in use of which no earlier plan has begun the move."""

    @property
    def objective(self) -> float:
        """Return the second objective."""
        return self.cost - self.worth + self.spread


class _Stated:
    """Variables of one problem, with the rows and the objectives."""

    def __init__(self, problem: PoolingProblem) -> None:
        self.problem = problem
        self.counts = np.array([one.count for one in problem.classes], dtype=np.int64)
        pools, types = len(problem.pools), len(problem.node_types)
        self.nodes = cvxpy.Variable((len(problem.classes), pools), integer=True)
        self.short_now = cvxpy.Variable((pools, types), nonneg=True)
        self.short = cvxpy.Variable((pools, types), nonneg=True)
        self.largest = cvxpy.Variable((pools, types), nonneg=True)
        self.stays = np.zeros((len(problem.classes), pools))
        self.costs = np.zeros((len(problem.classes), pools))
        for index, one in enumerate(problem.classes):
            self.stays[index, one.pool] = 1
            self.costs[index] = [problem.cost(one, pool) for pool in range(pools)]
        self.rows = [
            self.nodes >= 0,
            cvxpy.sum(self.nodes, axis=1) == self.counts,
            cvxpy.sum(cvxpy.multiply(1 - self.stays, self.nodes)) <= problem.moves_max,
        ]

    def gpus(self, pool: int, node_type: int, *, domain: int = -1, without: int = -1) -> cvxpy.Expression:
        """Return the GPUs of a type in a pool: all, those in one domain, or those outside one domain."""
        return self.nodes[:, pool] @ self.sizes(node_type, domain=domain, without=without)

    def sizes(self, node_type: int, *, domain: int = -1, without: int = -1) -> Floats:
        """Return the GPUs of a node by class, 0 for classes that do not count."""
        return np.array(
            [
                float(one.gpus)
                if one.node_type == node_type and domain in {-1, one.domain} and one.domain != without
                else 0.0
                for one in self.problem.classes
            ]
        )


def solve_pools(problem: PoolingProblem) -> PoolsOptimum:
    """Return the figures of a best answer. Raises NotSolved where HiGHS finds none."""
    stated = _Stated(problem)
    _state_needs(stated)
    shortage = cvxpy.sum(SHORT_NOW * stated.short_now + stated.short)
    _solve(shortage, stated.rows)
    least = round(float(shortage.value))
    cost = cvxpy.sum(cvxpy.multiply(stated.costs, stated.nodes))
    worth, spread = _worth(stated), _spread(stated)
    _solve(cost - worth + spread, [*stated.rows, shortage <= least + SHORTAGE_SLACK])
    nodes: Ints = np.rint(stated.nodes.value).astype(np.int64)
    moved = nodes * (stated.stays == 0)
    return PoolsOptimum(
        shortage=least,
        cost=int((stated.costs * nodes).sum()),
        worth=float(getattr(worth, "value", worth)),
        spread=float(getattr(spread, "value", spread)),
        moved=int(moved.sum()),
        moved_in_use=int(moved[stated.costs == MOVE_IN_USE].sum()),
    )


def _solve(objective: cvxpy.Expression, rows: list[cvxpy.Constraint]) -> None:
    programme = cvxpy.Problem(cvxpy.Minimize(objective), rows)
    programme.solve(
        solver=cvxpy.HIGHS, mip_rel_gap=GAP, mip_abs_gap=GAP, mip_feasibility_tolerance=1e-9, threads=1
    )
    if programme.status != cvxpy.OPTIMAL:
        raise NotSolved(f"HiGHS ended without an optimum: {programme.status}")


def _state_needs(stated: _Stated) -> None:
    """State what each pool lacks of each type."""
    problem = stated.problem
    for pool, needs in enumerate(problem.needs):
        for node_type, need in enumerate(needs):
            short_now, short = stated.short_now[pool, node_type], stated.short[pool, node_type]
            stated.rows += [stated.gpus(pool, node_type) + short_now >= need, short >= short_now]
            if problem.survives[pool]:
                stated.rows += [
                    stated.gpus(pool, node_type, without=domain) + short >= need
                    for domain in sorted(
                        {one.domain for one in problem.classes if one.node_type == node_type}
                    )
                ]


def _worth(stated: _Stated) -> cvxpy.Expression | float:
    """Return the worth of GPUs gained, at most as many as are wanted; it is negative for a pool that loses some."""
    problem, found = stated.problem, 0.0
    for pool, wants in enumerate(problem.wants):
        for node_type, want in enumerate(wants):
            sizes = stated.sizes(node_type)
            if want and sizes.any():
                had = float((stated.counts * stated.stays[:, pool]) @ sizes)
                mean = float(stated.counts @ sizes) / float(stated.counts @ (sizes > 0))
                gained = cvxpy.minimum(stated.gpus(pool, node_type) - had, want)
                found += WANT / mean * gained
    return found


def _spread(stated: _Stated) -> cvxpy.Expression | float:
    """Return the cost of GPUs in the largest domains of pools that spread, and state that they are the largest."""
    problem, found = stated.problem, 0.0
    for node_type in range(len(problem.node_types)):
        all_gpus = float(stated.counts @ stated.sizes(node_type))
        for pool in np.flatnonzero(problem.spreads).tolist() if all_gpus else []:
            largest = stated.largest[pool, node_type]
            stated.rows += [
                largest >= stated.gpus(pool, node_type, domain=domain)
                for domain in range(len(problem.domains))
            ]
            found += SPREAD / (len(problem.node_types) * all_gpus) * largest
    return found
