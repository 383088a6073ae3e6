"""The objective of data placement: six prices, each a share of all demand or of all bytes, summed.

    split         demand of each job x (1 - the sum over regions of the square of the share of its tables at home there)
    balance       demand of each region, GPU type and level band above 0.8, 0.9, 1 and 1.5 of the supply, by rising slopes
    uncollocated  demand of each job without a region that holds all its tables and has its GPU type
    unprotected   tables without a copy outside their home such that home and copy together have every GPU type of their readers
    cold          hot and wide tables in regions that should hold them and do not
    storage       bytes above 0.8 of a region's storage or of the most extra copies, and bytes above all of a region's storage

A job's demand counts in each region by the share of its tables that are at home there, so that each table which joins or leaves has a
slope; a band's demand includes that of all higher bands, which preempt it. To take one table of n out of a region costs 2 (n - 1) / n of the
demand moved in split, and that is more than the steepest slope of balance: breaking up jobs never relieves a region at a gain.

Source: MAST (OSDI 2024), section 3.2 and figure 4, whose overload price saturates at twice that of underload; these are ours.
"""

import numpy as np
from msgspec import Struct

from core.data_places.hot import hot_wanted, wide_wanted
from core.data_places.problem import UNSTATED, Counts, DataProblem, Flags, Floats, Ints

LOW_BAND = 0.2
"""Demand of low priority counts so much of its GPU-seconds, demand of high priority all."""
SPLIT = 1.0
KNOTS = (0.8, 0.9, 1.0, 1.5)
"""Demand by supply from which on each slope is added."""
SLOPES = (0.08, 0.12, 0.2, 0.4)
"""Price of a share of demand beyond each knot; where there is no supply, the sum of all."""
UNDERLOAD = 0.02
"""Price of a share of supply that is idle below the first knot: a quarter of the lightest overload."""
UNCOLLOCATED = 0.5
UNPROTECTED = 0.025
"""Price of all tables unprotected: half by their bytes, half by the demand of their readers."""
COLD = 0.05
"""Price when no hot or wide table is where it is wanted: half by demand, each part where the GPUs of its type are, and half for each alike."""
STORAGE_FROM = 0.8
FILLED = 0.002
"""Price of a share of all bytes that lies above 0.8 of a bound: below, a copy that nothing needs costs nothing."""
OVERFILLED = 0.05
"""Price of a share of all bytes that lies above a region's storage."""


class Terms(Struct, frozen=True):
    """The objective by its terms."""

    split: float
    balance: float
    uncollocated: float
    unprotected: float
    cold: float
    storage: float

    @property
    def objective(self) -> float:
        """Return the sum."""
        return self.split + self.balance + self.uncollocated + self.unprotected + self.cold + self.storage


class Prices:
    """What a problem's jobs and tables weigh in the objective, computed once.

    job_weight    (jobs,) share of all demand, of which low priority counts `LOW_BAND`
    loads         (tables, types, bands) a table's part of the demand of its readers, of this band and higher, in shares of all demand
    supply        (regions, types) in the same shares
    partners      (kinds of readers, regions, regions) whether a copy in the last protects a table at home in the other
    unprotected   (tables,) price of a table without a protecting copy
    cold          (tables, regions) price of a hot or wide table that is not there; 0 where none is wanted
    """

    def __init__(self, problem: DataProblem) -> None:
        self.problem = problem
        self.regions = len(problem.regions)
        self.band_weight = np.where(np.arange(problem.bands) >= problem.high_band, 1.0, LOW_BAND)
        weighted = self.band_weight[problem.job_band] * problem.job_demand
        self.total = float(weighted.sum()) or 1.0
        self.job_weight = weighted / self.total
        self.runs: Flags = problem.supply > 0
        self.job_runs = self.runs.T[problem.job_type]
        self.loads = _loads(problem, self.total)
        self.supply = problem.supply / self.total
        self.bytes = float(problem.all_bytes) or 1.0
        self.stated: Flags = problem.storage != UNSTATED
        self.capacity = np.where(self.stated, problem.storage, np.int64(0))
        self.capacities: list[int] = self.capacity.tolist()
        self.extra_max = problem.all_bytes * problem.extra_storage_permille // 1_000
        self.kinds, self.partners = _partners(problem, self.runs)
        is_somewhere: Flags = np.any(problem.held, axis=1)
        by_type = np.zeros((len(problem.sizes), len(problem.gpu_types)))
        for band in range(problem.bands):
            above = self.band_weight[band] - (self.band_weight[band - 1] if band else 0.0)
            by_type += above * self.loads[:, :, band]
        value: Floats = 0.5 * (problem.sizes / self.bytes + by_type.sum(axis=1))
        self.unprotected = np.where(is_somewhere & problem.disaster_copies, UNPROTECTED * value, 0.0)
        shares = problem.supply / np.maximum(problem.supply.sum(axis=0), 1e-300)
        wanted = (hot_wanted(problem, by_type) | wide_wanted(problem)) & is_somewhere[:, None]
        each = 1.0 / max(1, int(wanted.sum()))
        self.cold = np.where(wanted, COLD * (0.5 * (by_type @ shares.T) + 0.5 * each), 0.0)

    def balance(self, demand: Floats, supply: Floats) -> Floats:
        """Return the price of each region.

        demand    (regions, types, bands) shares of all demand, of each band and higher
        supply    (regions, types)
        """
        beyond = UNDERLOAD * (KNOTS[0] * supply[..., None] - demand)
        for knot, slope in zip(KNOTS, _SLOPES, strict=True):
            beyond += slope * np.maximum(demand - knot * supply[..., None], 0.0)
        found: Floats = (beyond @ self.band_weight).sum(axis=1)
        return found

    def storage_of(self, region: int, used: int, change: int) -> float:
        """Return by how much the price of a region's storage rises when the bytes in use change."""
        if not self.stated[region]:
            return 0.0
        capacity = self.capacities[region]
        return (
            FILLED * _beyond(used, change, STORAGE_FROM * capacity)
            + OVERFILLED * _beyond(used, change, capacity)
        ) / self.bytes

    def extra_of(self, extra: int, change: int) -> float:
        """Return by how much the price of copies beyond one of each table rises when their bytes change."""
        return FILLED * _beyond(extra, change, STORAGE_FROM * self.extra_max) / self.bytes

    def is_protected(self, tables: Ints, home: Ints, held: Flags) -> Flags:
        """Return whether each table has a protecting copy.

        home    (tables given,) region
        held    (tables given, regions)
        """
        found: Flags = np.any(held & self.partners[self.kinds[tables], home], axis=1)
        return found

    def terms(self, home: Ints, held: Flags) -> Terms:
        """Return the objective of a placement, from scratch.

        home    (tables,) region, as `acting_homes` has it
        held    (tables, regions)
        """
        problem, jobs = self.problem, len(self.job_weight)
        shares = counts_of(problem, home)[:, :-1] / np.maximum(problem.lengths, 1)[:, None]
        demand = demand_of(self.loads, home, self.regions)
        missing = missing_of(problem, held)
        collocated = ((missing == 0) & self.job_runs).any(axis=1)
        somewhere = np.flatnonzero(home < self.regions)
        protected = np.ones(len(home), dtype=np.bool_)
        protected[somewhere] = self.is_protected(somewhere, home[somewhere], held[somewhere])
        used = (problem.elsewhere + (problem.sizes[:, None] * held).sum(axis=0)).tolist()
        extra = int((problem.sizes * np.maximum(held.sum(axis=1) - 1, 0)).sum())
        assert len(shares) == jobs
        return Terms(
            SPLIT * float(self.job_weight @ (1.0 - (shares**2).sum(axis=1))),
            float(self.balance(demand, self.supply).sum()),
            UNCOLLOCATED * float(self.job_weight @ ~collocated),
            float(self.unprotected @ ~protected),
            float(self.cold[~held].sum()),
            self.extra_of(0, extra)
            + sum(self.storage_of(region, 0, used[region]) for region in range(self.regions)),
        )


_SLOPES = (SLOPES[0] + UNDERLOAD, *SLOPES[1:])


def _beyond(before: int, change: int, bound: float) -> float:
    """Return how many more bytes lie beyond the bound after the change."""
    return max(0.0, before + change - bound) - max(0.0, before - bound)


def acting_homes(problem: DataProblem, home: Ints, held: Flags) -> Ints:
    """Return (tables,) the home; where none is told the first region that held the table in the problem, or holds it now; else their number.

    home   (tables,) region, or `NO_HOME`
    held   (tables, regions)
    """
    tables, nowhere = np.arange(len(home)), held.shape[1]
    before = problem.held.argmax(axis=1)
    acting = np.where(held[tables, before], before, held.argmax(axis=1))
    acting = np.where(held.any(axis=1), acting, nowhere)
    return np.where(home >= 0, home, acting).astype(np.int64)


def counts_of(problem: DataProblem, home: Ints) -> Counts:
    """Return (jobs, regions + 1) how many of a job's tables are at home in each region; the last column: nowhere."""
    width, jobs = len(problem.regions) + 1, len(problem.job_type)
    places = problem.job_of * width + home[problem.job_tables]
    return np.bincount(places, minlength=jobs * width).reshape(jobs, width).astype(np.int32)


def missing_of(problem: DataProblem, held: Flags) -> Counts:
    """Return (jobs, regions) how many of a job's tables the region does not hold."""
    jobs = len(problem.job_type)
    columns = [
        np.bincount(problem.job_of, ~held[problem.job_tables, region], jobs)
        for region in range(held.shape[1])
    ]
    return np.stack(columns, axis=1).astype(np.int32)


def demand_of(loads: Floats, home: Ints, regions: int) -> Floats:
    """Return (regions, types, bands) the demand at home in each region, of each band and higher."""
    found = np.zeros((regions + 1, *loads.shape[1:]))
    for place in np.ndindex(*loads.shape[1:]):
        found[(slice(None), *place)] = np.bincount(home, loads[(slice(None), *place)], regions + 1)
    return found[:regions]


def _loads(problem: DataProblem, total: float) -> Floats:
    """Return (tables, types, bands) each table's part of its readers' demand, of each band and higher, in shares of all demand."""
    tables, types = len(problem.sizes), len(problem.gpu_types)
    part = problem.job_demand / np.maximum(problem.lengths, 1) / total
    column = problem.job_type * problem.bands + problem.job_band
    width = types * problem.bands
    places = problem.job_tables * width + column[problem.job_of]
    found = np.bincount(places, part[problem.job_of], tables * width).reshape(tables, types, problem.bands)
    return np.ascontiguousarray(found[:, :, ::-1].cumsum(axis=2)[:, :, ::-1])


def _partners(problem: DataProblem, runs: Flags) -> tuple[Ints, Flags]:
    """Return the kind of each table by the GPU types that its high-priority readers want, and which regions protect each kind.

    Where no other region has the missing types, every other region protects.
    """
    wants = np.zeros((len(problem.sizes), len(problem.gpu_types)), dtype=np.bool_)
    high = problem.is_high[problem.job_of] & (problem.job_demand[problem.job_of] > 0)
    wants[problem.job_tables[high], problem.job_type[problem.job_of[high]]] = True
    kinds, of = np.unique(wants, axis=0, return_inverse=True)
    together = runs[:, None, :] | runs[None, :, :]
    others = ~np.eye(len(runs), dtype=np.bool_)
    partners = (
        np.stack([(together | ~kind).all(axis=2) & others for kind in kinds])
        if len(kinds)
        else (np.zeros((0, len(runs), len(runs)), dtype=np.bool_))
    )
    partners |= ~partners.any(axis=2, keepdims=True) & others
    return of.reshape(-1).astype(np.int64), partners
