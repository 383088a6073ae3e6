"""The problem of where data lives: tables, the jobs that read them, the GPUs and the storage of each region.

A table is a dataset. A job is a row: the demand of all work that reads the same set of tables, wants the same GPU type and is of the same
level band. Demand and supply are GPU-seconds of the same window.

Source: MAST (OSDI 2024), section 3.2 and figure 4.
"""

from functools import cached_property

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Counts = NDArray[np.int32]
"""Of few tables each: half the size of others, of which the search reads the most."""
Masks = NDArray[np.uint64]
Flags = NDArray[np.bool_]

REGIONS_MAX = 64
"""Copies are the bits of one word."""
NO_HOME = -1
UNSTATED = -1
"""Storage of a region for which no operator stated any."""


class DataProblem(Struct, frozen=True, dict=True):
    """Which tables lie where, which jobs read them, and what a plan may use."""

    regions: tuple[str, ...]
    gpu_types: tuple[str, ...]
    bands: int
    """Level bands; 0 is the lowest."""
    high_band: int
    """Bands from this one on are of high priority."""
    sizes: Ints
    """(tables,) bytes; 0: unknown, and no plan moves, copies or drops the table."""
    home: Ints
    """(tables,) region, or `NO_HOME`."""
    copies: Masks
    """(tables,) bits of the regions that hold the whole table, its home among them."""
    pinned: Flags
    """(tables,) whether plans leave its home and its copies where they are; they may add copies."""
    storage: Ints
    """(regions,) bytes, or `UNSTATED`: no plan puts a table there, drops one there or moves a home from there."""
    job_starts: Ints
    """(jobs + 1,) positions in `job_tables`."""
    job_tables: Ints
    """(reads,) tables of the first job, of the second, and so on; no job has one twice."""
    job_type: Ints
    """(jobs,) GPU type."""
    job_band: Ints
    """(jobs,)."""
    job_demand: Floats
    """(jobs,) GPU-seconds in the window."""
    supply: Floats
    """(regions, types) GPU-seconds in the window."""
    bytes_max: int
    """Bytes that the actions of one plan may copy."""
    used_elsewhere: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """(regions,) bytes of storage that other than these tables takes; empty: none."""
    extra_storage_permille: int = 1_250
    """Bytes of copies beyond one for each table, to bytes of all tables: a plan adds no copy that exceeds it."""
    disaster_copies: bool = True
    """Whether each table is to have a copy outside its home."""
    hot_permille: int = 20
    """Bytes of the copies of hot tables that are wanted in all regions together, to bytes of all tables."""
    actions_max: int = 100_000
    """Actions of one plan."""
    copy_price: float = 0.0
    """Price of copying all bytes once, in shares of all demand: a step must gain more than its bytes cost. It is no part of the objective."""

    @cached_property
    def lengths(self) -> Ints:
        """(jobs,) tables of each job."""
        return np.diff(self.job_starts)

    @cached_property
    def job_of(self) -> Ints:
        """(reads,) the job of each position in `job_tables`."""
        return np.repeat(np.arange(len(self.job_type), dtype=np.int64), self.lengths)

    @cached_property
    def is_high(self) -> Flags:
        """(jobs,) whether the job is of high priority."""
        found: Flags = self.job_band >= self.high_band
        return found

    @cached_property
    def elsewhere(self) -> Ints:
        """(regions,) bytes of storage that other than these tables takes."""
        return self.used_elsewhere if len(self.used_elsewhere) else np.zeros(len(self.regions), np.int64)

    @cached_property
    def held(self) -> Flags:
        """(tables, regions) whether the region holds the whole table."""
        return held_of(self.copies, len(self.regions))

    @cached_property
    def all_bytes(self) -> int:
        """Bytes of one copy of each table."""
        return int(self.sizes.sum())


class BadDataProblem(Exception):
    """A problem that cannot be planned for; the text is one sentence for people."""


def held_of(copies: Masks, regions: int) -> Flags:
    """Return (tables, regions) whether the region's bit is set."""
    bits = np.arange(regions, dtype=np.uint64)
    found: Flags = (copies[:, None] >> bits[None, :]) & np.uint64(1) != 0
    return found


def copies_of(held: Flags) -> Masks:
    """Return (tables,) the bits of the regions that hold each table."""
    bits = np.uint64(1) << np.arange(held.shape[1], dtype=np.uint64)
    found: Masks = np.bitwise_or.reduce(np.where(held, bits[None, :], np.uint64(0)), axis=1)
    return found


def checked(problem: DataProblem) -> DataProblem:
    """Return the problem. Raises BadDataProblem, which names the first thing that is wrong."""
    tables, regions, jobs = len(problem.sizes), len(problem.regions), len(problem.job_type)
    for name, array, shape in (
        ("home", problem.home, (tables,)),
        ("copies", problem.copies, (tables,)),
        ("pinned", problem.pinned, (tables,)),
        ("storage", problem.storage, (regions,)),
        ("used_elsewhere", problem.elsewhere, (regions,)),
        ("job_starts", problem.job_starts, (jobs + 1,)),
        ("job_band", problem.job_band, (jobs,)),
        ("job_demand", problem.job_demand, (jobs,)),
        ("supply", problem.supply, (regions, len(problem.gpu_types))),
    ):
        if array.shape != shape:
            raise BadDataProblem(f"{name} has the shape {array.shape}, and should have {shape}")
    if (problem.storage < UNSTATED).any():
        raise BadDataProblem("the storage of a region is below 0")
    if not 1 <= regions <= REGIONS_MAX:
        raise BadDataProblem(f"there are {regions} regions, and 1 to {REGIONS_MAX} can be planned for")
    if problem.job_starts[0] != 0 or problem.job_starts[-1] != len(problem.job_tables):
        raise BadDataProblem("job_starts does not cover job_tables")
    for name, array, most in (
        ("job_tables", problem.job_tables, tables),
        ("job_type", problem.job_type, len(problem.gpu_types)),
        ("job_band", problem.job_band, problem.bands),
    ):
        if len(array) and not (array.min() >= 0 and array.max() < most):
            raise BadDataProblem(f"{name} names one that there is not")
    for name, numbers in (("job_demand", problem.job_demand), ("supply", problem.supply)):
        if not np.isfinite(numbers).all() or (numbers < 0).any():
            raise BadDataProblem(f"{name} has a value below 0, or none")
    if (problem.sizes < 0).any() or (problem.lengths < 1).any():
        raise BadDataProblem("a size is below 0, or a job reads no table")
    order = np.sort(problem.job_of * max(1, tables) + problem.job_tables)
    if (order[1:] == order[:-1]).any():
        raise BadDataProblem("a job names a table twice")
    if regions < REGIONS_MAX and (problem.copies >> np.uint64(regions)).any():
        raise BadDataProblem("a copy is in a region that there is not")
    told = np.flatnonzero(problem.home != NO_HOME)
    if len(told) and not (problem.home[told].min() >= 0 and problem.home[told].max() < regions):
        raise BadDataProblem("a home is a region that there is not")
    if not problem.held[told, problem.home[told]].all():
        raise BadDataProblem("a home does not hold its table")
    return problem
