"""The nodes for an answer in counts: whole racks first, only nodes of the class, and a plan that says what pools have then."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.events.control import NodesClosed
from core.events.pools import NodesPooled, PoolChanged
from core.events.region import NodesLost
from core.events.starts import StartReserved
from core.images import RegionImage
from core.nouns.ids import WorkerName
from core.nouns.instant import Nanoseconds
from core.nouns.maintenance import ClosureKind, Scope, ScopeKind
from core.nouns.placement import numbers_in
from core.nouns.pool import PoolSettings, Survives
from core.nouns.pooling import MoveReason, PoolsBasis
from core.pooling.choice import chosen, in_racks, plan_of
from core.pooling.classes import problem_of, standing_of
from core.pooling.problem import Moved, Pooled
from tests.builders import a_claim, a_job, a_region, a_spread, attempt, granted, joined, promised

NO_FIGURES: tuple[tuple[int, ...], ...] = ()
NEEDS = PoolChanged("service", PoolSettings(needs=(("H100", 8),), survives=Survives.NOTHING))


def an_answer(*moves: Moved) -> Pooled:
    """Whose figures nobody reads."""
    return Pooled(moves, 0, 0.0, 0.0, 0.0, NO_FIGURES, NO_FIGURES, NO_FIGURES, NO_FIGURES)


@pytest.mark.parametrize(
    ("racks", "count", "wanted"),
    [
        ([0, 0, 0, 1, 1, 2], 2, [3, 4]),
        ([0, 0, 0, 1, 1, 2], 3, [0, 1, 2]),
        ([0, 0, 0, 1, 1, 2], 4, [0, 1, 2, 5]),
        ([0, 0, 0, 1, 1, 1], 2, [0, 1]),
        ([0, 0, 0, 1, 1, 1], 6, [0, 1, 2, 3, 4, 5]),
        ([0, 1, 2], 9, [0, 1, 2]),
        ([], 2, []),
    ],
)
def test_whole_racks_go_first(racks: list[int], count: int, wanted: list[int]) -> None:
    """M24: the largest that fit, then as few parts of racks as there must be."""
    assert wanted == in_racks(range(len(racks)), count, racks)


@given(st.lists(st.integers(0, 6), max_size=40), st.integers(1, 40))
def test_at_most_one_rack_is_split_by_a_choice(racks: list[int], count: int) -> None:
    """Where nodes of several racks are taken, all but one of these are taken whole."""
    taken = in_racks(range(len(racks)), count, racks)
    assert len(taken) == min(count, len(racks)) == len(set(taken))
    size, mine = Counter(racks), Counter(racks[node] for node in taken)
    assert sum(mine[rack] < size[rack] for rack in mine) <= 1


def a_standing_region() -> RegionImage:
    """Twelve nodes of two a rack, in one zone without power domains; node 0 is in use, 1 promised, 2 kept, 3 drained, 4 suspected."""
    claim = a_claim("w-2", placed={0: 8, 1: 8}, victims=(attempt("w-1"),), priority=5)
    return a_region(
        joined("w0", 0, 8),
        joined("w1", 8, 4),
        granted(a_claim("w-1", placed={0: 8})),
        promised(claim),
        StartReserved(
            a_claim("w-3").workload,
            1,
            Nanoseconds(0),
            3,
            "training",
            a_claim().tenant,
            (a_job(1, 8),),
            (a_spread({2: 1}),),
            1,
        ),
        NodesClosed("d-1", ClosureKind.DRAIN, ((3, 3),), "fan"),
        NodesClosed("suspicion", ClosureKind.SUSPECT, ((4, 4),), "missed beats"),
        NodesClosed("d-2", ClosureKind.DRAIN, ((5, 5),), "pool service needs them", lasts=9, pool="service"),
        NodesLost(WorkerName("w1"), (8, 9, 10, 11)),
        NEEDS,
    )


def test_only_nodes_that_take_work_count() -> None:
    """Lost and drained ones belong to no class; those with something on them, promised, kept or suspected are in use."""
    standing = standing_of(a_standing_region())
    found = {node: one for one, nodes in standing.nodes.items() for node in nodes}
    assert {0, 1, 2, 4, 5, 6, 7} == set(found)
    assert {0, 1, 2, 4} == {node for node, one in found.items() if one.is_in_use}
    assert ["service"] == [one.going for one in found.values() if one.going != one.pool]


def test_pool_that_a_drain_names_is_left_out() -> None:
    """Nothing moves into it or out of it."""
    whole = NodesClosed(
        "d-1", ClosureKind.DRAIN, ((4, 5),), "all of it", scope=Scope(ScopeKind.POOL, ("service",))
    )
    image = a_region(joined("w0", 0, 8), NodesPooled(((4, 5),), "service"), whole, NEEDS)
    standing = standing_of(image)
    assert {"training"} == standing.pools
    assert ("training",) == problem_of(image, standing, {("training", "H100"): 8}, 9).pools


def test_work_does_not_change_the_digest() -> None:
    """It is of hardware and pools: what comes and goes on nodes makes no plan old."""
    idle = a_region(joined("w0", 0, 8), NEEDS)
    busy = a_region(joined("w0", 0, 8), NEEDS, granted(a_claim(placed={0: 8})))
    assert standing_of(idle).digest == standing_of(busy).digest
    others = [NodesPooled(((0, 0),), "service"), NodesClosed("d-1", ClosureKind.DRAIN, ((0, 0),), "fan")]
    assert 3 == len(
        {
            standing_of(a_region(joined("w0", 0, 8), *events)).digest
            for events in ([], *([one] for one in others))
        }
    )


def test_plan_says_what_is_so_once_it_is_applied() -> None:
    """Its digest is the region's then, and its standings count the nodes that it moves."""
    image = a_region(joined("w0", 0, 8), granted(a_claim(placed={0: 8})), NEEDS)
    standing = standing_of(image)
    problem = problem_of(image, standing, {}, 9)
    (idle,) = [place for place, one in enumerate(problem.classes) if not one.is_in_use]
    answer = an_answer(Moved(idle, problem.pools.index("service"), 3))
    choice = chosen(problem, answer, standing, image.capacity.rack)
    plan = plan_of(problem, answer, choice, standing, 1, MoveReason.NEED, PoolsBasis())
    (move,) = plan.moves
    assert ("training", "service", 3) == (move.pool_from, move.pool_to, plan.nodes)
    assert 0 not in numbers_in(move.nodes)
    (standing_then,) = plan.standings
    assert (8, 24, 0, 0) == (standing_then.needs, standing_then.has, standing_then.left, standing_then.short)
    image = a_region(
        joined("w0", 0, 8), granted(a_claim(placed={0: 8})), NEEDS, NodesPooled(move.nodes, "service")
    )
    assert plan.after == standing_of(image).digest


def test_nodes_that_are_in_use_by_now_stay() -> None:
    """A class has fewer nodes than the answer moves: the plan tells of those that it moves, and is made anew soon."""
    before = a_region(joined("w0", 0, 4), NEEDS)
    standing = standing_of(before)
    problem = problem_of(before, standing, {}, 9)
    answer = an_answer(Moved(0, problem.pools.index("service"), 4))
    now = a_region(joined("w0", 0, 4), NEEDS, granted(a_claim(placed={0: 8})))
    choice = chosen(problem, answer, standing_of(now), now.capacity.rack)
    plan = plan_of(problem, answer, choice, standing, 1, MoveReason.NEED, PoolsBasis())
    assert (3, 24) == (plan.nodes, plan.standings[0].has)
