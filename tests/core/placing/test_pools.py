"""A pool's classes: what they cost, what they share, how many are kept, and that idle time is used."""

import random
import tracemalloc

import numpy as np
import pytest

from core.nouns.limits import CLASS_BYTES_MAX, CLASSES_MAX
from core.placing import pool as pools
from core.placing.index.layout import NO_NODE, Layout
from core.placing.pool import PoolIndex
from core.rules.placement.gpu_type import GpuType
from core.rules.placement.plan import Plan
from core.rules.placement.planned_work import PlannedWork
from core.rules.placement.rule import NodePreference, Numbers, Request, Rows
from tests.core.placing.shelves import PLAN, NearOwn, OwnNodes, groups
from tests.core.placing.shelves import request as asking


class Watched(NodePreference):
    """Counts the rows that it is asked about, whatever is needed on them."""

    name = "watched"

    def __init__(self, steps: int) -> None:
        super().__init__(steps)
        self.asked: list[int] = []

    def score(self, rows: Rows, request: Request) -> Numbers:
        """All are as good."""
        self.asked.append(len(rows.gpu))
        return np.zeros(len(rows.gpu), dtype=np.int32)


class WatchedNeed(Watched):
    """The same of a rule that reads the need."""

    name = "watched_need"
    traits = frozenset({"need"})


def an_empty_pool(plan: Plan = PLAN, nodes: int = 1600) -> PoolIndex:
    """All nodes alike."""
    pool = PoolIndex("training", Layout(groups(nodes)), plan)
    at = np.flatnonzero(pool.layout.node != NO_NODE)
    gpu, cpu, memory = (np.full(len(at), value) for value in (8000, 64_000, 512))
    pool.table.fill(at, gpu, cpu, memory, np.ones(len(at), dtype=bool))
    return pool


def different(number: int) -> Request:
    """A request of a class of its own."""
    return asking(1000, cpu_milli=1000 + number)


# What clusters and rules cost.


def test_clusters_that_cannot_run_it_cost_nothing_by_node() -> None:
    """P7: of four clusters two have the type: rules look at their rows alone, when the class is made and when rows change."""
    shared, own = Watched(2), WatchedNeed(2)
    pool = an_empty_pool(Plan((GpuType(), shared, own)))
    layout = pool.layout
    one = pool.class_of(asking(gpu_type="H100"))
    mine = [number for number, cluster in enumerate(layout.clusters) if cluster.node_type == "H100"]
    assert mine == one.clusters
    assert len(mine) < len(layout.clusters)
    rows = sum(last - first for first, last in (layout.pods_of[number] for number in mine)) * layout.pod_slots
    assert rows < layout.slots
    assert (rows, rows, rows) == (one.computed, sum(own.asked), sum(shared.asked))
    inside, outside = (
        int(np.flatnonzero(np.repeat(np.isin(layout.cluster_of_pod, mine), layout.pod_slots) == is_inside)[0])
        for is_inside in (True, False)
    )
    pool.table.set(outside, 0, 0, 0, is_open=True)
    pool.class_of(asking(gpu_type="H100"))
    assert (rows, rows, rows) == (one.computed, sum(own.asked), sum(shared.asked))
    pool.table.set(inside, 0, 0, 0, is_open=True)
    pool.class_of(asking(gpu_type="H100"))
    assert (rows + 1, rows + 1, rows + 1) == (one.computed, sum(own.asked), sum(shared.asked))


def test_request_that_no_cluster_can_run_is_refused_without_a_look_at_nodes() -> None:
    """P7: the cluster phase alone says no."""
    watched = Watched(2)
    pool = an_empty_pool(Plan((GpuType(), watched)))
    assert not pool.admits(asking(gpu_type="B200"))
    assert [] == pool.class_of(asking(gpu_type="B200")).clusters
    assert [] == watched.asked


def test_rules_that_read_no_need_are_asked_once_for_all_classes() -> None:
    """P12: of a second class only what reads the need is worked out; a change is worked out once for both."""
    shared, own = Watched(2), WatchedNeed(2)
    pool = an_empty_pool(Plan((GpuType(), shared, own)))
    first, second = asking(1000), asking(2000)
    pool.class_of(first)
    before = len(shared.asked), len(own.asked)
    pool.class_of(second)
    assert before[0] == len(shared.asked)
    assert before[1] * 2 == len(own.asked)
    ((codes,),) = {tuple(pool.class_of(asked).shared) for asked in (first, second)}
    computed = codes.computed
    pool.table.set_upkeep(int(pool.layout.slot(0)), 1)
    for asked in (first, second):
        pool.class_of(asked)
    assert computed + 1 == codes.computed


def test_rules_share_by_the_traits_that_they_read() -> None:
    """P12: one tenant's classes share what rules say of its nodes; another tenant's do not, but all share the rest."""
    pool = an_empty_pool(Plan((GpuType(), OwnNodes(), NearOwn(2), PlannedWork(3))))
    mine, mine_too, others = (
        pool.class_of(asked).shared
        for asked in (asking(1000, tenant="t1"), asking(2000, tenant="t1"), asking(1000, tenant="t2"))
    )
    assert [True, True] == [one is other for one, other in zip(mine, mine_too, strict=True)]
    assert [True, False] == [one is other for one, other in zip(mine, others, strict=True)]


# How many are kept.


@pytest.mark.parametrize("skew", [1.5, 2.0])
def test_most_requests_of_a_skewed_stream_find_their_class(skew: float) -> None:
    """P13: of 20,000 requests for 1,000 classes by Zipf at least 0.9 hit, with only 256 classes kept, while rows change."""
    pool, dice = an_empty_pool(nodes=160), random.Random(1)
    weights = [number**-skew for number in range(1, 1001)]
    slots = np.flatnonzero(pool.layout.node != NO_NODE).tolist()
    for number in dice.choices(range(1000), weights, k=20_000):
        pool.table.set_upkeep(dice.choice(slots), dice.randrange(3))
        pool.class_of(different(number))
    counts = pool.counts
    assert counts.hits + counts.misses == 20_000
    assert counts.hits >= 0.9 * 20_000
    assert counts.evicted > 0 or skew == 2.0


def test_classes_used_least_lately_go_first() -> None:
    """P16: 2,000 classes asked for one after the other leave 256, the last ones, and any of those is a hit."""
    pool = an_empty_pool(nodes=160)
    for number in range(2000):
        pool.class_of(different(number))
    assert (2000 - CLASSES_MAX, 0) == (pool.counts.evicted, pool.counts.hits)
    for number in range(2000 - CLASSES_MAX, 2000):
        pool.class_of(different(number))
    assert CLASSES_MAX == pool.counts.hits
    pool.class_of(different(2000 - CLASSES_MAX - 1))
    assert 2001 == pool.counts.misses


def test_memory_of_classes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """P16: 2,000 classes, each with something of its own that others could share, stay under the bound; measured."""
    bound = 2 << 20
    monkeypatch.setattr(pools, "CLASS_BYTES_MAX", bound)
    pool = an_empty_pool(nodes=2000)
    tracemalloc.start()
    try:
        for number in range(2000):
            pool.class_of(asking(1000, cpu_milli=1000 + number, tenant=f"t{number}"))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    kept = 2000 - pool.counts.evicted
    assert bound // 2 < pool.nbytes <= bound
    assert 1 < kept < CLASSES_MAX
    assert held < bound + (1 << 20)


def test_all_classes_of_the_largest_region_fit_the_bound() -> None:
    """P16: at 100,000 nodes, 256 classes, and what those of one tenant share, are under CLASS_BYTES_MAX."""
    pool = an_empty_pool(nodes=100_000)
    one = pool.class_of(asking())
    assert CLASSES_MAX * one.nbytes + sum(codes.nbytes for codes in one.shared) < CLASS_BYTES_MAX


def test_unused_classes_are_dropped_in_idle_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """P16: after so many other searches, though there is capacity for them."""
    monkeypatch.setattr(pools, "CLASS_AGE_MAX", 50)
    pool = an_empty_pool(nodes=160)
    pool.class_of(different(0))
    for _ in range(49):
        pool.class_of(different(1))
    pool.refresh_classes(0)
    assert 0 == pool.counts.evicted
    pool.class_of(different(1))
    pool.refresh_classes(0)
    assert 1 == pool.counts.evicted
    pool.class_of(different(0))
    assert 3 == pool.counts.misses


# Idle time.


def test_hit_after_idle_time_costs_as_much_as_an_unchanged_one() -> None:
    """P17: changes are worked out while no search waits: the next search asks no rule of any row."""
    shared, own = Watched(2), WatchedNeed(2)
    pool = an_empty_pool(Plan((GpuType(), shared, own)))
    asked, other = asking(1000), asking(2000)
    pool.class_of(other)
    one = pool.class_of(asked)
    for node in range(20):
        pool.table.set(pool.layout.slot(node), 3000, 64_000, 512, is_open=True)
    pool.refresh_classes(1)
    before = one.computed, len(shared.asked), len(own.asked)
    assert one is pool.class_of(asked)
    assert before == (one.computed, len(shared.asked), len(own.asked))
    pool.class_of(other)
    assert len(own.asked) > before[2], (
        "the class that was not among those refreshed is brought up when it is asked for"
    )


def test_refresh_changes_no_figure_and_no_order() -> None:
    """P17: a refresh is no use: which class goes first is as if there had been none."""
    pool = an_empty_pool(nodes=160)
    for number in range(CLASSES_MAX):
        pool.class_of(different(number))
    pool.refresh_classes(CLASSES_MAX)
    assert (0, CLASSES_MAX) == (pool.counts.hits, pool.counts.misses)
    pool.class_of(different(CLASSES_MAX))
    pool.class_of(different(1))
    pool.class_of(different(0))
    assert (1, CLASSES_MAX + 2) == (pool.counts.hits, pool.counts.misses)
