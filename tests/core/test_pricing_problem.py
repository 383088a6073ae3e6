"""What a region's prices are solved from."""

import random

import pytest
from msgspec.structs import replace

from core.codec import encode
from core.events.region import NodesJoined
from core.images import RegionImage
from core.images.demand import Demand
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import RegionName, WorkerName
from core.nouns.limits import NODE_CLASSES_MAX
from core.nouns.mix import WEIGHT, TypicalShape
from core.nouns.quantities import MILLI, Amount
from core.pricing.fluid import NodeClass
from core.pricing.problem import PricingProblem, classes_of, problem_of
from tests.builders import (
    EU,
    GIB,
    NODE,
    a_claim,
    a_job,
    a_queue,
    a_region,
    a_spec,
    granted,
    joined,
    submitted,
)
from tests.components.support.shared_pool import pool_nodes
from tests.core.histories import RegionHistory
from tests.core.properties import SEEDS


def a_class(node_type: str, count: int) -> NodeClass:
    """So many of the builders' nodes."""
    return NodeClass(node_type, NODE.gpu_milli // MILLI, NODE.cpu_milli, NODE.memory_bytes, count)


def test_like_nodes_are_one_class() -> None:
    """Whatever runs on them."""
    region = a_region(
        joined("w0", 0, 2), joined("w1", 2, 1, gpu_type="A100"), granted(a_claim(placed={0: 1}))
    )
    assert (a_class("A100", 1), a_class("H100", 2)) == classes_of(region.capacity)


def test_nodes_of_shared_pools_are_left_out() -> None:
    """A policy divides them, and no agent weighs them by price."""
    region = a_region(joined("w0", 0, 2), pool_nodes(3, first=10, gpu_type="H100"))
    assert (a_class("H100", 2),) == classes_of(region.capacity)


def more(**amounts: int) -> Amount:
    """So much more than one of the builders' nodes has."""
    return NODE.plus(Amount(**amounts))


def test_tasks_that_cannot_run_there_are_left_out() -> None:
    """Neither those of another region, nor those of hardware that it does not have, nor those larger than its nodes."""
    queue = a_queue(
        submitted(1, a_spec(a_job(3), a_job(5, gpu_type="A100"))),
        submitted(2, a_spec(a_job(2), regions=(EU,))),
        submitted(3, a_spec(a_job(9), regions=(RegionName("us"),))),
        *(
            submitted(number, a_spec(replace(a_job(7), need=need)))
            for number, need in enumerate((more(gpu_milli=1), more(cpu_milli=1), more(memory_bytes=1)), 4)
        ),
    )
    problem = problem_of(queue.demand, a_region(joined()).capacity, EU)
    shape = TypicalShape(gpus=1, weight=WEIGHT)
    assert ((shape,), 5, 32_000) == (problem.mix.shapes, problem.arrivals, problem.gpu_milli)


def test_tasks_that_differ_in_memory_alone_are_of_one_shape() -> None:
    """Which has the mean of it."""
    jobs = [replace(a_job(tasks), need=Amount(1_500, 4_000, gib * GIB)) for tasks, gib in ((3, 10), (1, 30))]
    problem = problem_of(a_queue(submitted(1, a_spec(*jobs))).demand, a_region().capacity, EU)
    assert (TypicalShape(1, 500, 4_000, 15 * GIB, (), WEIGHT),) == problem.mix.shapes


@pytest.mark.parametrize(
    ("asked", "or_types", "wanted"),
    [
        ("H100", (), ("H100",)),
        ("H100", ("V100",), ("H100",)),
        ("H100", ("A100",), ("A100", "H100")),
        ("H100", ("A100", "T4"), ()),
        ("any", (), ()),
    ],
)
def test_shape_is_bound_to_the_types_that_will_do(
    asked: str, or_types: tuple[str, ...], wanted: tuple[str, ...]
) -> None:
    """Of those that are there; who can have them all is bound to none."""
    region = a_region(
        *(joined(f"w{at}", 4 * at, 4, gpu_type=name) for at, name in enumerate(("H100", "A100", "T4")))
    )
    job = replace(a_job(), gpu_type=asked, or_types=or_types)
    (shape,) = problem_of(a_queue(submitted(1, a_spec(job))).demand, region.capacity, EU).mix.shapes
    assert wanted == shape.node_types


def test_nothing_is_a_problem_without_anything() -> None:
    """No nodes and no tasks."""
    assert PricingProblem() == problem_of(Demand(), RegionImage.empty().capacity, EU)
    assert encode(PricingProblem())


@pytest.mark.parametrize("seed", SEEDS[:8])
def test_classes_are_of_all_open_nodes(seed: int) -> None:
    """Of any valid history."""
    history = RegionHistory(seed)
    history.draw(random.Random(seed).randint(20, 200))
    capacity = history.image.capacity
    nodes = [node for node in range(len(capacity.node_type)) if history.is_open(node)]
    classes = classes_of(capacity)
    assert len(nodes) == sum(one.count for one in classes)
    assert sum(capacity.gpu.total[node] for node in nodes) == sum(
        MILLI * one.count * one.gpus for one in classes
    )
    assert len(classes) == len(
        {(one.node_type, one.gpus, one.cpu_milli, one.memory_bytes) for one in classes}
    )


def test_nodes_of_ever_so_many_sizes_are_few_classes() -> None:
    """Machines that say how many bytes they have are alike but for that: of one type and as many GPUs, they count with their mean."""
    count = 4 * NODE_CLASSES_MAX
    region = a_region(
        *(
            NodesJoined(WorkerName(f"w{node}"), Inventory(WorkerName(f"w{node}"), (a_group_of(node),)))
            for node in range(count)
        )
    )
    mean = NODE.memory_bytes + (count - 1) // 2
    gpus = NODE.gpu_milli // MILLI
    assert (NodeClass("H100", gpus, NODE.cpu_milli, mean, count),) == classes_of(region.capacity)


def a_group_of(node: int) -> NodeGroup:
    """One node, each with a byte more than the one before it."""
    return NodeGroup(node, 1, NODE.plus(Amount(memory_bytes=node)), "H100", 0, 16)
