"""Tetris' objective, constraints, hill climbing and copies as they were published, by hand."""

import math

import numpy as np
import pytest
from msgspec.structs import replace

from core.data_places.price import Prices
from core.data_places.problem import DataProblem, Floats
from core.data_places.published import (
    NO_REGION,
    PublishedProblem,
    Regime,
    broken,
    demand_of_jobs,
    imbalance,
    published_objective,
    region_of_jobs,
    storage_imbalance,
    traffic,
)
from core.data_places.published_copies import published_copies
from core.data_places.published_search import climbed
from tests.core.data_places.instances import MUCH, Job, drawn, problem_of

HOUR = 3_600.0
JOBS = [
    Job((0, 1), 4 * HOUR),
    Job((0, 2), 2 * HOUR),
    Job((2,), 1 * HOUR, gpu_type=1),
    Job((0, 1, 2), 3 * HOUR, band=0),
]
EXAMPLE = problem_of(
    [10, 20, 40], [0, 0, 1], JOBS, [[3 * HOUR, 2 * HOUR], [3 * HOUR, 2 * HOUR]], storage=[100, 300]
)
"""The first job has a common home, the second and the last have none, the third is at home in the second region."""


def published(problem: DataProblem, **others: object) -> PublishedProblem:
    """Return a problem with the weights 1, 1 and 1, a half for low priority; V2 unless told otherwise."""
    fields: dict[str, object] = {"traffic_weight": 1.0, "balance_weight": 1.0, "storage_weight": 1.0} | others
    return PublishedProblem(problem, band_weights=(0.5, 1.0), **fields)  # type: ignore[arg-type]  # by name


def test_region_of_training_is_the_common_home_and_of_analytics_the_majority() -> None:
    """M28: training without a common home has no region; analytics has that of most of its tables, the first where two have as many."""
    training = region_of_jobs(published(EXAMPLE), EXAMPLE.home)
    assert [0, NO_REGION, 1, NO_REGION] == training.tolist()
    analytics = published(EXAMPLE, analytics=np.array([False, True, False, True]))
    assert [0, 0, 1, 0] == region_of_jobs(analytics, EXAMPLE.home).tolist()


def test_bytes_read_across_regions_by_hand() -> None:
    """M27, M28: (1): all bytes of a training job without a region; of analytics those of tables that are elsewhere."""
    assert (10 + 40) + (10 + 20 + 40) == traffic(published(EXAMPLE), EXAMPLE.home)
    analytics = published(EXAMPLE, analytics=np.array([False, True, False, True]))
    assert 40 + 40 == traffic(analytics, EXAMPLE.home)


def test_imbalance_by_hand() -> None:
    """M27: (2): type x has 4 hours of high priority, all in the first region, which has 3; type y has 1 in the second, which has 2."""
    demand = demand_of_jobs(published(EXAMPLE), EXAMPLE.home)
    assert [[[0, 4], [0, 0]], [[0, 0], [0, 1]]] == (demand / HOUR).tolist()
    overload = 1 / (1 + math.exp(-1))
    # Nothing of low priority has a region: its shares are 0, and half of the supply is due to each.
    high = (1 - 0.5) ** 2 * overload + (0 - 0.5) ** 2 / 2 + (0 - 0.5) ** 2 / 2 + (1 - 0.5) ** 2 / 2
    low = 0.5 * (0.25 * overload + 0.25 / 2 + 0.25 / 2 + 0.25 / 2)
    assert high + low == pytest.approx(float(imbalance(published(EXAMPLE), demand)))
    first = published(EXAMPLE, weighs_overload=False)
    assert 4 * 0.25 + 0.5 * 4 * 0.25 == pytest.approx(float(imbalance(first, demand)))


@pytest.mark.parametrize(
    ("load", "factor"), [(0.8, 0.5), (1.0, 1 / (1 + math.exp(-0.6))), (1.2, 1 / (1 + math.exp(-1.32)))]
)
def test_overload_costs_at_most_twice_underload(load: float, factor: float) -> None:
    """M30: shares of 0.6 and 0.4 of a type of which each region has half: the factor of the first is 1/2 without overload, and below 1 with it."""
    one = replace(published(EXAMPLE), band_weights=(0.0, 1.0))
    demand = np.zeros((2, 2, 2))
    demand[:, 0, 1] = np.array([0.6, 0.4]) * load * 6 * HOUR
    of_the_other_type = 2 * 0.5**2 * 0.5
    assert 0.1**2 * (factor + 0.5) == pytest.approx(float(imbalance(one, demand)) - of_the_other_type)


def test_storage_imbalance_by_hand() -> None:
    """M27: (3): 30 of 70 bytes where a quarter of the storage is, 40 where three quarters are."""
    used = np.array([30.0, 40.0])
    expected = (30 / 70 - 0.25) ** 2 + (40 / 70 - 0.75) ** 2
    assert expected == pytest.approx(float(storage_imbalance(published(EXAMPLE), used)))


def test_objective_has_the_weights() -> None:
    """M27: 2 x (1) + 3 x (2) + 5 x (3)."""
    one = published(EXAMPLE, traffic_weight=2.0, balance_weight=3.0, storage_weight=5.0)
    demand = demand_of_jobs(one, EXAMPLE.home)
    stored = float(storage_imbalance(one, np.array([30.0, 40.0])))
    expected = 2 * traffic(one, EXAMPLE.home) + 3 * float(imbalance(one, demand)) + 5 * stored
    assert expected == pytest.approx(published_objective(one, EXAMPLE.home))


def test_constraints_by_hand() -> None:
    """M27: (4) storage, (5) CPU of applications, (6) demand of high priority where its GPUs are."""
    assert [] == broken(published(EXAMPLE, least_on_gpus=5 * HOUR), EXAMPLE.home)
    assert ["gpus"] == broken(published(EXAMPLE, least_on_gpus=5 * HOUR + 1), EXAMPLE.home)
    full = replace(EXAMPLE, storage=np.array([29, 300], dtype=np.int64))
    assert ["storage"] == broken(published(full), EXAMPLE.home)
    fields = {"app": np.array([0, 0, 1, 1]), "cpu": np.array([5.0, 9.0, 2.0, 9.0])}
    assert [] == broken(
        published(EXAMPLE, cpu_capacity=np.array([[5.0, 0], [0, 2.0]]), **fields), EXAMPLE.home
    )
    assert ["cpu"] == broken(
        published(EXAMPLE, cpu_capacity=np.array([[4.0, 0], [0, 2.0]]), **fields), EXAMPLE.home
    )


def climbing(seed: int, **others: object) -> PublishedProblem:
    """Return a drawn problem that is climbed for."""
    problem = drawn(seed, tables=30, jobs=30)
    read = float(problem.sizes[problem.job_tables].sum())
    return published(problem, traffic_weight=1 / read, balance_weight=100.0, storage_weight=0.1, **others)


@pytest.mark.parametrize("overload", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_climb_never_rises_and_keeps_the_bytes(seed: int, *, overload: bool) -> None:
    """M29: the objective told after each move is that from scratch, and falls; the day's bytes are not exceeded; each table moves once."""
    one = climbing(seed, weighs_overload=overload)
    problem = one.problem
    day = climbed(one, problem.bytes_max)
    home = problem.home.copy()
    told = [published_objective(one, home)]
    for table in day.tables.tolist():
        home[table] = day.home[table]
        told.append(published_objective(one, home))
    assert (home == day.home).all()
    assert told == pytest.approx(day.objectives.tolist())
    assert (np.diff(day.objectives) < 0).all()
    assert problem.sizes[day.tables].sum() <= problem.bytes_max
    assert len(set(day.tables.tolist())) == len(day.tables)
    assert not problem.pinned[day.tables].any()


def test_first_move_is_the_best_of_all() -> None:
    """M29: what is taken first of the queue gains most, as trying every move shows."""
    one = climbing(3)
    problem = one.problem
    before, best = published_objective(one, problem.home), 0.0
    for table in np.flatnonzero(~problem.pinned).tolist():
        for region in range(3):
            home = problem.home.copy()
            home[table] = region
            used = np.bincount(home, problem.sizes, 3)
            if region == problem.home[table] or used[region] <= problem.storage[region]:
                best = max(best, before - published_objective(one, home))
    day = climbed(one, MUCH)
    assert best == pytest.approx(day.objectives[0] - day.objectives[1])


@pytest.mark.parametrize("seed", range(6))
def test_no_move_breaks_a_constraint(seed: int) -> None:
    """M27: storage, CPU and GPUs that were kept before are kept after each move."""
    one = climbing(seed)
    problem = one.problem
    jobs, dice = len(problem.job_type), np.random.default_rng(seed)
    app, cpu = dice.integers(0, 2, jobs), dice.uniform(1, 5, jobs)
    region = region_of_jobs(one, problem.home)
    capacity = np.zeros((2, 3))
    np.add.at(capacity, (app[region >= 0], region[region >= 0]), cpu[region >= 0])
    on_gpus = problem.is_high & (region >= 0) & (problem.supply[region, problem.job_type] > 0)
    least = float(problem.job_demand[on_gpus].sum()) * 0.9
    bound = replace(one, app=app, cpu=cpu, cpu_capacity=capacity + 4.0, least_on_gpus=least)
    assert [] == broken(bound, problem.home)
    home, free = problem.home.copy(), climbed(one, MUCH)
    day = climbed(bound, MUCH)
    for table in day.tables.tolist():
        home[table] = day.home[table]
        assert [] == broken(bound, home)
    assert len(day.tables) <= len(free.tables)


def excess(one: PublishedProblem, home: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Floats:
    """Return (regions, types) demand beyond supply."""
    found: Floats = np.maximum(demand_of_jobs(one, home).sum(axis=2) - one.problem.supply, 0.0)
    return found


def test_regimes_of_gpus() -> None:
    """M27: under a hard quota no move overloads a region that it adds to, under hard balance no excess grows; both block moves that soft balance makes."""
    moves = dict.fromkeys(Regime, 0)
    for seed in range(8):
        for regime in (Regime.SOFT_BALANCE, Regime.HARD_QUOTA, Regime.HARD_BALANCE):
            one = climbing(seed, gpu=regime)
            day = climbed(one, MUCH)
            moves[regime] += len(day.tables)
            home = one.problem.home.copy()
            for table in day.tables.tolist():
                before, target = excess(one, home), day.home[table]
                demand = demand_of_jobs(one, home)[target].sum(axis=1)
                home[table] = target
                after = excess(one, home)
                grew = demand_of_jobs(one, home)[target].sum(axis=1) > demand + 1e-9
                if regime == Regime.HARD_QUOTA:
                    assert (after[target][grew] <= 1e-9).all()
                if regime == Regime.HARD_BALANCE:
                    assert (after <= before + 1e-9).all()
    assert moves[Regime.SOFT_BALANCE] > moves[Regime.HARD_QUOTA]
    assert moves[Regime.SOFT_BALANCE] > moves[Regime.HARD_BALANCE]


def test_storage_that_is_exceeded_already_may_stay_so_under_hard_balance() -> None:
    """M27: the quota refuses a move into a region that is too full; balance refuses one that makes it fuller than it was."""
    jobs = [Job((0,), 9 * HOUR), Job((1,), 1 * HOUR)]
    problem = problem_of([10, 10, 30], [0, 0, 1], jobs, [[1.0 * HOUR], [9.0 * HOUR]], storage=[100, 35])
    for regime, moved in ((Regime.FREE, 1), (Regime.HARD_QUOTA, 0), (Regime.HARD_BALANCE, 0)):
        day = climbed(published(problem, storage=regime, storage_weight=0.0), MUCH)
        assert moved == len(day.tables)


@pytest.mark.parametrize(("weighs_overload", "first"), [(False, 0), (True, 2)])
def test_second_version_relieves_overload_first(*, weighs_overload: bool, first: int) -> None:
    """M30: the shares of two types deviate alike; V1 takes the first table, V2 that of the type of which a region has too much."""
    jobs = [
        Job((0,), 1 * HOUR, 0), Job((1,), 4 * HOUR, 0),
        Job((2,), 10 * HOUR, 1), Job((3,), 40 * HOUR, 1), Job((4,), 3 * HOUR, 0), Job((5,), 30 * HOUR, 1),
    ]  # fmt: skip
    supply = [[20 * HOUR, 41 * HOUR], [20 * HOUR, 41 * HOUR]]
    problem = problem_of([10] * 6, [0, 0, 0, 0, 1, 1], jobs, supply, bytes_max=10)
    one = published(problem, weighs_overload=weighs_overload, storage_weight=0.0)
    assert [first] == climbed(one, 10).tables.tolist()


def test_copies_go_where_the_gpus_are() -> None:
    """M31: jobs without a common home or without GPUs at home, those with the most demand first, in the region with the largest supply."""
    jobs = [Job((0, 1), 1.0, 0), Job((2,), 2.0, 1), Job((3,), 9.0, 0)]
    supply = [[2.0, 0.0], [3.0, 4.0], [4.0, 3.0]]
    problem = problem_of([10] * 4, [0, 1, 0, 0], jobs, supply)
    held = published_copies(Prices(problem), problem.home, problem.held, 100)
    assert [[0, 2], [1, 2], [0, 1], [0]] == [np.flatnonzero(row).tolist() for row in held]
    few = published_copies(Prices(problem), problem.home, problem.held, 19)
    assert [[0], [1], [0, 1], [0]] == [np.flatnonzero(row).tolist() for row in few]
    full = replace(problem, storage=np.array([MUCH, MUCH, 15], dtype=np.int64))
    held = published_copies(Prices(full), full.home, full.held, 100)
    assert [[0, 1], [1], [0, 1], [0]] == [np.flatnonzero(row).tolist() for row in held]


def test_copies_of_hot_tables_keep_quota_and_storage() -> None:
    """M32: a quota by supply in each region, the tables with the most demand first."""
    jobs = [Job((table,), 1.0 + table / 100) for table in range(16)]
    problem = problem_of(
        [10] * 16, [2] * 16, jobs, [[3.0], [1.0], [1.0]], hot_permille=1_000, storage=[45, 99, 999]
    )
    held = published_copies(Prices(problem), problem.home, problem.held, MUCH)
    assert [12, 13, 14, 15] == np.flatnonzero(held[:, 0]).tolist()
    assert 10 * held[:, 1].sum() <= 160 / 5


def test_every_table_gets_a_copy_outside_its_home() -> None:
    """M31: where the types are that its home lacks, and the most storage is left."""
    jobs = [Job((0,), 1.0, 0), Job((0,), 1.0, 1), Job((1,), 1.0, 0)]
    supply = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    problem = problem_of([10, 10], [0, 0], jobs, supply, disaster_copies=True, storage=[99, 500, 100])
    held = published_copies(Prices(problem), problem.home, problem.held, MUCH)
    assert held[0, 2]
    assert held[1, 1]
    assert not held[1, 2]
