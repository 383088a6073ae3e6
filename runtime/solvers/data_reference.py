"""Where data lives, stated exactly as a mixed integer programme: the oracle of the search in core/data_places/search.py, for small cases.

The objective is that of core/data_places/price.py, and the bounds are those of a plan as a whole: storage, bytes copied, extra copies, tables
that are pinned or in regions without stated storage. The programme does not ask in which order actions are possible, so its optimum is at most
that of any plan.

    homes[t, r]   binary   the table is at home in the region
    held[t, r]    binary   the region holds the table
    parted[p]     >= 0     two tables of a job have different homes
    beyond[...]   >= 0     demand above a knot, bytes above a bound
    runs_in[j]    <= 1     some region has all tables of the job and its GPU type
"""

from itertools import combinations

import cvxpy
import numpy as np
from msgspec import Struct

from core.data_places import price
from core.data_places.problem import DataProblem, Flags, Floats, Ints, Masks, copies_of
from runtime.errors import NotSolved

GAP = 1e-7
"""Relative gap at which HiGHS stops."""


class DataOptimum(Struct, frozen=True):
    """The best placement that one plan can reach, its order left out."""

    objective: float
    home: Ints
    """(tables,)."""
    copies: Masks
    """(tables,)."""


class _Stated:
    """Variables of one problem, with the rows and the prices that they have in common."""

    def __init__(self, problem: DataProblem) -> None:
        self.problem, self.prices = problem, price.Prices(problem)
        self.was_held = problem.held
        self.was_home = price.acting_homes(problem, problem.home, self.was_held)
        shape = self.was_held.shape
        self.homes = cvxpy.Variable(shape, boolean=True)
        self.held = cvxpy.Variable(shape, boolean=True)
        self.rows: list[cvxpy.Constraint] = [self.homes <= self.held]


def solve_data(problem: DataProblem) -> DataOptimum:
    """Return the optimum. Raises NotSolved where HiGHS finds none."""
    stated = _Stated(problem)
    _bound_places(stated)
    _bound_bytes(stated)
    prices = [
        _split(stated),
        _balance(stated),
        _uncollocated(stated),
        _unprotected(stated),
        _cold(stated),
        _storage(stated),
        problem.copy_price * _copied(stated),
    ]
    programme = cvxpy.Problem(cvxpy.Minimize(sum(prices)), stated.rows)
    programme.solve(
        solver=cvxpy.HIGHS, mip_rel_gap=GAP, mip_abs_gap=GAP**2, mip_feasibility_tolerance=1e-9, threads=1
    )
    if programme.status != cvxpy.OPTIMAL:
        raise NotSolved(programme.status)
    held: Flags = np.asarray(stated.held.value > 0.5)
    homes = np.asarray(stated.homes.value > 0.5)
    home = np.where(homes.any(axis=1), homes.argmax(axis=1), stated.was_home).astype(np.int64)
    # The solver's own value misses rows by its tolerance; what it found is priced as a plan's placement is.
    objective = stated.prices.terms(home, held).objective
    return DataOptimum(objective, np.where(problem.home >= 0, home, problem.home), copies_of(held))


def _bound_places(stated: _Stated) -> None:
    """State which homes and copies may change."""
    problem, prices = stated.problem, stated.prices
    for table, home in enumerate(stated.was_home.tolist()):
        was = stated.was_held[table]
        if home == prices.regions:
            stated.rows += [stated.held[table] == 0, stated.homes[table] == 0]
            continue
        stated.rows.append(cvxpy.sum(stated.homes[table]) == 1)
        is_known = problem.sizes[table] > 0
        may_move = is_known and not problem.pinned[table] and problem.home[table] >= 0 and prices.stated[home]
        if not may_move:
            stated.rows.append(stated.homes[table, home] == 1)
        for region in range(prices.regions):
            if not prices.stated[region] and region != home:
                stated.rows.append(stated.homes[table, region] == 0)
            if not prices.stated[region] or not is_known:
                stated.rows.append(stated.held[table, region] == int(was[region]))
            elif problem.pinned[table] and was[region]:
                stated.rows.append(stated.held[table, region] == 1)


def _bound_bytes(stated: _Stated) -> None:
    """State what regions can hold, what a plan may copy, and how many copies there may be; a bound that is exceeded already stays so."""
    problem, prices = stated.problem, stated.prices
    sizes = problem.sizes / prices.bytes
    used = problem.elsewhere + (problem.sizes[:, None] * stated.was_held).sum(axis=0)
    for region in np.flatnonzero(prices.stated).tolist():
        room = max(int(used[region]), int(prices.capacity[region])) - int(problem.elsewhere[region])
        stated.rows.append(sizes @ stated.held[:, region] <= room / prices.bytes)
    stated.rows.append(_copied(stated) <= problem.bytes_max / prices.bytes)
    extra = sizes @ np.maximum(stated.was_held.sum(axis=1) - 1, 0)
    stated.rows.append(_extra(stated) <= max(float(extra), prices.extra_max / prices.bytes))


def _copied(stated: _Stated) -> cvxpy.Expression:
    """Return the bytes that are copied, in shares of all bytes."""
    sizes = stated.problem.sizes / stated.prices.bytes
    return cvxpy.sum(cvxpy.multiply(sizes[:, None] * ~stated.was_held, stated.held))


def _extra(stated: _Stated) -> cvxpy.Expression:
    """Return the bytes of copies beyond one of each table, in shares of all bytes."""
    sizes = stated.problem.sizes / stated.prices.bytes
    is_somewhere = stated.was_held.any(axis=1)
    return sizes @ cvxpy.sum(stated.held, axis=1) - float(sizes @ is_somewhere)


def _split(stated: _Stated) -> cvxpy.Expression:
    """Return the demand of each job, by the share of ordered pairs of its tables that have different homes."""
    problem, found = stated.problem, 0.0
    for job, tables in _jobs(problem):
        weight = price.SPLIT * stated.prices.job_weight[job] / len(tables) ** 2
        found += weight * sum(stated.was_home[table] == stated.prices.regions for table in tables)
        for first, second in combinations(tables, 2):
            if stated.prices.regions in {stated.was_home[first], stated.was_home[second]}:
                found += 2 * weight
                continue
            parted = cvxpy.Variable(nonneg=True)
            stated.rows.append(parted >= stated.homes[first] - stated.homes[second])
            found += 2 * weight * parted
    return found


def _balance(stated: _Stated) -> cvxpy.Expression:
    """Return the convex price of demand by supply, over regions, types and bands."""
    prices, found = stated.prices, 0.0
    for band, weight in enumerate(prices.band_weight.tolist()):
        demand = stated.homes.T @ prices.loads[:, :, band]
        found += weight * price.UNDERLOAD * cvxpy.sum(cvxpy.pos(price.KNOTS[0] * prices.supply - demand))
        for knot, slope in zip(price.KNOTS, price.SLOPES, strict=True):
            found += weight * slope * cvxpy.sum(cvxpy.pos(demand - knot * prices.supply))
    return found


def _uncollocated(stated: _Stated) -> cvxpy.Expression:
    """Return the demand of jobs without a region that holds all their tables and has their GPU type."""
    prices, found = stated.prices, 0.0
    for job, tables in _jobs(stated.problem):
        regions = np.flatnonzero(prices.job_runs[job]).tolist()
        runs_in = [cvxpy.Variable(nonneg=True) for _ in regions]
        for region, one in zip(regions, runs_in, strict=True):
            stated.rows += [one <= stated.held[table, region] for table in tables]
        runs = cvxpy.Variable(nonneg=True)
        stated.rows += [runs <= 1, runs <= (sum(runs_in) if runs_in else 0)]
        found += price.UNCOLLOCATED * prices.job_weight[job] * (1 - runs)
    return found


def _unprotected(stated: _Stated) -> cvxpy.Expression:
    """Return the price of tables without a protecting copy."""
    prices, found = stated.prices, 0.0
    for table, value in enumerate(prices.unprotected.tolist()):
        if not value:
            continue
        partners = prices.partners[prices.kinds[table]]
        pairs = []
        for home, other in np.argwhere(partners).tolist():
            both = cvxpy.Variable(nonneg=True)
            stated.rows += [both <= stated.homes[table, home], both <= stated.held[table, other]]
            pairs.append(both)
        protected = cvxpy.Variable(nonneg=True)
        stated.rows += [protected <= 1, protected <= (sum(pairs) if pairs else 0)]
        found += value * (1 - protected)
    return found


def _cold(stated: _Stated) -> cvxpy.Expression:
    """Return the price of hot tables in regions that should hold them and do not."""
    cold: Floats = stated.prices.cold
    return float(cold.sum()) - cvxpy.sum(cvxpy.multiply(cold, stated.held))


def _storage(stated: _Stated) -> cvxpy.Expression:
    """Return the price of bytes above four fifths of each bound, and above all of a region's storage."""
    problem, prices, found = stated.problem, stated.prices, 0.0
    sizes = problem.sizes / prices.bytes
    for region in np.flatnonzero(prices.stated).tolist():
        capacity = prices.capacity[region] / prices.bytes
        used = sizes @ stated.held[:, region] + problem.elsewhere[region] / prices.bytes
        found += price.FILLED * cvxpy.pos(used - price.STORAGE_FROM * capacity)
        found += price.OVERFILLED * cvxpy.pos(used - capacity)
    most = prices.extra_max / prices.bytes
    return found + price.FILLED * cvxpy.pos(_extra(stated) - price.STORAGE_FROM * most)


def _jobs(problem: DataProblem) -> list[tuple[int, list[int]]]:
    """Return the tables of each job that has demand."""
    return [
        (job, problem.job_tables[problem.job_starts[job] : problem.job_starts[job + 1]].tolist())
        for job in range(len(problem.job_type))
        if problem.job_demand[job] > 0
    ]
