"""Pools of nodes: small problems by hand, and properties of answers to drawn ones."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.pooling.figures import gpus_of, objective_of, shortage_of
from core.pooling.problem import MOVE, MOVE_FROM_FREE, MOVE_IN_USE, Moved, Pooled, PoolingProblem
from runtime.solvers import pools
from runtime.solvers.pools import GAP, solve_pools
from tests.core.pooling.instances import drawn, like, problem_of
from tests.core.properties import PROPERTY

DRAWN = st.integers(0, 1 << 20).map(drawn)


def moved(answer: Pooled) -> dict[tuple[int, int], int]:
    """Return the nodes that move by class and new pool."""
    return {(one.node_class, one.pool): one.count for one in answer.moves}


def assert_holds(problem: PoolingProblem, answer: Pooled) -> None:
    """The counts are possible, and the figures are those of a recount in plain numbers."""
    leaves: Counter[int] = Counter()
    left: Counter[tuple[int, int, int]] = Counter()
    for one in problem.classes:
        left[one.pool, one.node_type, one.domain] += one.count * one.gpus
    for move in answer.moves:
        one = problem.classes[move.node_class]
        assert move.count > 0
        assert move.pool != one.pool
        leaves[move.node_class] += move.count
        left[one.pool, one.node_type, one.domain] -= move.count * one.gpus
        left[move.pool, one.node_type, one.domain] += move.count * one.gpus
    assert all(count <= problem.classes[index].count for index, count in leaves.items())
    assert leaves.total() <= problem.moves_max
    assert answer.moves == tuple(sorted(answer.moves, key=lambda one: (one.node_class, one.pool)))
    domains = range(len(problem.domains))
    for pool, needs in enumerate(problem.needs):
        for kind, need in enumerate(needs):
            has = sum(left[pool, kind, domain] for domain in domains)
            without = [has - left[pool, kind, domain] for domain in domains]
            assert answer.has[pool][kind] == has
            assert answer.left[pool][kind] == min(without)
            assert answer.short_now[pool][kind] == max(0, need - has)
            least = min(without) if problem.survives[pool] else has
            assert answer.short[pool][kind] == max(0, need - least)
            if problem.survives[pool] and not answer.short[pool][kind]:
                assert all(gpus >= need for gpus in without)
    assert answer.cost == sum(
        one.count * problem.cost(problem.classes[one.node_class], one.pool) for one in answer.moves
    )
    assert answer.bound <= answer.objective == objective_of(problem, answer.moves)


def solved(problem: PoolingProblem) -> Pooled:
    """Return the answer, recounted, and the best as far as the gap tells."""
    answer = solve_pools(problem)
    assert_holds(problem, answer)
    assert answer.gap <= 2 * GAP
    return answer


def test_pool_in_one_domain_survives_nothing() -> None:
    """With one power domain alone nothing is left after its loss: the whole need is short, and no move would help."""
    answer = solved(problem_of([like(10, 0), like(5, 1)], [[40], [0]], survives=(True, False)))
    assert () == answer.moves
    assert ((0,), (0,)) == answer.left
    assert ((40,), (0,)) == answer.short
    assert ((0,), (0,)) == answer.short_now


def test_need_is_met_from_free_first() -> None:
    """Nodes of the pool `free` come before as many idle ones of another pool."""
    answer = solved(problem_of([like(3, 1), like(2, 2)], [[24], [0], [0]], free=2))
    assert {(0, 0): 1, (1, 0): 2} == moved(answer)
    assert 2 * MOVE_FROM_FREE + MOVE == answer.cost
    assert not any(map(any, answer.short))


def test_used_node_moves_only_if_no_idle_one_is_left() -> None:
    """One of two idle nodes is enough for one node's GPUs; for three nodes' GPUs one in use moves, too."""
    classes = [like(2, 1), like(3, 1, is_in_use=True)]
    assert {(0, 0): 1} == moved(solved(problem_of(classes, [[8], [0]])))
    answer = solved(problem_of(classes, [[24], [0]]))
    assert {(0, 0): 2, (1, 0): 1} == moved(answer)
    assert 2 * MOVE + MOVE_IN_USE == answer.cost


def test_used_node_of_another_pool_stays_where_idle_ones_of_a_second_step_do() -> None:
    """A pool gives its idle node and gets another: two moves of idle nodes are cheaper than one of a node in use."""
    classes = [like(1, 1, 0), like(1, 1, 1, is_in_use=True), like(1, 2, 1), like(1, 0, 1)]
    answer = solved(problem_of(classes, [[8], [16], [0]], survives=(True, False, False)))
    assert {(0, 0): 1, (2, 1): 1} == moved(answer)


def test_going_node_is_kept_while_it_is_needed() -> None:
    """A move of a used node that has begun costs as a move, so it goes on; the one that is not needed is called back."""
    classes = [like(3, 1, is_in_use=True), like(2, 1, going=0, is_in_use=True)]
    answer = solved(problem_of(classes, [[8], [0]]))
    assert {(1, 0): 1} == moved(answer)
    assert MOVE == answer.cost


def test_going_node_is_called_back_where_the_need_has_ended() -> None:
    """Without a need the nodes stay, and that costs nothing."""
    answer = solved(problem_of([like(2, 1, going=0, is_in_use=True)], [[0], [0]]))
    assert ((), 0) == (answer.moves, answer.cost)


def test_going_node_that_another_pool_needs_costs_as_one_in_use() -> None:
    """Taking it elsewhere is a new move of a node in use."""
    answer = solved(problem_of([like(2, 1, going=0, is_in_use=True)], [[0], [0], [8]]))
    assert {(0, 2): 1} == moved(answer)
    assert MOVE_IN_USE == answer.cost


def test_no_more_move_than_may() -> None:
    """The bound on moves counts nodes that go where they were going, and what cannot come is short."""
    classes = [like(4, 1), like(1, 1, going=0, is_in_use=True)]
    answer = solved(problem_of(classes, [[40], [0]], moves_max=3))
    assert 3 == sum(moved(answer).values())
    assert ((16,), (0,)) == answer.short_now == answer.short
    nothing = solved(problem_of(classes, [[40], [0]], moves_max=0))
    assert () == nothing.moves
    assert ((40,), (0,)) == nothing.short


def test_bound_on_moves_is_one_for_all_types() -> None:
    """Each type alone would keep to the bound, and both do not: what is missing now comes before what would be after a loss."""
    classes = [like(4, 1), like(2, 1, 0, node_type=1), like(2, 1, 1, node_type=1), like(4, 0, 1, node_type=1)]
    needs = [[16, 24], [0, 0]]
    answer = solved(problem_of(classes, needs, survives=(True, False), moves_max=3))
    assert 3 == sum(moved(answer).values())
    assert ((0, 0), (0, 0)) == answer.short_now
    assert ((16, 16), (0, 0)) == answer.short
    assert 2 == sum(count for (index, _), count in moved(answer).items() if index == 0)


def test_work_that_waits_moves_idle_nodes_only() -> None:
    """Idle nodes move up to the GPUs wanted; nodes in use do not, however much is wanted."""
    classes = [like(2, 1), like(5, 1, is_in_use=True)]
    assert {(0, 0): 2} == moved(solved(problem_of(classes, [[0], [0]], wants=[[80], [0]])))
    assert {(0, 0): 1} == moved(solved(problem_of(classes, [[0], [0]], wants=[[8], [0]])))


def test_work_that_waits_breaks_no_need() -> None:
    """An idle node that its pool needs stays, and so does one that the pool needs to survive a loss."""
    classes = [like(2, 1, 0), like(2, 1, 1)]
    assert () == solved(problem_of(classes, [[0], [32]], wants=[[8], [0]])).moves
    problem = problem_of(classes, [[0], [16]], wants=[[8], [0]], survives=(False, True))
    assert () == solved(problem).moves


def test_work_that_waits_in_two_pools_passes_no_nodes_around() -> None:
    """A pool with such work loses by a node as much as the other gains."""
    classes = [like(2, 0), like(2, 1)]
    assert () == solved(problem_of(classes, [[0], [0]], wants=[[16], [16]])).moves


def test_pool_that_spreads_takes_from_where_it_has_least() -> None:
    """At equal cost the largest domain is kept small; a pool that does not spread has no such wish, and nothing moves for it alone."""
    classes = [like(2, 0, 0), like(1, 0, 1), like(4, 1, 0), like(4, 1, 1), like(4, 1, 2)]
    answer = solved(problem_of(classes, [[48], [0]], spreads=(True, False)))
    assert 3 * MOVE == answer.cost
    assert 16 == gpus_of(problem_of(classes, [[48], [0]]), answer.moves)[0, 0].max()
    assert () == solved(problem_of(classes, [[24], [0]], spreads=(True, False))).moves


def test_needs_that_compete_are_short_together_by_what_is_missing() -> None:
    """Two pools need 40 GPUs each of 48: 32 are short, whoever has them."""
    answer = solved(problem_of([like(6, 2)], [[40], [40], [0]]))
    assert 32 == np.sum(answer.short_now) == np.sum(answer.short)


def test_what_lacks_now_comes_before_what_would_lack() -> None:
    """GPUs go to the pool that has too few already before the one that has too few after a loss."""
    classes = [like(2, 0, 0), like(2, 0, 1), like(1, 2, 2)]
    answer = solved(problem_of(classes, [[32], [8], [0]], survives=(True, False, False)))
    assert {(2, 1): 1} == moved(answer)
    assert ((16,), (0,), (0,)) == answer.short


def test_nodes_of_several_sizes() -> None:
    """One large node is cheaper than two small ones, and a need of an odd number is met by whole nodes."""
    classes = [like(4, 1, gpus=4), like(1, 1, gpus=8)]
    assert {(1, 0): 1} == moved(solved(problem_of(classes, [[8], [0]])))
    assert {(0, 0): 1} == moved(solved(problem_of(classes, [[3], [20]])))
    assert {(0, 0): 1, (1, 0): 1} == moved(solved(problem_of(classes, [[9], [0]])))


def test_last_node_is_wanted_for_the_part_that_is_used() -> None:
    """Work that waits for one GPU is not worth a node of eight; work for five is."""
    assert () == solved(problem_of([like(2, 1)], [[0], [0]], wants=[[1], [0]])).moves
    assert {(0, 0): 1} == moved(solved(problem_of([like(2, 1)], [[0], [0]], wants=[[5], [0]])))


def test_zones_are_dealt_in_order_and_nodes_on_their_way_first() -> None:
    """Among like nodes those go that are going there, then those of the first class."""
    classes = [like(2, 1, zone=1), like(2, 1, zone=0), like(1, 1, zone=2, going=0)]
    answer = solved(problem_of(classes, [[24], [0]]))
    assert (Moved(0, 0, 2), Moved(2, 0, 1)) == answer.moves


@pytest.mark.parametrize("survives", [False, True])
def test_need_without_any_node_is_short(*, survives: bool) -> None:
    """A region without nodes, and one without nodes of the type."""
    assert ((8,),) == solved(problem_of([], [[8]], survives=(survives,))).short
    answer = solved(problem_of([like(3, 0)], [[8, 16]], survives=(survives,)))
    assert ((8 if survives else 0, 16),) == answer.short
    assert ((0, 16),) == answer.short_now


def test_problem_without_needs_has_an_answer() -> None:
    """Nothing is to be done."""
    assert ((), 0, 0.0) == ((answer := solved(problem_of([], [[0], [0]]))).moves, answer.cost, answer.gap)
    assert () == solved(problem_of([like(3, 0)], [[0], [0]], spreads=(True, True))).moves


@settings(PROPERTY, max_examples=60)
@given(DRAWN)
def test_answers_hold(problem: PoolingProblem) -> None:
    """The counts are possible; a pool without a shortage has what it needs after the loss of each domain in turn; and the answer is the same again."""
    answer = solved(problem)
    assert answer == solve_pools(problem)


@settings(PROPERTY, max_examples=60)
@given(DRAWN)
def test_nothing_is_short_where_nodes_dealt_by_need_are_enough(problem: PoolingProblem) -> None:
    """Nor where the nodes are enough as they are: then nothing moves but for work that waits."""
    answer = solve_pools(problem)
    if not shortage_of(problem, gpus_of(problem)):
        assert not any(map(any, answer.short))
    dealt = dealt_by_need(problem)
    if sum(one.count for one in dealt) <= problem.moves_max:
        short, at_most = (
            shortage_of(problem, gpus_of(problem, answer.moves)),
            shortage_of(problem, gpus_of(problem, dealt)),
        )
        assert short <= at_most


@settings(PROPERTY, max_examples=40)
@given(DRAWN)
def test_answers_of_large_problems_hold(problem: PoolingProblem) -> None:
    """Were this problem large, its answer would be rounded: possible, recounted, and short of no more than some nodes above the least."""
    exact = solve_pools(problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pools, "SMALL", 0)
        rounded = solve_pools(problem)
    assert_holds(problem, rounded)
    least = shortage_of(problem, gpus_of(problem, exact.moves))
    found = shortage_of(problem, gpus_of(problem, rounded.moves))
    assert least <= found <= 1.2 * least + 88
    if found == least:
        assert rounded.bound <= exact.objective + 1e-6


def dealt_by_need(problem: PoolingProblem) -> tuple[Moved, ...]:
    """Return moves after which each pool has as much of each class as its part of the needs is, rounded down."""
    found = []
    for index, one in enumerate(problem.classes):
        of_type = [needs[one.node_type] for needs in problem.needs]
        for pool, need in enumerate(of_type):
            if need and pool != one.pool:
                found.append(Moved(index, pool, one.count * need // sum(of_type)))
    return tuple(found)
