"""Best fit and FGD as they were published, score by score, and ties by name."""

import math
import random
from collections.abc import Sequence

import numpy as np
import pytest

from core.device_shares import left_of
from core.fact import Event
from core.nouns.mix import WEIGHT, Mix, TypicalShape
from core.nouns.prices import Prices
from core.nouns.quantities import MILLI
from core.placing.diagnosis.replay_choice import Outcome, retraced
from core.placing.index.rows import TableRows
from core.placing.pick.nodes import Choice
from core.placing.pick.single_node import pick_lazily
from core.placing.placer import Placer
from core.rules.placement.best_fit_published import BestFitPublished
from core.rules.placement.by_name import ByName
from core.rules.placement.fgd import Fgd
from core.rules.placement.fragmentation import Fragmentation
from core.rules.placement.rule import NodePreference, Request
from core.rules.placement.rule_sets import BEST_FIT_PUBLISHED_RULES, FGD_RULES, plan_of, rule_set
from tests.builders import a_job, a_region, amount
from tests.core.placing.rooms import a_group, hard_and, here, picked, placer_by, request, used
from tests.core.placing.test_retracing import claimed, left, the_choice

H100, A100 = ("H100",), ("A100",)
MIX = Mix(
    (
        TypicalShape(1, 0, 8_000, weight=400_000),
        TypicalShape(0, 500, 4_000, weight=200_000),
        TypicalShape(0, 250, 30_000, weight=120_000),
        TypicalShape(8, 0, 60_000, node_types=H100, weight=80_000),
        TypicalShape(2, 0, 16_000, node_types=A100, weight=70_000),
        TypicalShape(0, 0, 48_000, weight=130_000),
    )
)


def useless(mix: Mix, node_type: str, cpu: int, devices: Sequence[int]) -> int:
    """What of a node is of no use to the mix, as it is written: millionths of GPU milli."""
    total = 0
    for shape in mix.shapes:
        size, wanted = (shape.part_milli, 1) if shape.part_milli else (MILLI, shape.gpus)
        fits = sum(milli >= size for milli in devices) >= wanted > 0 and cpu >= shape.cpu_milli
        if not fits or (shape.node_types and node_type not in shape.node_types):
            total += shape.weight * sum(devices)
        else:
            total += shape.weight * sum(milli for milli in devices if milli < size)
    return total


def published_fgd(mix: Mix, node_type: str, cpu: int, devices: Sequence[int], asked: Request) -> int:
    """100 less the score as it is written, with the part on the fullest device that holds it."""
    whole, part = divmod(asked.need.gpu_milli, MILLI)
    shared = tuple(milli for milli in devices if milli < MILLI)
    free = sum(milli == MILLI for milli in devices) - whole
    after = shared
    if part:
        after = left_of(shared, [part])
        free -= not any(milli >= part for milli in shared)
    then = [*after, *[MILLI] * free]
    gain = useless(mix, node_type, cpu, devices) - useless(mix, node_type, cpu - asked.need.cpu_milli, then)
    return 100 - math.floor(100 / (1 + math.exp(-gain / WEIGHT / MILLI)))


def filled_at_random(dice: random.Random) -> list[Event]:
    """Sixteen nodes of two types, partly held, parts of devices too."""
    events: list[Event] = [here(a_group(0, 8), a_group(8, 8, gpu_type="A100"))]
    for node in range(16):
        for number in range(dice.randrange(4)):
            gpus = dice.choice((0.25, 0.5, 0.6, 0.75, 1, 2))
            events.append(used(node, gpus, f"w-{node}-{number}"))
    return events


def scores_of(rule: NodePreference, placer: Placer, asked: Request) -> dict[int, int]:
    """By node that has room."""
    pool = placer.pools.by_name["training"]
    one = pool.class_of(asked)
    slots = np.flatnonzero(one.cap)
    scores = rule.score(TableRows(pool.table, slots), asked)
    return dict(zip(pool.layout.node[slots].tolist(), scores.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("gpus", [0, 0.25, 0.6, 1, 2])
def test_fgd_is_the_score_that_was_published(seed: int, gpus: float) -> None:
    """Of every node, whatever is held there: floor(100 x sigmoid) of what becomes of use, in devices."""
    dice = random.Random(seed)
    placer = placer_by(plan_of(("fgd:101",)), a_region(*filled_at_random(dice)).capacity)
    cpus = dice.choice((0, 4, 30))
    asked = request(node_type="any", need=amount(gpus, cpus, 1))
    pool = placer.pools.by_name["training"]
    found = scores_of(Fgd(101, MIX), placer, asked)
    wanted = {}
    for node in found:
        row = pool.row(pool.layout.slot(node))
        devices = [*row.parts, *[MILLI] * ((row.free.gpu_milli - sum(row.parts)) // MILLI)]
        node_type = "H100" if node < 8 else "A100"
        wanted[node] = published_fgd(MIX, node_type, row.free.cpu_milli, devices, asked)
    assert wanted == found
    assert len(found) > 1


def test_fgd_tells_nodes_apart_that_fragmentation_by_sums_does_not() -> None:
    """Two halves of devices are of no use to a task of a whole one, and a half and a whole one are."""
    events = [here(a_group(0, 2, total=amount(2, 64, 512))), used(0, 0.5, "w-1"), used(1, 0.75, "w-2")]
    only_whole = Mix((TypicalShape(1, 0, 0, weight=WEIGHT),))
    found = scores_of(
        Fgd(101, only_whole), placer_by(hard_and(Fgd(101)), a_region(*events).capacity), request(0.25)
    )
    assert found[0] == found[1] == 100 - math.floor(100 / (1 + math.exp(-0.25)))


def test_fgd_of_tasks_that_are_looked_for_together() -> None:
    """Each part finds its device after the ones before it."""
    capacity = a_region(here(a_group(0, 1)), used(0, 0.5)).capacity
    placer = placer_by(plan_of(("fgd:101",)), capacity)
    together = request(need=amount(1.2), together=3)
    mix = Mix((TypicalShape(0, 400, weight=WEIGHT),))
    # Three parts of 400: one beside the half that is held, which leaves 100; two on a whole device, which leaves 200.
    before, after = 0, 100 + 200
    assert {0: 100 - math.floor(100 / (1 + math.exp((after - before) / MILLI)))} == scores_of(
        Fgd(101, mix), placer, together
    )


@pytest.mark.parametrize("gpus", [0, 0.25, 1, 2])
def test_best_fit_is_the_score_that_was_published(gpus: float) -> None:
    """100 x (1 - half of the CPUs left over 128 cores - half of the GPUs left over 8), rounded down."""
    placer = placer_by(
        plan_of(("best_fit_published:101",)), a_region(*filled_at_random(random.Random(5))).capacity
    )
    asked = request(node_type="any", need=amount(gpus, 3, 1))
    pool = placer.pools.by_name["training"]
    found = scores_of(BestFitPublished(101), placer, asked)
    for node, score in found.items():
        free = pool.row(pool.layout.slot(node)).free.minus(asked.need)
        left = 0.5 * free.cpu_milli / 128_000 + 0.5 * free.gpu_milli / 8_000
        assert 100 - math.floor(100 * (1 - left) + 1e-9) == score
    assert len(set(found.values())) > 2


@pytest.mark.parametrize("rule", [BestFitPublished(2), Fgd(2, MIX), BestFitPublished(8), Fgd(8, MIX)])
def test_fewer_steps_are_coarser(rule: NodePreference) -> None:
    """No score is outside them."""
    placer = placer_by(hard_and(rule), a_region(*filled_at_random(random.Random(2))).capacity)
    assert {*scores_of(rule, placer, request(1)).values()} <= {*range(rule.steps)}


def test_nodes_larger_than_any_then_have_the_worst_score() -> None:
    """16 GPUs and 400 cores were not thought of."""
    large = a_region(here(a_group(0, 1, total=amount(16, 400, 512)))).capacity
    assert {0: 100} == scores_of(
        BestFitPublished(101), placer_by(hard_and(BestFitPublished(101)), large), request()
    )


# What is to come.


def test_fgd_goes_by_the_mix_of_the_prices() -> None:
    """And the plan is the same one as long as they are: or all that was worked out would be lost."""
    prices = Prices(1, MIX, ((0,) * len(MIX.shapes),))
    plan = rule_set("fgd", prices)
    (rule,) = (rule for rule in plan.rules if isinstance(rule, Fgd))
    assert MIX == rule.mix
    assert plan is rule_set("fgd", prices)
    assert rule_set("best_fit_published") is rule_set("best_fit_published", prices)


def test_fgd_without_a_mix_counts_on_the_one_of_fragmentation() -> None:
    """Nobody said what is to come."""
    shapes = {shape.gpu_milli: shape.weight // 1_000 for shape in Fgd(101).mix.shapes}
    assert dict(Fragmentation().mix) == shapes


# Ties.


def test_first_by_name_of_equals_whatever_is_drawn() -> None:
    """Also of nodes of another type, which stand elsewhere in the arrays."""
    events = [here(a_group(0, 3), a_group(3, 3, gpu_type="A100")), used(0, 8)]
    assert {1, 2, 3, 4, 5} == picked(hard_and(), events, request(node_type="any"))
    assert {1} == picked(hard_and(ByName()), events, request(node_type="any"))
    assert {3} == picked(hard_and(ByName()), [*events, used(1, 8), used(2, 8)], request(node_type="any"))
    mixed = [here(a_group(4, 2), a_group(0, 2, gpu_type="H200"))]
    assert {0} == picked(hard_and(ByName()), mixed, request(node_type="any"))


def test_ties_by_name_are_asked_after_every_rule() -> None:
    """Refinements too."""
    events = [here(a_group(0, 4)), used(1, 4), used(2, 5), used(3, 5)]
    assert {2, 3} == picked(plan_of(("best_fit_published:101",)), events, request())
    assert {2} == picked(plan_of(BEST_FIT_PUBLISHED_RULES), events, request())
    only_of_four = Fragmentation(((4_000, 1_000),))
    assert {2, 3} == picked(hard_and(only_of_four), events, request())
    assert {2} == picked(hard_and(only_of_four, ByName()), events, request())


def test_search_without_a_class_takes_the_first_too() -> None:
    """As one with a class."""
    events = [here(a_group(4, 2), a_group(0, 2, gpu_type="H200"))]
    pool = placer_by(plan_of(FGD_RULES), a_region(*events).capacity).pools.by_name["training"]
    slot = pick_lazily(pool.table, pool.plan, request(node_type="any"), Choice("w-1"))
    assert slot is not None
    assert 0 == pool.layout.node[slot]


def test_gang_takes_the_first_of_units_that_are_as_tight() -> None:
    """Whatever is drawn."""
    events = [here(a_group(0, 4), a_group(16, 4))]
    plan = plan_of(FGD_RULES)
    pool = placer_by(plan, a_region(*events).capacity).pools.by_name["training"]
    found = set()
    for seed in range(8):
        placed = pool.place(request(8), 4, Choice(f"w-{seed}"))
        assert placed is not None
        found.add(tuple(sorted(int(pool.layout.node[slot]) for slot, _ in placed)))
    assert {(0, 1, 2, 3)} == found


@pytest.mark.parametrize("tasks", [1, 3])
def test_choice_by_name_is_told_again(tasks: int) -> None:
    """P27: it comes out the same, and who came first by name is said to have won by it."""
    image = a_region(here(a_group(0, 4), a_group(16, 4)))
    plan = plan_of(FGD_RULES)
    claim = claimed(image, a_job(tasks, 8), plan=plan)
    assert Outcome.EQUAL is retraced(image, claim, (), lambda _: plan).outcome
    choice = the_choice(image, claim, plan)
    assert ("by_name", 1) == (choice.decided_by, choice.drawn_among)
    if tasks == 1:
        assert (8, 8, 1) == (left(choice)["room"], left(choice)["fgd"], left(choice)["by_name"])
        assert ("0", "1", "by_name") == (choice.chosen, choice.runner_up, choice.lost_by)
