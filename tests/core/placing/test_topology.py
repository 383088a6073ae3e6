"""Where tasks lie to each other: in one rack, pod or zone, spread over several, few on a node; and what a store thinks of it."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.claims.checks import check_nodes, check_now, nodes_without_capacity
from core.claims.spreading import left_out
from core.images.capacity import Capacity
from core.images.pools import Pools
from core.nouns.fleet import NodeGroup
from core.nouns.placement import Claim, Spread
from core.nouns.reasons import Reason
from core.nouns.workload import Extent, JobSpec, Kind, Topology
from core.placing.index.layout import Layout
from core.placing.index.owners import Now, Owners
from core.placing.index.request_classes import RequestClass
from core.placing.index.table import NodeTable
from core.placing.pick.extents import Extents, evenly
from core.placing.pick.nodes import Choice
from core.placing.pool_set import Asker
from core.rules.placement.fullest import FullestPod
from core.rules.placement.rule_sets import DEFAULT, PLAIN
from tests.builders import NODE, a_claim, a_job, a_region
from tests.core.placing.rooms import a_group, hard_and, here, placer_by, request, used
from tests.core.properties import PROPERTY

EXTENTS = (Extent.RACK, Extent.POD, Extent.ZONE)
TREE = (
    a_group(0, 8, nodes_per_rack=2, zone="a"),  # racks 0 to 3 of pod 0
    a_group(8, 8, rack_first=16, nodes_per_rack=2, zone="a"),  # racks 16 to 19 of pod 1
    a_group(16, 8, rack_first=32, nodes_per_rack=2, zone="b"),  # racks 32 to 35 of pod 2
    a_group(24, 2, rack_first=33, nodes_per_rack=2, zone="b", gpu_memory=1),  # more of rack 33
)


def unit_of(node: int, extent: Extent) -> int | str:
    """In which a node of that tree lies, from the groups alone."""
    if extent is Extent.NODE:
        return node
    group = next(group for group in TREE if node in group.numbers())
    rack = group.rack_of(node)
    if extent is Extent.ZONE:
        return group.zone
    return rack if extent is Extent.RACK else rack // 16


def laid(
    job: JobSpec, free: list[int], *, kind: Kind = Kind.TRAINING, seed: str = "w-1"
) -> tuple[Spread | Reason, Capacity]:
    """Where its tasks go in that tree, with so many GPUs free on each node."""
    events = [here(*TREE), *(used(node, 8 - gpus) for node, gpus in enumerate(free) if gpus < 8)]
    capacity = a_region(*events).capacity
    placer = placer_by(PLAIN, capacity)
    found = placer.pools.find((job,), Asker(kind), Choice(seed))
    return found if isinstance(found, Reason) else found[0], capacity


def a_job_lying(tasks: int, gpus: float = 1, **asked: object) -> JobSpec:
    """One with this topology."""
    return replace(a_job(tasks, gpus), topology=Topology(**asked))  # type: ignore[arg-type]


frees = st.lists(st.integers(0, 8), min_size=26, max_size=26)


# Levels.


def test_sums_of_each_level_are_those_of_its_nodes() -> None:
    """P1: over 100,000 nodes in zones, pods, racks and power domains, also after changes."""
    groups = [
        NodeGroup(5_000 * n, 5_000, NODE, "H100", 320 * n, 16, f"z{n % 4}", f"p{n % 7}", gpu_memory=n % 3)
        for n in range(20)
    ]
    layout = Layout(groups)
    table = NodeTable(layout, DEFAULT.units)
    slots = np.flatnonzero(layout.node >= 0)
    assert 100_000 == len(slots)
    dice = np.random.default_rng(1)
    gpu = dice.integers(0, 9, len(slots)).astype(np.int32) * 1000
    table.fill(slots, gpu, gpu, gpu.astype(np.int64), dice.random(len(slots)) < 0.9)
    for slot in dice.choice(slots, 500).tolist():
        table.set(slot, 1000 * int(dice.integers(0, 9)), 1, 1, is_open=bool(dice.random() < 0.9))
    group_of = np.repeat(np.arange(20), 5_000)[layout.node[slots]]
    racks = np.asarray([groups[g].rack_of(int(n)) for g, n in zip(group_of, layout.node[slots], strict=True)])
    by_rack = Counter[int]()
    for rack, free in zip(racks.tolist(), table.gpu[slots].tolist(), strict=True):
        by_rack[rack] += free
    extents = Extents(layout)
    of_racks = extents.sums(Extent.RACK, np.asarray(table.racks.free))
    assert sorted(filter(None, by_rack.values())) == sorted(filter(None, of_racks.tolist()))
    for units, numbers in (
        (table.racks, slots // layout.rack_slots),
        (table.pods, slots // layout.pod_slots),
        (table.domains, layout.domain[slots]),
        (table.clusters, layout.cluster_of_pod[slots // layout.pod_slots]),
    ):
        size = len(units.free)
        assert np.bincount(numbers, weights=table.gpu[slots], minlength=size).tolist() == units.free
        totals = np.bincount(numbers, weights=table.gpu_total[slots], minlength=size)
        assert np.maximum(totals, 1).tolist() == units.total
    assert table.gpu_free == int(table.gpu.sum()) == sum(by_rack.values())


# Spread.


@pytest.mark.parametrize("extent", EXTENTS)
@PROPERTY
@given(free=frees, tasks=st.integers(1, 40))
def test_replicas_are_spread(extent: Extent, free: list[int], tasks: int) -> None:
    """P26: K replicas are in min(K, those with room) racks (pods, zones), and none has more than it must."""
    found, _ = laid(a_job_lying(tasks, spread=extent), free)
    room = Counter[int | str]()
    for node, gpus in enumerate(free):
        # One pool, and all of its nodes will do.
        room[unit_of(node, extent)] += gpus
    if sum(room.values()) < tasks:
        assert Reason.NO_CAPACITY == found
        return
    assert isinstance(found, Spread)
    assert tasks == sum(found.tasks)
    counts = Counter[int | str]()
    for node, count in zip(found.nodes, found.tasks, strict=True):
        assert count <= free[node]
        counts[unit_of(node, extent)] += count
    assert min(tasks, sum(gpus > 0 for gpus in room.values())) == len(counts)
    for unit, gpus in room.items():
        if counts[unit] < gpus:
            assert max(counts.values()) <= counts[unit] + 1, "another could have had one of its tasks"


@pytest.mark.parametrize(
    ("pack", "spread"),
    [(Extent.ANY, extent) for extent in EXTENTS]
    + [(Extent.POD, Extent.RACK), (Extent.ZONE, Extent.RACK), (Extent.ZONE, Extent.POD)],
)
@PROPERTY
@given(free=frees, tasks=st.integers(2, 30), most=st.integers(0, 2), gpus=st.sampled_from((0.4, 1, 3)))
def test_store_finds_no_fault_with_spread_tasks(
    pack: Extent, spread: Extent, free: list[int], tasks: int, most: int, gpus: float
) -> None:
    """P26: places that the search finds pass the re-check; with the tasks of one unit put into another, that unit is found missing."""
    job = a_job_lying(tasks, gpus, pack=pack, spread=spread, tasks_per_node=most)
    found, capacity = laid(job, free)
    if isinstance(found, Reason):
        return
    now, pools = Now(capacity, Owners.of(capacity)), Pools()
    claim = a_claim(jobs=(job,), spreads=(found,), view_sequence=99)
    assert left_out(claim, now, pools, 99) is None
    first = unit_of(found.nodes[0], spread)
    together = dict(zip(found.nodes, found.tasks, strict=True))
    moved = {node for node in together if unit_of(node, spread) == first}
    if len(moved) == len(together):
        return
    elsewhere = sum(together.pop(node) for node in moved)
    together[min(together)] += elsewhere
    crowded = replace(claim, spreads=(Spread(tuple(together), tuple(together.values())),))
    node = left_out(crowded, now, pools, 99)
    assert node is not None
    assert unit_of(node, spread) not in {unit_of(other, spread) for other in together}


@PROPERTY
@given(st.lists(st.integers(0, 9), min_size=1, max_size=9), st.data())
def test_evenly_is_max_min_fair(caps: list[int], data: st.DataObject) -> None:
    """It equals giving one task after the other to whoever has the fewest and has room."""
    tasks = data.draw(st.integers(0, sum(caps)))
    order = data.draw(st.permutations(range(len(caps))))
    counts = [0] * len(caps)
    for _ in range(tasks):
        best = min((unit for unit in order if counts[unit] < caps[unit]), key=lambda unit: counts[unit])
        counts[best] += 1
    assert counts == evenly(np.asarray(caps), np.asarray(order), tasks).tolist()


def test_service_is_spread_over_racks_unless_it_says_otherwise() -> None:
    """P26: two replicas on one rack would both be gone with it."""
    free = [8] * 26
    spread, _ = laid(a_job(6), free, kind=Kind.SERVICE)
    assert isinstance(spread, Spread)
    assert 6 == len({unit_of(node, Extent.RACK) for node in spread.nodes})
    gang, _ = laid(a_job(6), free)
    assert isinstance(gang, Spread)
    assert 1 == len(gang.nodes)
    packed, _ = laid(a_job_lying(6, pack=Extent.RACK), free, kind=Kind.SERVICE)
    assert isinstance(packed, Spread)
    assert 1 == len({unit_of(node, Extent.RACK) for node in packed.nodes})
    on_one, _ = laid(a_job_lying(6, pack=Extent.NODE), free, kind=Kind.SERVICE)
    assert isinstance(on_one, Spread)
    assert (6,) == on_one.tasks


def test_spread_within_a_packed_zone() -> None:
    """Over the racks of one zone, of the one that has the most of them with capacity."""
    found, _ = laid(a_job_lying(7, pack=Extent.ZONE, spread=Extent.RACK), [8] * 26)
    assert isinstance(found, Spread)
    assert {"a"} == {unit_of(node, Extent.ZONE) for node in found.nodes}
    assert 7 == len({unit_of(node, Extent.RACK) for node in found.nodes})


# Pack.


@pytest.mark.parametrize("extent", [Extent.NODE, *EXTENTS])
@PROPERTY
@given(free=frees, tasks=st.integers(1, 60), most=st.integers(0, 4))
def test_packed_tasks_lie_in_one_unit(extent: Extent, free: list[int], tasks: int, most: int) -> None:
    """They find a place exactly when one node (rack, pod, zone) has room for them all, and a store agrees."""
    job = a_job_lying(tasks, pack=extent, tasks_per_node=most)
    found, capacity = laid(job, free)
    room = Counter[int | str]()
    for node, gpus in enumerate(free):
        room[unit_of(node, extent)] += min(gpus, most or gpus)
    if max(room.values()) < tasks:
        assert Reason.NO_CAPACITY == found
        return
    assert isinstance(found, Spread)
    assert tasks == sum(found.tasks)
    assert 1 == len({unit_of(node, extent) for node in found.nodes})
    assert not most or max(found.tasks) <= most
    claim = a_claim(jobs=(job,), spreads=(found,))
    assert check_nodes(claim, capacity) is None
    assert {} == check_now(claim, Now(capacity, Owners.of(capacity)))
    assert () == nodes_without_capacity(claim, capacity)


def a_claim_on(job: JobSpec, placed: dict[int, int]) -> Claim:
    """Of this job, placed so."""
    nodes = tuple(sorted(placed))
    return a_claim(jobs=(job,), spreads=(Spread(nodes, tuple(placed[node] for node in nodes)),))


@pytest.mark.parametrize(
    ("job", "placed", "refusal"),
    [
        (a_job_lying(2, pack=Extent.NODE), {0: 2}, None),
        (a_job_lying(2, pack=Extent.NODE), {0: 1, 1: 1}, Reason.TOPOLOGY_BROKEN),
        (a_job_lying(2, pack=Extent.RACK), {0: 1, 1: 1}, None),
        (a_job_lying(2, pack=Extent.RACK), {0: 1, 2: 1}, Reason.TOPOLOGY_BROKEN),
        (a_job_lying(2, pack=Extent.RACK), {18: 1, 24: 1}, None),
        (a_job_lying(2, pack=Extent.POD), {0: 1, 7: 1}, None),
        (a_job_lying(2, pack=Extent.POD), {0: 1, 8: 1}, Reason.TOPOLOGY_BROKEN),
        (a_job_lying(2, pack=Extent.ZONE), {0: 1, 8: 1}, None),
        (a_job_lying(2, pack=Extent.ZONE), {0: 1, 16: 1}, Reason.TOPOLOGY_BROKEN),
        (a_job_lying(2, tasks_per_node=1), {0: 1, 16: 1}, None),
        (a_job_lying(2, tasks_per_node=1), {0: 2}, Reason.TOPOLOGY_BROKEN),
        (a_job_lying(1, zones=("b",)), {0: 1}, Reason.WRONG_ZONE),
        (a_job_lying(1, zones=("b",)), {16: 1}, None),
        (replace(a_job(1), gpu_memory=2), {24: 1}, Reason.GPU_MEMORY_SHORT),
        (replace(a_job(1), gpu_memory=1), {24: 1}, None),
        (a_job(1, 16), {0: 1}, Reason.TASK_TOO_LARGE),
    ],
)
def test_store_checks_again(job: JobSpec, placed: dict[int, int], refusal: Reason | None) -> None:
    """What no agent would claim is refused all the same, and the reason is told."""
    capacity = a_region(here(*TREE)).capacity
    assert refusal == check_nodes(a_claim_on(job, placed), capacity)


def test_store_checks_the_pool_again() -> None:
    """By the kind of the claim."""
    capacity = a_region(here(a_group(0, pool="harvest"))).capacity
    assert Reason.WRONG_POOL == check_nodes(a_claim(), capacity)
    assert check_nodes(a_claim(kind=Kind.BATCH), capacity) is None


def test_rack_that_is_larger_than_a_row_of_slots() -> None:
    """A rack of 100 nodes is one rack."""
    group = NodeGroup(0, 100, NODE, "H100", 0, 100)
    capacity = a_region(here(group)).capacity
    pools = placer_by(PLAIN, capacity).pools
    found = pools.find((a_job_lying(100, 8, pack=Extent.RACK),), Asker(), Choice("w-1"))
    assert not isinstance(found, Reason)
    assert tuple(range(100)) == found[0].nodes


def test_capacity_that_moved_from_one_rack_to_another() -> None:
    """The capacity of a pod is as before, and that of a rack is not: a class that is brought up to date equals a new one."""
    plan = hard_and(FullestPod(8))
    capacity = a_region(here(a_group(0, 4)), used(0, 8), used(2, 8), used(3, 7)).capacity
    pool = placer_by(plan, capacity).pools.by_name["training"]
    wanted = request(8)
    assert 1 == int(pool.class_of(wanted).pod_cap.sum())
    for node, gpus in ((1, 7_000), (0, 8_000), (3, 8_000), (3, 0)):
        pool.table.set(pool.layout.slot(node), gpus, 64_000, NODE.memory_bytes, is_open=True)
    known = pool.class_of(wanted)
    fresh = RequestClass(plan, pool.table, wanted, pool._shared_by(wanted))
    fresh.update()
    assert fresh.rack_cap.tolist() == known.rack_cap.tolist()
    assert 1 == known.builds
