"""Several GPU types that will do for a job: all are searched, its tasks lie on one, and rules decide between them."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.claims.checks import check_nodes
from core.images import RegionImage
from core.nouns.fleet import ANY_TYPE, CPU_TYPE
from core.nouns.pool import PoolSettings
from core.nouns.reasons import Reason
from core.nouns.workload import Extent, JobSpec, Program, Topology
from core.placing.answers.shortages import shortage_of
from core.placing.diagnosis.replay_choice import Outcome, Unit
from core.placing.index.overlay import Overlay
from core.placing.pick.nodes import Choice
from core.placing.placer import Placer
from core.rules.placement.rule_sets import PLAIN
from tests.builders import a_claim, a_job, a_region, amount, joined
from tests.core.placing.rooms import a_group, here, used
from tests.core.placing.searching import ANYBODY, CHOICE, looked_for, placed, placer_of
from tests.core.placing.test_retracing import again, claimed, the_choice
from tests.core.properties import PROPERTY

NOWHERE = Topology()
"""Anywhere."""
TYPES = ("A100", "B200", "H100")
SHELF = [("H100", 8), ("H100", 8), ("A100", 8), ("A100", 8), ("A100", 8)]
"""Two nodes of one type and three of another."""


def region_of(
    shelf: Sequence[tuple[str, int]], per_rack: int = 2, zones: Sequence[str] = ("z", "y")
) -> RegionImage:
    """Nodes of these types with so many GPUs, in racks and zones one after the other."""
    groups = [
        a_group(
            node,
            total=amount(gpus, 16, 64),
            gpu_type=gpu_type,
            rack_first=node // per_rack,
            zone=zones[node % len(zones)],
        )
        for node, (gpu_type, gpus) in enumerate(shelf)
    ]
    return a_region(here(*groups))


def shelved(shelf: Sequence[tuple[str, int]], per_rack: int = 2, zones: Sequence[str] = ("z",)) -> Placer:
    """The same, ready to be searched."""
    return placer_of(region_of(shelf, per_rack, zones).capacity)


def either(*types: str, tasks: int = 1, gpus: float = 8, topology: Topology = NOWHERE) -> JobSpec:
    """A job for which each of these types will do; named none, any."""
    first, *others = types or (ANY_TYPE,)
    return replace(a_job(tasks, gpus, gpu_type=first, cpus=1), or_types=tuple(others), topology=topology)


def types_of(shelf: Sequence[tuple[str, int]], nodes: Sequence[int] | dict[int, int]) -> set[str]:
    """What these nodes are."""
    return {shelf[node][0] for node in nodes}


shelves = st.lists(st.tuples(st.sampled_from((*TYPES, CPU_TYPE)), st.integers(1, 8)), min_size=1, max_size=9)
asked = st.lists(st.sampled_from(TYPES), unique=True, max_size=3)
topologies = st.sampled_from(
    (
        NOWHERE,
        Topology(pack=Extent.RACK),
        Topology(pack=Extent.ZONE),
        Topology(spread=Extent.RACK),
        Topology(pack=Extent.ZONE, spread=Extent.RACK),
        Topology(tasks_per_node=1),
    )
)


@PROPERTY
@given(shelves, asked, st.integers(1, 6), st.sampled_from((0, 0.5, 1, 2, 8)), topologies)
def test_a_job_finds_capacity_exactly_when_one_of_its_types_has_it(
    shelf: list[tuple[str, int]], types: list[str], tasks: int, gpus: float, topology: Topology
) -> None:
    """T4, M4: all tasks on one of the types that will do; and refused only if each type, asked for alone, is refused."""
    placer = shelved(shelf, zones=("z", "y"))
    job = either(*types, tasks=tasks, gpus=gpus, topology=topology)
    mine = sorted(types or {gpu_type for gpu_type, _ in shelf if gpus == 0 or gpu_type != CPU_TYPE})
    alone = [looked_for(placer, replace(job, gpu_type=name, or_types=())) for name in mine]
    found = looked_for(placer, job)
    if all(isinstance(one, Reason) for one in alone):
        assert isinstance(found, Reason)
        assert (found == Reason.NO_CAPACITY) == (Reason.NO_CAPACITY in alone)
    else:
        assert not isinstance(found, Reason)
        assert types_of(shelf, found[0].nodes) <= set(mine)
        assert 1 == len(types_of(shelf, found[0].nodes))
        assert check_nodes(a_claim(jobs=(job,), spreads=found), region_of(shelf).capacity) is None


def test_rules_decide_between_types_and_not_the_order_in_which_they_are_named() -> None:
    """T4: one task goes where it leaves least, of whichever type; among equals to each of them for some seeds."""
    shelf = [("H100", 8), ("A100", 3), ("B200", 2)]
    for types in (("H100", "A100"), ("A100", "H100")):
        assert [{1: 1}] == placed(shelved(shelf, 1), either(*types, gpus=2))
    level = shelved(SHELF, per_rack=8)
    orders: tuple[tuple[str, ...], ...] = (("H100", "A100"), ("A100", "H100"), ())
    for order in orders:
        chosen = [placed(level, either(*order), choice=Choice(f"w-{n}.1"))[0] for n in range(40)]
        assert {0, 1, 2, 3, 4} == {node for nodes in chosen for node in nodes}


@pytest.mark.parametrize(
    ("tasks", "topology", "wanted"),
    [
        pytest.param(2, NOWHERE, {0, 1}, id="the tightest rack"),
        pytest.param(3, NOWHERE, {2, 3, 4}, id="the only type with room"),
        pytest.param(5, NOWHERE, set(), id="not over both types"),
        pytest.param(3, Topology(spread=Extent.RACK), {2, 3, 4}, id="over the most racks"),
        pytest.param(3, Topology(pack=Extent.RACK), set(), id="in one rack"),
        pytest.param(2, Topology(pack=Extent.POD), {0, 1}, id="in one pod, in the tightest rack there"),
    ],
)
def test_a_gang_lies_on_one_type(tasks: int, topology: Topology, wanted: set[int]) -> None:
    """On the one on which it lies best: in the tightest unit, or over the most units."""
    found = looked_for(shelved(SHELF), either("A100", "H100", tasks=tasks, topology=topology))
    if not wanted:
        assert Reason.NO_CAPACITY == found
    else:
        assert not isinstance(found, Reason)
        assert wanted == set(found[0].nodes)


def test_a_gang_that_is_spread_lies_on_the_type_of_most_units() -> None:
    """Though another would hold it more tightly."""
    wanted = either("A100", "H100", tasks=2, topology=Topology(spread=Extent.RACK))
    found = looked_for(shelved(SHELF), wanted)
    assert not isinstance(found, Reason)
    assert {"A100"} == types_of(SHELF, found[0].nodes)


def test_a_gang_lies_where_its_worst_node_is_better() -> None:
    """Of types on which it lies as tightly: the best node of a place does not make up for the others."""
    shelf = [("H100", 2), ("H100", 8), ("A100", 4), ("A100", 4)]
    wanted = either("A100", "H100", tasks=2, gpus=2, topology=Topology(tasks_per_node=1))
    assert [{2: 1, 3: 1}] == placed(shelved(shelf), wanted)


def test_tasks_searched_one_by_one_lie_on_the_type_of_most_capacity() -> None:
    """As many as it has capacity for; the others wait, whatever another type has."""
    found = shelved(SHELF).pools.find_each(either("A100", "H100", tasks=4), ANYBODY, CHOICE)
    assert [2, 3, 4] == sorted(node for spread in found for node in spread.nodes)


def test_any_type_is_of_gpus_unless_none_is_asked_for() -> None:
    """CPU slots are no GPUs; what needs no GPU runs anywhere; and programs only where programs run."""
    shelf = [(CPU_TYPE, 1), ("A100", 1)]
    placer = shelved(shelf)
    assert [{1: 1}] == placed(placer, either(gpus=1))
    assert Reason.NO_SUCH_HARDWARE == looked_for(placer, either(gpus=2))
    found = [placed(placer, either(gpus=0), choice=Choice(f"w-{n}.1"))[0] for n in range(30)]
    assert {0, 1} == {node for nodes in found for node in nodes}
    program = replace(either(gpus=1), emulation=None, program=Program("true"))
    assert Reason.NO_SUCH_HARDWARE == looked_for(placer, program)


def test_a_reserve_does_not_hide_the_type_that_has_the_capacity() -> None:
    """Empty nodes that a gang may take are counted for each type by itself."""
    region = a_region(
        here(*(a_group(node, gpu_type="A100" if node % 2 else "H100", rack_first=0) for node in range(6)))
    )
    settings = PoolSettings(reserve=3)
    placer = Placer(region.capacity, Overlay(), lambda _: PLAIN, settings_of=lambda _: settings)
    placer.refresh()
    (found,) = placed(placer, either("A100", "H100", tasks=3))
    assert sorted(found) in ([0, 2, 4], [1, 3, 5])
    assert Reason.NO_CAPACITY == looked_for(placer, either("A100", "H100", tasks=4))


def test_types_in_another_order_are_one_class() -> None:
    """What was worked out for one is used for the other, and a job of one type has what it had."""
    placer = shelved(SHELF)
    for types in (("H100", "A100"), ("A100", "H100")):
        looked_for(placer, either(*types))
    (pool,) = placer.pools.by_name.values()
    assert 1 == len(pool.kept())
    assert 1 == pool.counts.misses


def test_a_refusal_counts_the_capacity_of_one_type() -> None:
    """Capacity of two types is not to be added up for a gang that is on one."""
    placer = shelved(SHELF)
    short = shortage_of(placer.pools, (either("A100", "H100", tasks=4),), ANYBODY, CHOICE)
    assert short is not None
    assert (3, 5, 4) == (short.tasks_fit, short.nodes, short.tasks)


def test_choices_between_types_are_retraced() -> None:
    """P27: of a task all types are looked at; of a gang the units of the type that it got."""
    image = a_region(
        joined("w0", 0, 2, rack_first=0),
        joined("w1", 2, 4, gpu_type="A100", rack_first=1),
        used(0, 4),
    )
    of_task = the_choice(image, claimed(image, either("H100", "A100", gpus=2)))
    assert ("avoid_empty", "0") == (of_task.decided_by, of_task.chosen)
    of_gang = the_choice(image, claimed(image, either("H100", "A100", tasks=3)))
    assert (Unit.POD, "0") == (of_gang.unit, of_gang.chosen)
    assert 4 == next(step.left for step in of_gang.steps if step.rule == "gpu_type")


def test_a_choice_among_equal_types_comes_out_again() -> None:
    """Chance between types is drawn from the claim's seed."""
    image = a_region(joined("w0", 0, 2, rack_first=0), joined("w1", 2, 2, gpu_type="A100", rack_first=1))
    chosen = set()
    for number in range(20):
        claim = claimed(image, either("H100", "A100", tasks=2), choice=Choice(f"w-{number}.1"))
        assert Outcome.EQUAL == again(image, claim).outcome
        chosen.add(claim.spreads[0].nodes)
    assert {(0, 1), (2, 3)} == chosen
