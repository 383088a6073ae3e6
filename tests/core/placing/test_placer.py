"""An agent's index: kept up fact by fact, and equal to one made from scratch."""

import random

import pytest

from core.events.region import NodesLost
from core.images import RegionImage
from core.nouns.ids import WorkerName
from core.nouns.placement import NodeRow
from core.nouns.quantities import Amount
from core.placing.index.overlay import Overlay
from core.rows import pack_rows, unpack_rows
from core.touched import LAYS_OUT, touched_by
from tests.builders import a_claim, a_fact, a_job, a_region, amount, granted, joined
from tests.core.histories import RegionHistory
from tests.core.placing.searching import available, looked_for, placed, placer_of, rows_of
from tests.core.properties import SEEDS


@pytest.mark.parametrize("seed", SEEDS)
def test_index_equals_one_from_scratch_after_random_facts(seed: int) -> None:
    """T7, P14: however often it was looked at in between, it shows what a new one shows, and what the ledger says.

    It makes no difference whether rows told beside the facts were put in, or the facts alone were folded; nor to what is found.
    """
    dice = random.Random(seed)
    image = RegionImage.empty()
    placer = placer_of(image.capacity)
    batch: list[int] = []
    for fact in RegionHistory(seed).draw(120):
        touched = touched_by(image.capacity, fact)
        image.fold(fact)
        placer.touch(touched, joined=isinstance(fact.event, LAYS_OUT))
        batch.extend(touched)
        if dice.random() < 0.3:
            if dice.random() < 0.5:
                placer.put_rows(unpack_rows(pack_rows(image.capacity, batch)).tolist())
            batch = []
            fresh = placer_of(image.capacity)
            assert rows_of(fresh) == rows_of(placer)
            assert fresh.pools.held_permille == placer.pools.held_permille
            for node, row in rows_of(placer).items():
                is_open = image.capacity.is_open(node)
                shared = image.capacity.node_row(node).parts if is_open else ()
                free = image.capacity.available(node) if is_open else Amount()
                assert NodeRow(node, free, is_open, shared) == row
            for job in (a_job(1, 1), a_job(2, 8), a_job(3, 2, gpu_type="A100")):
                assert looked_for(fresh, job) == looked_for(placer, job)


def test_node_is_seen_when_lower_numbers_join_after_a_search() -> None:
    """Workers join in any order; a node between others' numbers is as good as any."""
    image = a_region(joined("w1", 4, 2))
    placer = placer_of(image.capacity)
    assert [4, 5] == list(available(placer))
    fact = a_fact(joined("w0", 0, 4, gpu_type="A100"), 2)
    touched = touched_by(image.capacity, fact)
    image.fold(fact)
    placer.touch(touched, joined=True)
    assert dict.fromkeys(range(6), 8_000) == {node: row.gpu_milli for node, row in available(placer).items()}
    assert [{0: 1, 1: 1, 2: 1, 3: 1}] == placed(placer, a_job(4, 8, gpu_type="A100"))
    assert [{4: 1, 5: 1}] == placed(placer, a_job(2, 8))


def test_rows_are_packed_once_each_and_in_order() -> None:
    """Node, what is available of each resource, whether tasks may be placed there, on shared devices, and kept."""
    image = a_region(joined("w0", 0, 2), granted(a_claim("w-1", placed={0: 5})), joined("w1", 2, 1))
    image.fold(a_fact(NodesLost(WorkerName("w1"), (2,)), 4))
    rows = unpack_rows(pack_rows(image.capacity, [2, 0, 2], kept={2}))
    assert [[0, 3_000, 64_000, 512 << 30, 1, 0, 0], [2, 0, 0, 0, 0, 0, 1]] == rows.tolist()
    assert [] == unpack_rows(pack_rows(image.capacity, [])).tolist()


def test_capacity_when_a_search_takes_some() -> None:
    """The next search starts from the current rows, also when one job of a workload found a place and the next did not."""
    placer = placer_of(a_region().capacity)
    before = rows_of(placer)
    looked_for(placer, a_job(1, 8), a_job(99, 1, name="more"))
    placed(placer, a_job(2, 8), a_job(1, 1, name="more"))
    assert before == rows_of(placer)


def test_capacity_when_a_row_was_learnt() -> None:
    """The row is believed, and on a node that is not open nothing is available, whatever the row says."""
    overlay = Overlay()
    placer = placer_of(a_region().capacity, overlay)
    overlay.learnt[1] = (NodeRow(1, amount(3, 5, 7), is_open=True), 9)
    overlay.learnt[2] = (NodeRow(2, amount(3, 5, 7), is_open=False), 9)
    placer.touch((1, 2))
    assert [amount(3, 5, 7), Amount()] == [available(placer)[node] for node in (1, 2)]


def test_capacity_when_nodes_are_lost_or_promised() -> None:
    """Nothing is available on a lost node, and the capacity that others hold is not available either."""
    image = a_region(joined(), granted(a_claim("w-1", placed={0: 5})), joined("w1", 4, 1))
    image.fold(a_fact(NodesLost(WorkerName("w1"), (4,)), 4))
    free = [row.gpu_milli for row in available(placer_of(image.capacity)).values()]
    assert [3_000, 8_000, 8_000, 8_000, 0] == free


def test_offered_capacity_counts_until_it_is_dropped() -> None:
    """Once under each key, however often it is put; a search may leave keys out, and finds everything as it was afterwards."""
    overlay = Overlay()
    placer = placer_of(a_region(joined("w0", 0, 1)).capacity, overlay)
    for _ in range(2):
        placer.touch(overlay.put("bid", [(0, amount(5))]))
    placer.touch(overlay.put("claim", [(0, amount(2))]))
    assert 1_000 == available(placer)[0].gpu_milli
    with placer.as_if(("bid",)):
        assert 6_000 == available(placer)[0].gpu_milli
    assert 1_000 == available(placer)[0].gpu_milli
    placer.touch(overlay.drop("bid"))
    placer.touch(overlay.drop("bid"))
    assert 6_000 == available(placer)[0].gpu_milli
    assert ["claim"] == list(overlay.keys())
