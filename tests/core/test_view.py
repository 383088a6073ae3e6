"""An agent's arrays: kept up fact by fact, and equal to arrays made from scratch."""

import random

import pytest

from core.events.region import NodesLost
from core.images import RegionImage
from core.nouns.ids import WorkerName
from core.nouns.placement import NodeRow
from core.nouns.quantities import Amount
from core.rows import pack_rows, unpack_rows
from core.touched import touched_by
from core.view import NodeView, Room
from tests.builders import a_claim, a_fact, a_region, amount, granted, joined
from tests.core.histories import RegionHistory
from tests.core.properties import SEEDS


def plain(view: NodeView, room: Room) -> list[tuple[int, int, int, int, str]]:
    """The arrays as rows, GPU types by their names: which code a type has is of no matter."""
    names = {code: name for name, code in view.codes.items()}
    columns = zip(room.gpu, room.cpu, room.memory, room.rack, room.kind, strict=True)
    return [
        (int(gpu), int(cpu), int(memory), int(rack), names.get(int(kind), ""))
        for gpu, cpu, memory, rack, kind in columns
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_view_equals_one_from_scratch_after_random_facts(seed: int) -> None:
    """T7, P14: however often it was looked at in between, it shows what a new one shows, and what the ledger says.

    It makes no difference whether rows told beside the facts were put in, or the facts alone were folded.
    """
    dice = random.Random(seed)
    image = RegionImage.empty()
    view = NodeView(image.capacity)
    batch: list[int] = []
    for fact in RegionHistory(seed).draw(120):
        touched = touched_by(image.capacity, fact)
        image.fold(fact)
        view.touch(touched)
        batch.extend(touched)
        if dice.random() < 0.3:
            if dice.random() < 0.5:
                view.put_rows(unpack_rows(pack_rows(image.capacity, batch)))
            batch = []
            fresh = NodeView(image.capacity)
            room = view.room()
            assert plain(fresh, fresh.room()) == plain(view, room)
            assert fresh.gpu_total == view.gpu_total == sum(image.capacity.gpu.total)
            for node in range(len(image.capacity.node_type)):
                is_open = image.capacity.is_open(node)
                available = image.capacity.available(node) if is_open else Amount()
                assert available == Amount(int(room.gpu[node]), int(room.cpu[node]), int(room.memory[node]))


def test_node_is_seen_when_lower_numbers_join_after_a_search() -> None:
    """Workers join in any order; a node between others' numbers is as good as any."""
    image = a_region(joined("w1", 4, 2))
    view = NodeView(image.capacity)
    assert [-1, -1, -1, -1, 0, 0] == view.room().kind.tolist()
    fact = a_fact(joined("w0", 0, 4, gpu_type="A100"), 2)
    touched = touched_by(image.capacity, fact)
    image.fold(fact)
    view.touch(touched)
    kinds = view.room().kind.tolist()
    assert [view.codes["A100"]] * 4 + [view.codes["H100"]] * 2 == kinds
    assert [8_000] * 6 == view.room().gpu.tolist()
    assert [0, 0, 1, 1, 2, 2] == view.room().rack.tolist()
    assert 48_000 == view.gpu_total


def test_rows_are_packed_once_each_and_in_order() -> None:
    """Node, what is available of each resource, and whether tasks may be placed there."""
    image = a_region(joined("w0", 0, 2), granted(a_claim("w-1", placed={0: 5})), joined("w1", 2, 1))
    image.fold(a_fact(NodesLost(WorkerName("w1"), (2,)), 4))
    rows = unpack_rows(pack_rows(image.capacity, [2, 0, 2]))
    assert [[0, 3_000, 64_000, 512 << 30, 1], [2, 0, 0, 0, 0]] == rows.tolist()
    assert [] == unpack_rows(pack_rows(image.capacity, [])).tolist()


def test_room_when_a_search_changes_its_copy() -> None:
    """The next search starts from what is so."""
    view = NodeView(a_region().capacity)
    room = view.room()
    room.take([(0, amount(8))])
    assert 0 == room.gpu[0]
    assert 8_000 == view.room().gpu[0]
    assert 8_000 == room.copy().gpu[1]


def test_room_when_a_row_was_learnt() -> None:
    """The row is believed, and on a node that is not open nothing is available, whatever the row says."""
    room = NodeView(a_region().capacity).room()
    room.set(NodeRow(1, amount(3, 5, 7), is_open=True))
    room.set(NodeRow(2, amount(3, 5, 7), is_open=False))
    learnt = amount(3, 5, 7)
    assert learnt == Amount(int(room.gpu[1]), int(room.cpu[1]), int(room.memory[1]))
    assert [0, 0, 0] == [int(room.gpu[2]), int(room.cpu[2]), int(room.memory[2])]


def test_room_when_nodes_are_lost_or_promised() -> None:
    """Nothing is available on a lost node, and what others hold is not available either."""
    image = a_region(joined(), granted(a_claim("w-1", placed={0: 5})), joined("w1", 4, 1))
    image.fold(a_fact(NodesLost(WorkerName("w1"), (4,)), 4))
    assert [3_000, 8_000, 8_000, 8_000, 0] == NodeView(image.capacity).room().gpu.tolist()
