"""The search of a whole region, over pools, zones and GPU types, against looking at every node and every cluster one by one.

The region is small, and what is compared is worked out from the rules themselves, node by node: no class, no key, no journal.
"""

import random
from collections.abc import Iterable

import numpy as np
import pytest
from msgspec.structs import replace

from core.images.capacity import Capacity
from core.nouns.cluster import Cluster, cluster_of
from core.nouns.fleet import NodeGroup
from core.nouns.placement import Spread
from core.nouns.reasons import Reason
from core.nouns.workload import JobSpec
from core.placing.index.rows import TableRows
from core.placing.pick.nodes import Choice
from core.placing.placer import Placer
from core.placing.pool import PoolIndex
from core.placing.pool_set import Asker, request_of
from core.rules.placement.pool import pool_rank
from core.rules.placement.rule import (
    ClusterPreference,
    Level,
    NodePreference,
    Request,
    UnitPreference,
)
from core.rules.placement.rule_sets import PLAIN
from tests.builders import a_claim, a_job, a_region, a_spread, amount, granted
from tests.core.placing.rooms import a_group, here
from tests.core.placing.searching import placer_of

SEEDS = range(25)
DRAWS = 40
ASKER = Asker(priority=5)
POOLS = ("free", "lab", "training")


class Shop:
    """A region of three pools in two zones, each of H100 and of A100, two racks of two nodes, half used."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.groups = [
            replace(
                a_group(4 * number, 4, gpu_type=gpu_type, nodes_per_rack=2),
                rack_first=16 * number,
                zone=zone,
                pool=pool,
                power_domain=f"{zone}-power",
                total=amount(self.dice.choice((4, 8)), 32, 512),
            )
            for number, (pool, zone, gpu_type) in enumerate(
                (pool, zone, gpu_type)
                for pool in POOLS
                for zone in ("zone-0", "zone-1")
                for gpu_type in ("A100", "H100")
            )
        ]
        claims = []
        for group in self.groups:
            for node in group.numbers():
                used = self.dice.randint(0, group.total.gpu_milli // 1000)
                if used:
                    claims.append(granted(a_claim(f"w-{node}", placed={node: used}, gpus=1)))
        self.capacity: Capacity = a_region(here(*self.groups), *claims).capacity
        self.placer: Placer = placer_of(self.capacity)

    def group_of(self, node: int) -> NodeGroup:
        """The like nodes that it is one of."""
        return self.groups[node // 4]

    def cluster(self, node: int) -> Cluster:
        """Pool, zone and type."""
        return cluster_of(self.group_of(node))

    def room(self, job: JobSpec, node: int) -> int:
        """How many tasks one node has room for, by trying."""
        count = 0
        while count < job.tasks and self.capacity.available(node).covers(job.need.times(count + 1)):
            count += 1
        return count if self.group_of(node).gpu_type in job.node_types else 0

    def nodes(self, pool: str) -> list[int]:
        """Of a pool."""
        return [node for group in self.groups if group.pool == pool for node in group.numbers()]

    def job(self, name: str = "main") -> JobSpec:
        """Of one type or of either."""
        dice = self.dice
        job = a_job(dice.randint(1, 8), dice.choice((1, 2, 4, 8)), name=name, gpu_type="H100")
        return dice.choice((job, replace(job, gpu_type="A100"), replace(job, or_types=("A100",))))


def best_nodes(shop: Shop, job: JobSpec) -> set[int]:
    """Of a job of one task: every node that is as good as any, asked of each rule, node by node."""
    request = request_of(job, ASKER)
    for name in sorted(POOLS, key=lambda pool: (pool_rank(pool, ASKER.kind), pool)):
        with_room = [node for node in shop.nodes(name) if shop.room(job, node)]
        if with_room:
            break
    else:
        return set()
    pool = shop.placer.pools.by_name[name]
    # 1. Of zones, the best of each type that have room.
    rank = {
        node: tuple(rule.score(*free_of(shop, zone_of(shop, node))) for _, rule in rules_of(Level.CLUSTER))
        for node in with_room
    }
    least = {
        kind: min(rank[node] for node in with_room if shop.group_of(node).gpu_type == kind)
        for kind in {shop.group_of(node).gpu_type for node in with_room}
    }
    left = [node for node in with_room if rank[node] == least[shop.group_of(node).gpu_type]]
    # 2. Of nodes, the best by one preference after the other.
    scores = {node: tuple(score_of(shop, pool, node, request)) for node in left}
    best = min(scores.values())
    return {node for node in left if scores[node] == best}


def rules_of(level: Level) -> list[tuple[int, UnitPreference]]:
    """Of the rule set."""
    return PLAIN.units.get(level, [])


def zone_of(shop: Shop, node: int) -> list[int]:
    """All nodes of its cluster."""
    return [
        other for other in shop.nodes(shop.group_of(node).pool) if shop.cluster(other) == shop.cluster(node)
    ]


def free_of(shop: Shop, nodes: Iterable[int]) -> tuple[int, int]:
    """GPU milli that are free on these, and that they have."""
    mine = list(nodes)
    free = sum(shop.capacity.available(node).gpu_milli for node in mine)
    return free, sum(shop.group_of(node).total.gpu_milli for node in mine)


def score_of(shop: Shop, pool: PoolIndex, node: int, request: Request) -> Iterable[int]:
    """What each preference says of one node, the most important one first."""
    slot = pool.layout.slot(node)
    for _, rule in PLAIN.in_order:
        if isinstance(rule, NodePreference):
            yield int(rule.score(TableRows(pool.table, np.array([slot])), request)[0])
        elif isinstance(rule, ClusterPreference):
            yield min(rule.score(shop.cluster(node), request), rule.steps - 1)
        else:
            yield int(rule.score(*free_of(shop, unit_of(shop, rule.level, node))))


def unit_of(shop: Shop, level: Level, node: int) -> list[int]:
    """The nodes of its pool that are in one rack, pod or power domain with it."""
    group = shop.group_of(node)
    if level is Level.DOMAIN:
        return [
            other
            for other in shop.nodes(group.pool)
            if shop.group_of(other).power_domain == group.power_domain
        ]
    size = 1 if level is Level.RACK else 16
    return [
        other for other in zone_of(shop, node) if group.rack_of(other) // size == group.rack_of(node) // size
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_one_task_goes_to_a_best_node_of_the_region(seed: int) -> None:
    """M15: whichever is drawn, it is one that no other in any pool, zone or type beats; and each of those is drawn by some seed."""
    shop = Shop(seed)
    for _ in range(6):
        job = replace(shop.job(), tasks=1)
        expected = best_nodes(shop, job)
        drawn: set[int] = set()
        for number in range(DRAWS if len(expected) > 1 else 1):
            found = shop.placer.pools.find((job,), ASKER, Choice(f"w-{number}.1"))
            assert isinstance(found, Reason) == (not expected)
            if not isinstance(found, Reason):
                drawn.update(found[0].nodes)
        assert drawn <= expected
        assert len(drawn) > 1 or len(expected) <= 1


def one_place(shop: Shop, spread: Spread) -> tuple[str, str]:
    """The pool and the type of all tasks of a job; of no others there may be more than one."""
    ((pool, gpu_type),) = {(shop.group_of(node).pool, shop.group_of(node).gpu_type) for node in spread.nodes}
    return pool, gpu_type


@pytest.mark.parametrize("seed", SEEDS)
def test_each_job_lies_in_the_first_pool_that_holds_it_whole(seed: int) -> None:
    """M4, M15: all its tasks in one pool and on one type; pools are tried in the order of their ranks, and none that could is missed.

    Though two pools together, or two types, could hold what none holds alone.
    """
    shop = Shop(seed)
    for _ in range(12):
        job = shop.job()
        holds = {
            (pool, kind): sum(
                shop.room(job, node) for node in shop.nodes(pool) if shop.group_of(node).gpu_type == kind
            )
            for pool in POOLS
            for kind in ("A100", "H100")
        }
        order = sorted(POOLS, key=lambda pool: (pool_rank(pool, ASKER.kind), pool))
        expected = next(
            (pool for pool in order if max(holds[pool, "A100"], holds[pool, "H100"]) >= job.tasks), None
        )
        found = shop.placer.pools.find((job,), ASKER, Choice("w-1.1"))
        if expected is None:
            assert isinstance(found, Reason)
        else:
            assert not isinstance(found, Reason)
            assert expected == one_place(shop, found[0])[0]


def test_a_job_is_not_split_over_pools() -> None:
    """M4: three nodes in one pool and two in another hold no job of four, though they hold two of two."""
    groups = a_group(0, 3), replace(a_group(3, 2), pool="lab")
    placer = placer_of(a_region(here(*groups)).capacity)
    assert Reason.NO_CAPACITY == placer.pools.find((a_job(4, 8),), ASKER, Choice("w-1.1"))
    found = placer.pools.find((a_job(3, 8), a_job(2, 8, name="eval")), ASKER, Choice("w-1.1"))
    assert (a_spread({0: 1, 1: 1, 2: 1}), a_spread({3: 1, 4: 1})) == found


@pytest.mark.parametrize("seed", SEEDS)
def test_jobs_of_one_workload_are_each_in_one_place(seed: int) -> None:
    """M4: they may differ in pool, zone and type, and none takes what another has taken."""
    shop = Shop(seed)
    differ = 0
    for _ in range(12):
        jobs = shop.job(), shop.job("eval")
        found = shop.placer.pools.find(jobs, ASKER, Choice("w-1.1"))
        if isinstance(found, Reason):
            continue
        places = [one_place(shop, spread) for spread in found]
        differ += places[0] != places[1]
        first, second = sorted(range(2), key=lambda index: (-jobs[index].need.gpu_milli, index))
        rest = {
            node: shop.capacity.available(node).minus(jobs[first].need.times(tasks))
            for node, tasks in zip(found[first].nodes, found[first].tasks, strict=True)
        }
        for node, tasks in zip(found[second].nodes, found[second].tasks, strict=True):
            left = rest.get(node, shop.capacity.available(node))
            assert left.covers(jobs[second].need.times(tasks))
    assert differ


@pytest.mark.parametrize("seed", SEEDS)
def test_a_job_is_in_one_rack_or_else_in_one_zone_where_any_holds_it(seed: int) -> None:
    """M5: whatever else would be better of that rack or that zone."""
    shop = Shop(seed)
    in_rack = 0
    for _ in range(12):
        job = replace(shop.job(), tasks=shop.dice.randint(2, 8))
        found = shop.placer.pools.find((job,), ASKER, Choice("w-1.1"))
        if isinstance(found, Reason):
            continue
        pool, gpu_type = one_place(shop, found[0])
        mine = [node for node in shop.nodes(pool) if shop.group_of(node).gpu_type == gpu_type]
        racks: dict[int, int] = {}
        zones: dict[str, int] = {}
        for node in mine:
            group, room = shop.group_of(node), shop.room(job, node)
            racks[group.rack_of(node)] = racks.get(group.rack_of(node), 0) + room
            zones[group.zone] = zones.get(group.zone, 0) + room
        taken = found[0].nodes
        if max(racks.values()) >= job.tasks:
            in_rack += 1
            assert 1 == len({shop.group_of(node).rack_of(node) for node in taken})
        elif max(zones.values()) >= job.tasks:
            assert 1 == len({shop.group_of(node).zone for node in taken})
    assert in_rack
