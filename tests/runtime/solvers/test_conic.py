"""Conic programmes: known optima, answers that do not pass the check, and which solver answers when another fails."""

from dataclasses import dataclass

import numpy as np
import pytest
from msgspec.structs import replace

from core.sharing.policies import POLICIES
from core.sharing.policies.max_min import level_programme, units_of
from core.sharing.problem import Floats, merged
from core.sharing.programmes import Cone, ConicProgramme, LinearProgramme, Matrix, Rows, Solution
from core.sharing.times import times_of
from runtime.errors import NotSolved
from runtime.solvers.linear import INTERIOR_POINT, SIMPLEX
from runtime.solvers.sharing import LINEAR, solve, solve_shares
from tests.core.sharing.instances import drawn, of_speeds


def programme_of(
    cost: list[float], matrix: list[list[float]], offset: list[float], *cones: tuple[str, int]
) -> ConicProgramme:
    """Minimise `cost @ x` with `offset - matrix @ x` in the cones."""
    dense = np.array(matrix, dtype=np.float64)
    rows, columns = np.nonzero(dense)
    sparse = Matrix(rows.astype(np.int64), columns.astype(np.int64), dense[rows, columns], dense.shape)
    return ConicProgramme(np.array(cost), sparse, np.array(offset), tuple(Cone(*one) for one in cones))


LENGTH = programme_of([1.0], [[-1.0], [0.0], [0.0]], [0.0, 3.0, 4.0], ("second_order", 3))
"""The length of (3, 4)."""
LOGARITHM = programme_of([-1.0], [[-1.0], [0.0], [0.0]], [0.0, 1.0, 2.0], ("exponential", 3))
"""The largest t with exp(t) of 2 at most."""
CORNER = programme_of(
    [1.0, 2.0], [[1.0, 1.0], [-1.0, 0.0], [0.0, -1.0]], [1.0, 0.0, -0.25], ("zero", 1), ("positive", 2)
)
"""Two parts of 1, the dear one a quarter at least."""


@pytest.mark.parametrize(
    ("programme", "expected"), [(LENGTH, 5.0), (LOGARITHM, -np.log(2.0)), (CORNER, 1.25)]
)
def test_known_optima_are_found(programme: ConicProgramme, expected: float) -> None:
    """Each kind of cone gives the value that is known of it, and the answer bears the solver's name."""
    found = solve(programme)
    assert expected == pytest.approx(found.objective, abs=1e-7)
    assert "clarabel" == found.by


def test_no_answer_is_a_sentence() -> None:
    """What cannot be met, what has no least, and what is no number each raise NotSolved, with the words of both methods."""
    nowhere = programme_of([1.0], [[1.0], [-1.0]], [0.0, -1.0], ("positive", 2))
    with pytest.raises(NotSolved, match=r"clarabel: PrimalInfeasible; clarabel, unscaled: PrimalInfeasible"):
        solve(nowhere)
    with pytest.raises(NotSolved, match=r"clarabel: DualInfeasible"):
        solve(programme_of([-1.0], [[-1.0]], [0.0], ("positive", 1)))
    with pytest.raises(NotSolved, match=r"no number"):
        solve(replace(LENGTH, offset=np.array([0.0, np.nan, 4.0])))


@pytest.mark.parametrize("programme", [LENGTH, LOGARITHM, CORNER])
def test_wrong_answers_are_not_believed(programme: ConicProgramme) -> None:
    """Values outside a cone, values above the best, and duals that prove nothing do not pass, whatever the solver says of them."""
    from runtime.solvers.conic import (
        checked,
    )  # Imports a quarter of a second of libraries, as the other imports below do.

    right = solve(programme)
    better, worse = right.values - 1e-3 * programme.cost, right.values + 1e-3 * programme.cost
    duals = right.prices
    with pytest.raises(NotSolved, match="outside a cone"):
        checked(programme, better, duals, "test")
    if programme is not CORNER:  # Its parts sum to 1: no step along the cost keeps to that.
        with pytest.raises(NotSolved, match="above the best"):
            checked(programme, worse, duals, "test")
    with pytest.raises(NotSolved, match="above the best"):
        checked(programme, right.values, 0.5 * duals, "test")
    with pytest.raises(NotSolved, match="no numbers"):
        checked(programme, right.values, duals * np.nan, "test")


@pytest.mark.parametrize("policy", ["finish_time", "strategy_proof"])
def test_any_duals_prove_a_bound(policy: str) -> None:
    """Duals however wrong never prove more than the optimum."""
    from runtime.solvers.conic import bound_of

    dice = np.random.default_rng(1)
    for seed in range(10):
        problem, _ = merged(drawn(seed, is_by_job=True))
        programme = next(POLICIES[policy].steps(problem))
        assert isinstance(programme, ConicProgramme)
        right = solve(programme)
        for size in (1e-6, 1e-3, 0.1, 1.0):
            wrong = right.prices + dice.normal(0.0, size, len(right.prices))
            bound = bound_of(programme, right.values, wrong)
            assert bound <= right.objective + 1e-6 * max(1.0, abs(right.objective))
        near = right.objective - bound_of(programme, right.values, right.prices)
        assert 0.0 == pytest.approx(near, abs=1e-6 * max(1.0, abs(right.objective)))


def test_linear_programmes_have_the_same_optimum_as_conic_ones() -> None:
    """G31: the last resort gives what the first gives, and its prices prove it."""
    for seed in range(10):
        problem, _ = merged(drawn(seed, has_pairs=True))
        programme = level_programme(times_of(problem), units_of(problem))
        first, *_, last = (solver(programme) for solver in LINEAR)
        assert (SIMPLEX, "clarabel") == (first.by, last.by)
        assert first.objective == pytest.approx(last.objective, rel=1e-6)


@dataclass
class Broken:
    """A solver that always fails, and how often it was asked."""

    name: str
    asked: int = 0

    def __call__(self, programme: LinearProgramme) -> Solution:
        self.asked += 1
        raise NotSolved(f"{self.name}: broken")


def test_next_solver_answers_when_one_fails() -> None:
    """G31: each in its turn, with the same shares; the answer says by whom."""
    problem = of_speeds([[40, 10], [12, 4], [100, 50]], [1, 1])
    expected = solve_shares("max_min", problem)
    for count, name in enumerate((SIMPLEX, INTERIOR_POINT, "clarabel")):
        broken = [Broken(f"{index}") for index in range(count)]
        shares = solve_shares("max_min", problem, [*broken, *LINEAR[count:]])
        assert name == shares.by
        assert expected.objective == pytest.approx(shares.objective, rel=1e-6)
        assert expected.alone.tolist() == [pytest.approx(row, abs=20) for row in shares.alone.tolist()]
        assert [2] * count == [one.asked for one in broken], "both programmes, the level and the face"


def test_failure_of_all_solvers_says_what_each_said() -> None:
    """G31: then there is no answer, and a sentence with all of them."""
    problem = of_speeds([[1.0]], [1])
    with pytest.raises(NotSolved, match="first: broken; second: broken"):
        solve_shares("max_min", problem, [Broken("first"), Broken("second")])


def test_wrong_answer_of_a_solver_is_passed_over() -> None:
    """G31: an answer that does not pass its check is as good as none."""
    from runtime.solvers.linear import checked

    def mistaken(programme: LinearProgramme) -> Solution:
        right = LINEAR[0](programme)
        values: Floats = right.values * 0.9
        return checked(programme, values, right.prices, "mistaken")

    problem = of_speeds([[40, 10], [12, 4]], [1, 1])
    shares = solve_shares("max_min", problem, [mistaken, *LINEAR[1:]])
    assert INTERIOR_POINT == shares.by
    assert solve_shares("max_min", problem).objective == pytest.approx(shares.objective, rel=1e-6)


def test_answer_is_feasible_and_the_best_or_is_none() -> None:
    """G31: a linear answer that misses a row by 2e-6, or is 2e-6 below the best, is refused; half of that is a solver's tolerance."""
    from runtime.solvers.linear import checked

    rows = Rows(2)
    rows.add(np.array([0, 0]), np.array([0, 1]), 1.0, -np.inf, 1.0, 1)
    programme = rows.programme(np.array([1.0, 2.0]), np.zeros(2), np.ones(2))
    prices = np.array([2.0])
    assert 2.0 == checked(programme, np.array([0.0, 1.0]), prices, "").objective
    assert checked(programme, np.array([1e-6, 1.0 - 1e-6]), prices, "").objective < 2.0
    with pytest.raises(NotSolved, match="misses a row"):
        checked(programme, np.array([4e-6, 1.0]), prices, "")
    with pytest.raises(NotSolved, match="below the best"):
        checked(programme, np.array([4e-6, 1.0 - 4e-6]), prices, "")
    with pytest.raises(NotSolved, match="below the best"):
        checked(programme, np.array([0.0, 1.0]), np.array([3.0]), "")


@pytest.mark.parametrize(("jobs", "weight"), [(15_000, 5.0), (3, 1e7), (3, 1e-6)])
def test_a_tolerance_is_of_the_level(jobs: int, weight: float) -> None:
    """However small or large levels are by their units, the best is found to a millionth of itself."""
    problem = of_speeds([[1.0]], [2], weight=[weight], count=[jobs])
    assert 2 / jobs / weight == pytest.approx(solve_shares("max_min", problem).objective, rel=1e-6)
    makespan = of_speeds([[1.0]] * 40, [2], steps=[weight] * 40)
    assert 20.0 * weight == pytest.approx(solve_shares("makespan", makespan).objective, rel=1e-6)


def test_second_conic_method_answers_when_the_first_fails() -> None:
    """Fault 8: a conic solver that gives up stops nobody: the next answers, and when none does its words are told."""
    from runtime.solvers.conic import METHODS, UNSCALED, solve_conic

    problem, _ = merged(drawn(1, is_by_job=True))
    programme = next(POLICIES["finish_time"].steps(problem))
    assert isinstance(programme, ConicProgramme)
    tired = {"tired": {"max_iter": 2}, UNSCALED: METHODS[UNSCALED]}
    found = solve_conic(programme, tired)
    assert UNSCALED == found.by
    assert solve(programme).objective == pytest.approx(found.objective, rel=1e-6)
    with pytest.raises(NotSolved, match="tired: MaxIterations; late: MaxTime"):
        solve_conic(programme, {"tired": {"max_iter": 2}, "late": {"time_limit": 0.0}})
