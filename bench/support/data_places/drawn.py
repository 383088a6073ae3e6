"""Tables, jobs and regions drawn as MAST was published: a placement by hand (V0) that loads the smallest region 2.6 times over.

    regions       the six of figure 2, by GPUs and by storage; three GPU types in mixes that differ by region; the newest type is not in the
                  smallest region, or in fewer regions if asked
    tables        lognormal, median 565 MB, sigma 4.07, cut at 100 TB; 200 a team
    readers       3, 17 and 45 jobs a table at 50, 90 and 99 %, at most 140
    jobs          read 1 to 5 tables of a team, each with a chance (`cross`) of being another team's instead
    demand        GPUs times seconds of one attempt, whose ranks correlate (`correlation`) with the bytes that the job reads; scaled for each
                  type to 0.8 of the supply at high priority and to 0.6 at low
    homes         a team has one; dealt so that demand of high priority follows (1 - 0.0625) x GPU share + 0.0625 x storage share
    storage       the larger of the region's share of 2.5 x all bytes and 1.3 x the bytes at home there

source    MAST (OSDI 2024), figures 2 and 3, sections 3.4 and 5.1; spec/mast-twine.md, section 4 and E1
"""

import numpy as np
from msgspec import Struct

from core.data_places.problem import DataProblem, Flags, Floats, Ints

REGIONS = ("a", "b", "c", "d", "e", "f")
GPUS = np.array([1.0, 0.98, 0.745, 0.61, 0.47, 0.045])
STORAGE = np.array([0.235, 0.445, 0.375, 0.085, 0.135, 1.0])
STORAGE_WEIGHT = 0.0625
"""How much of a team's home followed storage instead of GPUs: meets the published worst region and spread."""
TYPES = ("old", "middle", "new")
TYPE_SHARES = (0.5, 0.3, 0.2)
MIX_EVENNESS = 20.0
"""Of the gamma draws that make each region's mix of types: shares differ by a quarter to a half of themselves."""
SUPPLY_SECONDS = 1e9
"""GPU-seconds of all regions in the window; no figure depends on it."""
TEAM_TABLES = 200
SIZE_BYTES, SIZE_SIGMA, SIZE_BYTES_MAX = 565e6, 4.07, 100e12
READERS_NORMAL = (-4.0, 0.0, 1.2816, 2.3263, 4.0)
READERS = (0.05, 3.0, 17.0, 45.0, 140.0)
"""Readers of a table at these standard normal deviates, in between by straight lines of logarithms."""
JOB_TABLES_MAX = 5
WORK_SECONDS, WORK_SIGMA, WORK_SECONDS_MAX = 1_200.0, 2.3, 14 * 86_400.0
WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
WIDTH_SHARES = (0.04, 0.04, 0.08, 0.24, 0.22, 0.18, 0.14, 0.052, 0.008)
HIGH_LOAD, LOW_LOAD = 0.8, 0.6
LOW, HIGH = 0, 1
STORAGE_BY_BYTES, STORAGE_BY_HOMES = 2.5, 1.3
BYTES_A_DAY = 0.02
"""Of all bytes."""


class Draw(Struct, frozen=True):
    """What is drawn."""

    tables: int = 100_000
    seed: int = 1
    cross: float = 0.05
    correlation: float = 0.5
    newest_in: int = 5
    """Regions that have the newest GPU type."""


def drawn_problem(draw: Draw) -> DataProblem:
    """Return the problem on the first day, homes as V0 has them and no other copies."""
    dice = np.random.default_rng(draw.seed)
    sizes = drawn_sizes(draw.tables, dice)
    team_of = np.arange(draw.tables) // TEAM_TABLES
    starts, tables, team_of_job = _jobs(draw, team_of, dice)
    jobs = len(starts) - 1
    job_bytes = np.add.reduceat(sizes[tables].astype(np.float64), starts[:-1])
    supply = _supply(draw, dice)
    types = dice.choice(len(TYPES), jobs, p=TYPE_SHARES)
    high = dice.random(jobs) < HIGH_LOAD / (HIGH_LOAD + LOW_LOAD)
    demand = _scaled(_demand(draw, job_bytes, dice), types, high, supply)
    by_team = np.bincount(team_of_job, demand * high, team_of[-1] + 1).astype(np.float64)
    home = _dealt(by_team)[team_of]
    share = STORAGE / STORAGE.sum()
    at_home = np.bincount(home, sizes, len(REGIONS))
    storage = np.maximum(STORAGE_BY_BYTES * share * sizes.sum(), STORAGE_BY_HOMES * at_home)
    return DataProblem(
        regions=REGIONS,
        gpu_types=TYPES,
        bands=2,
        high_band=HIGH,
        sizes=sizes,
        home=home,
        copies=np.uint64(1) << home.astype(np.uint64),
        pinned=np.zeros(draw.tables, dtype=np.bool_),
        storage=storage.astype(np.int64),
        job_starts=starts,
        job_tables=tables,
        job_type=types.astype(np.int64),
        job_band=np.where(high, HIGH, LOW).astype(np.int64),
        job_demand=demand,
        supply=supply,
        bytes_max=int(BYTES_A_DAY * sizes.sum()),
    )


def drawn_sizes(tables: int, dice: np.random.Generator) -> Ints:
    """Return (tables,) bytes."""
    sizes = np.exp(np.log(SIZE_BYTES) + SIZE_SIGMA * dice.standard_normal(tables))
    found: Ints = np.ceil(np.minimum(sizes, SIZE_BYTES_MAX)).astype(np.int64)
    return found


def drawn_readers(tables: int, dice: np.random.Generator) -> Floats:
    """Return (tables,) how many jobs read each table, before they are rounded."""
    found: Floats = np.exp(np.interp(dice.standard_normal(tables), READERS_NORMAL, np.log(READERS)))
    return found


def _jobs(draw: Draw, team_of: Ints, dice: np.random.Generator) -> tuple[Ints, Ints, Ints]:
    """Return where each job's tables begin, the tables, and the team of each job.

    Each table has a place for each of its readers. A team's places are shuffled, some are exchanged with those of all teams, and the row is cut
    into jobs; a job that would have a table twice has it once.
    """
    readers = drawn_readers(len(team_of), dice)
    places = np.repeat(np.arange(len(team_of)), np.maximum(1, np.rint(readers)).astype(np.int64))
    places = places[np.lexsort((dice.random(len(places)), team_of[places]))]
    teams = team_of[places]
    crossing = np.flatnonzero(dice.random(len(places)) < draw.cross)
    places[crossing] = places[dice.permutation(crossing)]
    cuts = np.cumsum(dice.integers(1, JOB_TABLES_MAX + 1, len(places)))
    firsts = np.searchsorted(teams, np.arange(team_of[-1] + 1))
    begins = np.unique(np.concatenate([[0], cuts[cuts < len(places)], firsts]))
    job = np.searchsorted(begins, np.arange(len(places)), side="right") - 1
    reads = np.unique(job * len(team_of) + places)
    starts = np.searchsorted(reads // len(team_of), np.arange(len(begins) + 1))
    return starts.astype(np.int64), (reads % len(team_of)).astype(np.int64), teams[begins]


def _supply(draw: Draw, dice: np.random.Generator) -> Floats:
    """Return (regions, types) GPU-seconds."""
    mix = dice.gamma(MIX_EVENNESS * np.array(TYPE_SHARES), size=(len(REGIONS), len(TYPES)))
    mix[draw.newest_in :, -1] = 0.0
    share = GPUS / GPUS.sum()
    found: Floats = SUPPLY_SECONDS * share[:, None] * mix / mix.sum(axis=1, keepdims=True)
    return found


def _demand(draw: Draw, job_bytes: Floats, dice: np.random.Generator) -> Floats:
    """Return (jobs,) GPU-seconds: drawn, and dealt by ranks that correlate with the logarithm of a job's bytes."""
    ranks, seconds, widths = attempts(draw.correlation, job_bytes, dice)
    demand = np.empty(len(job_bytes))
    demand[ranks] = seconds * widths
    return demand


def attempts(correlation: float, job_bytes: Floats, dice: np.random.Generator) -> tuple[Ints, Floats, Floats]:
    """Return the jobs by rank, and the seconds and the GPUs of the attempt that each has; those of least GPU-seconds first.

    job_bytes   (jobs,) that each job reads
    """
    count = len(job_bytes)
    by_bytes = np.log(job_bytes)
    by_bytes = (by_bytes - by_bytes.mean()) / by_bytes.std()
    rank = correlation * by_bytes + np.sqrt(1 - correlation**2) * dice.standard_normal(count)
    seconds = np.minimum(
        np.exp(np.log(WORK_SECONDS) + WORK_SIGMA * dice.standard_normal(count)), WORK_SECONDS_MAX
    )
    widths = dice.choice(WIDTHS, count, p=WIDTH_SHARES)
    order = np.argsort(seconds * widths, kind="stable")
    return np.argsort(rank, kind="stable"), seconds[order], widths[order].astype(np.float64)


def _scaled(demand: Floats, types: Ints, high: Flags, supply: Floats) -> Floats:
    """Return the demand, scaled for each type and priority to its load."""
    demand = demand.copy()
    for number in range(len(TYPES)):
        for is_high, load in ((True, HIGH_LOAD), (False, LOW_LOAD)):
            mine = (types == number) & (high == is_high)
            demand[mine] *= load * supply[:, number].sum() / max(demand[mine].sum(), 1e-300)
    return demand


def _dealt(team_demand: Floats) -> Ints:
    """Return (teams,) homes: the team with the most demand goes where the most is missing, and so on."""
    weights = (1 - STORAGE_WEIGHT) * GPUS / GPUS.sum() + STORAGE_WEIGHT * STORAGE / STORAGE.sum()
    missing = weights * team_demand.sum()
    homes = np.zeros(len(team_demand), dtype=np.int64)
    for team in np.argsort(-team_demand, kind="stable").tolist():
        homes[team] = missing.argmax()
        missing[homes[team]] -= team_demand[team]
    return homes
