"""A choice made once more: what each rule left, which decided, and who came second."""

import random

import pytest
from msgspec.structs import replace

from core.images import RegionImage
from core.nouns.ids import TenantName
from core.nouns.placement import SEARCH, Claim, NodeRow, View, takings_of
from core.nouns.reasons import Reason
from core.nouns.workload import JobSpec
from core.placing.diagnosis.replay_choice import (
    DRAW,
    JobChoice,
    Outcome,
    Retraced,
    Step,
    Unit,
    retraced,
    what_is_missing,
)
from core.placing.index.overlay import Overlay
from core.placing.index.owners import Owners, entries_of
from core.placing.pick.nodes import Choice
from core.placing.placer import Placer
from core.rules.placement.best_fit import BestFit
from core.rules.placement.gpu_type import GpuType
from core.rules.placement.plan import Plan
from core.rules.placement.rule import Numbers, Refinement, Request, Rows
from core.rules.placement.rule_sets import PLAIN
from core.rules.placement.tenant_isolation import code_of
from tests.builders import a_claim, a_job, a_region, a_spread, amount, granted, joined, of_types, promised
from tests.core.histories import RegionHistory
from tests.core.placing.rooms import alone, used
from tests.core.placing.searching import ANYBODY
from tests.core.properties import SEEDS


def claimed(
    image: RegionImage,
    *jobs: JobSpec,
    choice: Choice | None = None,
    overlay: Overlay | None = None,
    plan: Plan = PLAIN,
    owners: Owners | None = None,
) -> Claim:
    """What an agent would claim for these, or the test has no room."""
    choice = choice or Choice("w-1.1")
    overlay = overlay or Overlay()
    placer = Placer(image.capacity, overlay, lambda _: plan, image.maintenance, owners=owners)
    found = placer.find(jobs, ANYBODY, choice)
    assert not isinstance(found, Reason), found
    rows = overlay.rows(image.capacity)
    view = View(
        7,
        (),
        (),
        rows,
        choice.seed,
        choice.stripe,
        choice.stripes,
        choice.best,
        search=SEARCH,
        owners=placer.owners_beside(jobs),
    )
    return replace(
        a_claim(jobs=jobs, spreads=found.spreads, priority=ANYBODY.priority, victims=found.victim_keys),
        view=view,
    )


def again(image: RegionImage, claim: Claim, plan: Plan = PLAIN) -> Retraced:
    """Chosen once more."""
    return retraced(image, claim, claim.victims, lambda _: plan)


def the_choice(image: RegionImage, claim: Claim, plan: Plan = PLAIN) -> JobChoice:
    """Of its only job; it comes out equal."""
    found = again(image, claim, plan)
    assert (Outcome.EQUAL, "") == (found.outcome, found.why)
    (choice,) = found.choices
    return choice


def left(choice: JobChoice) -> dict[str, int]:
    """How many nodes each rule left."""
    return {step.rule: step.left for step in choice.steps}


SHELF = (
    joined("w0", 0, 2, rack_first=0),
    joined("w1", 2, 2, rack_first=1),
    joined("w2", 4, 2, gpu_type="A100", rack_first=2),
)
"""Four nodes of 8 GPUs and two of another type, two a rack."""


def test_deciding_rule_survivors_and_runner_up_of_a_task() -> None:
    """P27: the rule that decided is the last one that left fewer than before, and the runner-up lost by it."""
    image = a_region(
        *SHELF,
        granted(a_claim("w-8", jobs=(a_job(1, 5),), spreads=(a_spread({1: 1}),)), is_merged=False),
        granted(a_claim("w-9", jobs=(a_job(1, 6),), spreads=(a_spread({3: 1}),)), is_merged=False),
    )
    choice = the_choice(image, claimed(image, a_job(1, 2)))
    assert {
        "in_pool": 6, "gpu_type": 4, "gpu_memory": 4, "capacity": 4, "pool": 4, "in_zones": 4, "open_node": 4,
        "tenant_isolation": 4, "reserved_start": 4, "room": 4, "fullest_zone": 4, "planned_work": 4, "near_data": 4, "avoid_empty": 2, "shared_devices": 2,
        "best_fit": 1, "islands": 1, "fullest_rack": 1, "fullest_pod": 1, "power_headroom": 1, "draw": 1,
    } == left(choice)  # fmt: skip
    assert ("best_fit", 1, "3") == (choice.decided_by, choice.drawn_among, choice.chosen)
    assert ("1", "best_fit") == (choice.runner_up, choice.lost_by)


def test_equals_are_drawn() -> None:
    """P27: where all that is left is alike, chance is named, and the runner-up is another of them."""
    image = a_region(joined("w0", 0, 4, rack_first=0))
    choice = the_choice(image, claimed(image, a_job(1, 8)))
    assert ("", 2) == (choice.decided_by, len({choice.chosen, choice.runner_up}))
    assert (4, DRAW) == (choice.drawn_among, choice.lost_by)
    assert Step(DRAW, 1) == choice.steps[-1]


def test_only_node_with_capacity_has_no_runner_up() -> None:
    """P27: a node without capacity did not come second."""
    image = a_region(
        *SHELF,
        granted(
            a_claim("w-9", jobs=(a_job(3, 8),), spreads=(a_spread({0: 1, 1: 1, 3: 1}),)), is_merged=False
        ),
    )
    choice = the_choice(image, claimed(image, a_job(1, 1)))
    assert ("2", "room", "", "") == (choice.chosen, choice.decided_by, choice.runner_up, choice.lost_by)


def test_gang_in_the_tightest_rack() -> None:
    """P27: of a gang, which unit was chosen, how many were large enough, and which came second."""
    image = a_region(
        *SHELF,
        granted(a_claim("w-9", jobs=(a_job(1, 2),), spreads=(a_spread({3: 1}),)), is_merged=False),
    )
    choice = the_choice(image, claimed(image, a_job(3, 4)))
    assert (Unit.RACK, "1", "0") == (choice.unit, choice.chosen, choice.runner_up)
    assert ("tightest", "tightest", 1) == (choice.decided_by, choice.lost_by, choice.drawn_among)
    assert [("in_pool", 3), ("large_enough", 2), ("tightest", 1), (DRAW, 1)] == [
        (step.rule, step.left) for step in choice.units
    ]


@pytest.mark.parametrize(
    ("tasks", "unit", "chosen"), [(4, Unit.POD, "1"), (40, Unit.CLUSTER, "H100 in zone-0")]
)
def test_gang_in_a_larger_unit(tasks: int, unit: Unit, chosen: str) -> None:
    """P27: a gang that no rack holds lies in a pod, else in a cluster."""
    image = a_region(joined("w0", 0, 40, rack_first=0))
    choice = the_choice(image, claimed(image, a_job(tasks, 8)))
    assert (unit, chosen) == (choice.unit, choice.chosen)


def test_stripe_is_told() -> None:
    """P27: who stood in another agent's stripe was left out by that, unless nobody in the own one has room."""
    image = a_region(joined("w0", 0, 64, rack_first=0))
    for stripe in (0, 1):
        choice = the_choice(image, claimed(image, a_job(1, 8), choice=Choice("s", stripe, 2)))
        assert (64, 32, "stripe") == (left(choice)["room"], left(choice)["stripe"], choice.decided_by)
        assert stripe == int(choice.chosen) // 32
    assert 64 == left(the_choice(image, claimed(image, a_job(1, 8), choice=Choice("s", 5, 8))))["stripe"]
    gang = the_choice(image, claimed(image, a_job(2, 8), choice=Choice("s", 1, 2)))
    assert [32, 32, 16, 16, 1] == [step.left for step in gang.units]


def test_one_of_the_best_is_drawn() -> None:
    """P27, P10: under conflicts one is drawn among more than are equal."""
    image = a_region(
        joined("w0", 0, 100, rack_first=0),
        granted(a_claim("w-9", jobs=(a_job(1, 1),), spreads=(a_spread({5: 1}),)), is_merged=False),
    )
    choice = the_choice(image, claimed(image, a_job(1, 1), choice=Choice("s", best=3)))
    assert 100 == left(choice)["room"]
    assert 3 <= left(choice)["best"] == choice.drawn_among < 100
    assert "best" == choice.decided_by


class HighNumbers(Refinement):
    """Nodes with much memory, as these have it."""

    name = "high_numbers"

    def cost(self, rows: Rows, request: Request) -> Numbers:
        """Less is worse."""
        return -rows.memory


def test_refinement_is_told() -> None:
    """P27: a refinement narrows down the equals, and of many looks at some."""
    plan = Plan((GpuType(), BestFit(8), HighNumbers()))
    few = a_region(
        joined("w0", 0, 2, total=amount(8, 8, 64), rack_first=0),
        joined("w1", 2, 1, total=amount(8, 8, 128), rack_first=1),
    )
    choice = the_choice(few, claimed(few, a_job(1, 1), plan=plan), plan)
    assert (3, 1, "high_numbers", "2") == (
        left(choice)["best_fit"], left(choice)["high_numbers"], choice.decided_by, choice.chosen
    )  # fmt: skip
    many = a_region(joined("w0", 0, 1_000, rack_first=0))
    choice = the_choice(many, claimed(many, a_job(1, 1), plan=plan), plan)
    assert (1_000, 512, 512) == (
        left(choice)["best_fit"], left(choice)["some"], left(choice)["high_numbers"]
    )  # fmt: skip


def test_jobs_of_a_gang_are_told_one_by_one() -> None:
    """P27, P22: each beside those that were placed before it, the hardest first."""
    image = a_region(*SHELF)
    claim = claimed(image, a_job(1, 1, name="reader"), a_job(3, 8, name="trainer"))
    found = again(image, claim)
    assert Outcome.EQUAL == found.outcome
    assert ["reader", "trainer"] == [choice.job for choice in found.choices]
    assert [1, 4] == [left(choice)["room"] for choice in found.choices]


def test_choice_over_victims_is_told_as_if_they_had_ended() -> None:
    """P27, P25: their room counts, and others' does not; who else would have been pushed out makes a difference."""
    held = [
        granted(a_claim(f"w-{node}", jobs=(a_job(1, 8),), spreads=(a_spread({node: 1}),), priority=priority))
        for node, priority in enumerate((5, 2, 5, 5))
    ]
    image = a_region(joined("w0", 0, 4), *held)
    claim = claimed(image, a_job(1, 4))
    assert ("w-1",) == tuple(workload for workload, _ in claim.victims)
    assert ("1", 1) == (the_choice(image, claim).chosen, left(the_choice(image, claim))["room"])
    other = replace(claim, victims=(("w-0", 1),))
    assert "others are found to be pushed out" == again(image, other).why
    assert Outcome.EQUAL == retraced(image, replace(claim, victims=())).outcome


def test_rows_that_only_the_agent_knew_count() -> None:
    """P27: an open bid of its own made it look elsewhere."""
    image = a_region(joined("w0", 0, 2))
    overlay = Overlay()
    overlay.put("bid", [(0, amount(8))])
    overlay.learnt = {1: (NodeRow(1, amount(3), is_open=True), 9)}
    claim = claimed(image, a_job(1, 2), overlay=overlay)
    assert ("1", 1) == (the_choice(image, claim).chosen, left(the_choice(image, claim))["room"])
    told = [(row.node, row.free.gpu_milli) for row in claim.view.learnt]
    assert [(0, 0), (1, 3_000)] == told


def test_workload_that_is_alone_on_a_node_counts() -> None:
    """P27: a workload with a promise of a node for itself keeps others away from the rest of it, even if none runs alone yet; so does a
    claim that only the agent knew.
    """
    there = (*SHELF, used(1, 7, "w-9"))
    waiting = replace(
        a_claim("w-8", jobs=(alone(a_job(1, 6)),), spreads=(a_spread({0: 1}),)), tenant=TenantName("other")
    )
    image = a_region(*there, promised(waiting))
    claim = claimed(image, a_job(1, 2))
    assert the_choice(image, claim).chosen in ("2", "3")
    image = a_region(*there)
    overlay, owners = Overlay(), Owners.of(image.capacity)
    overlay.put("claim", takings_of(waiting.jobs, waiting.spreads))
    owners.put("claim", entries_of(waiting))
    claim = claimed(image, a_job(1, 2), overlay=overlay, owners=owners)
    assert ((0, code_of("other", is_alone=True)),) == claim.view.owners
    assert the_choice(image, claim).chosen in ("2", "3")
    blind = replace(claim, view=replace(claim.view, owners=()))
    assert "other nodes are found" == again(image, blind).why
    claim = claimed(image, alone(a_job(1, 2)), overlay=overlay, owners=owners)
    assert the_choice(image, claim).chosen in ("2", "3")


def test_another_choice_is_told_as_different() -> None:
    """P27: a claim on other nodes than the rules choose does not come out equal, nor one for which there was no room."""
    image = a_region(joined("w0", 0, 4))
    claim = claimed(image, a_job(1, 2))
    (node,) = claim.spreads[0].nodes
    other = replace(claim, spreads=(a_spread({(node + 1) % 4: 1}),))
    assert (Outcome.DIFFERENT, "other nodes are found") == (
        again(image, other).outcome,
        again(image, other).why,
    )
    full = a_region(joined("w0", 0, 4, gpu_type="A100"))
    assert (Outcome.DIFFERENT, "no place is found: no_such_hardware") == (
        again(full, claim).outcome, again(full, claim).why
    )  # fmt: skip


def test_missing_parts_of_a_view_are_named() -> None:
    """P27: a claim of an earlier build, or one with a view that names only some rows, has an unknown outcome with that reason."""
    image = a_region(joined("w0", 0, 4))
    claim = claimed(image, a_job(1, 2))
    early = replace(claim, view=replace(claim.view, search=0))
    partly = replace(claim, view=replace(claim.view, is_whole=False))
    for one, said in ((early, "by another build"), (partly, "more nodes")):
        assert said in what_is_missing(one)
        assert (Outcome.UNKNOWN, ()) == (again(image, one).outcome, again(image, one).choices)
    assert "" == what_is_missing(claim)


@pytest.mark.parametrize("seed", SEEDS)
def test_retraced_steps_hold_in_any_region(seed: int) -> None:
    """P27: each rule leaves some of the nodes before it, the chosen node is among the last, and no node is named twice."""
    dice = random.Random(seed)
    image = RegionImage.empty()
    chosen = 0
    for fact in RegionHistory(seed).draw(120):
        image.fold(fact)
        if dice.random() < 0.7:
            continue
        types = dice.choice((("H100",), ("A100",), ("H100", "A100"), ("any",)))
        job = of_types(a_job(dice.choice((1, 1, 2, 5)), dice.choice((1, 2, 8))), *types)
        choice = Choice(f"s{fact.sequence}", dice.randrange(2), 2, dice.choice((1, 4)))
        placer = Placer(image.capacity, Overlay(), lambda _: PLAIN, image.maintenance)
        if isinstance(placer.find((job,), ANYBODY, choice), Reason):
            continue
        told = the_choice(image, claimed(image, job, choice=choice))
        chosen += 1
        for steps in (told.steps, told.units):
            counts = [step.left for step in steps]
            assert sorted(counts, reverse=True) == counts
            assert all(counts)
        assert Step(DRAW, 1) == (*told.steps, *told.units)[-1]
        assert told.chosen
        assert told.chosen != told.runner_up
        assert bool(told.runner_up) == bool(told.lost_by)
        assert (told.lost_by == DRAW) == (told.drawn_among > 1)
    assert chosen > 5
