"""Problems of where data lives for tests: by hand, and drawn small ones."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from core.data_places.problem import UNSTATED, DataProblem, checked, copies_of

REGIONS = ("a", "b", "c", "d")
TYPES = ("x", "y", "z")
MUCH = 1 << 50
"""Bytes of storage that no test fills."""


class Job(Struct, frozen=True):
    """One row: a set of tables, and the demand for it."""

    tables: Sequence[int]
    demand: float = 1.0
    gpu_type: int = 0
    band: int = 1


def problem_of(
    sizes: Sequence[int],
    home: Sequence[int],
    jobs: Sequence[Job],
    supply: Sequence[Sequence[float]],
    *,
    held: Sequence[tuple[int, int]] = (),
    storage: Sequence[int] | None = None,
    pinned: Sequence[int] = (),
    bytes_max: int = MUCH,
    **others: object,
) -> DataProblem:
    """Return a problem of two bands; no disaster copies, no hot tables and three extra copies of each table unless asked for otherwise.

    home     region by table; -1: none
    held     more copies, as table and region
    supply   GPU-seconds by region and type
    pinned   tables
    """
    regions = len(supply)
    holds = np.zeros((len(sizes), regions), dtype=np.bool_)
    for table, region in [*enumerate(home), *held]:
        if region >= 0:
            holds[table, region] = True
    starts = np.cumsum([0, *[len(job.tables) for job in jobs]])
    fields: dict[str, object] = {
        "disaster_copies": False,
        "hot_permille": 0,
        "extra_storage_permille": 4_000,
    } | others
    return checked(
        DataProblem(
            regions=REGIONS[:regions],
            gpu_types=TYPES[: len(supply[0])],
            bands=2,
            high_band=1,
            sizes=np.array(sizes, dtype=np.int64),
            home=np.array(home, dtype=np.int64),
            copies=copies_of(holds),
            pinned=np.isin(np.arange(len(sizes)), pinned),
            storage=np.array(storage or [MUCH] * regions, dtype=np.int64),
            job_starts=starts.astype(np.int64),
            job_tables=np.array([table for job in jobs for table in job.tables], dtype=np.int64),
            job_type=np.array([job.gpu_type for job in jobs], dtype=np.int64),
            job_band=np.array([job.band for job in jobs], dtype=np.int64),
            job_demand=np.array([job.demand for job in jobs], dtype=np.float64),
            supply=np.array(supply, dtype=np.float64),
            bytes_max=bytes_max,
            **fields,  # type: ignore[arg-type]  # by name
        )
    )


def drawn(
    seed: int, *, tables: int = 8, jobs: int = 8, regions: int = 3, is_odd: bool = False
) -> DataProblem:
    """Return a drawn problem of two types: lognormal sizes and demand, jobs of one to four tables, tight storage and bytes.

    is_odd   some tables are nowhere, have no home or no known size; a region may have no stated storage or too little
    """
    dice = np.random.default_rng(seed)
    sizes = np.exp(np.log(565e6) + 2.0 * dice.standard_normal(tables)).astype(np.int64) + 1
    home = dice.integers(0, regions, tables)
    held = dice.random((tables, regions)) < 0.1
    held[np.arange(tables), home] = True
    lists = [sorted(dice.choice(tables, dice.integers(1, 5), replace=False).tolist()) for _ in range(jobs)]
    supply = dice.uniform(0.2, 1.0, (regions, 2))
    if dice.random() < 0.5:
        supply[dice.integers(regions), dice.integers(2)] = 0.0
    demand = np.exp(dice.standard_normal(jobs))
    demand *= 0.9 * supply.sum() / demand.sum()
    used = (sizes[:, None] * held).sum(axis=0)
    storage = (used + dice.uniform(0.2, 0.8, regions) * sizes.sum()).astype(np.int64)
    pinned = dice.random(tables) < 0.1
    bytes_max = int(dice.uniform(0.1, 0.6) * sizes.sum())
    if is_odd:
        odd = dice.integers(0, 6, tables)
        held[odd == 0] = False
        home[odd <= 1] = -1
        sizes[odd == 2] = 0
        storage[0] = UNSTATED if dice.random() < 0.5 else used[0] // 2
    return checked(
        DataProblem(
            regions=REGIONS[:regions],
            gpu_types=TYPES[:2],
            bands=2,
            high_band=1,
            sizes=sizes,
            home=home.astype(np.int64),
            copies=copies_of(held),
            pinned=pinned,
            storage=storage,
            job_starts=np.cumsum([0, *[len(one) for one in lists]]).astype(np.int64),
            job_tables=np.array([table for one in lists for table in one], dtype=np.int64),
            job_type=dice.integers(0, 2, jobs).astype(np.int64),
            job_band=(dice.random(jobs) < 0.7).astype(np.int64),
            job_demand=demand,
            supply=supply,
            bytes_max=bytes_max,
            hot_permille=200,
        )
    )
