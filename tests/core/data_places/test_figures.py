"""The figures that operators read, by hand."""

import pytest
from msgspec.structs import replace

from core.data_places.figures import figures_of
from tests.core.data_places.instances import Job, problem_of

JOBS = [
    Job((0, 1), 4.0),
    Job((0, 2), 2.0),
    Job((2,), 1.0),
    Job((3,), 1.0, gpu_type=1),
    Job((3,), 9.0, band=0),
]
PROBLEM = problem_of(
    [10, 10, 10, 10],
    [0, 0, 1, 1],
    JOBS,
    [[5.0, 5.0], [4.0, 0.0]],
    held=[(2, 0)],
    storage=[25, 100],
)


def test_figures_by_hand() -> None:
    """Of 8 GPU-seconds of high priority 6 are at home in the first region, of whose two tables each a tie goes to it, and 2 in the second."""
    found = figures_of(PROBLEM, PROBLEM.home, PROBLEM.copies)
    assert 6 / 10 == found.worst
    assert (6 / 10 - 2 / 4) / 2**0.5 == pytest.approx(found.std)
    assert (4 + 1) / 8 == found.home_rate
    assert (4 + 2 + 1) / 8 == found.collocation
    assert 30 - 25 == found.storage_over
    assert 1 / 4 == found.extra_storage
    # Only the third table has a copy elsewhere.
    assert 1 / 4 == found.protected


def test_region_without_stated_storage_is_never_too_full() -> None:
    """Nobody said what it can hold."""
    problem = problem_of([10], [0], [Job((0,))], [[1.0]], storage=[-1])
    assert figures_of(problem, problem.home, problem.copies).storage_over == 0


def test_table_without_home_counts_where_it_is_first() -> None:
    """It has no home to tell, and its readers run where it is."""
    problem = problem_of([10], [-1], [Job((0,), 2.0)], [[1.0], [4.0], [1.0]], held=[(0, 1), (0, 2)])
    assert 2 / 4 == figures_of(problem, problem.home, problem.copies).worst


def test_no_work_and_no_tables_have_figures() -> None:
    """Shares of nothing are 0, and nothing is unprotected."""
    problem = problem_of([], [], [], [[1.0], [1.0]])
    found = figures_of(problem, problem.home, problem.copies)
    assert (0.0, 0.0, 0.0, 0.0, 1.0) == (
        found.worst,
        found.std,
        found.home_rate,
        found.extra_storage,
        found.protected,
    )
    assert figures_of(replace(problem, supply=problem.supply * 0), problem.home, problem.copies).worst == 0.0
