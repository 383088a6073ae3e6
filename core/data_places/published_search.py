"""Tetris' hill climbing as it was published: one table a move, two passes.

    1. For each table find the region to which its move lowers the objective most; if there is one, put it into a queue by its gain.
    2. Take the first, find its best region anew, and move it there; until the queue is empty or the day's bytes are used.

Only tables whose move keeps the constraints are moved; one that is too large for the bytes left is passed over. All tables are training's:
analytics have no part in it here.

Source: MAST (OSDI 2024), section 3.3.
"""

import numpy as np
from msgspec import Struct

from core.data_places.price import acting_homes, counts_of
from core.data_places.problem import Flags, Floats, Ints
from core.data_places.published import (
    NO_REGION,
    PublishedProblem,
    Regime,
    demand_of_jobs,
    imbalance,
    region_of_jobs,
    storage_imbalance,
)

GAIN_LEAST = 1e-15
ROUNDING = 1e-9
"""GPU-seconds."""
CHUNK = 5_000
"""Tables whose moves are priced at once."""


class Climbed(Struct, frozen=True):
    """Homes after a day, and how they came about."""

    home: Ints
    tables: Ints
    """Moved, in order."""
    objectives: Floats
    """(moves + 1,) before the first and after each move, less the weight of bytes that every placement reads."""


class _State:
    """Homes, with the sums that a move changes."""

    def __init__(self, published: PublishedProblem) -> None:
        assert not published.may_read_across.any(), "analytics are not climbed for"
        problem = published.problem
        self.published, self.problem = published, problem
        self.regions = len(problem.regions)
        self.home = acting_homes(problem, problem.home, problem.held)
        self.counts = counts_of(problem, self.home)[:, :-1]
        self.demand = demand_of_jobs(published, self.home)
        self.used = np.bincount(self.home, problem.sizes, self.regions).astype(np.float64)
        self.column = problem.job_type * problem.bands + problem.job_band
        order = np.argsort(problem.job_tables, kind="stable")
        self._readers = problem.job_of[order]
        self._starts = np.searchsorted(problem.job_tables[order], np.arange(len(problem.sizes) + 1))
        region = region_of_jobs(published, self.home)
        some = np.flatnonzero(region != NO_REGION)
        self.cpu = np.zeros(published.cpu_capacity.shape)
        if len(published.app):
            np.add.at(self.cpu, (published.app[some], region[some]), published.cpu[some])
        self.on_gpus = problem.is_high[:, None] & (problem.supply.T[problem.job_type] > 0)
        self.high_on_gpus = float(problem.job_demand[some] @ self.on_gpus[some, region[some]])
        self.objective = self._traffic_of(region) + self._prices(self.demand, self.used)

    def _traffic_of(self, region: Ints) -> float:
        return self.published.traffic_weight * float(self.published.read_bytes[region == NO_REGION].sum())

    def _prices(self, demand: Floats, used: Floats) -> Floats:
        published = self.published
        return published.balance_weight * imbalance(published, demand) + published.storage_weight * (
            storage_imbalance(published, used)
        )

    def gains(self, first: int, last: int) -> Floats:
        """Return (tables, regions) the gain of each move of some tables that lie beside each other; -inf where a constraint is broken."""
        jobs = self._readers[self._starts[first] : self._starts[last]]
        count, regions = last - first, self.regions
        table = np.repeat(np.arange(count), np.diff(self._starts[first : last + 1]))
        home = self.home[first:last]
        leaves, joins = self._changes(jobs, home[table])
        problem, published = self.problem, self.published
        tables = np.arange(count)
        demand, read = problem.job_demand[jobs], published.read_bytes[jobs]
        left = self._demand_of(jobs, table, demand * leaves, count)
        after = np.broadcast_to(self.demand, (count, regions, *self.demand.shape)).copy()
        used = np.broadcast_to(self.used, (count, regions, regions)).copy()
        saved = np.empty((count, regions))
        for region in range(regions):
            joined = joins[:, region]
            after[:, region, region] += self._demand_of(jobs, table, demand * joined, count)
            saved[:, region] = np.bincount(table, read * joined - read * leaves, count)
        after[tables, :, home] -= left[:, None]
        used[:, np.arange(regions), np.arange(regions)] += problem.sizes[first:last, None]
        used[tables, :, home] -= problem.sizes[first:last, None]
        gains = (
            published.traffic_weight * saved
            + self._prices(self.demand, self.used)
            - self._prices(after, used)
        )
        allowed = self._allowed(after, used) & self._keeps(jobs, table, leaves, joins, home)
        found: Floats = np.where(allowed & (home[:, None] != np.arange(regions)), gains, -np.inf)
        return found

    def _demand_of(self, jobs: Ints, table: Ints, demand: Floats, count: int) -> Floats:
        """Return (tables, types, bands) the demand of some jobs by the table that each reads."""
        shape = (count, *self.demand.shape[1:])
        width = shape[1] * shape[2]
        return np.bincount(table * width + self.column[jobs], demand, count * width).reshape(shape)

    def _changes(self, jobs: Ints, home: Ints) -> tuple[Flags, Flags]:
        """Return (reads,) whether the job loses its region if the table moves, and (reads, regions) whether it gets one there."""
        counts = self.counts[jobs]
        lengths = self.problem.lengths[jobs]
        leaves = counts[np.arange(len(jobs)), home] == lengths
        others = counts.copy()
        others[np.arange(len(jobs)), home] -= 1
        return leaves, others == (lengths - 1)[:, None]

    def _allowed(self, after: Floats, used: Floats) -> Flags:
        """Return (tables, regions) whether a move to each region keeps the regimes of storage and GPUs.

        after   (tables, regions, regions, types, bands) demand by region moved to and region of demand
        used    (tables, regions, regions) bytes
        """
        problem, published = self.problem, self.published
        to = np.arange(self.regions)
        fits = np.ones(used.shape[:2], dtype=np.bool_)
        capacity = (problem.storage - problem.elsewhere).astype(np.float64)
        if published.storage == Regime.HARD_BALANCE:
            capacity = np.maximum(capacity, self.used)
        if published.storage != Regime.FREE:
            fits &= used[:, to, to] <= capacity
        excess = after.sum(axis=4) - problem.supply
        before = self.demand.sum(axis=2) - problem.supply
        if published.gpu == Regime.HARD_QUOTA:
            there = excess[:, to, to]
            fits &= ~((there > before) & (there > 0)).any(axis=2)
        elif published.gpu == Regime.HARD_BALANCE:
            grew = np.maximum(excess, 0.0) > np.maximum(before, 0.0) + ROUNDING
            fits &= ~grew.any(axis=(2, 3))
        return fits

    def _keeps(self, jobs: Ints, table: Ints, leaves: Flags, joins: Flags, home: Ints) -> Flags:
        """Return (tables, regions) whether (5) and (6) hold after a move to each region, or are no worse than before."""
        published, problem, count = self.published, self.problem, len(home)
        fine = np.ones((count, self.regions), dtype=np.bool_)
        apps = len(published.cpu_capacity)
        demand = problem.job_demand[jobs]
        lost = demand * leaves * self.on_gpus[jobs, home[table]]
        for region in range(self.regions):
            if apps:
                cpu = published.cpu[jobs] * joins[:, region]
                come = np.bincount(table * apps + published.app[jobs], cpu, count * apps).reshape(count, apps)
                fits = self.cpu[:, region] + come <= published.cpu_capacity[:, region]
                fine[:, region] &= (fits | (come == 0)).all(axis=1)
            if published.least_on_gpus:
                won = demand * joins[:, region] * self.on_gpus[jobs, region]
                change = np.bincount(table, won - lost, count)
                fine[:, region] &= (self.high_on_gpus + change >= published.least_on_gpus) | (change >= 0)
        return fine

    def move(self, table: int, region: int, gain: float) -> None:
        """Move a home."""
        jobs = self._readers[self._starts[table] : self._starts[table + 1]]
        home, problem, published = int(self.home[table]), self.problem, self.published
        leaves, joins = self._changes(jobs, np.full(len(jobs), home))
        demand = problem.job_demand[jobs]
        types, bands = problem.job_type[jobs], problem.job_band[jobs]
        for place, change in ((home, -demand * leaves), (region, demand * joins[:, region])):
            np.add.at(self.demand[place], (types, bands), change)
            self.high_on_gpus += float(change @ self.on_gpus[jobs, place])
            if len(published.app):
                sign = -1.0 * leaves if place == home else 1.0 * joins[:, region]
                np.add.at(self.cpu[:, place], published.app[jobs], published.cpu[jobs] * sign)
        self.counts[jobs, home] -= 1
        self.counts[jobs, region] += 1
        self.used[home] -= problem.sizes[table]
        self.used[region] += problem.sizes[table]
        self.home[table] = region
        self.objective = self.objective - gain


def climbed(published: PublishedProblem, bytes_max: int) -> Climbed:
    """Return the homes after one day.

    bytes_max   that the moves of the day may copy
    """
    state, tables = _State(published), len(published.problem.sizes)
    best = np.concatenate([
        state.gains(first, min(first + CHUNK, tables)).max(axis=1) for first in range(0, tables, CHUNK)
    ])  # fmt: skip
    may_move = ~published.problem.pinned & (published.problem.home >= 0)
    queue = [table for table in np.argsort(-best, kind="stable").tolist() if may_move[table]]
    left, moved, objectives = bytes_max, list[int](), [float(state.objective)]
    for table in queue:
        size = int(published.problem.sizes[table])
        if best[table] <= GAIN_LEAST:
            break
        if size > left:
            continue
        gains = state.gains(table, table + 1)[0]
        region = int(gains.argmax())
        if gains[region] <= GAIN_LEAST:
            continue
        state.move(table, region, float(gains[region]))
        left -= size
        moved.append(table)
        objectives.append(float(state.objective))
    return Climbed(state.home, np.array(moved, dtype=np.int64), np.array(objectives))
