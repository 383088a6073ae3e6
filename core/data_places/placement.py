"""A placement that steps change one after the other: the exact gain of a step, and the step applied.

A step is one kind of action on one or more tables and one region. `tried` computes a step's gain from the jobs that read its tables and
changes nothing; `apply` carries a tried step out. The sums that it keeps equal those computed from scratch by `Prices.terms`.
"""

from copy import copy

import numpy as np
from msgspec import Struct

from core.data_places.actions import ADD_COPY, DROP_COPY, MOVE_HOME
from core.data_places.price import (
    SPLIT,
    UNCOLLOCATED,
    Prices,
    acting_homes,
    counts_of,
    demand_of,
    missing_of,
)
from core.data_places.problem import Counts, Flags, Floats, Ints


class Tried(Struct):
    """A step that is possible, with what it gains and changes."""

    kind: int
    tables: Ints
    region: int
    gain: float
    bytes: int
    """Copied, less those that the placement had copied before and that this step makes needless."""
    keeps: bool = True
    """Whether the old homes keep their copies."""
    demand: Floats | None = None
    """(regions, types, bands) afterwards, where homes move."""
    balance: float = 0.0
    """Price of balance afterwards, where homes move."""


class Placement:
    """Homes and copies, with the sums that the objective needs."""

    def __init__(self, prices: Prices) -> None:
        problem = prices.problem
        self.prices, self.problem = prices, problem
        self.was_held = problem.held
        """(tables, regions) at the start: only what is held now and was not has been copied."""
        self.held = self.was_held.copy()
        self.home = acting_homes(problem, problem.home, self.held)
        self.counts = counts_of(problem, self.home)
        self.missing = missing_of(problem, self.held)
        self.waits = ~((self.missing == 0) & prices.job_runs).any(axis=1)
        """(jobs,) whether no region has all of the job's tables and its GPU type."""
        is_somewhere = self.home < prices.regions
        self.protected = ~is_somewhere
        self.protected[is_somewhere] = prices.is_protected(
            np.flatnonzero(is_somewhere), self.home[is_somewhere], self.held[is_somewhere]
        )
        self.demand = demand_of(prices.loads, self.home, prices.regions)
        self.price_of_balance = float(prices.balance(self.demand, prices.supply).sum())
        self.used: list[int] = (problem.elsewhere + (problem.sizes[:, None] * self.held).sum(axis=0)).tolist()
        """By region, bytes."""
        self.extra = int((problem.sizes * np.maximum(self.held.sum(axis=1) - 1, 0)).sum())
        """Bytes of copies beyond one for each table."""
        self.bytes_left = problem.bytes_max
        self._sizes: list[int] = problem.sizes.tolist()
        self.objective = prices.terms(self.home, self.held).objective
        self.pair_weight = SPLIT * prices.job_weight / problem.lengths**2
        order = np.argsort(problem.job_tables, kind="stable")
        self._readers = problem.job_of[order]
        starts = np.searchsorted(problem.job_tables[order], np.arange(len(problem.sizes) + 1))
        self._starts: list[int] = starts.tolist()
        is_known = (problem.sizes > 0) & is_somewhere
        self.may_copy = is_known
        """(tables,) whether plans may copy the table."""
        told = problem.home >= 0
        self.may_move = is_known & ~problem.pinned & told & prices.stated[np.maximum(problem.home, 0)]
        """(tables,) whether plans may move the table's home."""
        self.may_drop = is_known & ~problem.pinned
        """(tables,) whether plans may drop copies of the table."""

    def snapshot(self) -> "Placement":
        """Return a placement that is the same and changes by itself."""
        twin = copy(self)
        for name in ("held", "home", "counts", "missing", "waits", "protected"):
            setattr(twin, name, getattr(self, name).copy())
        twin.used = list(self.used)
        return twin

    def hold_fast(self, step: Tried) -> None:
        """Let no step undo this one."""
        may_change = {MOVE_HOME: "may_move", ADD_COPY: "may_drop", DROP_COPY: "may_copy"}[step.kind]
        allowed = getattr(self, may_change).copy()
        allowed[step.tables] = False
        setattr(self, may_change, allowed)

    def free_as(self, other: "Placement") -> None:
        """Let steps change what they may change in another placement."""
        self.may_move, self.may_copy, self.may_drop = other.may_move, other.may_copy, other.may_drop

    def held_together(self, table: int) -> list[float]:
        """Return by region how many of the tables that are read with a table it holds, weighted by the demand of the reading jobs."""
        jobs = self._readers[self._starts[table] : self._starts[table + 1]]
        there = self.problem.lengths[jobs, None] - self.missing[jobs]
        found: list[float] = (self.prices.job_weight[jobs] @ there).tolist()
        return found

    def tried(self, kind: int, tables: Ints, region: int, *, keeps: bool | None = None) -> Tried | None:
        """Return the step with its exact gain; None where it changes nothing or breaks a bound.

        keeps   whether old homes keep their copies; None: where that gains
        """
        if not self.prices.stated[region]:
            return None
        if kind == ADD_COPY:
            return self._added(tables, region)
        holds: Flags = self.held[tables, region]
        if kind == DROP_COPY:
            may_drop = holds & self.may_drop[tables] & (self.home[tables] != region)
            return self._dropped(tables, region) if may_drop.all() else None
        away = self.home[tables] != region
        if not away.any() or not self.may_move[tables[away]].all():
            return None
        return self._moved(tables[away], region, ~holds[away], keeps)

    def apply(self, step: Tried) -> None:
        """Carry out a step that was tried on the placement as it is."""
        tables, region = step.tables, step.region
        self.bytes_left -= step.bytes
        self.objective -= step.gain
        if step.kind == ADD_COPY:
            self._apply_copies(tables, region)
            return
        jobs, table_of = self._reads_of(tables)
        if step.kind == MOVE_HOME:
            old_homes = self.home[tables]
            np.subtract.at(self.counts, (jobs, old_homes[table_of]), 1)
            np.add.at(self.counts[:, region], jobs, 1)
            self.home[tables] = region
            assert step.demand is not None
            self.demand, self.price_of_balance = step.demand, step.balance
            for table, old_home in zip(tables.tolist(), old_homes.tolist(), strict=True):
                if not self.held[table, region]:
                    self._hold(table, region, 1)
                if not step.keeps:
                    self._hold(table, old_home, -1)
        else:
            for table in tables.tolist():
                self._hold(table, region, -1)
        self.waits[jobs] = ~((self.missing[jobs] == 0) & self.prices.job_runs[jobs]).any(axis=1)
        self.protected[tables] = self.prices.is_protected(tables, self.home[tables], self.held[tables])

    def _apply_copies(self, tables: Ints, region: int) -> None:
        """Add copies, the most frequent step: it ends waiting and begins protection, and nothing else."""
        prices = self.prices
        for table in tables.tolist():
            jobs = self._hold(table, region, 1)
            waiting = jobs[self.waits[jobs]]
            if len(waiting):
                self.waits[waiting] = (self.missing[waiting, region] > 0) | ~prices.job_runs[waiting, region]
            if not self.protected[table]:
                self.protected[table] = prices.partners[prices.kinds[table], self.home[table], region]

    def _hold(self, table: int, region: int, change: int) -> Ints:
        """Let a region hold a table that it does not hold (1), or not hold one that it holds (-1); return the table's readers."""
        jobs = self._readers[self._starts[table] : self._starts[table + 1]]
        self.held[table, region] = change > 0
        self.missing[jobs, region] -= change
        self.used[region] += change * self._sizes[table]
        self.extra += change * self._sizes[table]
        return jobs

    def _added(self, tables: Ints, region: int) -> Tried | None:
        """Return copies that are added to a region."""
        prices, come, copied, gain = self.prices, 0, 0, 0.0
        if len(tables) > 1 or self.held[tables[0], region]:
            tables = tables[~self.held[tables, region]]
        for table in tables.tolist():
            if not self.may_copy[table]:
                return None
            size = self._sizes[table]
            come += size
            copied += 0 if self.was_held[table, region] else size
            gain += prices.cold[table, region]
            if not self.protected[table] and prices.partners[prices.kinds[table], self.home[table], region]:
                gain += prices.unprotected[table]
        used = self.used[region]
        if (
            not come
            or copied > self.bytes_left
            or used + come > prices.capacities[region]
            or self.extra + come > prices.extra_max
        ):
            return None
        jobs, times = self._readers_of(tables, self.waits)
        if len(jobs):
            starts = prices.job_runs[jobs, region] & (self.missing[jobs, region] == times)
            gain += UNCOLLOCATED * float(prices.job_weight[jobs] @ starts)
        gain -= prices.storage_of(region, used, come) + prices.extra_of(self.extra, come)
        return Tried(ADD_COPY, tables, region, float(gain), copied)

    def _dropped(self, tables: Ints, region: int) -> Tried:
        """Return copies that are dropped in a region."""
        prices = self.prices
        jobs, times = self._readers_of(tables)
        missing = self.missing[jobs]
        missing[:, region] += times
        held = self.held[tables]
        held[:, region] = False
        gain = float(self._worth(tables, jobs, self.home[tables], held, missing))
        sizes = self.problem.sizes[tables]
        freed = -int(sizes.sum())
        gain -= prices.storage_of(region, self.used[region], freed) + prices.extra_of(self.extra, freed)
        saved = -int(sizes @ ~self.was_held[tables, region])
        return Tried(DROP_COPY, tables, region, gain, saved)

    def _moved(self, tables: Ints, region: int, lacks: Flags, keeps: bool | None) -> Tried | None:
        """Return homes that move. Old homes keep their copies where that gains and the extra copies are not too many."""
        prices, old_homes, sizes = self.prices, self.home[tables], self.problem.sizes[tables]
        come = int(sizes @ lacks)
        if come and self.used[region] + come > prices.capacities[region]:
            return None
        copied = int(sizes @ (lacks & ~self.was_held[tables, region])) if come else 0
        reads, table_of = self._reads_of(tables)
        jobs, of = (
            (reads, np.arange(len(reads))) if len(tables) == 1 else np.unique(reads, return_inverse=True)
        )
        counts = self.counts[jobs, :-1]
        split = -(counts**2).sum(axis=1)
        np.subtract.at(counts, (of, old_homes[table_of]), 1)
        np.add.at(counts[:, region], of, 1)
        gain = float(self.pair_weight[jobs] @ (split + (counts**2).sum(axis=1)))
        demand, loads = self.demand.copy(), prices.loads[tables]
        np.subtract.at(demand, old_homes, loads)
        demand[region] += loads.sum(axis=0)
        balance = float(prices.balance(demand, prices.supply).sum())
        gain += self.price_of_balance - balance
        gain -= prices.storage_of(region, self.used[region], come)
        homes = np.full(len(tables), region)
        held, missing = self.held[tables], self.missing[jobs]
        held[:, region] = True
        np.subtract.at(missing[:, region], of, lacks[table_of])
        kept = self._worth(tables, jobs, homes, held, missing) - prices.extra_of(self.extra, come)
        held[np.arange(len(tables)), old_homes] = False
        np.add.at(missing, (of, old_homes[table_of]), 1)
        dropped = self._worth(tables, jobs, homes, held, missing)
        dropped -= prices.extra_of(self.extra, come - int(sizes.sum()))
        freed = np.bincount(old_homes, sizes, prices.regions)
        dropped -= sum(
            prices.storage_of(old, self.used[old], -int(freed[old])) for old in np.flatnonzero(freed).tolist()
        )
        saved = copied - int(sizes @ ~self.was_held[tables, old_homes])
        may_keep = copied <= self.bytes_left and self.extra + come <= prices.extra_max
        if keeps or (keeps is None and may_keep and kept > dropped):
            if not may_keep:
                return None
            return Tried(MOVE_HOME, tables, region, gain + kept, copied, True, demand, balance)
        if saved > self.bytes_left:
            return None
        return Tried(MOVE_HOME, tables, region, gain + dropped, saved, False, demand, balance)

    def _worth(self, tables: Ints, jobs: Ints, homes: Ints, held: Flags, missing: Counts) -> float:
        """Return by how much the prices of copies fall, those of storage left out.

        homes     (tables given,) region, afterwards
        held      (tables given, regions) afterwards
        missing   (jobs given, regions) tables that the region does not hold, afterwards
        """
        prices = self.prices
        waits = ~((missing == 0) & prices.job_runs[jobs]).any(axis=1)
        gain = UNCOLLOCATED * float(prices.job_weight[jobs] @ (self.waits[jobs] * 1.0 - waits))
        gain += float((prices.cold[tables] * (held * 1.0 - self.held[tables])).sum())
        protected = prices.is_protected(tables, homes, held)
        return gain + float(prices.unprotected[tables] @ (protected * 1.0 - self.protected[tables]))

    def _reads_of(self, tables: Ints) -> tuple[Ints, Ints]:
        """Return the job of each read of the tables, and the place of its table among those given."""
        if len(tables) == 1:
            table = int(tables[0])
            jobs = self._readers[self._starts[table] : self._starts[table + 1]]
            return jobs, np.zeros(len(jobs), dtype=np.int64)
        parts = [self._readers[self._starts[table] : self._starts[table + 1]] for table in tables.tolist()]
        return np.concatenate(parts), np.repeat(np.arange(len(tables)), [len(part) for part in parts])

    def _readers_of(self, tables: Ints, among: Flags | None = None) -> tuple[Ints, Ints | int]:
        """Return the jobs that read the tables, each once, and how many of the tables each reads.

        among   (jobs,) which jobs are asked for; None: all
        """
        parts = [self._readers[self._starts[table] : self._starts[table + 1]] for table in tables.tolist()]
        jobs = parts[0] if len(parts) == 1 else np.concatenate(parts)
        if among is not None:
            jobs = jobs[among[jobs]]
        return (jobs, 1) if len(tables) == 1 else np.unique(jobs, return_counts=True)
