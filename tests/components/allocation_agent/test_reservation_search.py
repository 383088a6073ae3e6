"""Agents where starts are reserved: who is offered what, what can be promised, and how a choice is made again."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from core.component import NOTHING, Decision
from core.events.region import AttemptEnded, ClaimGranted
from core.events.starts import StartReserved, StartUnreserved
from core.fact import Event
from core.images import RegionImage
from core.messages.agents import BidSettled, FindBid
from core.messages.broker import SolicitBid
from core.messages.control import PlaceTasks
from core.messages.queue import Abstention, Bid
from core.messages.store import DeclineAward
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.limits import CLOCKS_APART, END_SLACK, GRACE, PROMISE_SPAN, START_SPAN
from core.nouns.operation import TaskMove
from core.nouns.placement import Claim
from core.nouns.reasons import Reason
from core.nouns.starts import EarliestStart, StartOver
from core.nouns.workload import EndCause, JobSpec, Kind
from core.placing.diagnosis.replay_choice import Outcome, retraced
from core.placing.placer import SECTIONS
from tests.builders import EU, EU_LOG, a_claim, a_job, a_spread, amount, attempt, folded, granted, joined
from tests.components.allocation_agent.test_bids_and_claims import (
    A0,
    an_agent,
    an_award,
    bid_on,
    claimed,
    conflict,
    place,
    places,
    refusal,
    settle,
)
from tests.components.support.machine import Machine
from tests.matching import said, said_once

Start = Callable[..., Machine[Any]]
FREE_IN = seconds(1000)
FITS = Nanoseconds(FREE_IN - START_SPAN - GRACE - END_SLACK - SECOND)
"""What may last at the longest and surely end before: a second is for its way to the store."""


def reserved(*nodes: int, workload: str = "w-9", level: int = 3, revision: int = 1) -> StartReserved:
    """One task of 8 GPUs on each of these nodes."""
    spread, job = a_spread(dict.fromkeys(nodes, 1)), a_job(len(nodes), 8)
    owner, tenant = WorkloadId(workload), TenantName("default")
    return StartReserved(owner, revision, FREE_IN, level, Kind.TRAINING, tenant, (job,), (spread,), 1)


def ask(
    machine: Machine[Any],
    *jobs: JobSpec,
    workload: str = "w-1",
    lasts: int = 0,
    priority: int = 3,
    wants: bool = False,
    grace: int = 0,
) -> Decision:
    """The broker hands it a request for a bid."""
    request = SolicitBid(
        EU, WorkloadId(workload), f"auction of {workload}", jobs or (a_job(),), priority, Kind.TRAINING,
        max_duration=lasts, grace=grace, wants_prospect=wants,
    )  # fmt: skip
    return machine.hear(FindBid(EU, A0, request))


def full(node: int, workload: str, lasts: int = 0, priority: int = 3) -> ClaimGranted:
    """It holds all of a node."""
    return granted(replace(a_claim(workload, placed={node: 8}, priority=priority), max_duration=lasts))


def test_reserved_nodes_are_offered_to_backfill(start: Start) -> None:
    """They are offered to no other workload of the reservation's level or a lower one; reserved nodes are no capacity for others."""
    machine = an_agent(start, joined("w0", 0, 2), reserved(0), full(1, "w-7"))
    assert (Reason.START_RESERVED, 1_000) == refusal(ask(machine))
    assert (Reason.START_RESERVED, 1_000) == refusal(ask(machine, workload="w-2", lasts=FITS + 1))
    assert Reason.START_RESERVED == refusal(ask(machine, workload="w-3", lasts=FITS, grace=GRACE + 1))[0]
    assert [{0: 1}] == bid_on(ask(machine, workload="w-4", lasts=FITS))
    assert [{0: 1}] == bid_on(ask(machine, workload="w-5", priority=4))


def test_reserved_nodes_are_the_owners_capacity(start: Start) -> None:
    """The owner sees them as free, whatever else is reserved."""
    machine = an_agent(start, joined("w0", 0, 3), reserved(0, 1), reserved(2, workload="w-8"))
    assert [{0: 1, 1: 1}] == bid_on(ask(machine, a_job(2, 8), workload="w-9"))
    assert Reason.START_RESERVED == refusal(ask(machine, workload="w-1"))[0]


@pytest.mark.parametrize("is_used", [False, True])
def test_reservations_in_the_log_count_at_once(start: Start, *, is_used: bool) -> None:
    """A start is reserved, reserved again elsewhere, over, or used by its workload, which holds but one device."""
    machine = an_agent(start, joined("w0", 0, 2))
    assert [{0: 8, 1: 8}] == bid_on(ask(machine, a_job(16)))
    machine.hear(BidSettled(EU, A0, WorkloadId("w-1"), "auction of w-1", has_won=False))
    machine.fact(EU_LOG, reserved(0, 1))
    assert Reason.START_RESERVED == refusal(ask(machine))[0]
    machine.fact(EU_LOG, reserved(1, revision=2))
    assert [{0: 8}] == bid_on(ask(machine, a_job(8), workload="w-3"))
    used = granted(a_claim("w-9", placed={1: 1}))
    machine.fact(EU_LOG, used if is_used else StartUnreserved(WorkloadId("w-9"), 2, StartOver.LAPSED))
    assert [{1: 7}] == bid_on(ask(machine, a_job(7), workload="w-4"))


def test_workload_that_needs_victims_counts_their_wait(start: Start) -> None:
    """It is promised first, and granted when they have ended: a workload that would end in time if it were granted now may be too late."""
    machine = an_agent(
        start,
        joined("w0", 0, 2),
        full(0, "w-5", priority=1),
        full(1, "w-6", priority=1),
        reserved(0, level=5),
    )
    late = ask(machine, a_job(1, 8), workload="w-1", priority=5, lasts=FITS)
    assert [{1: 1}] == bid_on(late)
    settle(machine, has_won=False)
    early = ask(machine, a_job(2, 8), workload="w-2", priority=5, lasts=FITS - PROMISE_SPAN)
    assert [{0: 1, 1: 1}] == bid_on(early)


def test_workload_with_a_reserved_start_preempts_no_other(start: Start) -> None:
    """At its queue's request; and where the start is reserved, also for an award without a bid."""
    machine = an_agent(start, joined("w0", 0, 1), full(0, "w-5", priority=1))
    asked = SolicitBid(EU, WorkloadId("w-1"), "1.1", (a_job(),), 3, Kind.TRAINING, spares_all=True)
    assert Reason.NO_CAPACITY == refusal(machine.hear(FindBid(EU, A0, asked)))[0]
    assert [{0: 1}] == bid_on(machine.hear(FindBid(EU, A0, replace(asked, auction="1.2", spares_all=False))))
    machine.fact(EU_LOG, reserved(0))
    award = an_award("w-9", 1, a_job(1, 8))
    machine.wait(Nanoseconds(FREE_IN - PROMISE_SPAN + SECOND))
    assert [Reason.NO_CAPACITY] == [one.reason for one in said(place(machine, award), DeclineAward)]


def test_earliest_start_is_told_on_request(start: Start) -> None:
    """It is sent only with a refusal for lack of capacity."""
    lasts = seconds(500)
    machine = an_agent(start, joined("w0", 0, 2), full(0, "w-5", lasts), full(1, "w-6", lasts))
    assert said_once(ask(machine, a_job(2, 8)), Abstention).prospect is None
    told = said_once(ask(machine, a_job(2, 8), wants=True), Abstention).prospect
    until = START_SPAN + lasts + GRACE + END_SLACK + CLOCKS_APART
    assert EarliestStart(Nanoseconds(until), (a_spread({0: 1, 1: 1}),)) == told
    assert said_once(ask(machine, a_job(3, 8), wants=True), Abstention).prospect is None, "it could never be"
    assert [] == said(ask(machine, wants=True, priority=5), Abstention)


def test_prospects_of_two_lie_apart(start: Start) -> None:
    """What is kept for one is promised to no other of its level; a higher level may displace it."""
    lasts = seconds(500)
    machine = an_agent(start, joined("w0", 0, 2), full(0, "w-5", lasts), full(1, "w-6", lasts), reserved(0))
    told = said_once(ask(machine, a_job(1, 8), wants=True), Abstention).prospect
    assert told is not None
    assert (a_spread({1: 1}),) == told.spreads
    none = said_once(ask(machine, a_job(2, 8), wants=True), Abstention).prospect
    assert none is not None
    assert not none.is_promisable
    machine.fact(EU_LOG, reserved(1, workload="w-8"))
    none = said_once(ask(machine, a_job(1, 8), wants=True), Abstention).prospect
    assert none is not None
    assert not none.is_promisable


def test_other_searches_know_of_reserved_nodes(start: Start) -> None:
    """For an award that was not bid for, after a conflict, and for a task that moves."""
    machine = an_agent(start, joined("w0", 0, 3), reserved(0))
    award = replace(an_award("w-1", 1, a_job(1, 8)), max_duration=0)
    first = claimed(place(machine, award)).spreads
    taken = first[0].nodes[0]
    assert taken in (1, 2)
    again = conflict(machine, claimed_by(machine), full(taken, "w-7"))
    assert (a_spread({3 - taken: 1}),) == claimed(again).spreads
    machine.fact(EU_LOG, granted(a_claim("w-6", placed={3 - taken: 1}, kind=Kind.SERVICE)))
    move = TaskMove(0, 3 - taken, -1)
    assert NOTHING == machine.hear(PlaceTasks(EU, A0, *attempt("w-6"), 1, (move,)))


def claimed_by(machine: Machine[Any]) -> Claim:
    """The one claim that is open."""
    ((_, one),) = machine.state.claims.items()
    claim: Claim = one.claim
    return claim


def test_choice_beside_reserved_nodes_can_be_made_again(start: Start) -> None:
    """P27: the view names what it was barred from, for that is by the clock."""
    facts: list[Event] = [joined("w0", 0, 2), reserved(0)]
    machine = an_agent(start, *facts)
    bid = said_once(ask(machine, a_job(1, 8)), Bid)
    assert (2,) == bid.view.barred
    image = folded(RegionImage.empty(SECTIONS), facts)
    claim = replace(a_claim("w-1", jobs=(a_job(1, 8),), spreads=bid.spreads), view=bid.view)
    assert Outcome.EQUAL == retraced(image, claim).outcome
    unbarred = replace(claim, view=replace(claim.view, barred=(), seed="which is drawn otherwise"))
    assert [{1: 1}] == places(bid.spreads)
    assert Outcome.DIFFERENT in {
        retraced(image, replace(unbarred, view=replace(unbarred.view, seed=str(number)))).outcome
        for number in range(20)
    }


def test_start_that_no_search_finds_is_where_it_is_reserved(start: Start) -> None:
    """The first job takes the node that the second alone could have, and no search looks for another: what is reserved is claimed."""
    jobs = (a_job(1, 4, name="a"), a_job(1, 4, cpus=60, name="b"))
    weak = joined("w0", 0, 1, total=amount(8, 30, 512))
    spreads = (a_spread({0: 1}), a_spread({1: 1}))
    tenant = TenantName("default")
    kept = StartReserved(WorkloadId("w-9"), 1, FREE_IN, 3, Kind.TRAINING, tenant, jobs, spreads, 1)
    facts: list[Event] = [weak, joined("w1", 1, 1), granted(a_claim("w-5", placed={1: 4})), kept]
    unreserved = an_agent(start, *facts[:3])
    machine = an_agent(start, *facts)
    assert [] == said(ask(unreserved, *jobs, workload="w-9"), Bid)
    bid = said_once(ask(machine, *jobs, workload="w-9"), Bid)
    assert (spreads, True) == (bid.spreads, bid.view.is_as_reserved)
    image = folded(RegionImage.empty(SECTIONS), facts)
    claim = replace(a_claim("w-9", jobs=jobs, spreads=spreads), view=bid.view)
    assert Outcome.EQUAL == retraced(image, claim).outcome
    assert Outcome.DIFFERENT == retraced(image, replace(claim, spreads=spreads[::-1])).outcome
    machine.hear(BidSettled(EU, A0, WorkloadId("w-9"), "auction of w-9", has_won=False))
    machine.fact(EU_LOG, granted(a_claim("w-6", placed={0: 5})))
    assert Reason.NO_CAPACITY == refusal(ask(machine, *jobs, workload="w-9", priority=3))[0]


def test_restarted_agent_knows_the_reserved_nodes(start: Start) -> None:
    """They are in the image."""
    machine = an_agent(start, joined("w0", 0, 2), reserved(0))
    again = machine.restart()
    assert [{1: 1}] == bid_on(ask(again))


def test_shortage_is_no_more_than_must_be_freed(start: Start) -> None:
    """The workload would have to wait for a victim, and so would end too late for the start reserved on the other node: it is refused.
    Once the victim has ended by itself the workload fits, though only a part of a GPU came free: it would start, and so end, sooner.
    """
    busy = granted(a_claim("w-5", placed={1: 1}, priority=1))
    machine = an_agent(start, joined("w0", 0, 2), reserved(0), busy)
    _, missing = refusal(ask(machine, a_job(2, 8), workload="w-1", lasts=FITS))
    machine.fact(EU_LOG, AttemptEnded(*attempt("w-5"), EndCause.COMPLETED, 0, 1_000))
    assert [{0: 1, 1: 1}] == bid_on(ask(machine, a_job(2, 8), workload="w-2", lasts=FITS))
    assert missing <= 1_000
