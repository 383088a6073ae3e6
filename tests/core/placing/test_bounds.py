"""What a pool keeps free: a search takes nothing of it, finds whatever can be had beside it, and counts as the store does."""

import random
from collections.abc import Iterable
from itertools import combinations

import numpy as np
import pytest
from msgspec.structs import replace

from core.events.region import NodesJoined
from core.images.capacity import Capacity
from core.images.pools import Pools
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import WorkerName
from core.nouns.pool import PoolSettings
from core.nouns.reasons import Reason
from core.nouns.workload import Extent, JobSpec, Topology
from core.placing.index.layout import NO_NODE
from core.placing.index.overlay import Overlay
from core.placing.placer import Placer
from core.placing.pool import PoolIndex
from core.rules.headroom import Headroom
from core.rules.placement.rule_sets import PLAIN
from tests.builders import NODE, a_claim, a_job, a_region, a_spread, granted
from tests.core.placing.searching import ANYBODY, CHOICE
from tests.core.properties import SEEDS

NODES = 12


def a_pool(dice: random.Random, sizes: tuple[int, ...] = (8,)) -> Capacity:
    """Two zones of two racks of three nodes, two types of nodes of so many GPUs, and some work on them."""
    groups = []
    for first in range(0, NODES, 3):
        gpu_type = dice.choice(("H100", "H100", "A100"))
        zone = f"zone-{first // 6}"
        total = replace(NODE, gpu_milli=1_000 * dice.choice(sizes))
        groups.append(NodeGroup(first, 3, total, gpu_type, first // 3, 3, zone))
    inventory = Inventory(WorkerName("w0"), tuple(groups))
    claims = [
        granted(
            a_claim(f"w-{node}", placed={node: dice.randint(1, groups[node // 3].total.gpu_milli // 1_000)})
        )
        for node in range(NODES)
        if dice.random() < 0.5
    ]
    return a_region(NodesJoined(inventory.worker, inventory), *claims).capacity


def placer_with(capacity: Capacity, settings: PoolSettings, overlay: Overlay | None = None) -> Placer:
    """An index of it, in which the pool is set so."""
    placer = Placer(capacity, overlay or Overlay(), lambda _: PLAIN, None, lambda _: settings)
    placer.refresh()
    return placer


def most_tasks(capacity: Capacity, settings: PoolSettings, gpu_milli: int) -> int:
    """By trying each node: how many tasks on H100 could be placed together, and nothing broken."""
    total = 0
    for zone in range(NODES // 6):
        nodes = range(zone * 6, zone * 6 + 6)
        free = {node: capacity.available(node).gpu_milli for node in nodes}
        fits = {node: free[node] // gpu_milli for node in nodes if capacity.node_type[node] == "H100"}
        empty = [node for node in nodes if free[node] == NODE.gpu_milli]
        spare = max(0, len(empty) - settings.reserve)
        best = sorted((fits.get(node, 0) for node in empty), reverse=True)[:spare]
        shared = sum(count for node, count in fits.items() if node not in empty)
        size = len(nodes) * NODE.gpu_milli
        room = settings.room_under_limit(size, size - sum(free.values()))
        total += min(shared + sum(best), room // gpu_milli)
    return total


@pytest.mark.parametrize("seed", SEEDS)
def test_search_finds_all_usable_capacity_and_breaks_nothing(seed: int) -> None:
    """Exactly when trying each node finds capacity, and the store would grant what it found."""
    dice = random.Random(seed)
    for _ in range(40):
        capacity = a_pool(dice)
        settings = PoolSettings("plain", dice.randint(0, 4), dice.choice((1_000, 900, 700, 500)))
        gpus = dice.choice((0.5, 1, 2, 8))
        most = most_tasks(capacity, settings, round(1_000 * gpus))
        pools = Pools(settings={"training": settings}, revision=1)
        placer = placer_with(capacity, settings)
        for tasks in sorted({1, max(1, most), most + 1}):
            job = a_job(tasks, gpus)
            found = placer.pools.find((job,), ANYBODY, CHOICE)
            assert (tasks <= most) == (not isinstance(found, Reason)), (settings, tasks, most)
            if isinstance(found, Reason):
                continue
            claim = a_claim("w-99", jobs=(job,), spreads=found)
            assert Headroom(capacity).broken_by(claim, pools) is None, (settings, claim)


def grants_somewhere(
    capacity: Capacity, pools: Pools, placer: Placer, job: JobSpec, nodes: Iterable[int]
) -> bool:
    """Whether the store would grant some way of placing it on these nodes: whichever are taken, each as full as it can be."""
    room = {node: placer.pools.available(node).gpu_milli // job.need.gpu_milli for node in nodes}
    mine = [node for node, most in room.items() if most and job.takes(capacity.node_type[node])]
    for count in range(1, min(job.tasks, len(mine)) + 1):
        for taken in combinations(mine, count):
            if sum(room[node] for node in taken) < job.tasks:
                continue
            left, counts = job.tasks - len(taken), dict.fromkeys(taken, 1)
            for node in taken:
                more = min(left, room[node] - 1)
                counts[node], left = counts[node] + more, left - more
            if left < 0:
                continue
            claim = a_claim("w-99", jobs=(job,), spreads=(a_spread(counts),))
            if Headroom(capacity).broken_by(claim, pools) is None:
                return True
    return False


@pytest.mark.parametrize("seed", SEEDS)
def test_search_finds_all_usable_capacity_in_one_unit(seed: int) -> None:
    """P23: of tasks that must lie together, exactly when the store would grant them somewhere, whatever the nodes are like."""
    dice = random.Random(seed)
    refused = 0
    for _ in range(40):
        capacity = a_pool(dice, sizes=(4, 8))
        settings = PoolSettings("plain", dice.randint(0, 4), dice.choice((1_000, 1_000, 900, 700)))
        placer = placer_with(capacity, settings)
        pools = Pools(settings={"training": settings}, revision=1)
        pack = dice.choice((Extent.RACK, Extent.ZONE, Extent.ANY))
        job = a_job(dice.randint(2, 5), dice.choice((2, 4, 8)))
        job = replace(job, topology=Topology(pack=pack))
        size = {Extent.RACK: 3, Extent.ZONE: 6, Extent.ANY: NODES}[pack]
        units = [range(first, first + size) for first in range(0, NODES, size)]
        expected = any(grants_somewhere(capacity, pools, placer, job, unit) for unit in units)
        found = placer.pools.find((job,), ANYBODY, CHOICE)
        assert expected == (not isinstance(found, Reason)), (settings, job)
        if isinstance(found, Reason):
            refused += 1
            continue
        assert any(set(found[0].nodes) <= set(unit) for unit in units)
        claim = a_claim("w-99", jobs=(job,), spreads=found)
        assert Headroom(capacity).broken_by(claim, pools) is None, (settings, claim)
    assert 0 < refused < 40


@pytest.mark.parametrize("seed", SEEDS)
def test_counts_by_cluster_equal_a_count_from_scratch(seed: int) -> None:
    """Whatever rows were put, by facts or in thought, and whoever was pushed out in thought."""
    dice = random.Random(seed)
    capacity = a_pool(dice)
    placer = placer_with(capacity, PoolSettings(reserve=1))
    [pool] = placer.pools.by_name.values()
    with placer.pools.trial() as trial:
        for _ in range(300):
            row = capacity.node_row(dice.randrange(NODES))
            gpus = dice.choice((0, 1_000, 8_000, 8_000))
            free = replace(row.free, gpu_milli=gpus)
            trial.put(replace(row, free=free, is_open=dice.random() < 0.8))
            assert counts_of(pool) == counted_anew(pool)
        in_use = [(node, NODE.minus(placer.pools.available(node))) for node in range(0, NODES, 2)]
        pushed = placer.pools.released(in_use)
        [other] = pushed.by_name.values()
        assert counts_of(other) == counted_anew(other)
        assert pool.table.empty == other.table.empty
    assert counts_of(pool) == counted_anew(pool)


def counts_of(pool: PoolIndex) -> tuple[list[int], list[int]]:
    """By cluster: empty nodes, and GPU milli that open ones have."""
    return pool.table.empty, pool.table.open_gpu


def counted_anew(pool: PoolIndex) -> tuple[list[int], list[int]]:
    """The same, node by node."""
    empty, opened = ([0] * len(pool.layout.clusters) for _ in range(2))
    for slot in np.flatnonzero(pool.layout.node != NO_NODE).tolist():
        cluster = int(pool.layout.cluster_of_pod[slot // pool.layout.pod_slots])
        row, total = pool.row(slot), int(pool.table.gpu_total[slot])
        opened[cluster] += total * row.is_open
        is_spare = not pool.table.not_spare[slot]
        empty[cluster] += row.is_open and is_spare and row.free.gpu_milli == total
    return empty, opened


def test_other_rules_rebuild_classes_and_nothing_else() -> None:
    """The rows stay as they are, other pools' classes too, and a change of what stays free makes none."""
    groups = (NodeGroup(0, 4, NODE, "H100", 0, 2), NodeGroup(4, 4, NODE, "H100", 2, 2, pool="lab"))
    inventory = Inventory(WorkerName("w0"), groups)
    capacity = a_region(NodesJoined(inventory.worker, inventory)).capacity
    settings = {"training": PoolSettings(), "lab": PoolSettings()}
    plans = {"training": PLAIN, "lab": PLAIN}
    placer = Placer(capacity, Overlay(), plans.__getitem__, None, settings.__getitem__)
    placer.refresh()
    before = dict(placer.pools.by_name)
    placer.pools.find((a_job(1, 1),), ANYBODY, CHOICE)
    settings["training"] = PoolSettings(reserve=4)
    placer.touch_pool("training")
    placer.refresh()
    assert before == placer.pools.by_name
    found = placer.pools.find((a_job(1, 1),), ANYBODY, CHOICE)
    assert not isinstance(found, Reason)
    assert found[0].nodes[0] >= 4
    plans["training"] = type(PLAIN)(PLAIN.rules)
    placer.touch_pool("training")
    placer.refresh()
    assert before["lab"] is placer.pools.by_name["lab"]
    after = placer.pools.by_name["training"]
    assert after.layout is before["training"].layout
    assert after.plan is plans["training"]
    assert counts_of(after) == counts_of(before["training"])
    assert after.table.gpu.tolist() == before["training"].table.gpu.tolist()
