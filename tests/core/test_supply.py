"""What is summed up for whoever solves for prices."""

import random

import pytest
from msgspec.structs import replace

from core.images import RegionImage
from core.images.demand import Demand
from core.nouns.ids import RegionName
from core.nouns.pricing import NodeClass, ShapeCount
from core.nouns.quantities import MILLI, Amount
from core.rules.supply import classes_of, problem_of
from tests.builders import EU, NODE, a_claim, a_job, a_queue, a_region, a_spec, granted, joined, submitted
from tests.core.histories import RegionHistory
from tests.core.properties import SEEDS


def test_like_nodes_are_one_class() -> None:
    """With all that is free on them, device by device and node by node."""
    claim = replace(a_claim(placed={0: 1}), jobs=(a_job(1, 2.3),))
    region = a_region(joined("w0", 0, 2), joined("w1", 2, 1, gpu_type="A100"), granted(claim))
    free = Amount(13_700, 2 * NODE.cpu_milli, 2 * NODE.memory_bytes)
    assert (
        NodeClass("A100", NODE, 1, NODE, ((MILLI, 8),), ((8, 1),)),
        NodeClass("H100", NODE, 2, free, ((700, 1), (MILLI, 13)), ((5, 1), (8, 1))),
    ) == classes_of(region.capacity)


def test_tasks_that_cannot_run_there_are_left_out() -> None:
    """Neither those of another region, nor those of hardware that it does not have."""
    jobs = [a_job(3), a_job(5, gpu_type="A100")]
    queue = a_queue(
        submitted(1, a_spec(*jobs)),
        submitted(2, a_spec(a_job(2), regions=(EU,))),
        submitted(3, a_spec(a_job(9), regions=(RegionName("us"),))),
    )
    problem = problem_of(queue.demand, a_region(joined()).capacity, EU)
    assert (ShapeCount(a_job().need, ("H100",), 5),) == problem.shapes


def test_nothing_is_a_problem_without_anything() -> None:
    """No nodes and no tasks."""
    problem = problem_of(Demand(), RegionImage.empty().capacity, EU)
    assert ((), ()) == (problem.shapes, problem.classes)


@pytest.mark.parametrize("seed", SEEDS[:8])
def test_sums_are_those_of_the_nodes(seed: int) -> None:
    """Of any valid history: open nodes, what is available on them, and devices by what is free on each."""
    history = RegionHistory(seed)
    history.draw(random.Random(seed).randint(20, 200))
    capacity = history.image.capacity
    nodes = [node for node in range(len(capacity.node_type)) if history.is_open(node)]
    classes = classes_of(capacity)
    assert len(nodes) == sum(one.nodes for one in classes)
    free = [capacity.available(node) for node in nodes]
    assert sum(one.gpu_milli for one in free) == sum(one.free.gpu_milli for one in classes)
    assert sum(one.cpu_milli for one in free) == sum(one.free.cpu_milli for one in classes)
    assert sum(one.memory_bytes for one in free) == sum(one.free.memory_bytes for one in classes)
    rooms = [capacity.room(node) for node in nodes]
    devices = sum(max(0, room.whole) + sum(milli > 0 for milli in room.shared.values()) for room in rooms)
    assert devices == sum(count for one in classes for _, count in one.devices)
    assert sum(max(0, room.whole) for room in rooms) == sum(
        whole * count for one in classes for whole, count in one.whole
    )
    assert all(milli <= MILLI for one in classes for milli, _ in one.devices)
