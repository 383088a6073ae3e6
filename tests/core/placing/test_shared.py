"""Parts of devices in an agent's arrays: how many tasks fit, which node is preferred, and what offers take."""

import random

import numpy as np
import pytest

from core.nouns.placement import NodeRow, takings_of
from core.nouns.quantities import MILLI, Amount
from core.nouns.reasons import Reason
from core.placing.index.layout import NO_NODE, Layout
from core.placing.index.overlay import Overlay
from core.placing.index.request_classes import INVALID
from core.placing.pick.nodes import Choice
from core.placing.pick.single_node import pick_lazily
from core.placing.pool import PoolIndex
from core.rows import pack_rows, unpack_rows
from core.rules.placement.plan import Plan
from core.rules.placement.rule import Request
from core.rules.placement.rule_sets import DEFAULT, PLAIN
from tests.builders import a_claim, a_job, a_region, a_spread, amount, granted, joined
from tests.core.placing.searching import looked_for, placed, placer_of, rows_of
from tests.core.placing.shelves import groups

DEVICES = 8
PARTS = (100, 250, 300, 500, 600, 900)
REQUESTS = [
    *(Request(Amount(part), "H100") for part in PARTS),
    Request(Amount(1_000), "H100"),
    Request(Amount(4_000), "H100"),
    Request(Amount(1_200), "H100", together=2),
    Request(Amount(2_000), "H100", together=4),
]


def a_row(dice: random.Random, node: int) -> NodeRow:
    """One node with some whole devices and some shared ones, or with whole ones alone."""
    shared = tuple(sorted(dice.choices(PARTS, k=dice.choice((0, 0, 1, 2, 4)))))
    whole = dice.randint(0, DEVICES - len(shared))
    is_open = dice.random() < 0.9
    return NodeRow(node, Amount(whole * MILLI + sum(shared), 64_000, 512), is_open, shared)


def a_pool(plan: Plan, layout: Layout) -> PoolIndex:
    """Nothing is free on any node."""
    pool = PoolIndex("training", layout, plan)
    at = np.flatnonzero(layout.node != NO_NODE)
    none = np.zeros(len(at), dtype=np.int64)
    pool.table.fill(at, none, none, none, np.ones(len(at), dtype=bool))
    return pool


def fitting(row: NodeRow, request: Request) -> int:
    """How many tasks fit, counted device by device."""
    if not row.is_open:
        return 0
    each = request.need.gpu_milli // request.together
    whole = (row.free.gpu_milli - sum(row.parts)) // MILLI
    if each >= MILLI:
        return whole // (each // MILLI)
    return sum(room // each for room in [*row.parts, *[MILLI] * whole]) // request.together


@pytest.mark.parametrize("plan", [PLAIN, DEFAULT])
def test_tasks_that_fit_are_counted_by_devices_through_all_changes(plan: Plan) -> None:
    """P14: rows that change one by one, in devices or in sums alone, give the classes that are made from scratch."""
    dice = random.Random(1)
    layout = Layout(groups(160))
    pool = a_pool(plan, layout)
    slots = [slot for slot in range(layout.slots) if layout.node[slot] != NO_NODE]
    known: dict[int, NodeRow] = {}
    for number in range(600):
        slot = dice.choice(slots)
        node = int(layout.node[slot])
        row = a_row(dice, node)
        if slot in known and dice.random() < 0.3:
            # As much is free as before, on other devices.
            free = known[slot].free
            row = NodeRow(
                node, free, is_open=True, parts=(MILLI // 2,) * 2 if free.gpu_milli >= MILLI else ()
            )
        known[slot] = row
        pool.put(slot, row)
        if number % 7:
            continue
        fresh = a_pool(plan, layout)
        for other, its in known.items():
            fresh.put(other, its)
        for request in REQUESTS:
            mine, new = pool.class_of(request), fresh.class_of(request)
            assert np.array_equal(mine.key, new.key)
            assert np.array_equal(mine.cap, new.cap)
        request, slot = dice.choice(REQUESTS), dice.choice(list(known))
        if layout.clusters[layout.cluster_of_pod[slot // layout.pod_slots]].node_type == "H100":
            one = pool.class_of(request)
            assert fitting(known[slot], request) == one.cap[slot]
            assert (one.cap[slot] == 0) == (one.key[slot] == INVALID)
        shown = pool.row(slot)
        if known[slot].is_open:
            assert known[slot] == shown


def test_uncached_search_finds_the_nodes_of_a_class() -> None:
    """P17: also where parts of devices decide; and rows that were copied are equal."""
    dice = random.Random(2)
    layout = Layout(groups(160))
    pool = a_pool(PLAIN, layout)
    for slot in np.flatnonzero(layout.node != NO_NODE).tolist():
        pool.put(slot, a_row(dice, int(layout.node[slot])))
    none = np.zeros(0, dtype=np.int32), np.zeros((0, 3), dtype=np.int64)
    for copied in (pool, pool.released(*none), pool.under(PLAIN)):
        for request in REQUESTS:
            for seed in ("a", "b"):
                choice = Choice(seed)
                found = pool.picker.pick(pool.class_of(request), choice)
                assert found == pick_lazily(copied.table, PLAIN, request, choice)


def test_part_goes_where_a_device_is_shared() -> None:
    """No whole device is broken into while a shared one holds it, though that leaves more GPUs over on the node."""
    total = amount(4, 64, 512)
    image = a_region(
        joined("w0", 0, 3, total=total),
        granted(a_claim("w-1", jobs=(a_job(1, 0.6),), spreads=(a_spread({1: 1}),))),
        granted(a_claim("w-2", jobs=(a_job(3, 1),), spreads=(a_spread({2: 3}),))),
    )
    placer = placer_of(image.capacity)
    assert [{1: 1}] == placed(placer, a_job(1, 0.4))
    assert [{2: 1}] == placed(placer, a_job(1, 0.5))
    assert [{1: 1}] == placed(placer, a_job(1, 3))


def test_jobs_of_parts_lie_beside_each_other() -> None:
    """What the first job takes of devices the second does not find: a search ends with what a store grants."""
    image = a_region(joined("w0", 0, 1, total=amount(2, 64, 512)))
    placer = placer_of(image.capacity)
    assert [{0: 2}, {0: 2}] == placed(placer, a_job(2, 0.6), a_job(2, 0.4, name="eval"))
    assert Reason.NO_CAPACITY == looked_for(placer, a_job(2, 0.6), a_job(1, 0.5, name="eval"))
    assert NodeRow(0, amount(2, 64, 512), is_open=True) == rows_of(placer)[0], "nothing stays of a search"


def test_offers_take_parts_of_devices() -> None:
    """An agent counts what it offered on devices as the store will, and gives it back whole."""
    image = a_region(
        joined("w0", 0, 1, total=amount(3, 64, 512)),
        granted(a_claim("w-1", jobs=(a_job(1, 0.5),), spreads=(a_spread({0: 1}),))),
    )
    overlay = Overlay()
    placer = placer_of(image.capacity, overlay)
    jobs = (a_job(2, 0.4), a_job(1, 1, name="eval"))
    placer.touch(overlay.put("bid", takings_of(jobs, (a_spread({0: 2}), a_spread({0: 1})))))
    assert NodeRow(0, amount(0.7, 64, 512), is_open=True, parts=(100, 600)) == rows_of(placer)[0]
    assert (500,) == overlay.row(image.capacity, 0, ("bid",)).parts
    placer.touch(overlay.put("claim", takings_of((a_job(1, 0.6),), (a_spread({0: 1}),))))
    assert (100,) == rows_of(placer)[0].parts
    for key in ("bid", "claim"):
        placer.touch(overlay.drop(key))
    assert (500,) == rows_of(placer)[0].parts
    assert image.capacity.node_row(0) == rows_of(placer)[0]


def test_packed_rows_of_nodes_with_parts_are_read_from_the_image() -> None:
    """P22: they do not tell of devices; once nothing is shared any more, they tell all again."""
    image = a_region(
        joined("w0", 0, 2, total=amount(2, 64, 512)),
        granted(a_claim("w-1", jobs=(a_job(1, 0.6),), spreads=(a_spread({0: 1}),))),
    )
    placer = placer_of(image.capacity)
    packed = unpack_rows(pack_rows(image.capacity, [0, 1])).tolist()
    placer.touch([0, 1])
    placer.put_rows(packed)
    assert {0: (400,), 1: ()} == {node: row.parts for node, row in rows_of(placer).items()}
