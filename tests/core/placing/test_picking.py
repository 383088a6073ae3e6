"""One node out of many: the order of the rules, chance among equals, and the same choice with a class or without."""

import random
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.nouns.limits import BEST_MAX, BEST_SHARE
from core.nouns.quantities import Amount
from core.placing.index.layout import NO_NODE, Layout
from core.placing.index.pool_partitions import PoolPartitions
from core.placing.index.rows import TableRows
from core.placing.partitions import Partitions
from core.placing.pick.nodes import SURVIVORS_MAX, Choice, best_of, some_of
from core.placing.pick.single_node import pick_lazily
from core.placing.pool import PoolIndex
from core.rules.placement.gpu_type import GpuType
from core.rules.placement.plan import NO_KEY, Plan
from core.rules.placement.planned_work import PlannedWork
from core.rules.placement.rule import (
    Level,
    NodePreference,
    Numbers,
    Refinement,
    Request,
    Rows,
    UnitPreference,
)
from tests.core.placing.shelves import PLAN, REQUESTS, EmptiestCluster, Shelf, groups
from tests.core.placing.shelves import request as asking
from tests.core.properties import PROPERTY

PICKS = 10_000


class MostMemory(Refinement):
    """Slow, one may think: the node with the most memory available."""

    name = "most_memory"

    def cost(self, rows: Rows, request: Request) -> Numbers:
        """Lower is better."""
        return -rows.memory


FLAT = Plan((GpuType(), EmptiestCluster(4), PlannedWork(3)))
"""By which very many nodes are equal."""
REFINED = Plan((*PLAN.rules, MostMemory()))
FLAT_REFINED = Plan((*FLAT.rules, MostMemory()))
PLANS = {"strict": PLAN, "flat": FLAT, "refined": REFINED, "flat, refined": FLAT_REFINED}


def a_pool(plan: Plan, seed: int, nodes: int = 1600, events: int = 200) -> PoolIndex:
    """A pool with rows at random."""
    pool, shelf, dice = (
        PoolIndex("training", Layout(groups(nodes)), plan),
        Shelf(nodes=nodes),
        random.Random(seed),
    )
    for _ in range(events):
        shelf.happen(dice)
    rows, at = shelf.rows, shelf.slots
    pool.table.mark(rows["upkeep"], rows["owner"], rows["start"])
    gpu, cpu, memory = (rows[name][at] for name in ("gpu", "cpu", "memory"))
    pool.table.fill(at, gpu, cpu, memory, rows["is_open"][at] > 0)
    return pool


def an_empty_pool(plan: Plan, nodes: int) -> PoolIndex:
    """One in which all nodes are alike."""
    pool = PoolIndex("training", Layout(groups(nodes)), plan)
    at = np.flatnonzero(pool.layout.node != NO_NODE)
    gpu, cpu, memory = (np.full(len(at), value) for value in (8000, 64_000, 512))
    pool.table.fill(at, gpu, cpu, memory, np.ones(len(at), dtype=bool))
    return pool


def picked(pool: PoolIndex, asked: Request, choice: Choice) -> int | None:
    """By the class, up to date."""
    return pool.picker.pick(pool.class_of(asked), choice)


def candidates(pool: PoolIndex, asked: Request, wanted: int = 1) -> list[int]:
    """The best so many and their equals, rule by rule, one slot after the other: as plainly as can be."""
    layout = pool.layout
    ranked: list[tuple[list[int], list[int], int]] = []
    for slot in np.flatnonzero(layout.node != NO_NODE).tolist():
        if is_allowed(pool, asked, slot):
            above, below = scores_of(pool, asked, slot)
            ranked.append((above, below, slot))
    best_cluster = min((above for above, _, _ in ranked), default=[])
    inside = sorted((below, slot) for above, below, slot in ranked if above == best_cluster)
    if not inside:
        return []
    bound = inside[min(wanted, len(inside)) - 1][0]
    return sorted(slot for below, slot in inside if below <= bound)


def is_allowed(pool: PoolIndex, asked: Request, slot: int) -> bool:
    """By every hard rule, and by what is free."""
    table, layout, need = pool.table, pool.layout, asked.need
    cluster = layout.clusters[int(layout.cluster_of_pod[slot // layout.pod_slots])]
    rows = TableRows(table, slice(slot, slot + 1))
    free = Amount(int(table.gpu[slot]), int(table.cpu[slot]), int(table.memory[slot]))
    return (
        bool(table.is_open[slot])
        and free.covers(need)
        and all(rule.admits(cluster, asked) for rule in pool.plan.cluster_validators)
        and all(bool(rule.allows(rows, asked)[0]) for rule in pool.plan.node_validators)
    )


def scores_of(pool: PoolIndex, asked: Request, slot: int) -> tuple[list[int], list[int]]:
    """What the preferences say of a node's cluster, and of the node and its other units."""
    table, layout = pool.table, pool.layout
    pod = slot // layout.pod_slots
    units = {
        Level.RACK: (table.racks, slot // layout.rack_slots),
        Level.POD: (table.pods, pod),
        Level.DOMAIN: (table.domains, int(layout.domain[slot])),
        Level.CLUSTER: (table.clusters, int(layout.cluster_of_pod[pod])),
    }
    above: list[int] = []
    below: list[int] = []
    for rule in pool.plan.rules:
        if isinstance(rule, UnitPreference):
            unit, number = units[rule.level]
            score = int(rule.score(unit.free[number], unit.total[number]))
            (above if rule.level is Level.CLUSTER else below).append(score)
        elif isinstance(rule, NodePreference):
            below.append(int(rule.score(TableRows(table, slice(slot, slot + 1)), asked)[0]))
    return above, below


@pytest.mark.parametrize("plan", [PLAN, FLAT], ids=["strict", "flat"])
@pytest.mark.parametrize("asked", REQUESTS)
def test_only_the_best_by_all_rules_in_their_order_are_picked(plan: Plan, asked: Request) -> None:
    """P8: the nodes that many seeds find are those that are best rule by rule, clusters first; none else, and none less."""
    pool = a_pool(plan, seed=1, nodes=400)
    best = candidates(pool, asked)
    assert best
    found = {picked(pool, asked, Choice(f"w-{number}.1")) for number in range(40 * len(best))}
    assert best == sorted(slot for slot in found if slot is not None)


def test_a_worse_score_in_an_earlier_rule_is_never_made_up_for() -> None:
    """P8: a node on which work is planned loses to all others, however well it fits."""
    pool = an_empty_pool(PLAN, 400)
    fits = int(pool.layout.slot(0))
    pool.table.set(fits, 1000, 64_000, 512, is_open=True)
    choices = [Choice(f"w-{number}.1") for number in range(50)]
    assert {fits} == {picked(pool, REQUESTS[0], choice) for choice in choices}
    pool.table.set_upkeep(fits, 1)
    assert fits not in {picked(pool, REQUESTS[0], choice) for choice in choices}


# Chance.


def chi_square(counts: Numbers) -> float:
    """How far counts are from all being equal."""
    expected = counts.sum() / len(counts)
    return float(((counts - expected) ** 2 / expected).sum())


def is_even(counts: Numbers) -> bool:
    """Whether so far or further happens to even counts in more than one of 10,000 trials: Wilson and Hilferty's cube root."""
    freedom = len(counts) - 1
    bound = freedom * (1 - 2 / (9 * freedom) + 3.72 * (2 / (9 * freedom)) ** 0.5) ** 3
    return bool(chi_square(counts) < bound)


@pytest.mark.parametrize(
    ("plan", "best", "stripes"),
    [(FLAT, 1, 1), (FLAT, 1, 3), (FLAT, 8, 1), (FLAT_REFINED, 1, 1)],
    ids=["ties", "ties of a stripe", "best 8", "refined"],
)
def test_all_that_are_equal_are_picked_equally_often(plan: Plan, best: int, stripes: int) -> None:
    """P10: chi-square over 10,000 picks; of a refinement too, which looks at 512 of more than 700 at a time."""
    pool = an_empty_pool(plan, 1600)
    asked = REQUESTS[0]
    one = pool.class_of(asked)
    ties = candidates(pool, asked)
    assert len(ties) > SURVIVORS_MAX
    if stripes > 1:
        ties = [slot for slot in ties if slot // pool.layout.pod_slots % stripes == 1]
    found = [
        pool.picker.pick(one, Choice(f"w-{number}.1", 1 % stripes, stripes, best=best))
        for number in range(PICKS)
    ]
    counts = np.bincount(np.searchsorted(ties, found), minlength=len(ties))  # type: ignore[arg-type]
    assert set(found) <= set(ties)
    assert is_even(counts), chi_square(counts)


def test_chi_square_finds_uneven_draws() -> None:
    """P10: a draw that forgets a tenth, or prefers one half a little, is found by the same bound."""
    dice = np.random.default_rng(1)
    assert is_even(np.bincount(dice.integers(0, 700, PICKS), minlength=700))
    assert not is_even(np.bincount(dice.integers(0, 630, PICKS), minlength=700))
    half = np.where(dice.random(PICKS) < 0.57, 0, 350) + dice.integers(0, 350, PICKS)
    assert not is_even(np.bincount(half, minlength=700))


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_same_seed_picks_the_same_node(plan: Plan) -> None:
    """P10: with best=1 the seed alone decides, whatever was asked before and in which state the class was."""
    asked, choice = REQUESTS[0], Choice("w-7.1")
    first, second = a_pool(plan, seed=3), a_pool(plan, seed=3)
    row = first.layout.slot(40)
    second.table.set_upkeep(row, 2 - int(first.table.upkeep[row]) // 2)
    second.class_of(asked)
    second.table.set_upkeep(row, int(first.table.upkeep[row]))
    assert picked(first, asked, choice) == picked(second, asked, choice) == picked(first, asked, choice)


@pytest.mark.parametrize("best", [2, 7, 16])
@pytest.mark.parametrize("asked", REQUESTS[:4])
def test_one_of_the_best_is_one_of_the_best(best: int, asked: Request) -> None:
    """P10: with N0 above 1 the nodes found are the best so many, and those that equal the last of them; all of them."""
    pool = a_pool(PLAN, seed=5)
    share = best_of(best, int(np.count_nonzero(pool.class_of(asked).cap)))
    wanted = candidates(pool, asked, share)
    assert len(wanted) >= share
    found = {picked(pool, asked, Choice(f"w-{number}.1", best=best)) for number in range(40 * len(wanted))}
    assert wanted == sorted(slot for slot in found if slot is not None)


def test_draw_by_score_is_in_proportion() -> None:
    """ParSync's sampling: each node of a partition with capacity may be drawn, as often as its key is better than the worst one."""
    pool, asked = a_pool(PLAN, seed=5, nodes=320), REQUESTS[0]
    partitions = Partitions({"training": pool.layout}, 4)
    pool.picker.partitions = PoolPartitions(4, partitions.of_row["training"])
    one, size = pool.class_of(asked), pool.layout.rack_slots
    slots = np.flatnonzero(
        (partitions.of_row["training"].repeat(size) == 2)
        & (one.key & PLAN.mask_in_partition < NO_KEY)
        & (pool.layout.node != NO_NODE)
    )
    keys = (one.key & PLAN.mask_in_partition)[slots].astype(np.int64)
    weights = keys.max() - keys + 1
    assert len(set(weights.tolist())) > 3, "all are alike"
    found = [
        pool.picker.pick(one, Choice(f"w-{number}", partition=2, is_weighted=True)) for number in range(PICKS)
    ]
    assert set(found) <= set(slots.tolist())
    counts = np.bincount(np.searchsorted(slots, found), minlength=len(slots))  # type: ignore[arg-type]
    expected = PICKS * weights / weights.sum()
    common = expected >= 5
    freedom = int(common.sum()) - 1
    spread = float(((counts - expected)[common] ** 2 / expected[common]).sum())
    assert spread < freedom + 4.5 * (2 * freedom) ** 0.5
    best = {pool.picker.pick(one, Choice(f"w-{number}", partition=2)) for number in range(200)}
    assert best == set(slots[keys == keys.min()].tolist()), "and without it, the best ones alone"


def test_best_is_cut_to_a_share_of_the_candidates() -> None:
    """P11: at most the best 20th part, and never more than 4,096, whatever is asked for; but one at least."""
    assert [1, 1, 2, 5, 5000 // BEST_SHARE] == [
        best_of(64, 10), best_of(64, 39), best_of(64, 40), best_of(64, 100), best_of(10_000, 5000)
    ]  # fmt: skip
    assert BEST_MAX == best_of(1 << 20, 1 << 20)


@PROPERTY
@given(st.integers(SURVIVORS_MAX + 1, 5 * SURVIVORS_MAX), st.text(max_size=8))
def test_some_are_drawn_once_each_and_in_order(count: int, seed: str) -> None:
    """A refinement looks at 512 different ones."""
    some = some_of(np.arange(count), seed)
    assert SURVIVORS_MAX == len(np.unique(some))
    assert np.all(np.diff(some) > 0)
    assert 0 <= some[0]
    assert some[-1] < count


# Without a class.


@PROPERTY
@given(
    st.sampled_from(sorted(PLANS)),
    st.integers(0, 3),
    st.sampled_from(REQUESTS),
    st.text("ab", max_size=3),
    st.integers(0, 4),
    st.sampled_from((1, 3, 5)),
    st.sampled_from((1, 1, 2, 9, 64)),
)
def test_search_without_a_class_picks_the_same_node(
    plan: str, seed: int, asked: Request, chance: str, stripe: int, stripes: int, best: int
) -> None:
    """The lazy filter chain leaves the nodes that the class leaves, and draws the same one."""
    pool = kept_pool(plan, seed)
    choice = Choice(chance, stripe % stripes, stripes, best)
    assert picked(pool, asked, choice) == pick_lazily(pool.table, pool.plan, asked, choice)


@cache
def kept_pool(plan: str, seed: int) -> PoolIndex:
    """They are only read."""
    return an_empty_pool(PLANS[plan], 3200) if not seed else a_pool(PLANS[plan], seed)


def test_search_without_a_class_finds_nothing_where_nothing_fits() -> None:
    """None, of hardware that nobody has and of what is full."""
    pool = an_empty_pool(PLAN, 400)
    strange, large = asking(gpu_type="B200"), asking(9000)
    assert [None] * 4 == [
        search
        for asked in (strange, large)
        for search in (picked(pool, asked, Choice("a")), pick_lazily(pool.table, PLAN, asked, Choice("a")))
    ]


def test_pool_with_more_available_is_searched_without_classes() -> None:
    """It is forgotten soon: one task, and tasks that fit on one node, cost no class there, and go where they would."""
    pool = an_empty_pool(PLAN, 400)
    at = np.flatnonzero(pool.layout.node != NO_NODE)
    none, slot = np.zeros(len(at), dtype=np.int64), pool.layout.slot(77)
    pool.table.fill(at, none, none, none, np.ones(len(at), dtype=bool))
    assert pool.place(REQUESTS[0], 3, Choice("a")) is None
    more = pool.released(np.asarray([slot]), np.asarray([[4000, 64_000, 512]]))
    assert [(slot, 3)] == more.place(REQUESTS[0], 3, Choice("a"))
    assert (0, 0) == (more.counts.misses, more.nbytes)
