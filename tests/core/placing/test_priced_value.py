"""Priced value in a search: of nodes that are alike or of each, before and after, beside gangs and types, and told again."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.device_shares import left_of
from core.fact import Event
from core.nouns.mix import Mix, TypicalShape
from core.nouns.placement import NodeRow
from core.nouns.prices import Prices
from core.nouns.quantities import Amount
from core.placing.diagnosis.replay_choice import Outcome
from core.placing.index import request_classes as classes
from core.placing.index.layout import NO_NODE, Layout
from core.placing.index.node_classes import samples_among
from core.placing.index.request_classes import INVALID
from core.placing.index.rows import TableRows
from core.placing.pick import single_node as lazily
from core.placing.pick.nodes import Choice
from core.placing.pick.single_node import pick_lazily
from core.placing.pool import PoolIndex
from core.rules.placement import priced_value
from core.rules.placement.priced_value import PricedValue
from core.rules.placement.rule import Request
from core.rules.placement.rule_sets import DEFAULT, DEFAULT_RULES, rule_set
from tests.builders import a_job, a_region, amount
from tests.core.placing.rooms import a_group, here, request, used
from tests.core.placing.shelves import groups
from tests.core.placing.test_retracing import again, claimed
from tests.core.placing.test_shared import REQUESTS, a_pool, a_row
from tests.core.properties import PROPERTY

STEPS = 16_384
PRICES = Prices(
    7,
    Mix(
        (
            TypicalShape(gpus=1, cpu_milli=12_000, weight=400_000),
            TypicalShape(part_milli=600, cpu_milli=4_000, weight=300_000),
            TypicalShape(part_milli=300, weight=100_000),
            TypicalShape(gpus=8, cpu_milli=64_000, memory_bytes=1 << 28, weight=200_000),
        )
    ),
    ((0, 100_000, 250_000, 4_000_000), (0, 0, 300_000, 0)),
    (("H100", 400_000),),
)
PRICED = rule_set("default", PRICES)


def test_set_is_the_same_for_the_same_prices() -> None:
    """Or all that was worked out for it would be lost; a set that reads none is the same whatever they are."""
    assert PRICED is rule_set("default", PRICES)
    assert PRICED is not DEFAULT
    assert rule_set("plain") is rule_set("plain", PRICES)
    assert DEFAULT is rule_set("default")
    assert [rule.name for rule in DEFAULT.rules] == [rule.name for rule in PRICED.rules]


def a_shelf(seed: int, nodes: int = 160) -> tuple[PoolIndex, dict[int, NodeRow]]:
    """A pool of mixed types whose nodes have whatever is free, also on shared devices."""
    dice = random.Random(seed)
    layout = Layout(groups(nodes))
    pool, rows = a_pool(PRICED, layout), {}
    for slot in np.flatnonzero(layout.node != NO_NODE).tolist():
        rows[slot] = a_row(dice, int(layout.node[slot]))
        pool.put(slot, rows[slot])
    return pool, rows


@pytest.mark.parametrize("seed", range(3))
def test_nodes_that_are_alike_are_asked_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same keys as if each were asked for itself, through all changes."""
    dice = random.Random(seed)
    mine, rows = a_shelf(seed)
    other, _ = a_shelf(seed)
    slots = list(rows)
    for number in range(60):
        for _ in range(dice.choice((1, 3, 40))):
            slot = dice.choice(slots)
            row = a_row(dice, int(mine.layout.node[slot]))
            mine.put(slot, row)
            other.put(slot, row)
        wanted = REQUESTS[number % len(REQUESTS)]
        monkeypatch.setattr(classes, "ALIKE_MIN", 1)
        monkeypatch.setattr(lazily, "ALIKE_MIN", 1)
        of_alike = mine.class_of(wanted).key.copy()
        choice = Choice(f"w-{number}")
        assert mine.picker.pick(mine.class_of(wanted), choice) == pick_lazily(
            other.table, PRICED, wanted, choice
        )
        monkeypatch.setattr(classes, "ALIKE_MIN", 1 << 30)
        assert np.array_equal(of_alike, other.class_of(wanted).key)
    fresh = a_pool(PRICED, mine.layout)
    for slot in slots:
        fresh.put(slot, mine.row(slot))
    for wanted in REQUESTS:
        assert np.array_equal(fresh.class_of(wanted).key, other.class_of(wanted).key)


def test_nodes_that_are_alike_are_known_before_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first time on, while nobody waits: a class that is new need not look at every node first."""
    monkeypatch.setattr(classes, "ALIKE_MIN", 1)
    pool, rows = a_shelf(1)
    pool.refresh_classes(most=8)
    assert not pool.table.knows_alike
    pool.class_of(REQUESTS[0])
    before = pool.table.alike().seen
    for slot in rows:
        pool.put(slot, a_row(random.Random(slot), int(pool.layout.node[slot])))
    pool.refresh_classes(most=0)
    seen = pool.table._alike.seen
    assert before < seen == pool.table.revision


@PROPERTY
@given(
    columns=st.integers(1, 30).flatmap(
        lambda rows: st.lists(
            st.lists(st.sampled_from((0, 1, 7, 8_000, 1 << 45)), min_size=rows, max_size=rows),
            min_size=4,
            max_size=6,
        )
    )
)
def test_samples_have_one_row_of_each_sort(columns: list[list[int]]) -> None:
    """Also where the columns' values are too many for one integer; devices are alike in whichever order."""
    plain = [np.asarray(column, dtype=np.int64) for column in columns[:3]]
    shared = np.asarray([[value % 999 for value in column] for column in columns[3:]], dtype=np.int16).T
    sample, place = samples_among(plain, shared)
    rows = [
        (*one, *sorted(parts))
        for one, parts in zip(zip(*columns[:3], strict=True), shared.tolist(), strict=True)
    ]
    assert rows == [rows[sample[number]] for number in place]
    assert len(set(rows)) == len(sample)


def test_sorts_that_are_no_more_are_forgotten() -> None:
    """There are never many more of them than slots."""
    pool, rows = a_shelf(1, nodes=20)
    for number in range(5):
        for slot, row in rows.items():
            free = Amount(row.free.gpu_milli, 1_000 * number + slot, 512)
            pool.put(slot, NodeRow(row.node, free, is_open=True, parts=row.parts))
        number_of = pool.table.alike().number
        assert len(pool.table.alike().samples(np.asarray(list(rows)))[0]) == len(
            set(number_of[list(rows)].tolist())
        )
    assert len(pool.table.alike()._known) <= 3 * pool.layout.slots


def worth_at(rule: PricedValue, pool: PoolIndex, row: NodeRow, slot: int) -> int:
    """Of one node with just this free."""
    most = len(row.parts)
    whole = (row.free.gpu_milli - sum(row.parts)) // 1_000
    shared = np.asarray([row.parts], dtype=np.int64).reshape(1, most)
    columns = [
        np.asarray([figure], dtype=np.int64) for figure in (whole, row.free.cpu_milli, row.free.memory_bytes)
    ]
    node_type = pool.layout.node_type[slot : slot + 1]
    return int(rule._worth.on(pool.layout.node_types).of(node_type, columns[0], shared, *columns[1:])[0])


@pytest.mark.parametrize("wanted", REQUESTS, ids=lambda one: f"{one.need.gpu_milli}-{one.together}")
def test_score_is_the_value_that_a_node_loses_to_the_tasks(wanted: Request) -> None:
    """Each part on the fullest device that holds it, as the log will have it."""
    rule = PricedValue(STEPS, PRICES)
    pool, rows = a_shelf(5)
    one = pool.class_of(wanted)
    fits = [slot for slot in rows if one.key[slot] != INVALID]
    assert fits
    scores = rule.score(TableRows(pool.table, np.asarray(fits)), wanted).tolist()
    for slot, score in zip(fits, scores, strict=True):
        row = rows[slot]
        parts = left_of(row.parts, [wanted.part] * wanted.together) if wanted.part else row.parts
        left = NodeRow(row.node, row.free.minus(wanted.need), is_open=True, parts=parts)
        lost = worth_at(rule, pool, row, slot) - worth_at(rule, pool, left, slot)
        assert min(lost // 1_000, STEPS - 1) == score


@pytest.mark.parametrize("known_max", [2, 256])
def test_few_nodes_have_the_scores_that_they_have_among_many(
    known_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when their rooms were looked at before, and when more rooms and requests came since than are remembered."""
    monkeypatch.setattr(priced_value, "KNOWN_MAX", known_max)
    pool, rows = a_shelf(4)
    slots, dice = np.asarray(list(rows)), random.Random(4)
    rule = PricedValue(STEPS, PRICES)
    for wanted in REQUESTS * 2:
        among_many = rule.score(TableRows(pool.table, slots), wanted)
        for _ in range(20):
            some = np.asarray(dice.sample(range(len(slots)), dice.choice((1, 2, 60))))
            alone = rule.score(TableRows(pool.table, slots[some]), wanted)
            assert alone.dtype == among_many.dtype
            assert np.array_equal(among_many[some], alone)


@PROPERTY
@given(
    gpu=st.sampled_from((0, 50, 333, 1_000, 1_250, 2_000, 8_000, 64_000, 600_000)),
    together=st.sampled_from((1, 2, 64)),
    cpu=st.sampled_from((0, 1, 64_000, 10_000_000)),
    memory=st.sampled_from((0, 1, 1 << 42)),
    steps=st.sampled_from((2, 8, STEPS)),
    is_priced=st.booleans(),
)
def test_rule_never_raises(
    gpu: int, together: int, cpu: int, memory: int, steps: int, *, is_priced: bool
) -> None:
    """Of whichever nodes it is asked, and for whatever; every score is a step."""
    rule = PricedValue(steps).knowing(PRICES) if is_priced else PricedValue(steps)
    pool, rows = a_shelf(3, nodes=40)
    wanted = Request(Amount(gpu * together, cpu, memory), "H100", together=together)
    for slots in (np.asarray(list(rows)), np.zeros(0, dtype=np.int64)):
        scores = rule.score(TableRows(pool.table, slots), wanted)
        assert len(slots) == len(scores)
        assert all(0 <= score < steps for score in scores.tolist())


def test_larger_tasks_are_told_apart_too() -> None:
    """Sixteen GPUs are worth more than there are steps of a thousandth of a GPU: the steps are coarser then."""
    group = a_group(0, 2, total=Amount(16_000, 256_000, 1 << 40))
    pool = PoolIndex("training", Layout([group]), PRICED)
    pool.put(0, NodeRow(0, group.total, is_open=True))
    pool.put(1, NodeRow(1, Amount(16_000, 150_000, 1 << 40), is_open=True))
    scores = PricedValue(STEPS, PRICES).score(TableRows(pool.table, slice(0, 2)), request(16)).tolist()
    assert len(set(scores)) == 2
    assert max(scores) < STEPS - 1


# What it prefers.


def chosen(plan_prices: Prices, rows: Sequence[NodeRow], wanted: Request) -> set[int]:
    """Nodes that are picked."""
    group = a_group(0, len(rows), total=Amount(8_000, 96_000, 1 << 40))
    pool = PoolIndex("training", Layout([group]), rule_set("default", plan_prices))
    for row in rows:
        pool.put(pool.layout.slot(row.node), row)
    found = [pool.place(wanted, 1, Choice(f"w-{seed}")) for seed in range(10)]
    return {int(pool.layout.node[placed[0][0]]) for placed in found if placed}


def test_capacity_of_the_least_value_to_others_is_taken_first() -> None:
    """Tasks of 0.2 are many, and the rest beside 0.8 serves them alone; a hole of 0.4 serves two."""
    mix = Mix((TypicalShape(part_milli=800, weight=500_000), TypicalShape(part_milli=400, weight=500_000)))
    prices = Prices(1, mix, ((0, 0),))
    rows = [
        NodeRow(0, Amount(400, 96_000, 1 << 40), is_open=True, parts=(400,)),
        NodeRow(1, Amount(700, 96_000, 1 << 40), is_open=True, parts=(700,)),
        NodeRow(2, Amount(200, 96_000, 1 << 40), is_open=True, parts=(200,)),
    ]
    assert {2} == chosen(prices, rows, request(0.2))
    assert {1} == chosen(prices, rows[:2], request(0.2))


def test_cores_are_left_where_gpus_need_them() -> None:
    """A task without GPUs goes where cores are left over."""
    mix = Mix((TypicalShape(gpus=1, cpu_milli=8_000, weight=1_000_000),))
    prices = Prices(1, mix, ((0,),))
    rows = [
        NodeRow(0, Amount(8_000, 64_000, 1 << 40), is_open=True),
        NodeRow(1, Amount(1_000, 64_000, 1 << 40), is_open=True),
    ]
    assert {1} == chosen(prices, rows, request(0, need=Amount(0, 8_000, 0)))


def test_before_anything_was_seen_whole_nodes_stay_whole() -> None:
    """By what is expected of any region: one GPU goes where one is left over, and a part to a shared device."""
    rows = [
        NodeRow(0, Amount(8_000, 96_000, 1 << 40), is_open=True),
        NodeRow(1, Amount(3_000, 96_000, 1 << 40), is_open=True),
        NodeRow(2, Amount(1_500, 96_000, 1 << 40), is_open=True, parts=(500,)),
    ]
    assert {2} == chosen(Prices(), rows, request())
    assert {2} == chosen(Prices(), rows, request(0.5))
    assert {1} == chosen(Prices(), rows, request(2))


MIXED = here(
    a_group(0, 2, gpu_type="H100", zone="a"),
    a_group(16, 2, gpu_type="H100", zone="b"),
    a_group(32, 2, gpu_type="A100", zone="a"),
)


@pytest.mark.parametrize(("tasks", "there"), [(1, [used(1, 8), used(17, 4)]), (2, [used(1, 1), used(17, 4)])])
def test_scarce_type_is_left_to_jobs_that_can_have_no_other(tasks: int, there: list[Event]) -> None:
    """Though its nodes are fuller: zones are compared for nodes of one type, and types by the value of their GPUs."""
    image = a_region(MIXED, *there)
    either = replace(a_job(tasks, 4 + tasks), or_types=("A100",))
    free = Prices(1, PRICES.mix, PRICES.rents)
    for prices, wanted in ((PRICES, {32, 33}), (replace(free, scarcity=(("A100", 900_000),)), {0, 1, 16})):
        plan = rule_set("default", prices)
        claim = claimed(image, either, plan=plan)
        assert set(claim.spreads[0].nodes) <= wanted
        assert Outcome.EQUAL is again(image, claim, plan).outcome


def test_fullest_zone_comes_first_for_one_type() -> None:
    """Whatever prices say of the nodes in it."""
    image = a_region(MIXED, used(1, 8))
    claims = [claimed(image, a_job(1, 4), plan=PRICED, choice=Choice(f"w-{seed}")) for seed in range(5)]
    assert {(0,)} == {claim.spreads[0].nodes for claim in claims}


def test_choice_by_prices_is_told_again() -> None:
    """With the same prices the same node comes out, and the rule is named."""
    image = a_region(here(a_group(0, 6)), used(0, 3), used(1, 6), used(2, 7))
    claim = claimed(image, a_job(1, 2), plan=PRICED)
    told = again(image, claim, PRICED)
    assert Outcome.EQUAL is told.outcome
    assert "priced_value" == told.choices[0].decided_by


def test_gang_goes_to_one_rack_all_the_same() -> None:
    """Prices choose among its nodes."""
    image = a_region(here(a_group(0, 32, nodes_per_rack=8)), used(9, 8), used(10, 8))
    claim = claimed(image, a_job(4, 8), plan=PRICED)
    assert 1 == len({node // 8 for node in claim.spreads[0].nodes})
    assert Outcome.EQUAL is again(image, claim, PRICED).outcome


def test_position_in_default() -> None:
    """After what a task loses by being there at all, before all that is about what is left."""
    names = [text.partition(":")[0] for text in DEFAULT_RULES]
    assert ["planned_work", "near_data", "priced_value", "avoid_empty"] == names[1:5]
    assert amount(8).gpu_milli < STEPS
