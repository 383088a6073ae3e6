"""Who is on each node: kept from facts it equals the image, rules and stores say the same by it, and nobody is disturbed."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.claims.checks import check_nodes, check_now, check_victims, nodes_without_capacity, victims_needed
from core.events.region import AttemptEnded, NodesLost
from core.fact import Event
from core.images import RegionImage
from core.nouns.ids import TenantName, WorkerName
from core.nouns.instant import Instant
from core.nouns.placement import Claim
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause, JobSpec
from core.placing.index.layout import NO_NODE
from core.placing.index.overlay import Overlay
from core.placing.index.owners import APART, OF_OWNERS, Now, Owners, key_of
from core.placing.index.rows import TableRows
from core.placing.pick.nodes import Choice
from core.placing.placer import Found, Placer
from core.placing.pool_set import Asker
from core.rules.placement.rule import NOBODY, SEVERAL
from core.rules.placement.rule_sets import PASSING, PLAIN
from core.rules.placement.tenant_isolation import code_of
from tests.builders import a_claim, a_job, a_region, a_spread, attempt, folded, granted, joined, promised
from tests.core.histories import RegionHistory
from tests.core.placing.rooms import a_group, alone, here, placer_by, request, used
from tests.core.properties import PROPERTY, SEEDS

ME, OTHER = "me", "ml"
WANTED = Asker(tenant=TenantName(ME), priority=5)


def found(*events: Event, job: JobSpec) -> Found | Reason:
    """Where this job of mine would go."""
    placer = Placer(a_region(*events).capacity, Overlay(), lambda _: PLAIN)
    return placer.find((job,), WANTED, Choice("w-9"))


@pytest.mark.parametrize("seed", SEEDS)
def test_owners_kept_from_facts_equal_those_of_the_image(seed: int) -> None:
    """After every fact of a random history, for each node, also without some attempts; from when somebody asked on."""
    dice = random.Random(seed)
    owners = Owners()
    followed = RegionImage.empty()
    asked_at = dice.randrange(150)
    for number, fact in enumerate(RegionHistory(seed).draw(150)):
        followed.fold(fact)
        if isinstance(fact.event, OF_OWNERS):
            owners.settle(followed.capacity, fact.event.workload, fact.event.epoch)
        scratch = Owners.of(followed.capacity)
        assert scratch.alone == owners.alone
        if number < asked_at:
            continue
        scratch.know_all(followed.capacity)
        owners.know_all(followed.capacity)
        assert scratch.nodes() == owners.nodes()
        some = [
            key_of((workload, epoch))
            for workload, epoch, _ in followed.capacity.live()
            if dice.random() < 0.5
        ]
        for node in owners.nodes():
            assert scratch.at(node) == owners.at(node)
            assert scratch.at(node, some) == owners.at(node, some)


def test_workload_that_was_alone_is_forgotten_at_its_end() -> None:
    """Also before any search for the owners of nodes: from then on it is of no matter again."""
    image = a_region(here(a_group(0, 2)), used(0, 1, "w-1", is_alone=True), used(1, 1, "w-2"))
    owners = Owners.of(image.capacity)
    assert 1 == owners.alone
    folded(image, [AttemptEnded(*attempt("w-1"), EndCause.COMPLETED)], first=4)
    assert [0] == owners.settle(image.capacity, *attempt("w-1"))
    assert (0, ()) == (owners.alone, tuple(owners.nodes()))


def test_codes() -> None:
    """Nobody, one tenant, several; the lowest bit says that somebody is alone."""
    owners = Owners()
    owners.know_all(a_region().capacity)
    mine, kept = code_of(ME, is_alone=False), code_of(ME, is_alone=True)
    assert NOBODY == owners.at(0)
    owners.put("a", ((0, mine), (1, mine)))
    owners.put("b", ((0, kept),))
    owners.put("c", ((1, code_of(OTHER, is_alone=False)),))
    assert kept == owners.at(0) == mine + 1
    assert SEVERAL == owners.at(1)
    assert mine == owners.at(0, ("b",)) == owners.at(1, ("c",))
    assert NOBODY == owners.at(0, ("a", "b"))
    assert 1 == owners.alone
    assert [0] == owners.drop("b")
    assert [] == owners.drop("b")
    assert (0, mine) == (owners.alone, owners.at(0))
    assert 0 < mine < 1 << 63


HOLDERS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from((ME, OTHER, "x")), st.booleans()), max_size=8)


@PROPERTY
@given(HOLDERS, st.booleans(), st.sampled_from((ME, OTHER)), st.sets(st.integers(0, 1)))
def test_both_forms_of_a_rule_agree(
    holders: list[tuple[int, str, bool]], is_alone: bool, tenant: str, lost: set[int]
) -> None:
    """Of many rows in an agent, and of one node in a store, whoever is where and whatever is closed."""
    events: list[Event] = [here(a_group(2, 4)), joined("w1", 0, 2)]
    events += [
        used(node, 1, f"w-{n}", tenant=who, is_alone=kept) for n, (node, who, kept) in enumerate(holders)
    ]
    events += [NodesLost(WorkerName("w1"), (0, 1))] if lost else []
    capacity = a_region(*events).capacity
    pool = placer_by(PLAIN, capacity).pools.by_name["training"]
    slots = pool.layout.slot_of[pool.layout.node[pool.layout.node != NO_NODE]]
    wanted = request(tenant=TenantName(tenant), is_alone=is_alone)
    now = Now(capacity, Owners.of(capacity))
    for rule in PASSING:
        by_node = [rule.allows_at(now, int(node), wanted) for node in pool.layout.node[slots]]
        assert by_node == rule.allows(TableRows(pool.table, slots), wanted).tolist(), rule.name


def test_workload_that_is_alone_finds_a_node_without_others() -> None:
    """It is not disturbed there."""
    there = [here(a_group(0, 2)), used(0, 1, tenant=OTHER)]
    first = found(*there, job=alone(a_job(2)))
    assert isinstance(first, Found)
    assert (1,) == first.spreads[0].nodes
    there.append(used(1, 2, tenant=ME, is_alone=True))
    assert Reason.NO_CAPACITY != found(*there, job=a_job(7))
    assert Reason.NO_CAPACITY == Placer(a_region(*there).capacity, Overlay(), lambda _: PLAIN).find(
        (a_job(8),), Asker(), Choice("w-9")
    )


def test_index_follows_while_it_is_searched() -> None:
    """An agent that settles each fact and touches its nodes finds what a new one would."""
    image = a_region(here(a_group(0, 2)))
    placer = Placer(image.capacity, Overlay(), lambda _: PLAIN)
    mildly = Asker(tenant=TenantName(ME), priority=0)
    assert isinstance(placer.find((alone(a_job(2, 8)),), mildly, Choice("w-9")), Found)
    held = a_claim("w-1", placed={0: 1})
    folded(image, [granted(replace(held, tenant=TenantName(OTHER)))], first=2)
    placer.settle(*attempt("w-1"))
    one = placer.find((alone(a_job(1)),), mildly, Choice("w-9"))
    assert isinstance(one, Found)
    assert (1,) == one.spreads[0].nodes
    assert Reason.NO_CAPACITY == placer.find((alone(a_job(9)),), mildly, Choice("w-9"))
    folded(image, [AttemptEnded(*attempt("w-1"), EndCause.COMPLETED)], first=3)
    placer.settle(*attempt("w-1"))
    assert isinstance(placer.find((alone(a_job(16)),), mildly, Choice("w-9")), Found)


def test_claim_of_an_agent_keeps_others_away() -> None:
    """Until it is left out of the search, or dropped."""
    placer = Placer(a_region(here(a_group(0, 1))).capacity, Overlay(), lambda _: PLAIN)
    placer.touch(placer.owners.put("mine", ((0, code_of(OTHER, is_alone=False)),)))
    assert Reason.NO_CAPACITY == placer.find((alone(a_job()),), WANTED, Choice("w-9"))
    assert isinstance(placer.find((alone(a_job()),), WANTED, Choice("w-9"), without=("mine",)), Found)
    assert Reason.NO_CAPACITY == placer.find((alone(a_job()),), WANTED, Choice("w-9"))
    placer.touch(placer.owners.drop("mine"))
    assert isinstance(placer.find((alone(a_job()),), WANTED, Choice("w-9")), Found)


def test_others_are_victims_though_there_would_be_capacity() -> None:
    """A workload that is alone needs them gone; a store requires the same."""
    capacity = a_region(here(a_group(0, 1)), used(0, 1, tenant=OTHER)).capacity
    placer = Placer(capacity, Overlay(), lambda _: PLAIN)
    job = alone(a_job(1))
    over = placer.find((job,), WANTED, Choice("w-9"))
    assert isinstance(over, Found)
    assert (attempt("w-0"),) == over.victim_keys
    claim = replace(
        a_claim("w-9", jobs=(job,), spreads=over.spreads, priority=5, victims=over.victim_keys),
        tenant=TenantName(ME),
    )
    owners = Owners.of(capacity)
    assert over.victim_keys == victims_needed(claim, capacity, owners)
    assert {} == check_now(claim, Now(capacity, owners, claim.victims))
    assert {0: Reason.TENANTS_APART} == check_now(claim, Now(capacity, owners))


def test_promised_node_is_somebodys() -> None:
    """Or who is alone would be granted a node that another is about to have."""
    claim = replace(
        a_claim("w-2", placed={0: 8}, priority=4, victims=(attempt("w-0"),)), tenant=TenantName(OTHER)
    )
    region = a_region(here(a_group(0, 1)), used(0, 1, tenant=ME), promised(claim))
    assert SEVERAL == Now(region.capacity).owner(0)


def test_no_workload_comes_to_a_node_promised_to_one_alone() -> None:
    """The victim is still there: neither others, nor its tenant's own work that is alone too, come between."""
    job = replace(a_job(1, 4), is_alone=True)
    claim = replace(
        a_claim("w-2", jobs=(job,), spreads=(a_spread({0: 1}),), priority=4, victims=(attempt("w-0"),)),
        tenant=TenantName(OTHER),
    )
    region = a_region(here(a_group(0, 1)), used(0, 1, "w-0", tenant=ME), promised(claim))
    assert APART == Now(region.capacity).owner(0)
    for tenant, is_alone in ((ME, False), ("x", False), (ME, True), (OTHER, True)):
        mine = replace(
            a_claim("w-3", jobs=(replace(a_job(), is_alone=is_alone),), spreads=(a_spread({0: 1}),)),
            tenant=TenantName(tenant),
        )
        assert {0: Reason.TENANTS_APART} == check_now(
            mine, Now(region.capacity, Owners.of(region.capacity))
        ), (tenant, is_alone)


def test_closed_node_is_refused_now() -> None:
    """open_node: a store answers with the rule's own reason."""
    capacity = a_region(joined(), NodesLost(WorkerName("w0"), (0, 1, 2, 3))).capacity
    assert {0: Reason.NODE_CLOSED} == check_now(a_claim(placed={0: 1}), Now(capacity))


@PROPERTY
@given(HOLDERS, st.integers(1, 30), st.booleans(), st.integers(1, 6))
def test_found_places_pass_a_store(
    holders: list[tuple[int, str, bool]], tasks: int, is_alone: bool, priority: int
) -> None:
    """Every hard rule holds for them, over victims too."""
    events = [here(a_group(0, 6, nodes_per_rack=3))]
    for number, (node, who, kept) in enumerate(holders):
        claim: Claim = used(node, 1, f"w-{number}", tenant=who, is_alone=kept).claim  # type: ignore[attr-defined]
        events.append(granted(replace(claim, priority=number % 4)))  # type: ignore[arg-type]
    capacity = a_region(*events).capacity
    job = replace(a_job(tasks), is_alone=is_alone)
    asker = Asker(tenant=TenantName(ME), priority=priority)
    result = Placer(capacity, Overlay(), lambda _: PLAIN).find((job,), asker, Choice("w-99"))
    if isinstance(result, Reason):
        return
    claim = replace(
        a_claim("w-99", jobs=(job,), spreads=result.spreads, priority=priority, victims=result.victim_keys),
        tenant=TenantName(ME),
    )
    owners = Owners.of(capacity)
    assert check_nodes(claim, capacity) is None
    assert check_victims(claim, capacity, Instant(0)) is None
    assert {} == check_now(claim, Now(capacity, owners, claim.victims))
    assert () == nodes_without_capacity(claim, capacity)
    assert claim.victims == victims_needed(claim, capacity, owners)
