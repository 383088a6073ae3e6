"""Tetris' objective and constraints as they were published, in their three regimes: what ours is compared with.

    R(table)   the home
    R(job)     of analytics the region where most of its tables are at home, which may read the others across regions; of training the home
               that all its tables have in common, else none, and then all its tables count as read across regions
    (1)        bytes of tables that jobs read across regions
    (2)        (share of demand - share of supply)^2 x sigmoid(demand - supply, where that is more than 0), by region, GPU type and band;
               the factor came with V2 and is 1/2 to 1, and V1 has the square alone
    (3)        (share of bytes stored - share of storage)^2, by region
    (4)        storage of each region, (5) CPU of each application and region, (6) least demand of high priority whose region has its GPUs

The paper tells neither the weights nor the sizes of "demand" and "supply" in the sigmoid: here GPU-hours, so that it is nearly a step.

Source: MAST (OSDI 2024), figure 4 and sections 3.2 to 3.4.
"""

from enum import IntEnum
from functools import cached_property

import numpy as np
from msgspec import Struct, field

from core.data_places.price import counts_of
from core.data_places.problem import DataProblem, Flags, Floats, Ints

NO_REGION = -1
SECONDS_AN_HOUR = 3_600.0
SIGMOID_MOST = 50.0
"""Beyond, the sigmoid is 1 to the last digit."""


class Regime(IntEnum):
    """How a resource bounds a move."""

    FREE = 0
    """Not at all."""
    HARD_QUOTA = 1
    """No region may have more demand than supply after it gained any."""
    HARD_BALANCE = 2
    """No region's excess of demand over supply may grow."""
    SOFT_BALANCE = 3
    """By its term of the objective."""


class PublishedProblem(Struct, frozen=True, dict=True):
    """A problem with what Tetris reads besides, and its settings."""

    problem: DataProblem
    traffic_weight: float
    """Of (1), a byte."""
    balance_weight: float
    """Of (2)."""
    storage_weight: float
    """Of (3); 0: V1."""
    band_weights: tuple[float, ...]
    """Of (2), by band."""
    weighs_overload: bool = True
    """Whether (2) has the factor of V2."""
    gpu: Regime = Regime.SOFT_BALANCE
    storage: Regime = Regime.HARD_QUOTA
    """`SOFT_BALANCE` for storage comes in addition to the quota, by `storage_weight`."""
    analytics: Flags = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    """(jobs,) whether the job may read across regions; empty: none may."""
    app: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """(jobs,) application; empty: (5) is left out."""
    cpu: Floats = field(default_factory=lambda: np.zeros(0))
    """(jobs,)."""
    cpu_capacity: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    """(applications, regions)."""
    least_on_gpus: float = 0.0
    """GPU-seconds of high priority, the bound of (6)."""

    @cached_property
    def may_read_across(self) -> Flags:
        """(jobs,) whether the job is analytics."""
        jobs = len(self.problem.job_type)
        return self.analytics if len(self.analytics) else np.zeros(jobs, dtype=np.bool_)

    @cached_property
    def read_bytes(self) -> Floats:
        """(jobs,) bytes of all tables of the job."""
        problem = self.problem
        sizes = problem.sizes[problem.job_tables]
        return np.bincount(problem.job_of, sizes, len(problem.job_type)).astype(np.float64)


def region_of_jobs(published: PublishedProblem, home: Ints) -> Ints:
    """Return (jobs,) R(job), or `NO_REGION`; of several regions with most tables the first.

    home   (tables,)
    """
    problem = published.problem
    counts = counts_of(problem, home)[:, :-1]
    most = counts.argmax(axis=1)
    is_common = counts[np.arange(len(counts)), most] == problem.lengths
    return np.where(is_common | published.may_read_across, most, NO_REGION)


def traffic(published: PublishedProblem, home: Ints) -> float:
    """Return (1) without its weight: the bytes that jobs read across regions."""
    problem = published.problem
    region = region_of_jobs(published, home)
    across = region[problem.job_of] != home[problem.job_tables]
    return float(problem.sizes[problem.job_tables][across].sum())


def demand_of_jobs(published: PublishedProblem, home: Ints) -> Floats:
    """Return (regions, types, bands) GPU-seconds of the jobs that have a region."""
    problem = published.problem
    region = region_of_jobs(published, home)
    shape = (*problem.supply.shape, problem.bands)
    some = np.flatnonzero(region != NO_REGION)
    places = np.ravel_multi_index((region[some], problem.job_type[some], problem.job_band[some]), shape)
    return np.bincount(places, problem.job_demand[some], int(np.prod(shape))).reshape(shape)


def imbalance(published: PublishedProblem, demand: Floats) -> Floats:
    """Return (2) without its weight.

    demand   (..., regions, types, bands) GPU-seconds
    returns  (...,)
    """
    supply = published.problem.supply
    share = demand / np.maximum(demand.sum(axis=-3, keepdims=True), 1e-300)
    due = supply / np.maximum(supply.sum(axis=0), 1e-300)
    square = (share - due[..., None]) ** 2
    if published.weighs_overload:
        excess = np.maximum(demand.sum(axis=-1) - supply, 0.0) / SECONDS_AN_HOUR
        square = square / (1.0 + np.exp(-np.minimum(excess, SIGMOID_MOST)))[..., None]
    found: Floats = (square @ np.array(published.band_weights)).sum(axis=(-2, -1))
    return found


def storage_imbalance(published: PublishedProblem, used: Floats) -> Floats:
    """Return (3) without its weight.

    used      (..., regions) bytes
    returns   (...,)
    """
    capacity = np.maximum(published.problem.storage, 0).astype(np.float64)
    share = used / np.maximum(used.sum(axis=-1, keepdims=True), 1e-300)
    found: Floats = ((share - capacity / max(capacity.sum(), 1e-300)) ** 2).sum(axis=-1)
    return found


def published_objective(published: PublishedProblem, home: Ints) -> float:
    """Return (1) + (2) + (3) with their weights, from scratch; stored are the homes alone."""
    problem = published.problem
    used = np.bincount(home, problem.sizes, len(problem.regions)).astype(np.float64)
    return (
        published.traffic_weight * traffic(published, home)
        + published.balance_weight * float(imbalance(published, demand_of_jobs(published, home)))
        + published.storage_weight * float(storage_imbalance(published, used))
    )


def broken(published: PublishedProblem, home: Ints) -> list[str]:
    """Return the names of the constraints (4) to (6) that a placement breaks."""
    problem = published.problem
    found = []
    used = np.bincount(home, problem.sizes, len(problem.regions)) + problem.elsewhere
    if (used > problem.storage).any():
        found.append("storage")
    region = region_of_jobs(published, home)
    some = np.flatnonzero(region != NO_REGION)
    if len(published.app):
        cpu = np.zeros(published.cpu_capacity.shape)
        np.add.at(cpu, (published.app[some], region[some]), published.cpu[some])
        if (cpu > published.cpu_capacity).any():
            found.append("cpu")
    on_gpus = problem.is_high[some] & (problem.supply[region[some], problem.job_type[some]] > 0)
    if problem.job_demand[some][on_gpus].sum() < published.least_on_gpus:
        found.append("gpus")
    return found
