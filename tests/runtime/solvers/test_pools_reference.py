"""Pools of nodes: the solver's answers beside the optimum of the problem as it is stated."""

import pytest

from core.pooling.figures import gpus_of, shortage_of
from core.pooling.problem import MOVE, MOVE_IN_USE
from runtime.solvers.pools import GAP, solve_pools
from tests.core.pooling.instances import drawn

CASES = 100


def assert_best(seed: int) -> None:
    """Shortage, objective, and the nodes moved are the reference's. Where two best answers moved different numbers, this would not hold."""
    from runtime.solvers.pools_reference import (
        solve_pools as reference,
    )  # Imports cvxpy, which every process of the tests would load.

    problem = drawn(seed)
    answer, optimum = solve_pools(problem), reference(problem)
    assert optimum.shortage == shortage_of(problem, gpus_of(problem, answer.moves))
    tolerance = 2 * GAP * max(MOVE, optimum.cost)
    assert optimum.objective == pytest.approx(answer.objective, rel=0, abs=tolerance)
    assert answer.bound <= optimum.objective + tolerance
    costs = [(one.count, problem.cost(problem.classes[one.node_class], one.pool)) for one in answer.moves]
    assert optimum.cost == pytest.approx(answer.cost, rel=0, abs=tolerance)
    assert optimum.moved == sum(count for count, _ in costs)
    assert optimum.moved_in_use == sum(count for count, cost in costs if cost == MOVE_IN_USE)


@pytest.mark.parametrize("seed", range(5))
def test_answer_is_the_optimum(seed: int) -> None:
    """Small cases: up to four pools, two types and five power domains."""
    assert_best(seed)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_answer_is_the_optimum_in_a_hundred_cases() -> None:
    """In more than half of them something is short; in others work waits, pools spread, moves have begun, or nodes differ in size."""
    for seed in range(CASES):
        assert_best(seed)
