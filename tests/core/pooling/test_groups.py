"""Groups of nodes that are split among pools: each node stays in its rack and is in one pool, however often nodes move."""

# rows: T1, M23

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.events.pools import NodesPooled
from core.images.region import Hardware
from core.invariants.pools import check_pools
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import WorkerName
from core.nouns.placement import numbers_in, runs_of
from core.nouns.quantities import Amount
from core.placing.index.layout import layouts_of
from core.pooling.moving import pools_by_node
from tests.builders import NODE, a_fact, a_region, an_inventory, joined

POOLS = ("training", "service", "free", "shared")
moves = st.lists(
    st.tuples(st.sets(st.integers(0, 39), min_size=1, max_size=12), st.sampled_from(POOLS)), max_size=12
)


@given(moves, st.integers(1, 7), st.integers(0, 3))
def test_each_node_is_in_one_pool_and_in_its_rack(
    moves: list[tuple[set[int], str]], nodes_per_rack: int, into_rack: int
) -> None:
    """As if each node were a group of its own; and layouts have exactly these nodes, each in its rack."""
    group = NodeGroup(0, 40, NODE, "H100", 5, nodes_per_rack, into_rack=min(into_rack, nodes_per_rack - 1))
    inventory = Inventory(WorkerName("w0"), (group,))
    wanted = ["training"] * 40
    for nodes, pool in moves:
        inventory = inventory.pooled(runs_of(nodes), pool)
        for node in nodes:
            wanted[node] = pool
    found = {node: one for one in inventory.groups for node in one.numbers()}
    assert list(range(40)) == inventory.numbers()
    assert wanted == [found[node].pool for node in range(40)]
    assert [group.rack_of(node) for node in range(40)] == [found[node].rack_of(node) for node in range(40)]
    changes = sum(one != other for one, other in pairwise(wanted))
    assert changes + 1 == len(inventory.groups), "groups that are alike are joined again"


def test_groups_that_share_a_rack_stay_in_it() -> None:
    """Groups that a worker named apart are only joined where racks go on as well."""
    (group,) = an_inventory("w0", 0, 3, nodes_per_rack=4).groups
    inventory = Inventory(WorkerName("w0"), (group, replace(group, first=3, count=4)))
    racks = {node: one.rack_of(node) for one in inventory.groups for node in one.numbers()}
    again = inventory.pooled(((0, 0),), "service").pooled(((0, 0),), "training")
    assert racks == {node: one.rack_of(node) for one in again.groups for node in one.numbers()}


def test_runs_of_several_groups_are_split_in_each() -> None:
    """A run may begin in one group and end in another, and name nodes that the worker does not have."""
    first, second = (an_inventory("w0", at, 4).groups[0] for at in (0, 4))
    inventory = Inventory(WorkerName("w0"), (first, replace(second, gpu_type="A100")))
    found = inventory.pooled(((2, 5), (9, 12)), "service")
    assert [(0, 2, "training"), (2, 2, "service"), (4, 2, "service"), (6, 2, "training")] == [
        (one.first, one.count, one.pool) for one in found.groups
    ]


@given(moves)
def test_image_follows_within_the_fact(moves: list[tuple[set[int], str]]) -> None:
    """M23: the ledger, layouts and what the queue knows of hardware, equal to those of workers that joined with these pools."""
    image = a_region(
        joined("w0", 0, 20), joined("w1", 20, 20, total=Amount(4_000, 8_000, 1 << 30), gpu_type="A100")
    )
    wanted = pools_by_node(image.capacity)
    for sequence, (nodes, pool) in enumerate(moves):
        image.fold(a_fact(NodesPooled(runs_of(nodes), pool), 10 + sequence))
        for node in nodes:
            wanted[node] = pool
    assert wanted == pools_by_node(image.capacity)
    assert [] == check_pools(image.capacity)
    layouts = layouts_of(image.capacity)
    for node, pool in enumerate(wanted):
        assert [pool] == [name for name, layout in layouts.items() if layout.slot(node) >= 0]
        layout = layouts[pool]
        assert image.capacity.rack[node] == layout.rack[layout.slot(node)]
    assert_hardware(
        image.hardware, [group for row in image.capacity.workers.values() for group in row.inventory.groups]
    )


def assert_hardware(hardware: Hardware, groups: list[NodeGroup]) -> None:
    """It counts these groups, on either side of the border of shared pools."""
    anew = Hardware()
    anew.add(Inventory(WorkerName("w0"), tuple(sorted(groups, key=lambda group: group.first))))
    assert (anew.rows, anew.shared) == (hardware.rows, hardware.shared)
    for group in groups:
        for node in group.numbers():
            assert group.node_type == hardware.type_of(node)


def test_nodes_that_were_moved_changed_with_the_fact() -> None:
    """So that a claim on an older view of them is judged anew."""
    image = a_region(joined())
    image.fold(a_fact(NodesPooled(((1, 2),), "service"), 9))
    assert {1, 2} == {node for node, sequence in enumerate(image.capacity.changed) if sequence == 9}
    assert [1, 2] == numbers_in(((1, 2),))
