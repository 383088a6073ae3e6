"""The objective: each term by hand, and what its constants promise."""

import numpy as np
import pytest

from core.data_places import price
from core.data_places.price import Prices, Terms, acting_homes
from core.data_places.problem import DataProblem
from tests.core.data_places.instances import Job, problem_of


def terms(problem: DataProblem) -> Terms:
    """Return the terms of the placement that a problem starts from."""
    return Prices(problem).terms(acting_homes(problem, problem.home, problem.held), problem.held)


def test_split_is_the_demand_of_pairs_that_are_apart() -> None:
    """Of a job of three tables, two together: 1 - (2/3)^2 - (1/3)^2 of its demand, here a quarter of all."""
    problem = problem_of([1, 1, 1], [0, 0, 1], [Job((0, 1, 2)), Job((0,), 3.0)], [[9.0], [9.0]])
    assert 4 / 9 / 4 == pytest.approx(terms(problem).split)


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        (0.4, 0.02 * 0.4),
        (0.8, 0.0),
        (0.9, 0.08 * 0.1),
        (1.0, 0.08 * 0.2 + 0.12 * 0.1),
        (1.5, 0.08 * 0.7 + 0.12 * 0.6 + 0.2 * 0.5),
        (2.5, 0.08 * 1.7 + 0.12 * 1.6 + 0.2 * 1.5 + 0.4 * 1.0),
    ],
)
def test_price_of_load_is_convex(load: float, expected: float) -> None:
    """Slopes of 0.08, 0.2, 0.4 and 0.8 from 0.8, 0.9, 1 and 1.5 of the supply on, and 0.02 below: of high priority, and a fifth of all again."""
    problem = problem_of([1], [0], [Job((0,), load)], [[1.0]])
    # Of all demand, which is the load itself; both bands have it, for the low band's includes the high one's.
    assert (1.0 + price.LOW_BAND) * expected / load == pytest.approx(terms(problem).balance)


def test_demand_without_supply_has_the_steepest_slope() -> None:
    """As if the supply were next to nothing."""
    problem = problem_of([1], [0], [Job((0,), 1.0)], [[0.0], [1.0]])
    idle = 0.02 * 0.8
    assert (1.0 + price.LOW_BAND) * (0.8 + idle) == pytest.approx(terms(problem).balance)


@pytest.mark.parametrize("tables", range(2, 8))
def test_breaking_up_a_job_never_relieves_a_region(tables: int) -> None:
    """To take one of a job's tables out of the most overloaded region raises the objective: split costs more than the steepest slope."""
    jobs = [Job(range(tables), 5.0)]
    together = problem_of([1] * tables, [0] * tables, jobs, [[1.0], [9.0]])
    apart = problem_of([1] * tables, [1] + [0] * (tables - 1), jobs, [[1.0], [9.0]])
    assert terms(together).objective < terms(apart).objective
    assert sum(price.SLOPES) + price.UNDERLOAD < price.SPLIT


def test_job_needs_all_its_tables_and_its_type_in_one_region() -> None:
    """Half of the price of its demand otherwise; copies count as homes do."""
    jobs = [Job((0, 1), 1.0, gpu_type=1)]
    supply = [[1.0, 0.0], [1.0, 1.0]]
    apart = problem_of([1, 1], [0, 0], jobs, supply)
    half = problem_of([1, 1], [0, 0], jobs, supply, held=[(0, 1)])
    whole = problem_of([1, 1], [0, 0], jobs, supply, held=[(0, 1), (1, 1)])
    assert [0.5, 0.5, 0.0] == [terms(one).uncollocated for one in (apart, half, whole)]


def test_copy_protects_if_both_regions_have_every_type() -> None:
    """M31: a table of readers of two types, at home where one is: only a copy where the other is protects it."""
    jobs = [Job((0,), gpu_type=0), Job((0,), gpu_type=1), Job((0,), gpu_type=2, band=0)]
    supply = [[1.0, 0.0, 1.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
    unprotected = [
        terms(problem_of([1], [0], jobs, supply, held=held, disaster_copies=True)).unprotected
        for held in ([], [(0, 1)], [(0, 2)])
    ]
    assert [price.UNPROTECTED, price.UNPROTECTED, 0.0] == pytest.approx(unprotected)


def test_any_copy_protects_where_no_region_has_the_missing_types() -> None:
    """No region has type 1: a copy anywhere else is as good as can be."""
    jobs = [Job((0,), gpu_type=1)]
    problem = problem_of([1], [0], jobs, [[1.0, 0.0], [1.0, 0.0]], held=[(0, 1)], disaster_copies=True)
    assert terms(problem).unprotected == 0.0


def test_hot_tables_are_wanted_in_proportion_to_supply() -> None:
    """M32: as many bytes as there are, three quarters of them where three quarters of the GPUs are, the most demand by byte first."""
    jobs = [Job((table,), 1.0 + table / 100) for table in range(16)]
    problem = problem_of([10] * 16, [2] * 16, jobs, [[3.0], [1.0], [0.0]], hot_permille=1_000)
    wanted = Prices(problem).cold > 0
    assert [12, 4, 0] == wanted.sum(axis=0).tolist()
    assert [12, 13, 14, 15] == np.flatnonzero(wanted[:, 1]).tolist()
    assert (10 * wanted.sum(axis=0) <= 0.25 * 160 * np.array([3, 1, 0])).all()


def test_small_tables_that_nobody_reads_are_wanted_last() -> None:
    """The smallest first, in what hot tables leave of the quota; each copy counts alike."""
    problem = problem_of([10, 30, 20, 10], [0] * 4, [Job((0,), 1.0)], [[1.0], [1.0]], hot_permille=1_200)
    cold = Prices(problem).cold
    assert [True, False, True, True] == (cold[:, 1] > 0).tolist()
    assert 0 < cold[3, 1] < cold[0, 1]


@pytest.mark.parametrize(("demand", "regions"), [(4.0, 0), (4.1, 2), (6.0, 2), (6.1, 3), (90.0, 3)])
def test_tables_too_wide_for_any_home_are_wanted_in_several_regions(demand: float, regions: int) -> None:
    """As many, those with the most GPUs first, as have enough GPUs; all tables of a job alike, and no others."""
    problem = problem_of(
        [10, 20, 10],
        [0, 0, 0],
        [Job((0, 1), demand), Job((2,), 1.0)],
        [[2.0], [4.0], [2.0], [0.0]],
        hot_permille=0,
    )
    wanted = Prices(problem).cold > 0
    assert [regions, regions, 0] == wanted.sum(axis=1).tolist()
    assert [1, 0, 2][:regions] == [region for region in (1, 0, 2) if wanted[0, region]]
    assert not wanted[:, 3].any()


def test_storage_is_priced_from_four_fifths_on() -> None:
    """Of 100 bytes in the region 90 are used: 10 lie above four fifths; a table more, and 20 lie above all of it."""
    few = problem_of([90], [0], [Job((0,))], [[1.0]], storage=[100])
    many = problem_of([90, 30], [0, 0], [Job((0,))], [[1.0]], storage=[100])
    assert price.FILLED * 10 / 90 == pytest.approx(terms(few).storage)
    assert (price.FILLED * 40 + price.OVERFILLED * 20) / 120 == pytest.approx(terms(many).storage)


def test_copies_that_nothing_needs_cost_nothing_while_there_is_room() -> None:
    """So plans leave what operators put there."""
    problem = problem_of([10], [0], [Job((0,))], [[1.0], [1.0]], held=[(0, 1)], extra_storage_permille=2_000)
    assert terms(problem).storage == 0.0
