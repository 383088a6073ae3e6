"""The figures of a placement that operators read: how far demand is from supply, and how much of it finds its data."""

import numpy as np
from msgspec import Struct

from core.data_places.price import Prices, acting_homes, counts_of, missing_of
from core.data_places.problem import UNSTATED, DataProblem, Floats, Ints, Masks, held_of


class Figures(Struct, frozen=True):
    """Figures of one placement. Demand and supply are of high priority and over all GPU types."""

    worst: float
    """Demand by supply in the region where it is highest."""
    std: float
    """Sample standard deviation over regions of demand by supply."""
    home_rate: float
    """Share of demand whose tables are all at home in one region that has its GPU type."""
    collocation: float
    """Share of demand for which a region holds all tables and has its GPU type."""
    storage_over: float
    """Bytes above the storage of the region where they are most; 0: every region is within its storage."""
    extra_storage: float
    """Bytes of copies beyond one for each table, to bytes of all tables."""
    objective: float
    protected: float = 1.0
    """Share of tables with a copy outside their home that protects them."""


def figures_of(problem: DataProblem, home: Ints, copies: Masks, prices: Prices | None = None) -> Figures:
    """Return the figures of a placement.

    home     (tables,) region, or `NO_HOME`
    copies   (tables,) bits of the regions that hold each table
    prices   those of the problem, where they are known already
    """
    prices = prices or Prices(problem)
    held = held_of(copies, len(problem.regions))
    home = acting_homes(problem, home, held)
    counts = counts_of(problem, home)
    where = counts[:, :-1].argmax(axis=1) if len(counts) else np.zeros(0, dtype=np.int64)
    demand = np.where(problem.is_high, problem.job_demand, 0.0)
    total = float(demand.sum()) or 1.0
    jobs = np.arange(len(where))
    at_home = (counts[jobs, where] == problem.lengths) & prices.job_runs[jobs, where]
    collocated = ((missing_of(problem, held) == 0) & prices.job_runs).any(axis=1)
    loads = loads_of(problem, np.bincount(where, demand, len(problem.regions)).astype(np.float64))
    used = problem.elsewhere + (problem.sizes[:, None] * held).sum(axis=0)
    over = np.where(problem.storage != UNSTATED, used - problem.storage, 0)
    extra = (problem.sizes * np.maximum(held.sum(axis=1) - 1, 0)).sum()
    somewhere = np.flatnonzero(home < len(problem.regions))
    protected = prices.is_protected(somewhere, home[somewhere], held[somewhere])
    return Figures(
        worst=float(loads.max(initial=0.0)),
        std=float(loads.std(ddof=1)) if len(loads) > 1 else 0.0,
        home_rate=float(demand @ at_home) / total,
        collocation=float(demand @ collocated) / total,
        storage_over=float(over.max(initial=0)),
        extra_storage=float(extra) / (problem.all_bytes or 1),
        objective=prices.terms(home, held).objective,
        protected=float(protected.mean()) if len(protected) else 1.0,
    )


def loads_of(problem: DataProblem, demand: Floats) -> Floats:
    """Return demand by supply of each region that has GPUs."""
    supply = problem.supply.sum(axis=1)
    found: Floats = demand[supply > 0] / supply[supply > 0]
    return found
