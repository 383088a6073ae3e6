"""Tetris' copies as they were published, once homes are fixed: three kinds, one after the other, each while bytes and storage last.

    1. Each job of high priority without a common home, or whose home lacks its GPU type: all its tables in a region that has the type, the
       region with the largest supply first; jobs with the most demand first.
    2. Hot tables: of each region and GPU type a quota of storage in proportion to its supply, filled by demand.
    3. Each table: a copy outside its home, in the region with the most storage left of those that have the GPU types its home lacks.

The paper tells neither their order nor how bytes are divided among them: here the order of what waits.

Source: MAST (OSDI 2024), sections 3.4 and 3.5.
"""

import numpy as np

from core.data_places.hot import hot_wanted
from core.data_places.price import Prices, acting_homes, counts_of
from core.data_places.problem import DataProblem, Flags, Floats, Ints


class _Copying:
    """Copies, and what is left for more."""

    def __init__(self, problem: DataProblem, held: Flags, bytes_max: int) -> None:
        self.problem, self.held, self.left = problem, held.copy(), bytes_max
        self.room = problem.storage - problem.elsewhere - (problem.sizes[:, None] * held).sum(axis=0)
        extra = int((problem.sizes * np.maximum(held.sum(axis=1) - 1, 0)).sum())
        self.extra = problem.all_bytes * problem.extra_storage_permille // 1_000 - extra

    def copied(self, tables: Ints, region: int) -> bool:
        """Return whether the region holds all these tables afterwards."""
        tables = tables[~self.held[tables, region]]
        size = int(self.problem.sizes[tables].sum())
        fits = size <= min(self.left, int(self.room[region]), self.extra)
        if fits:
            self.held[tables, region] = True
            self.left -= size
            self.extra -= size
            self.room[region] -= size
        return fits


def published_copies(prices: Prices, home: Ints, held: Flags, bytes_max: int) -> Flags:
    """Return (tables, regions) which regions hold each table after a day's copies.

    home        (tables,) or `NO_HOME`
    held        (tables, regions) before
    bytes_max   that the day may copy
    """
    copying = _Copying(prices.problem, held, bytes_max)
    home = acting_homes(prices.problem, home, held)
    _copy_for_jobs(copying, prices, home)
    _copy_hot(copying, prices)
    if prices.problem.disaster_copies:
        _copy_for_disasters(copying, prices, home)
    return copying.held


def _copy_for_jobs(copying: _Copying, prices: Prices, home: Ints) -> None:
    problem = prices.problem
    counts = counts_of(problem, home)[:, :-1]
    most = counts.argmax(axis=1)
    jobs = np.arange(len(most))
    is_home = (counts[jobs, most] == problem.lengths) & prices.job_runs[jobs, most]
    waiting = np.flatnonzero(problem.is_high & ~is_home)
    for job in waiting[np.argsort(-problem.job_demand[waiting], kind="stable")].tolist():
        tables = problem.job_tables[problem.job_starts[job] : problem.job_starts[job + 1]]
        if (copying.held[tables].all(axis=0) & prices.job_runs[job]).any():
            continue
        by_supply = np.argsort(-problem.supply[:, problem.job_type[job]], kind="stable")
        for region in by_supply[prices.job_runs[job, by_supply]].tolist():
            if copying.copied(tables, region):
                break


def _copy_hot(copying: _Copying, prices: Prices) -> None:
    problem = prices.problem
    demand: Floats = prices.loads[:, :, 0]
    wanted = hot_wanted(problem, demand) & ~copying.held
    tables, regions = np.nonzero(wanted)
    order = np.argsort(-demand.sum(axis=1)[tables], kind="stable")
    for table, region in zip(tables[order], regions[order].tolist(), strict=True):
        copying.copied(np.array([table]), region)


def _copy_for_disasters(copying: _Copying, prices: Prices, home: Ints) -> None:
    tables = np.flatnonzero(home < prices.regions)
    alone = tables[~prices.is_protected(tables, home[tables], copying.held[tables])]
    high = prices.loads[alone, :, prices.problem.high_band :].sum(axis=(1, 2))
    for table in alone[np.argsort(-high, kind="stable")].tolist():
        partners = prices.partners[prices.kinds[table], home[table]] & prices.stated
        if partners.any():
            copying.copied(np.array([table]), int(np.where(partners, copying.room, -1).argmax()))
