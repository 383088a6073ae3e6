"""Each rule decides what it says it decides, and nothing is decided without it; keys compare as their rules do, in order."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from core.fact import Event
from core.nouns.reasons import SENTENCES
from core.nouns.workload import Kind
from core.placing.index.request_classes import INVALID
from core.placing.index.rows import TableRows
from core.placing.index.table import NodeTable
from core.placing.pick.nodes import Choice
from core.rules.placement.avoid_empty import AvoidEmpty
from core.rules.placement.best_fit import BestFit
from core.rules.placement.by_name import ByName
from core.rules.placement.fragmentation import Fragmentation
from core.rules.placement.fullest import FullestPod, FullestRack, FullestZone
from core.rules.placement.islands import Islands
from core.rules.placement.plan import Plan
from core.rules.placement.planned_work import PlannedWork
from core.rules.placement.power_headroom import PowerHeadroom
from core.rules.placement.priced_value import PricedValue
from core.rules.placement.residency import NearData
from core.rules.placement.rule import (
    ClusterPreference,
    ClusterValidator,
    NodePreference,
    NodeValidator,
    Numbers,
    Preference,
    Request,
    Rows,
    Rule,
    UnitPreference,
)
from core.rules.placement.rule_sets import DEFAULT, LASTING, PASSING, PLAIN, RULES
from tests.builders import a_region, amount
from tests.core.placing.rooms import a_group, hard_and, here, picked, placer_by, request, used
from tests.core.properties import PROPERTY

GIB = 1 << 30


class Case(Struct, frozen=True):
    """A region in which a rule decides for some nodes, and a request."""

    rule: Rule
    events: Sequence[Event]
    request: Request
    nodes: set[int]
    prepare: Callable[[NodeTable], None] = lambda _: None


def planned_on_0(table: NodeTable) -> None:
    """Work is planned on node 0."""
    table.set_upkeep(table.layout.slot(0), 1)


TWO_ZONES = here(a_group(0, 2, zone="a"), a_group(16, 2, zone="b"))
SOFT = [
    Case(PlannedWork(2), (here(a_group(0, 3)),), request(), {1, 2}, planned_on_0),
    Case(NearData(2), (TWO_ZONES,), request(near=("b",)), {16, 17}),
    Case(AvoidEmpty(2), (here(a_group(0, 3)), used(2, 1)), request(), {2}),
    Case(BestFit(8), (here(a_group(0, 3)), used(1, 3), used(2, 6)), request(2), {2}),
    Case(BestFit(8), (here(a_group(0, 3)), used(1, 3), used(2, 6)), request(3), {1}),
    Case(Islands(2), (here(a_group(0, 2, island=4)), used(0, 2), used(1, 4)), request(2), {0}),
    Case(Islands(2), (here(a_group(0, 2, island=4)), used(0, 2), used(1, 4)), request(4), {0, 1}),
    Case(FullestRack(16), (here(a_group(0, 4, nodes_per_rack=2)), used(2, 4)), request(), {2, 3}),
    Case(FullestPod(8), (here(a_group(0, 2), a_group(16, 2)), used(16, 4)), request(), {16, 17}),
    Case(FullestZone(4), (TWO_ZONES, used(0, 8)), request(), {1}),
    Case(
        PowerHeadroom(4),
        (here(a_group(0, 2, power_domain="p"), a_group(2, 2, power_domain="q")), used(0, 8)),
        request(),
        {2, 3},
    ),
    Case(PricedValue(16384), (here(a_group(0, 3)), used(0, 4), used(1, 5)), request(), {1}),
    Case(PricedValue(16384), (here(a_group(0, 2)), used(0, 0.75)), request(0.25), {0}),
    Case(Fragmentation(), (here(a_group(0, 3)), used(0, 4), used(1, 5)), request(), {1}),
    Case(Fragmentation(((4_000, 1_000),)), (here(a_group(0, 3)), used(0, 4), used(1, 5)), request(), {1}),
    Case(Fragmentation(((500, 1_000),)), (here(a_group(0, 2)), used(0, 0.75)), request(0.25), {0}),
]


@pytest.mark.parametrize("case", SOFT, ids=lambda case: case.rule.name)
def test_preference_decides(case: Case) -> None:
    """Among nodes that all would do."""
    assert case.nodes == picked(hard_and(case.rule), case.events, case.request, case.prepare)


@pytest.mark.parametrize(
    "case", [case for case in SOFT if case.request.need != amount(4)], ids=lambda case: case.rule.name
)
def test_more_nodes_are_picked_without_the_preference(case: Case) -> None:
    """The nodes of the preference are a part of those picked without it."""
    assert case.nodes < picked(hard_and(), case.events, case.request, case.prepare)


MEMORIES = here(a_group(0, gpu_memory=40 * GIB), a_group(1, gpu_memory=80 * GIB), a_group(2))
HARD = {
    "gpu_type": ((here(a_group(0), a_group(1, gpu_type="A100")),), request(), {0}),
    "gpu_memory": ((MEMORIES,), request(gpu_memory=60 * GIB), {1}),
    "gpu_memory of no matter": ((MEMORIES,), request(), {0, 1, 2}),
    "in_zones": ((TWO_ZONES,), request(zones=("b", "c")), {16, 17}),
    "pool": (
        (here(a_group(0, pool="harvest"), a_group(1, pool="service"), a_group(2, pool="odd")),),
        request(kind=Kind.TRAINING),
        {2},
    ),
    "pool of lent nodes": (
        (here(a_group(0, pool="harvest"), a_group(1, pool="training")),),
        request(kind=Kind.FUNCTION),
        {0},
    ),
    "pool of services": (
        (here(a_group(0, pool="training"), a_group(1, pool="service"), a_group(2, pool="shared")),),
        request(kind=Kind.SERVICE),
        {1},
    ),
    "pool of the free": ((here(a_group(0, pool="free"), a_group(1, pool="odd")),), request(), {1}),
    "tenant_isolation of who is alone": (
        (here(a_group(0, 4)), used(0, 1), used(1, 1, tenant="me")),
        request(is_alone=True),
        {1, 2, 3},
    ),
    "tenant_isolation from who is alone": (
        (here(a_group(0, 3)), used(0, 1, is_alone=True), used(1, 1)),
        request(),
        {1, 2},
    ),
    "tenant_isolation of two": (
        (here(a_group(0, 2)), used(0, 1), used(0, 1, "w-9", tenant="me")),
        request(is_alone=True),
        {1},
    ),
    "tenant_isolation within a tenant": (
        (here(a_group(0, 2)), used(0, 1, tenant="me", is_alone=True), used(1, 8)),
        request(is_alone=True),
        {0},
    ),
}


@pytest.mark.parametrize("name", HARD)
def test_validator_forbids(name: str) -> None:
    """Whatever else would be better."""
    events, wanted, nodes = HARD[name]
    assert nodes == picked(PLAIN if name.startswith("pool") else hard_and(), events, wanted)


@pytest.mark.parametrize(
    "name", ["gpu_type", "gpu_memory", "in_zones", "pool", "tenant_isolation of who is alone"]
)
def test_nothing_is_forbidden_without_the_validator(name: str) -> None:
    """Then others are picked too."""
    events, wanted, nodes = HARD[name]
    left_out = name.partition(" ")[0]
    plan = Plan([rule for rule in (*LASTING, *PASSING) if rule.name != left_out])
    assert nodes != picked(plan, events, wanted)


def test_task_that_no_empty_node_could_hold() -> None:
    """capacity: it is known at once that none ever could."""
    capacity = a_region(here(a_group(0, total=amount(4)), a_group(1, total=amount(6)))).capacity
    pools = placer_by(PLAIN, capacity).pools
    assert [] == pools.pools_for(request(8))
    assert 1 == len(pools.pools_for(request(5)))
    without = Plan([rule for rule in PLAIN.rules if rule.name != "capacity"])
    assert 1 == len(placer_by(without, capacity).pools.pools_for(request(8)))


def test_sets_have_every_rule() -> None:
    """But the gradient of fragmentation, and what stands for itself as it was published; `plain` has no priced value either."""
    alone = {"best_fit_published", "by_name", "fgd", "fragmentation"}
    assert {*RULES} - alone - {"priced_value"} == {rule.name for rule in PLAIN.rules}
    assert {*RULES} - alone == {rule.name for rule in DEFAULT.rules}
    assert [] == [rule.name for rule in PLAIN.rules if isinstance(rule, Preference) and rule.steps == 1]


def test_hard_rules_have_reasons_of_their_own() -> None:
    """A refusal names the rule."""
    hard: list[ClusterValidator | NodeValidator] = [*LASTING, *PASSING]
    reasons = [rule.reason for rule in hard]
    assert len(set(reasons)) == len(reasons)
    assert [] == [reason for reason in reasons if reason not in SENTENCES]


# A rule that is not there.


class MostMemory(NodePreference):
    """Nodes with much memory first: in steps of 64 GiB."""

    name = "most_memory"

    def score(self, rows: Rows, request: Request) -> Numbers:
        found: Numbers = np.clip(self.steps - 1 - rows.memory // (64 * GIB), 0, self.steps - 1)
        return found


class EvenGpus(NodeValidator):
    """Nothing where an odd number of GPUs is free."""

    name = "even_gpus"
    reason = PASSING[0].reason

    def allows(self, rows: Rows, request: Request) -> Numbers:
        found: Numbers = rows.gpu // 1000 % 2 == 0
        return found

    def allows_at(self, present: object, node: int, request: Request) -> bool:
        raise AssertionError("no store is asked here")


def test_rule_is_added_without_touching_the_engine() -> None:
    """P6: one that says what it reads and how far it reaches is asked as all others are, also of rows that change."""
    groups = [a_group(number, total=amount(8, 64, 64 * (number + 1))) for number in range(4)]
    events = [here(*groups), used(3, 1)]
    assert {3} == picked(hard_and(MostMemory(8)), events, request())
    assert {2} == picked(hard_and(MostMemory(8), EvenGpus()), events, request())
    pool = placer_by(hard_and(MostMemory(8), EvenGpus()), a_region(*events).capacity).pools.by_name[
        "training"
    ]
    assert [(pool.layout.slot(2), 1)] == pool.place(request(), 1, Choice("w-1"))
    pool.table.set(pool.layout.slot(2), 5_000, 64_000, 192 * GIB, is_open=True)
    assert [(pool.layout.slot(1), 1)] == pool.place(request(), 1, Choice("w-1"))


# Keys.

frees = st.lists(st.integers(0, 8), min_size=12, max_size=12)


def stocked(plan: Plan, free: Sequence[int]) -> tuple[NodeTable, Numbers, Numbers]:
    """Twelve nodes of two zones and pods with so many GPUs free; their table, slots and keys for a task of one."""
    groups = [
        a_group(0, 4, nodes_per_rack=2, zone="a", power_domain="p", island=4),
        a_group(4, 4, rack_first=16, nodes_per_rack=2, zone="b", power_domain="p"),
        a_group(8, 4, rack_first=32, nodes_per_rack=2, zone="b", power_domain="q", island=2),
    ]
    events: list[Event] = [
        here(*groups),
        *(used(node, 8 - gpus) for node, gpus in enumerate(free) if gpus < 8),
    ]
    pool = placer_by(plan, a_region(*events).capacity).pools.by_name["training"]
    for node in (3, 7, 9):
        pool.table.set_upkeep(pool.layout.slot(node), 1)
    slots = np.asarray([pool.layout.slot(node) for node in range(12)])
    return pool.table, slots, pool.class_of(request(zones=("b",))).key[slots]


def scores_of(rule: Rule, table: NodeTable, slots: Numbers, wanted: Request) -> list[int]:
    """What a preference says of each slot, asked by itself."""
    layout = table.layout
    pods = slots // layout.pod_slots
    if isinstance(rule, NodePreference):
        return [int(score) for score in rule.score(TableRows(table, slots), wanted)]
    if isinstance(rule, ClusterPreference):
        return [rule.score(layout.clusters[layout.cluster_of_pod[pod]], wanted) for pod in pods]
    assert isinstance(rule, UnitPreference)
    units, which = {
        "rack": (table.racks, slots // layout.rack_slots),
        "pod": (table.pods, pods),
        "power_domain": (table.domains, layout.domain[slots]),
    }[str(rule.level)]
    return [rule.score(units.free[unit], units.total[unit]) for unit in which.tolist()]


@pytest.mark.parametrize("plan", [PLAIN, DEFAULT], ids=["plain", "default"])
@PROPERTY
@given(free=frees)
def test_keys_compare_as_the_weighted_sum_of_comparisons(plan: Plan, free: list[int]) -> None:
    """P8: the order of packed keys is the sign of the sum of 2^k * Compare, the first rule having the highest k."""
    table, slots, keys = stocked(plan, free)
    rules = [rule for rule in plan.rules if isinstance(rule, Preference) and rule.level != "cluster"]
    near = [rule for rule in plan.rules if isinstance(rule, ClusterPreference)]
    rules = [rule for rule in plan.rules if rule in rules or rule in near]
    scores = [scores_of(rule, table, slots, request(zones=("b",))) for rule in rules]
    assert len(rules) == (10 if plan is DEFAULT else 9)
    for rule, found in zip(rules, scores, strict=True):
        assert isinstance(rule, Preference)
        assert 0 <= min(found)
        assert max(found) < rule.steps
    for one in range(12):
        for other in range(12):
            if INVALID in (keys[one], keys[other]):
                continue
            total = sum(
                (1 << len(rules) - 1 - index) * int(np.sign(found[one] - found[other]))
                for index, found in enumerate(scores)
            )
            assert np.sign(total) == np.sign(int(keys[one]) - int(keys[other])), (one, other)


@PROPERTY
@given(free=frees)
def test_rule_with_one_step_is_off(free: list[int]) -> None:
    """P9: keys are what they are without it."""
    with_one = stocked(hard_and(AvoidEmpty(2), BestFit(1), FullestRack(16)), free)[2]
    without = stocked(hard_and(AvoidEmpty(2), FullestRack(16)), free)[2]
    assert with_one.tolist() == without.tolist()


@PROPERTY
@given(free=frees)
def test_rule_with_all_steps_decides_everything(free: list[int]) -> None:
    """P9: as many steps as there are differences leave nothing to those after it, unless nodes are equal to it."""
    _, _, keys = stocked(hard_and(FullestRack(1 << 16), BestFit(8)), free)
    racks = {rack: free[2 * rack] + free[2 * rack + 1] for rack in range(6)}
    valid = [node for node in range(12) if keys[node] != INVALID]
    for one in valid:
        for other in valid:
            if racks[one // 2] < racks[other // 2]:
                assert keys[one] < keys[other]


def test_first_rule_is_compared_first() -> None:
    """Another order picks another node."""
    events: list[Event] = [
        here(a_group(0, 2, nodes_per_rack=2), a_group(2, 2, rack_first=1, nodes_per_rack=2))
    ]
    events += [used(0, 7), used(2, 4), used(3, 8)]
    assert {0} == picked(hard_and(BestFit(8), FullestRack(16)), events, request())
    assert {2} == picked(hard_and(FullestRack(16), BestFit(8)), events, request())


def test_clusters_need_not_be_told_apart_for_every_request() -> None:
    """A rule on clusters that judges all of them alike costs a class nothing."""
    pool = placer_by(PLAIN, a_region(TWO_ZONES).capacity).pools.by_name["training"]
    assert pool.class_of(request())._cluster_code is None
    assert pool.class_of(request(near=("a",)))._cluster_code is not None


def test_rules_of_one_sort_only() -> None:
    """Whoever adds one knows which."""
    sorts = (ClusterValidator, NodeValidator, Preference, Fragmentation, ByName)
    assert [] == [name for name, rule in RULES.items() if sum(issubclass(rule, sort) for sort in sorts) != 1]
