"""An agent that takes in rows alone, while settings, nodes and the broker's clock change, and in tries after conflicts."""

# rows: S2, S8, S11, S13

from typing import Any

import pytest
from msgspec.structs import replace

from components import AllocationAgent
from core.component import Decision
from core.events.agents import AgentsSet
from core.fact import Event
from core.messages.agents import (
    AgentFigures,
    AgentPresent,
    AwardHandedBack,
    ClaimAnswered,
    FindBid,
    PlaceAward,
)
from core.messages.broker import SolicitBid
from core.messages.queue import Bid
from core.nouns.agents import AgentSettings, PlacedBy, Placing, Turn
from core.nouns.ids import AgentName, WorkloadId
from core.nouns.instant import seconds
from core.nouns.limits import PRESENCE_INTERVAL
from core.nouns.placement import Claim, NodeRow
from core.nouns.quantities import Amount
from core.nouns.workload import Kind
from tests.builders import EU, EU_LOG, a_claim, a_job, attempt, granted, joined
from tests.components.support.by_rows import (
    A0,
    FOUR,
    Start,
    ask,
    award_of,
    by_rows,
    claim_of,
    is_handed_back,
    place,
    settle,
    turn,
    view_of,
)
from tests.components.support.machine import Machine
from tests.matching import all_of, said, said_once

NODES = (2, 3, 4, 5, 6, 7)


def in_rounds(machine: Machine[Any], rounds: range) -> None:
    """One request that wins nothing in each of these rounds."""
    for number in rounds:
        ask(machine, a_job(1, 8), workload=f"w-{number}", turn=turn(number))
        settle(machine, f"w-{number}", has_won=False)


def conflict(claim: Claim, machine: Machine[Any]) -> ClaimAnswered:
    """The store's answer that the claim's nodes are taken."""
    nodes = [node for spread in claim.spreads for node in spread.nodes]
    rows = tuple(NodeRow(node, Amount(0, 0, 0), is_open=True) for node in nodes)
    key = (claim.workload, claim.epoch)
    return ClaimAnswered(
        EU, A0, *key, claim.claim, "conflict", "no_capacity", rows, machine.state.sequence + 1
    )


def figures(machine: Machine[Any]) -> AgentFigures:
    """Those of its next beat."""
    return said_once(machine.wait(PRESENCE_INTERVAL), AgentPresent).figures


def test_rounds_that_become_longer_are_followed(start: Start) -> None:
    """S2: their numbers are smaller than those of the rounds before, and partitions are taken in all the same."""
    machine = by_rows(start)
    in_rounds(machine, range(4_000, 4_002))
    machine.fact(EU_LOG, AgentsSet(replace(FOUR, sync_every=seconds(2))))
    in_rounds(machine, range(1_001, 1_002))
    machine.fact(EU_LOG, granted(a_claim("w-9", placed=dict.fromkeys(NODES, 8))))
    in_rounds(machine, range(1_002, 1_007))
    believed = machine.state.believed
    assert {believed.sequence} == set(believed.taken)
    assert [0] * len(NODES) == [machine.state.image.capacity.gpu.free[node] for node in NODES]


def test_brokers_clock_that_was_set_back_stops_the_rounds_for_one_cycle(start: Start) -> None:
    """S2: after `sync_every`, by the agent's own clock, an earlier round is followed, and everything is taken in."""
    machine = by_rows(start)
    in_rounds(machine, range(4_000, 4_001))
    machine.fact(EU_LOG, granted(a_claim("w-9", placed=dict.fromkeys(NODES, 8))))
    in_rounds(machine, range(100, 104))
    assert min(machine.state.believed.taken) < machine.state.believed.sequence
    machine.wait(FOUR.sync_every)
    in_rounds(machine, range(104, 105))
    assert {machine.state.believed.sequence} == set(machine.state.believed.taken)
    assert turn(104) == machine.state.believed.turn


@pytest.mark.parametrize(
    "event",
    [AgentsSet(replace(FOUR, partitions=2)), AgentsSet(replace(FOUR, partitions=3)), joined("w1", 8, 8)],
    ids=["fewer_partitions", "other_partitions", "more_nodes"],
)
def test_try_after_partitions_were_dealt_anew_takes_everything_in(start: Start, event: Event) -> None:
    """S11: between the conflict and the next try."""
    machine = by_rows(start, settings=replace(FOUR, partitions=64))
    claim = claim_of(place(machine, award_of("w-1", a_job(1, 8)), turn(1)))
    machine.hear(conflict(claim, machine))
    machine.fact(EU_LOG, event)
    again = claim_of(machine.wake())
    believed = machine.state.believed
    assert {believed.sequence} == set(believed.taken)
    assert again.view.sequence == believed.sequence
    assert again.view.partition == believed.partitions.of(again.spreads[0].nodes[0])


def test_request_during_the_image_is_decided_afterwards(start: Start) -> None:
    """S3: bids and awards that come while the agent waits for an image, in their order."""
    machine = by_rows(start)
    machine.fact(EU_LOG, AgentsSet(AgentSettings()))
    machine.is_image_late = True
    request = SolicitBid(EU, WorkloadId("w-2"), "auction of w-2", (a_job(1, 8),), 3, Kind.TRAINING)
    machine.hear(FindBid(EU, A0, request, Turn()))
    machine.hear(PlaceAward(EU, A0, award_of("w-3", a_job(1, 8)), Turn()))
    assert 2 == len(machine.state.waiting)
    assert () == machine.wake().messages
    machine.is_image_late = False
    found = all_of([machine.hear_due_once(), machine.wake()])
    assert [WorkloadId("w-2")] == [bid.workload for bid in said(found, Bid)]
    assert WorkloadId("w-3") == claim_of(found).workload
    assert not machine.state.waiting


def test_requests_that_want_different_views_do_not_turn_it_over_in_turn(start: Start) -> None:
    """S3: each is decided, after one change of the view each; a broker may count an agent among the full ones and change its mind."""
    machine = by_rows(start)
    machine.is_image_late = True
    for number, turn_then in enumerate((Turn(), turn(1), Turn(), turn(2)), 2):
        auction = f"auction of w-{number}"
        request = SolicitBid(EU, WorkloadId(f"w-{number}"), auction, (a_job(1, 8),), 3, Kind.TRAINING)
        machine.hear(FindBid(EU, A0, request, turn_then))
    assert 4 == len(machine.state.waiting)
    assert not machine.state.has_rows_alone, "the first of them has its turn"
    machine.is_image_late = False
    found = [machine.hear_due_once(), *(machine.wake() for _ in range(8))]
    assert {f"w-{number}" for number in range(2, 6)} == {bid.workload for bid in said(all_of(found), Bid)}
    assert not machine.state.waiting
    assert machine.state.has_rows_alone


# Tries.


def test_wait_before_the_first_try_counts_in_later_ones(start: Start) -> None:
    """S8: a conflict does not put an agent that is late back on quality."""
    machine = by_rows(start, settings=replace(FOUR, placing=Placing.ADAPTIVE))
    machine.hear(PlaceAward(EU, A0, award_of("w-1", a_job(1, 8)), turn(1)), waited=seconds(5))
    claim = claim_of(machine.wake())
    assert PlacedBy.ADAPTIVE_LATE == claim.view.placing
    machine.hear(conflict(claim, machine))
    again = claim_of(machine.wake())
    assert PlacedBy.ADAPTIVE_LATE == again.view.placing
    assert machine.state.is_late


def test_view_says_why_the_partition_came_first(start: Start) -> None:
    """Which half of `adaptive` it was, and that no strategy chose the rack of a gang."""
    machine = by_rows(start, settings=replace(FOUR, placing=Placing.ADAPTIVE))
    found = [
        view_of(ask(machine, a_job(tasks, 8), workload=f"w-{tasks}", turn=turn(1))).placing
        for tasks in (2, 1, 3)
    ]
    assert [PlacedBy.OWN_RACK, PlacedBy.ADAPTIVE_IN_TIME, PlacedBy.WHOLE_REGION] == found


def test_award_that_is_repeated_after_the_grant_makes_no_claim(start: Start) -> None:
    """The agent knows no holdings, but what was granted to it."""
    machine = by_rows(start)
    award = award_of("w-1", a_job(1, 8))
    claim = claim_of(place(machine, award, turn(1)))
    machine.hear(
        ClaimAnswered(EU, A0, *attempt("w-1"), claim.claim, "granted", "", (), machine.sequence(EU_LOG) + 1)
    )
    assert () == place(machine, award, turn(1)).messages


def test_tries_are_counted_across_agents(start: Start) -> None:
    """What is handed back after conflicts tells of them, and the next agent's claim has the next number."""
    machine = by_rows(start, nodes=2)
    claim = claim_of(place(machine, award_of("w-1", a_job(1, 8)), turn(1)))
    machine.hear(conflict(claim, machine))
    second = claim_of(machine.wake())
    machine.hear(conflict(second, machine))
    found = machine.wake()
    assert is_handed_back(found)
    (back,) = said(found, AwardHandedBack)
    assert 2 == back.tries
    full = start(AllocationAgent(EU, AgentName("a1")))
    full.fact(EU_LOG, joined("w0", 0, 2))
    made = claim_of(full.hear(PlaceAward(EU, AgentName("a1"), back.award, Turn(), tries=back.tries)))
    assert "w-1.1.a1.3" == made.claim


# Figures.


def test_agent_that_folds_every_fact_counts_its_requests(start: Start) -> None:
    """S13: bids, and awards that are claimed as they were bid, each once."""
    machine = start(AllocationAgent(EU, A0))
    machine.fact(EU_LOG, joined("w0", 0, 8))
    for number in range(5):
        ask(machine, a_job(1, 8), workload=f"w-{number}", turn=Turn())
    machine.hear(PlaceAward(EU, A0, award_of("w-9", a_job(1, 8)), Turn()), waited=seconds(2))
    told = figures(machine)
    assert (6, 0, 1, 0) == (told.requests, told.handed_back, told.claims, told.conflicts)
    assert 2_000 == told.waited_ms


@pytest.mark.parametrize(("tries", "claims"), [(1, 3), (2, 6)])
def test_every_conflict_is_counted_once(start: Start, tries: int, claims: int) -> None:
    """S13: the last one too, after which the award is given back; and a try is no other request."""
    machine = by_rows(start, settings=replace(FOUR, tries=tries))
    before = figures(machine)
    for number in range(3):
        found: Decision = place(machine, award_of(f"w-{number}", a_job(1, 8)), turn(1))
        for _ in range(tries):
            machine.hear(conflict(claim_of(found), machine))
            found = machine.wake()
    told = figures(machine)
    assert (claims, claims) == (told.claims - before.claims, told.conflicts - before.conflicts)
    assert 3 == told.requests - before.requests
