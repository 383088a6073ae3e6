"""Water-filling and hierarchies: levels by hand, and those of the integer programmes on drawn problems."""

from collections.abc import Callable

import numpy as np
import pytest
from msgspec.structs import replace

from core.sharing.problem import BadProblem, SharingProblem
from core.sharing.programmes import LinearProgramme, Solution
from runtime.errors import NotSolved
from runtime.solvers.linear import solve_linear
from runtime.solvers.sharing import LINEAR, Solver, solve_shares
from tests.core.sharing.instances import BATCHES, assert_possible, crowded, job_speeds, of_speeds
from tests.runtime.solvers.certificates import highest_speed, speeds_before_rounding

NAMES = ("hierarchical_fair", "hierarchical_fifo", "water_filling")
PUBLISHED = [[10.0, 10.0], [40.0, 10.0], [100.0, 50.0]]


def test_published_levels() -> None:
    """G5, vector C: the job that gains nothing by the faster type stays at 1, and the others rise to 1.6 and 4/3."""
    problem = of_speeds(PUBLISHED, [2, 2])
    shares = solve_shares("water_filling", problem)
    assert [1.0, 1.6, 4 / 3] == pytest.approx(levels_of(problem, job_speeds(problem, shares)), rel=1e-5)
    assert 1.0 == pytest.approx(shares.objective)


@pytest.mark.parametrize("programmes", [1, 2, 3])
def test_no_level_is_left_out(programmes: int) -> None:
    """Fault 5: with a solver that is gone after a programme or two there are no shares, and never those of the first level alone."""
    problem = of_speeds(PUBLISHED, [2, 2])
    with pytest.raises(NotSolved, match="gone"):
        solve_shares("water_filling", problem, [Counting(programmes)])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seeds", BATCHES)
def test_levels_are_those_of_the_reference(seeds: range, name: str) -> None:
    """G5, G6: as with a row for each job and an integer programme for each level; ours has no integers, and two programmes a class at most."""
    from runtime.solvers.reference import water_filling as reference

    stated: Callable[[SharingProblem], object] = getattr(reference, name)
    levels = 0
    for seed in seeds:
        problem = crowded(seed, jobs=4, is_by_job=name == "hierarchical_fifo")
        problem = replace(problem, entity_weights=(("ads", 2.0), ("mail", 0.5)))
        counting = Counting()
        shares = solve_shares(name, problem, [counting])
        assert stated(problem) == pytest.approx(levels_of(problem, job_speeds(problem, shares)), abs=1e-4)
        assert_possible(problem, shares)
        assert counting.programmes <= 2 * len(problem.classes) + 1
        levels += counting.programmes > 2
    assert levels > len(seeds) / 2


@pytest.mark.parametrize("solver", LINEAR)
def test_levels_are_the_same_by_every_solver(solver: Solver) -> None:
    """G5, G31: a solver of interior points prices every class a little, and only those with a millionth of the price limit a level."""
    for seed in range(6):
        for name in NAMES:
            problem = crowded(seed, jobs=6, is_by_job=True)
            expected, levels = (
                levels_of(problem, job_speeds(problem, solve_shares(name, problem, solvers)))
                for solvers in (None, [solver])
            )
            assert expected == pytest.approx(levels, abs=1e-5)


def test_all_that_limit_a_level_stop_at_once() -> None:
    """G30: of jobs on a full type each has a part of the price by its weight, and however small it is one programme finds them all."""
    problem = of_speeds([[1.0]] * 5, [2], weight=[1.0, 2.0, 3.0, 5.0, 1e-3])
    counting = Counting()
    shares = solve_shares("water_filling", problem, [counting])
    assert 2 == counting.programmes, "the level, and the choice among shares"
    assert 2.0 / 11.001 == pytest.approx(job_speeds(problem, shares)[0], abs=1e-5)


def test_levels_that_are_close_are_told_apart() -> None:
    """G5: six jobs in pairs on three types; the levels at which types are full are 2e-4 apart, and at the last two jobs rise alike.

    Taken for saturated at the second level, one of the two has what is left of their type.
    """
    weights = [1.0, 1.0, 1.0, 1.0 - 4e-4, 1.0, 1.0 - 8e-4]
    problem = of_speeds([[1.0, 0, 0]] * 2 + [[0, 1.0, 0]] * 2 + [[0, 0, 1.0]] * 2, [1, 1, 1], weight=weights)
    speeds = job_speeds(problem, solve_shares("water_filling", problem))
    by_type = [one / (one + other) for one, other in zip(weights[::2], weights[1::2], strict=True)]
    expected = [part for one in by_type for part in (one, 1.0 - one)]
    assert expected == pytest.approx(speeds, abs=1e-5)


def test_entities_share_by_weight() -> None:
    """G6: six GPUs are four for the entity of weight 2 and two for the other, whatever the number of its jobs; by weight within."""
    problem = of_speeds([[1.0]] * 12, [6], entity=["ads"] * 8 + ["maps"] * 4, weight=[1.0] * 11 + [3.0])
    problem = replace(problem, entity_weights=(("ads", 2.0),))
    shares = solve_shares("hierarchical_fair", problem)
    assert [1 / 2] * 8 + [1 / 3] * 3 + [1.0] == pytest.approx(job_speeds(problem, shares), abs=1e-5)


def test_an_entity_leaves_what_it_cannot_use() -> None:
    """G6: two jobs have no use for more than two GPUs, though five of six are due to them; the rest is the other entity's."""
    problem = of_speeds([[1.0]] * 7, [6], entity=["ads"] * 2 + ["maps"] * 5)
    problem = replace(problem, entity_weights=(("ads", 5.0),))
    shares = solve_shares("hierarchical_fair", problem)
    assert [1.0] * 2 + [4 / 5] * 5 == pytest.approx(job_speeds(problem, shares), abs=1e-5)


def test_the_first_job_of_an_entity_goes_first() -> None:
    """G6: of four GPUs two thirds go to the entity of weight 2 until its jobs are saturated, one after the other by order."""
    problem = of_speeds([[1.0]] * 8, [4], entity=["ads", "maps"] * 4)
    last_first = tuple(replace(one, order=-one.order) for one in problem.classes)
    problem = replace(problem, classes=last_first, entity_weights=(("ads", 2.0),))
    speeds = job_speeds(problem, solve_shares("hierarchical_fifo", problem))
    assert [0.0, 2 / 3, 1.0, 1.0] == pytest.approx(speeds[::2], abs=1e-5)
    assert [0.0, 0.0, 1 / 3, 1.0] == pytest.approx(speeds[1::2], abs=1e-5)


@pytest.mark.parametrize("seeds", BATCHES)
def test_no_job_waits_for_one_behind(seeds: range) -> None:
    """G6: taking from all jobs behind it in its entity's line makes no job faster: those have what it cannot use."""
    behind_runs = 0
    for seed in seeds:
        problem = crowded(seed, jobs=8, is_by_job=True)
        speeds = speeds_before_rounding("hierarchical_fifo", problem)
        for index, one in enumerate(problem.classes):
            behind = [other.entity == one.entity and other.order > one.order for other in problem.classes]
            highest = highest_speed(problem, index, np.where(behind, 0.0, speeds))
            # Where two types are nearly equally fast, a billionth less for one job can be a ten-thousandth more for another.
            assert highest <= speeds[index] + 1e-3 * problem.proportional_speeds[index]
            behind_runs += bool(speeds[np.array(behind)].any())
    assert behind_runs > len(seeds)


def test_a_weight_must_be_more_than_nothing() -> None:
    """An entity of weight 0 is named."""
    problem = replace(of_speeds([[1.0]], [1]), entity_weights=(("ads", 0.0),))
    with pytest.raises(BadProblem, match=r"^entity ads: its weight is 0"):
        solve_shares("hierarchical_fair", problem)


class Counting:
    """HiGHS's simplex, which counts its programmes, and is gone after so many."""

    def __init__(self, programmes_max: int = 1_000) -> None:
        """Of so many programmes."""
        self.programmes = 0
        self._most = programmes_max

    def __call__(self, programme: LinearProgramme) -> Solution:
        """The solution, up to the last."""
        if self.programmes >= self._most:
            raise NotSolved("gone")
        self.programmes += 1
        return solve_linear(programme)


def levels_of(problem: SharingProblem, speeds: list[float]) -> list[float]:
    """Speeds by the proportional ones."""
    return [float(one) for one in np.array(speeds) / problem.proportional_speeds]
