"""What a store makes of proposals to harvest, of releases, and of tasks that lend: never more than its present image allows."""

from typing import Any

import pytest

from components.placement_store.harvest import spares_of
from core.component import Decision
from core.events.control import ClaimRevised
from core.events.harvest import HarvestOffered, HarvestRecalled, HarvestReleased
from core.events.region import ClaimGranted
from core.invariants.harvest import check_harvested
from core.messages.base import Refused
from core.messages.harvest import NodeReleased, OfferHarvest, RecallHarvest, ReleaseHarvest
from core.messages.nodes import DrainNodes
from core.messages.store import RecordLoss, RecordReturn, RecordStarted
from core.nouns.harvest import GRACE_MAX, HarvestPart, HarvestSettings, Why
from core.nouns.harvest_limits import HARVEST_AT_ONCE_MAX
from core.nouns.ids import WorkerName
from core.nouns.instant import Nanoseconds, after, seconds
from core.nouns.maintenance import Scope, ScopeKind
from core.nouns.operation import OperationKind
from core.nouns.pool import PoolSettings
from core.nouns.quantities import NOTHING, Amount
from core.nouns.reasons import Reason
from tests.builders import EU, EU_LOG, a_claim, attempt
from tests.components.support.harvest import (
    GRACE,
    OFF,
    ON,
    POOL,
    Start,
    a_harvested_store,
    gpus,
    harvested,
    lend,
    offer,
    recall,
    release,
    set_pool,
)
from tests.components.support.machine import Machine
from tests.components.support.placement_store import agreed, end, gone, place, promise, revise, serve, stop
from tests.matching import facts, said_once

SPAN = seconds(35)
"""The grace, and the time to release."""


def nodes_offered(decision: Decision) -> list[int]:
    """Nodes of the offers that are recorded."""
    found = []
    for event in facts(decision):
        assert isinstance(event, HarvestOffered), event
        found += [
            node for part in event.parts for first, last in part.nodes for node in range(first, last + 1)
        ]
    return sorted(found)


def test_free_nodes_are_offered_in_one_fact(start: Start) -> None:
    """Alike nodes are one part, with their pool and its grace."""
    store = a_harvested_store(start)
    part = HarvestPart(((0, 2),), gpus(8))
    (event,) = facts(store.hear(OfferHarvest(EU, 0, (part,), store.sequence(EU_LOG))))
    assert HarvestOffered(1, (HarvestPart(((0, 2),), gpus(8), pool=POOL),), GRACE) == event


def test_offer_is_of_what_is_free_and_not_promised(start: Start) -> None:
    """Whole devices, and no more of anything than is available."""
    store = a_harvested_store(start)
    place(store, "w-1", {0: 3})
    place(store, "w-2", {1: 8})
    promise(store, "w-3", {1: 8, 2: 2}, (attempt("w-2"),))
    assert [] == nodes_offered(offer(store, {0: gpus(6), 1: gpus(1), 2: gpus(7)}))
    assert [] == nodes_offered(offer(store, {3: Amount(500, 1_000, 1)}))
    assert [] == nodes_offered(offer(store, {3: Amount(1_000, -1, 0)}))
    assert [0, 2, 3] == nodes_offered(offer(store, {0: gpus(5), 2: gpus(6), 3: gpus(8), 77: gpus(1)}))


def test_nothing_is_offered_that_takes_no_new_work(start: Start) -> None:
    """Closed nodes, and lost ones until they are back."""
    store = a_harvested_store(start)
    store.hear(DrainNodes(EU, Scope(ScopeKind.NODE, ("0",)), "its fan rattles", 0, 0, "olga"))
    assert [1] == nodes_offered(offer(store, {0: gpus(8), 1: gpus(8)}))
    worker = WorkerName("w0")
    store.hear(RecordLoss(EU, worker, store.sequence(EU_LOG)))
    assert [] == nodes_offered(offer(store, {2: gpus(8)}))
    store.hear(RecordReturn(EU, worker, store.sequence(EU_LOG)))
    assert [2] == nodes_offered(offer(store, {2: gpus(8)}))


def test_only_pools_that_are_harvested_are_offered(start: Start) -> None:
    """The pool `harvest` is unless an operator says otherwise, and the others are not."""
    store = a_harvested_store(start, PoolSettings())
    assert [] == nodes_offered(offer(store, {0: gpus(8)}))
    set_pool(store, ON)
    assert [0] == nodes_offered(offer(store, {0: gpus(8)}))


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        (PoolSettings(harvest=HarvestSettings(is_on=True, keep=9)), 2),
        (PoolSettings(limit=750, harvest=HarvestSettings(is_on=True)), 3),
        (PoolSettings(reserve=2, harvest=HarvestSettings(is_on=True)), 2),
        (PoolSettings(reserve=2, harvest=HarvestSettings(is_on=True, takes_reserve=True)), 4),
    ],
)
def test_settings_of_the_pool_bound_what_is_offered(start: Start, settings: PoolSettings, most: int) -> None:
    """What it keeps, its limit and its reserve, by zone; in one proposal or in several."""
    store = a_harvested_store(start, settings)
    assert most == len(nodes_offered(offer(store, dict.fromkeys(range(4), gpus(8)))))
    again = a_harvested_store(start, settings)
    assert most == sum(len(nodes_offered(offer(again, {node: gpus(8)}))) for node in range(4))


def test_late_proposal_about_a_node_that_has_changed_is_left_out(start: Start) -> None:
    """By the revision of the node; one of another log is ignored."""
    store = a_harvested_store(start)
    offer(store, {0: gpus(8), 1: gpus(4)})
    recall(store, {0: NOTHING})
    release(store, 0)
    assert [1] == nodes_offered(offer(store, {0: gpus(8), 1: gpus(8)}, revision=1))
    assert [] == nodes_offered(offer(store, {2: gpus(8)}, revision=9))
    late = RecallHarvest(EU, 1, (HarvestPart(((1, 1),), NOTHING),))
    assert [] == facts(store.hear(late))


def test_offer_from_before_the_newest_change_of_a_node_is_left_out(start: Start) -> None:
    """Its free capacity is not calm since then, though nothing of it was harvested: a grant, and an end that frees all again."""
    store = a_harvested_store(start)
    seen = store.sequence(EU_LOG)
    place(store, "w-1", {0: 8})
    end(store, "w-1")
    assert [1] == nodes_offered(offer(store, {0: gpus(8), 1: gpus(8)}, sequence=seen))
    assert [0] == nodes_offered(offer(store, {0: gpus(8)}))


def test_grant_recalls_and_nothing_is_offered_until_the_release(start: Start) -> None:
    """H-1: the release tells how long it took, and what was lost."""
    store = a_harvested_store(start)
    offer(store, {0: gpus(8)})
    place(store, "w-1", {0: 2})
    end(store, "w-1")
    assert [] == nodes_offered(offer(store, {0: gpus(8)}))
    store.now = after(store.now, seconds(3))
    (event,) = facts(release(store, 0, lost=2))
    assert isinstance(event, HarvestReleased)
    assert [(0, seconds(3), 2, True)] == [
        (one.node, one.after, one.lost, one.is_confirmed) for one in event.parts
    ]
    assert [] == facts(release(store, 0, lost=2))
    assert [0] == nodes_offered(offer(store, {0: gpus(8)}))


def left_of(store: Machine[Any], number: int) -> tuple[int, int]:
    """GPU milli that functions keep of a node, and those that they give back. No more is harvested than is free."""
    assert [] == check_harvested(store.state.image, range(4))
    known = harvested(store, number)
    return known.size.gpu_milli, known.recalled.gpu_milli


def test_grant_takes_first_what_lies_beside_the_harvest(start: Start) -> None:
    """Of devices, cores and memory; only the rest is recalled. Where all is harvested, the fact names nothing."""
    store = a_harvested_store(start)
    offer(store, {0: gpus(4), 1: gpus(8), 2: gpus(4)})
    place(store, "w-1", {0: 4, 1: 4})
    assert [(4_000, 0), (4_000, 4_000)] == [left_of(store, 0), left_of(store, 1)]
    place(store, "w-2", {2: 6})
    place(store, "w-3", {0: 2})
    assert [(2_000, 2_000), (2_000, 2_000)] == [left_of(store, 0), left_of(store, 2)]
    grants = [fact.event for fact in store.logs[EU_LOG] if isinstance(fact.event, ClaimGranted)]
    assert [[0], [2], []] == [[number for number, _ in grant.spares] for grant in grants]


def test_promise_takes_first_what_its_victims_leave(start: Start) -> None:
    """And then what is harvested. Two that are granted by the end of one attempt share what it leaves."""
    store = a_harvested_store(start)
    place(store, "w-1", {0: 4, 1: 4})
    offer(store, {0: gpus(4), 1: gpus(4)})
    promise(store, "w-2", {0: 6, 1: 4}, (attempt("w-1"),))
    two, three, freed = a_claim("w-8", placed={0: 3}), a_claim("w-9", placed={0: 3}), {0: Amount(4_000)}
    assert [3_000, 1_000] == [
        spare.gpu_milli for one in (two, three) for _, spare in spares_of(store.state, one, freed)
    ]
    end(store, "w-1")
    assert [(2_000, 2_000), (4_000, 0)] == [left_of(store, 0), left_of(store, 1)]


def test_start_of_the_attempt_ends_its_recall(start: Start) -> None:
    """No release is waited for."""
    store = a_harvested_store(start)
    offer(store, {0: gpus(8)})
    place(store, "w-1", {0: 2})
    store.hear(RecordStarted(EU, *attempt("w-1")))
    assert [] == facts(store.wait(SPAN))
    assert harvested(store, 0).is_calm


def test_release_that_never_comes_is_recorded_when_its_time_is_over(start: Start) -> None:
    """H-1: five seconds after the grace; then nothing more is offered until the server of the node has been heard."""
    store = a_harvested_store(start)
    offer(store, {0: gpus(8), 1: gpus(8)})
    place(store, "w-1", {0: 2, 1: 2})
    assert [] == facts(store.wait(Nanoseconds(SPAN - 1)))
    (event,) = facts(store.wait(Nanoseconds(1)))
    assert isinstance(event, HarvestReleased)
    assert [(0, SPAN, False), (1, SPAN, False)] == [
        (one.node, one.after, one.is_confirmed) for one in event.parts
    ]
    end(store, "w-1")
    assert [] == nodes_offered(offer(store, {0: gpus(8)}))
    release(store, 0)
    assert [0] == nodes_offered(offer(store, {0: gpus(8), 1: gpus(8)}))


def test_store_that_was_down_gives_servers_the_whole_time_again(start: Start) -> None:
    """Nobody could tell it of a release meanwhile."""
    store = a_harvested_store(start)
    offer(store, {0: gpus(8)})
    place(store, "w-1", {0: 2})
    again = store.restart(at=after(store.now, seconds(600)))
    assert [] == facts(again.wait(Nanoseconds(SPAN - 1)))
    assert [HarvestReleased] == [type(event) for event in facts(again.wait(Nanoseconds(1)))]


def test_later_recall_has_its_own_time(start: Start) -> None:
    """The first is over, and the second stands."""
    store = a_harvested_store(start)
    offer(store, {0: gpus(8)})
    place(store, "w-1", {0: 2})
    store.wait(seconds(20))
    place(store, "w-2", {0: 2})
    (event,) = facts(store.wait(seconds(15)))
    assert isinstance(event, HarvestReleased)
    assert [attempt("w-2")] == [one.by for one in harvested(store, 0).recalls]
    assert 1 == len(facts(store.wait(seconds(20))))
    assert [] == harvested(store, 0).recalls


def test_server_that_releases_what_nobody_offered_is_ignored(start: Start) -> None:
    """A node that was never harvested, one without a recall, one that there is not, and a revision to come."""
    store = a_harvested_store(start)
    offer(store, {0: gpus(8), 1: gpus(8)})
    assert [] == facts(release(store, 0, 2, 99))
    place(store, "w-1", {0: 2})
    assert [] == facts(release(store, 0, revision=9))
    assert [] == facts(store.hear(ReleaseHarvest(EU, (NodeReleased(0, 2, -1),))))
    assert [] == facts(release(store, 0, revision=1))


def test_recall_by_settings(start: Start) -> None:
    """To a smaller size; an equal or larger one changes nothing."""
    store = a_harvested_store(start)
    offer(store, {0: gpus(8)})
    set_pool(store, PoolSettings(harvest=HarvestSettings(is_on=True, keep=29)))
    (event,) = facts(recall(store, {0: gpus(3), 1: NOTHING}))
    assert HarvestRecalled(2, (HarvestPart(((0, 0),), gpus(3)),), Why.SET) == event
    assert [] == facts(recall(store, {0: gpus(3)}))


def test_recall_that_the_settings_do_not_call_for_is_left_out(start: Start) -> None:
    """Of a harvester that saw others: no more is recalled than is harvested beyond them, and nothing that tasks lend in a harvested pool."""
    store = a_harvested_store(start)
    offer(store, dict.fromkeys((0, 1, 2), gpus(8)))
    place(store, "w-1", {3: 4})
    lend(store, "w-1", 3, Amount(3_000), 1)
    assert [] == facts(recall(store, dict.fromkeys((0, 1, 2), NOTHING)))
    set_pool(store, PoolSettings(harvest=HarvestSettings(is_on=True, keep=16)))
    (event,) = facts(recall(store, dict.fromkeys((0, 1, 2), NOTHING)))
    assert HarvestRecalled(3, (HarvestPart(((0, 0),), NOTHING),), Why.SET) == event
    lent = RecallHarvest(EU, 3, (HarvestPart(((3, 3),), NOTHING, attempt("w-1")),))
    assert [] == facts(store.hear(lent))
    set_pool(store, PoolSettings(reserve=3, harvest=HarvestSettings(is_on=True)))
    assert 1 == len(facts(recall(store, {1: NOTHING})))
    set_pool(store, OFF)
    assert 1 == len(facts(store.hear(lent)))


def test_new_grace_is_recorded_for_what_is_offered(start: Start) -> None:
    """By an offer of the same size."""
    store = a_harvested_store(start)
    offer(store, {0: gpus(8)})
    assert [] == facts(offer(store, {0: gpus(8)}))
    set_pool(store, PoolSettings(harvest=HarvestSettings(is_on=True, grace=seconds(2))))
    assert [0] == nodes_offered(offer(store, {0: gpus(8)}))
    assert seconds(2) == harvested(store, 0).within


def test_many_nodes_in_one_proposal_are_cut(start: Start) -> None:
    """So that the fact fits: the others come with the next."""
    store = a_harvested_store(start)
    huge = HarvestPart(((-5, 1 << 40),), gpus(8))
    assert [0, 1, 2, 3] == nodes_offered(store.hear(OfferHarvest(EU, 0, (huge,), store.sequence(EU_LOG))))
    assert HARVEST_AT_ONCE_MAX >= 4


def test_task_that_comes_takes_what_it_needs(start: Start) -> None:
    """Of a node of which functions use nothing, its fact says nothing."""
    store = a_harvested_store(start)
    serve(store, {0: 2, 1: 1})
    offer(store, {2: gpus(8)})
    for task, node in ((0, 2), (1, 3)):
        agreed(store, OperationKind.MOVE, task)
        gone(store, task)
        (event,) = [one for one in facts(revise(store, (task, 0, node))) if isinstance(one, ClaimRevised)]
        assert (((2, Amount(1_000)),) if node == 2 else ()) == event.takes
    assert (7_000, 1_000) == (harvested(store, 2).size.gpu_milli, harvested(store, 2).recalled.gpu_milli)


def test_task_that_comes_takes_first_what_lies_beside_the_harvest(start: Start) -> None:
    """Its fact names the node all the same: of others everything is recalled."""
    store = a_harvested_store(start)
    serve(store, {0: 2})
    offer(store, {2: gpus(4)})
    agreed(store, OperationKind.MOVE, 0)
    gone(store, 0)
    (event,) = [one for one in facts(revise(store, (0, 0, 2))) if isinstance(one, ClaimRevised)]
    assert ((2, NOTHING),) == event.takes
    assert (4_000, 0) == left_of(store, 2)


# Lent.


def test_tasks_lend_what_they_hold(start: Start) -> None:
    """And no more; what comes twice or late is ignored, and so is another attempt."""
    store = a_harvested_store(start)
    place(store, "w-1", {0: 4})
    assert [] == facts(lend(store, "w-1", 0, Amount(5_000), 1))
    assert [] == facts(lend(store, "w-1", 1, Amount(1_000), 1))
    assert [] == facts(lend(store, "w-9", 0, Amount(1_000), 1))
    assert [] == facts(lend(store, "w-1", 0, Amount(1_500), 1))
    assert [] == facts(lend(store, "w-1", 99, Amount(1_000), 1))
    (event,) = facts(lend(store, "w-1", 0, Amount(3_000), 2))
    part = HarvestPart(((0, 0),), Amount(3_000), attempt("w-1"), POOL, 2)
    assert HarvestOffered(1, (part,), GRACE) == event
    assert [] == facts(lend(store, "w-1", 0, Amount(4_000), 2))
    assert [] == facts(lend(store, "w-1", 0, NOTHING, 1))


def test_tasks_want_it_back(start: Start) -> None:
    """They lend again once it has been released."""
    store = a_harvested_store(start)
    place(store, "w-1", {0: 4})
    lend(store, "w-1", 0, Amount(3_000), 1)
    (event,) = facts(lend(store, "w-1", 0, Amount(1_000), 2))
    assert isinstance(event, HarvestRecalled)
    assert (Why.WANTED, Amount(2_000)) == (event.why, harvested(store, 0).recalled)
    assert [] == facts(lend(store, "w-1", 0, Amount(3_000), 3))
    release(store, 0)
    assert 1 == len(facts(lend(store, "w-1", 0, Amount(3_000), 3)))


def test_ending_attempt_lends_nothing(start: Start) -> None:
    """Nor any where its pool is not harvested."""
    store = a_harvested_store(start)
    place(store, "w-1", {0: 4})
    stop(store, "w-1")
    assert [] == facts(lend(store, "w-1", 0, Amount(1_000), 1))
    place(store, "w-2", {1: 4})
    set_pool(store, OFF)
    assert [] == facts(lend(store, "w-2", 1, Amount(1_000), 1))


# Settings.


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (PoolSettings(harvest=HarvestSettings(grace=Nanoseconds(GRACE_MAX + 1))), "harvest.grace: "),
        (PoolSettings(harvest=HarvestSettings(grace=Nanoseconds(0))), "harvest.grace: "),
        (PoolSettings(harvest=HarvestSettings(keep=-1)), "harvest.keep: "),
        (PoolSettings(harvest=HarvestSettings(after=Nanoseconds(-1))), "harvest.after: "),
        (PoolSettings(harvest=HarvestSettings(price=-1)), "harvest.price: "),
        (PoolSettings(price=-1), "price: "),
    ],
)
def test_settings_that_cannot_be(start: Start, settings: PoolSettings, problem: str) -> None:
    """One sentence each."""
    refusal = said_once(set_pool(a_harvested_store(start), settings), Refused)
    assert Reason.INVALID == refusal.reason
    assert [True] == [text.startswith(problem) for text in refusal.problems]


def test_grant_is_the_same_whether_its_node_is_harvested(start: Start) -> None:
    """Harvested capacity is in no claim: what is free is free."""
    grants: list[Any] = []
    for is_harvested in (False, True):
        store: Machine[Any] = a_harvested_store(start)
        if is_harvested:
            offer(store, dict.fromkeys(range(4), gpus(8)))
        place(store, "w-1", dict.fromkeys(range(4), 8))
        grants += [fact.event for fact in store.logs[EU_LOG] if isinstance(fact.event, ClaimGranted)]
    assert grants[0] == grants[1]
