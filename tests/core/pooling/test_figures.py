"""Figures of an answer by hand."""

import pytest

from core.pooling.figures import (
    cost_of,
    gained_of,
    gpus_of,
    left_of,
    objective_of,
    short_now_of,
    short_of,
    shortage_of,
    spread_by_type,
    worth_by_type,
)
from core.pooling.problem import MOVE, MOVE_FROM_FREE, MOVE_IN_USE, SHORT_NOW, SPREAD, WANT, Moved
from tests.core.pooling.instances import like, problem_of

CLASSES = [like(3, 0, 0), like(1, 0, 1), like(2, 1, 1), like(1, 1, 0, is_in_use=True), like(2, 2, 1, going=0)]


def test_moves_take_gpus_from_one_pool_to_another() -> None:
    """Without moves nodes count where they are, also those that are going."""
    problem = problem_of(CLASSES, [[0], [0], [0]])
    assert [[24, 8]] == gpus_of(problem)[0].tolist()
    assert [[0, 16]] == gpus_of(problem)[2].tolist()
    after = gpus_of(problem, [Moved(2, 0, 1), Moved(4, 0, 2)])
    assert [[[24, 32]], [[8, 8]], [[0, 0]]] == after.tolist()


def test_the_worst_domain_is_lost() -> None:
    """A pool in one domain has nothing left."""
    problem = problem_of(CLASSES, [[0], [0], [0]])
    assert [[8], [8], [0]] == left_of(gpus_of(problem)).tolist()
    assert [[0]] == left_of(gpus_of(problem_of([], [[1]]))).tolist()


def test_short_counts_the_loss_only_for_pools_that_are_to_survive_it() -> None:
    """What lacks already weighs more."""
    problem = problem_of(CLASSES, [[20], [20], [20]], survives=(True, False, False))
    gpus = gpus_of(problem)
    assert [[0], [0], [4]] == short_now_of(problem, gpus).tolist()
    assert [[12], [0], [4]] == short_of(problem, gpus).tolist()
    assert 12 + 4 + SHORT_NOW * 4 == shortage_of(problem, gpus)


def test_moves_cost_by_node() -> None:
    """A node in use costs more, one of the pool `free` less."""
    problem = problem_of(CLASSES, [[0], [0], [0]], free=2)
    moves = [Moved(2, 0, 2), Moved(3, 0, 1), Moved(4, 1, 2)]
    assert 2 * MOVE + MOVE_IN_USE + 2 * MOVE_FROM_FREE == cost_of(problem, moves)


def test_gained_is_at_most_wanted_and_negative_where_nodes_left() -> None:
    """Pools without work that waits gain nothing that counts."""
    problem = problem_of(CLASSES, [[0], [0], [0]], wants=[[12], [5], [0]])
    gpus = gpus_of(problem, [Moved(2, 0, 2)])
    assert [[12], [-16], [0]] == gained_of(problem, gpus).tolist()


def test_objective_is_cost_less_worth_and_spread() -> None:
    """Worth is relative to a node of mean size, and the cost of largest domains to all GPUs of the type."""
    classes = [*CLASSES, like(3, 2, 0, gpus=16)]
    problem = problem_of(classes, [[0], [0], [0]], wants=[[8], [0], [0]], spreads=(True, True, False))
    gpus, nodes = 9 * 8 + 3 * 16, 12
    assert [WANT * nodes / gpus] == worth_by_type(problem).tolist()
    assert [SPREAD / gpus] == spread_by_type(problem).tolist()
    expected = MOVE - 8 * WANT * nodes / gpus + SPREAD * (24 + 8) / gpus
    assert objective_of(problem, [Moved(2, 0, 1)]) == pytest.approx(expected)


def test_all_in_one_domain_costs_less_than_a_move() -> None:
    """Whatever the number of types."""
    classes = [like(4, 0, node_type=kind) for kind in range(3)]
    problem = problem_of(classes, [[0] * 3], spreads=(True,))
    assert objective_of(problem, []) == pytest.approx(SPREAD)
