"""The allocation agent: bids on its own view, claims what it was awarded, and believes the store."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from components.allocation_agent.component import AllocationAgent
from core.component import NOTHING, Decision, RowsTold
from core.events.region import AttemptEnded, NodesLost
from core.fact import NO_LOG, Event, Fact
from core.messages.agents import (
    AgentFigures,
    AgentPresent,
    BidSettled,
    ClaimAnswered,
    FindBid,
    PlaceAward,
    PresenceWanted,
)
from core.messages.broker import ExecuteAward, SolicitBid
from core.messages.queue import Abstention, Bid
from core.messages.store import DeclineAward, SubmitClaim
from core.nouns.ids import AgentName, AttemptKey, WorkerName, WorkloadId
from core.nouns.instant import Nanoseconds
from core.nouns.limits import (
    CLAIM_SAY_AGAIN,
    PRESENCE_INTERVAL,
)
from core.nouns.placement import Claim, NodeRow, Shortage, Spread, View
from core.nouns.quantities import Amount
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause, JobSpec, Kind
from core.rows import pack_rows
from core.rules.placement.tenant_isolation import code_of
from tests.builders import (
    EU,
    EU_LOG,
    a_claim,
    a_job,
    a_region,
    a_spread,
    amount,
    attempt,
    granted,
    joined,
    promised,
)
from tests.components.support.machine import Machine
from tests.matching import kinds_said, said, said_once

Start = Callable[..., Machine[Any]]
A0 = AgentName("a0")


def an_agent(start: Start, *events: Event) -> Machine[Any]:
    """One whose region has two empty nodes of 8 GPUs, or in which this happened."""
    machine = start(AllocationAgent(EU, A0))
    machine.fact(EU_LOG, *(events or (joined("w0", 0, 2),)))
    machine.wake()
    return machine


def ask(
    machine: Machine[Any], *jobs: JobSpec, workload: str = "w-1", auction: str = "", priority: int = 3
) -> Decision:
    """The broker hands it a request for a bid."""
    name = auction or f"auction of {workload}"
    request = SolicitBid(EU, WorkloadId(workload), name, jobs or (a_job(),), priority, Kind.TRAINING)
    return machine.hear(FindBid(EU, A0, request))


def settle(machine: Machine[Any], workload: str = "w-1", *, has_won: bool) -> Decision:
    """The auction is over."""
    return machine.hear(BidSettled(EU, A0, WorkloadId(workload), f"auction of {workload}", has_won))


def places(spreads: tuple[Spread, ...]) -> list[dict[int, int]]:
    """Tasks by node for each job."""
    return [dict(zip(spread.nodes, spread.tasks, strict=True)) for spread in spreads]


def bid_on(decision: Decision) -> list[dict[int, int]]:
    """Where it bids to place the tasks."""
    return places(said_once(decision, Bid).spreads)


def refusal(decision: Decision) -> tuple[str, int]:
    """Why it does not bid, and how much is missing."""
    told = said_once(decision, Abstention)
    return told.reason, told.missing_gpu_milli


def an_award(
    workload: str = "w-1",
    epoch: int = 1,
    *jobs: JobSpec,
    spreads: tuple[Spread, ...] = (),
    victims: tuple[AttemptKey, ...] = (),
    priority: int = 3,
) -> ExecuteAward:
    """The queue's award, as it was bid."""
    return ExecuteAward(
        EU, WorkloadId(workload), epoch, 7, priority, Kind.BATCH, jobs or (a_job(),), A0, spreads, victims,
        resume_epoch=4, resume_step=40, grace=5, max_duration=6,
    )  # fmt: skip


def place(machine: Machine[Any], award: ExecuteAward) -> Decision:
    """The broker hands it an award."""
    return machine.hear(PlaceAward(EU, A0, award))


def claimed(decision: Decision) -> Claim:
    """The one claim that is said."""
    return said_once(decision, SubmitClaim).claim


def answer(
    machine: Machine[Any],
    claim: Claim,
    verdict: str,
    reason: str = "",
    *,
    rows: tuple[NodeRow, ...] = (),
    sequence: int = 0,
) -> Decision:
    """The store answers a claim."""
    told = ClaimAnswered(EU, A0, claim.workload, claim.epoch, claim.claim, verdict, reason, rows, sequence)
    return machine.hear(told)


def conflict(machine: Machine[Any], claim: Claim, *events: Event, rows: tuple[NodeRow, ...] = ()) -> Decision:
    """The store answers that these came first, and then its log tells them. Returns what is done then."""
    sequence = machine.sequence(EU_LOG) + len(events)
    assert () == answer(machine, claim, "conflict", Reason.CONFLICT, rows=rows, sequence=sequence).messages
    machine.fact(EU_LOG, *events)
    return machine.wake()


def full(node: int) -> NodeRow:
    """Nothing is available there."""
    return NodeRow(node, Amount(), is_open=True)


def vacant(node: int) -> NodeRow:
    """All eight GPUs are available there."""
    return NodeRow(node, a_region(joined("w0", 0, 1)).capacity.node_row(0).free, is_open=True)


# Being there.


def test_agent_shows_that_it_is_there(start: Start) -> None:
    """At its start, at every interval, and when the broker asks."""
    machine = start(AllocationAgent(EU, A0))
    here = AgentPresent(EU, A0, AgentFigures(view="full", partitions=1))
    assert (here,) == machine.wake().messages
    assert [here, here] == said(machine.wait(Nanoseconds(2 * PRESENCE_INTERVAL)), AgentPresent)
    assert (here,) == machine.hear(PresenceWanted(EU, 5)).messages


# Bidding.


def test_bid_names_places_price_and_view(start: Start) -> None:
    """Enough for the queue to compare, and for the store to judge how old it was."""
    machine = an_agent(start)
    told = said_once(ask(machine, a_job(2, 2)), Bid)
    assert (EU, A0, "w-1", "auction of w-1", 1) == (
        told.region,
        told.agent,
        told.workload,
        told.auction,
        told.view.sequence,
    )
    assert [{0: 2}] == places(told.spreads)
    assert ((0, 0, 0, 1, 1, 0), ()) == (told.score, told.victims)


def test_abstention_when_the_hardware_is_not_there(start: Start) -> None:
    """M11: whatever was freed would not help."""
    assert (Reason.NO_SUCH_HARDWARE, 0) == refusal(ask(an_agent(start), a_job(gpu_type="B200")))


def test_abstention_without_capacity(start: Start) -> None:
    """The abstention has the least that is missing, and the view on which that was so."""
    machine = an_agent(start, joined("w0", 0, 2), granted(a_claim("w-9", placed={0: 3, 1: 5})))
    told = said_once(ask(machine, a_job(2, 8)), Abstention)
    assert (Reason.NO_CAPACITY, 6_000, 2) == (told.reason, told.missing_gpu_milli, told.view_sequence)
    changes = ("main: 3 GPUs a task instead of 8 GPUs",)
    assert Shortage("main", 2, 0, 2, amount(8, 128, 1024), amount(5, 64, 512), changes) == told.shortage


def test_abstention_when_not_even_the_empty_region_could_hold_it(start: Start) -> None:
    """It is no matter of what runs, and what would help is said; once nodes join it is one."""
    machine = an_agent(start, joined("w0", 0, 2), granted(a_claim("w-9", placed={0: 3, 1: 5})))
    told = said_once(ask(machine, a_job(3, 8)), Abstention)
    assert (Reason.NO_SUCH_HARDWARE, 0) == (told.reason, told.missing_gpu_milli)
    assert told.shortage is not None
    assert ("main: 2 tasks instead of 3", "main: 4 GPUs a task instead of 8 GPUs") == told.shortage.changes
    machine.fact(EU_LOG, joined("w1", 2, 1))
    assert Reason.NO_CAPACITY == refusal(ask(machine, a_job(3, 8), auction="again"))[0]


def test_bid_over_victims(start: Start) -> None:
    """Only when free room is not enough, and at a price."""
    machine = an_agent(start, joined("w0", 0, 2), granted(a_claim("w-9", placed={0: 8}, priority=1)))
    told = said_once(ask(machine, a_job(2, 8), priority=3), Bid)
    assert ((attempt("w-9"),), 2) == (told.victims, told.score[0])
    settle(machine, has_won=False)
    assert () == said_once(ask(machine, a_job(1, 8), priority=3, auction="again"), Bid).victims
    assert Reason.NO_CAPACITY == refusal(ask(machine, a_job(2, 8), priority=1, workload="w-2"))[0]


def test_request_said_twice(start: Start) -> None:
    """The bid stands; nothing is offered a second time."""
    machine = an_agent(start)
    ask(machine)
    assert NOTHING == ask(machine)


def test_claim_counts_as_taken_until_it_is_answered(start: Start) -> None:
    """By a refusal it is free again; a grant is seen in the log, and counted there alone."""
    machine = an_agent(start)
    claim = claimed(place(machine, an_award("w-1", 1, a_job(1, 8))))
    left = [{1 - claim.spreads[0].nodes[0]: 1}]
    assert left == bid_on(ask(machine, a_job(1, 8), workload="w-2"))
    settle(machine, "w-2", has_won=False)
    machine.fact(EU_LOG, granted(claim))
    assert left == bid_on(ask(machine, a_job(1, 8), workload="w-3"))
    settle(machine, "w-3", has_won=False)
    answer(machine, claim, "granted")
    assert left == bid_on(ask(machine, a_job(1, 8), workload="w-4"))


def test_agent_works_on_while_its_claims_are_being_committed(start: Start) -> None:
    """P21: it waits for no answer: meanwhile it bids and claims elsewhere, and each claim is answered for itself, in any order."""
    machine = an_agent(start, joined("w0", 0, 8))
    open_claims = []
    for number in range(4):
        bid = bid_on(ask(machine, a_job(1, 8), workload=f"w-{number}"))
        told = claimed(place(machine, an_award(f"w-{number}", 1, a_job(1, 8), spreads=(a_spread(bid[0]),))))
        open_claims.append(told)
        assert NOTHING == machine.wake()
    assert 4 == len({claim.spreads[0].nodes for claim in open_claims})
    for claim in reversed(open_claims):
        machine.fact(EU_LOG, granted(claim))
        answer(machine, claim, "granted")
    assert [dict.fromkeys(range(8), 1).keys() - {claim.spreads[0].nodes[0] for claim in open_claims}] == [
        spread.keys() for spread in bid_on(ask(machine, a_job(4, 8), workload="w-9"))
    ]


def test_abstention_counts_the_shortage_without_its_own_open_bids(start: Start) -> None:
    """Open bids may come to nothing without any fact: a refusal that waited for their capacity to be freed might wait for ever."""
    machine = an_agent(start, joined("w0", 0, 2), granted(a_claim("w-9", placed={1: 1})))
    assert [{0: 1}] == bid_on(ask(machine, a_job(1, 8)))
    assert (Reason.NO_CAPACITY, 1_000) == refusal(ask(machine, a_job(2, 8), workload="w-2"))


def test_abstention_counts_the_shortage_beyond_possible_victims(start: Start) -> None:
    """Once the capacity of the higher level is free the workload could preempt the lower one: a refusal that waited for both might wait
    for ever.
    """
    low, high = a_claim("w-8", placed={0: 8}, priority=2), a_claim("w-9", placed={1: 8}, priority=5)
    machine = an_agent(start, joined("w0", 0, 2), granted(low), granted(high))
    assert (Reason.NO_CAPACITY, 8_000) == refusal(ask(machine, a_job(2, 8), priority=3))
    machine.fact(EU_LOG, AttemptEnded(*attempt("w-9"), EndCause.COMPLETED, gpu_milli=8_000))
    assert [{0: 1, 1: 1}] == bid_on(ask(machine, a_job(2, 8), priority=3))


def test_lost_and_promised_capacity_is_not_offered(start: Start) -> None:
    """Neither is available."""
    history = [joined("w0", 0, 1), joined("w1", 1, 2), granted(a_claim("w-9", placed={0: 1}))]
    waiting = promised(a_claim("w-8", placed={0: 8}, priority=5, victims=(attempt("w-9"),)))
    machine = an_agent(start, *history, waiting)
    assert [{1: 1}] == bid_on(ask(machine, a_job(1, 1)))
    machine.fact(EU_LOG, NodesLost(WorkerName("w1"), (1, 2)))
    assert Reason.NO_CAPACITY == refusal(ask(machine, a_job(1, 1), workload="w-2"))[0]


def test_nodes_that_join_later_are_offered(start: Start) -> None:
    """Whatever their numbers, and though it has searched before."""
    machine = an_agent(start, joined("w1", 4, 1))
    assert [{4: 1}] == bid_on(ask(machine, a_job(1, 8)))
    machine.fact(EU_LOG, joined("w0", 0, 2))
    assert [{0: 1, 1: 1}] == bid_on(ask(machine, a_job(2, 8), workload="w-2"))


def test_rows_told_beside_facts_change_nothing(start: Start) -> None:
    """They say what the facts say; told for another sequence they are not believed at all."""
    machine = an_agent(start)
    machine.fact(EU_LOG, granted(a_claim("w-9", placed={0: 8})))
    there = a_region(joined("w0", 0, 2), granted(a_claim("w-9", placed={0: 8}))).capacity
    for sequence, rows in (
        (2, pack_rows(there, [0])),
        (9, pack_rows(a_region(joined("w0", 0, 2)).capacity, [0])),
    ):
        note = RowsTold(EU_LOG, sequence, rows)
        machine.fold(Fact(NO_LOG, 0, machine.now, "", "", note, machine.now))
    assert [{1: 1}] == bid_on(ask(machine, a_job(1, 8)))


def test_rows_told_beside_facts_spare_the_agent_its_image(start: Start) -> None:
    """Rows told for the newest fact are put into the arrays: of their nodes nothing is left to be read from the image."""
    machine = an_agent(start)
    ask(machine, a_job(1, 1), workload="w-8")
    settle(machine, "w-8", has_won=False)
    machine.state.placer.refresh()
    fact = granted(a_claim("w-9", placed={1: 8}))
    machine.fact(EU_LOG, fact)
    assert {1} == machine.state.placer._dirty
    there = a_region(joined("w0", 0, 2), fact).capacity
    machine.fold(
        Fact(NO_LOG, 0, machine.now, "", "", RowsTold(EU_LOG, 2, pack_rows(there, [1])), machine.now)
    )
    assert set() == machine.state.placer._dirty
    assert [{0: 1}] == bid_on(ask(machine, a_job(1, 8)))


# Claiming.


def test_award_is_claimed_as_it_was_bid(start: Start) -> None:
    """With all that the award says, and the view on which it is made."""
    machine = an_agent(start)
    victims = (attempt("w-9"),)
    award = an_award("w-1", 2, a_job(1, 8), spreads=(a_spread({1: 1}),), victims=victims, priority=5)
    claim = claimed(place(machine, award))
    assert [{1: 1}] == places(claim.spreads)
    assert ("w-1", 2, 7, 5, Kind.BATCH, victims) == (
        claim.workload,
        claim.epoch,
        claim.award_sequence,
        claim.priority,
        claim.kind,
        claim.victims,
    )
    assert (4, 40, 5, 6) == (claim.resume_epoch, claim.resume_step, claim.grace, claim.max_duration)
    assert (A0, EU, 0) == (claim.agent, claim.region, claim.revision)


def test_claim_names_the_view_it_was_made_on(start: Start) -> None:
    """Open bids and learnt rows too, as they were counted: enough to choose again."""
    machine = an_agent(start)
    offered = said_once(ask(machine, a_job(1, 1), workload="w-5"), Bid).spreads[0].nodes[0]
    first = claimed(place(machine, an_award("w-1", 1, a_job(1, 4), spreads=(a_spread({0: 1}),))))
    answer(machine, first, "conflict", Reason.CONFLICT, rows=(full(0),), sequence=4)
    last = claimed(place(machine, an_award("w-3", 1, a_job(1, 1))))
    assert (("w-5",), (attempt("w-1"),)) == (last.view.open_bids, last.view.open_claims)
    assert {0, offered} == {row.node for row in last.view.learnt}
    assert [0] == [row.free.gpu_milli for row in last.view.learnt if row.node == 0]
    assert ("w-3.1.a0.1", 1) == (last.view.seed, last.view.sequence)


def test_view_names_the_owners_counted_on_nodes(start: Start) -> None:
    """P27: the owners of the agent's own open claims, if any workload shares nodes with no other; but not of the claim that is tried
    again.
    """
    alone = replace(a_job(1, 6), is_alone=True)
    machine = an_agent(start)
    place(machine, an_award("w-1", 1, a_job(1, 6), spreads=(a_spread({0: 1}),)))
    assert () == said_once(ask(machine, a_job(1, 1), workload="w-5"), Bid).view.owners
    first = claimed(place(machine, an_award("w-2", 1, alone, spreads=(a_spread({1: 1}),))))
    wanted = ((0, code_of("", is_alone=False)), (1, code_of("", is_alone=True)))
    assert wanted == said_once(ask(machine, a_job(1, 1), workload="w-6"), Bid).view.owners
    taken = granted(a_claim("w-9", placed={1: 8}))
    again = claimed(conflict(machine, first, joined("w1", 2, 1), taken, rows=(full(1),)))
    assert ([{2: 1}], wanted[:1]) == (places(again.spreads), again.view.owners)


def test_view_of_a_claim_is_the_one_on_which_its_places_were_chosen(start: Start) -> None:
    """As bid, it is compared with what was known at the bid; searched anew, with what is known now."""
    machine = an_agent(start, joined("w0", 0, 2), granted(a_claim("w-9")), granted(a_claim("w-8")))
    as_bid = replace(an_award("w-1", 1, spreads=(a_spread({1: 1}),)), view=View(2))
    assert 2 == claimed(place(machine, as_bid)).view.sequence
    assert 3 == claimed(place(machine, replace(an_award("w-2"), view=View(2)))).view.sequence


@pytest.mark.parametrize("spreads", [(), (a_spread({9: 1}),)], ids=["forgotten", "a node that is not there"])
def test_award_with_a_useless_bid(start: Start, spreads: tuple[Spread, ...]) -> None:
    """The agent searches again."""
    claim = claimed(place(an_agent(start), an_award("w-1", 1, a_job(1, 8), spreads=spreads)))
    assert places(claim.spreads) in ([{0: 1}], [{1: 1}])


def test_award_that_is_searched_again_over_victims(start: Start) -> None:
    """The victims are claimed with it."""
    machine = an_agent(start, joined("w0", 0, 1), granted(a_claim("w-9", placed={0: 8}, priority=1)))
    claim = claimed(place(machine, an_award("w-1", 1, a_job(1, 8))))
    assert (attempt("w-9"),) == claim.victims


def test_award_without_capacity(start: Start) -> None:
    """M21: the agent declines the award; when the award is repeated, the agent declines it again."""
    machine = an_agent(start)
    for _ in range(2):
        decision = place(machine, an_award("w-1", 3, a_job(3, 8)))
        assert (DeclineAward(EU, *attempt("w-1", 3), 7, Reason.NO_CAPACITY),) == decision.messages


def test_award_said_twice(start: Start) -> None:
    """One claim, while it is open, and none when the log shows what became of it."""
    machine = an_agent(start)
    claim = claimed(place(machine, an_award()))
    assert NOTHING == place(machine, an_award())
    machine.fact(EU_LOG, granted(claim))
    answer(machine, claim, "granted")
    assert NOTHING == place(machine, an_award())
    machine.fact(EU_LOG, promised(replace(claim, workload=WorkloadId("w-2"))))
    assert NOTHING == place(machine, an_award("w-2"))


def test_claim_is_said_again_until_it_is_answered(start: Start) -> None:
    """The same one: hearing it twice changes nothing."""
    machine = an_agent(start)
    claim = claimed(place(machine, an_award()))
    again = said(machine.wait(Nanoseconds(3 * CLAIM_SAY_AGAIN)), SubmitClaim)
    assert [claim] * 3 == [one.claim for one in again]
    answer(machine, claim, "granted")
    assert [] == said(machine.wait(Nanoseconds(5 * CLAIM_SAY_AGAIN)), SubmitClaim)


@pytest.mark.parametrize("event", [granted, promised])
def test_claim_with_a_lost_answer(start: Start, event: Callable[[Claim], Event]) -> None:
    """The log has the outcome: the claim is not repeated."""
    machine = an_agent(start)
    machine.fact(EU_LOG, event(claimed(place(machine, an_award()))))
    assert [] == said(machine.wait(Nanoseconds(5 * CLAIM_SAY_AGAIN)), SubmitClaim)


@pytest.mark.parametrize(
    ("verdict", "reason", "is_given_back"),
    [
        ("granted", "", False),
        ("promised", "", False),
        ("refused", Reason.AWARD_NOT_STANDING, False),
        ("refused", Reason.SUPERSEDED, False),
        ("refused", Reason.BAD_CLAIM, True),
        ("refused", Reason.UNKNOWN_NODE, True),
        ("refused", Reason.VICTIM_NOT_LOWER, True),
        ("refused", Reason.TOO_LARGE, True),
    ],
)
def test_claim_that_is_answered_for_good(
    start: Start, verdict: str, reason: str, *, is_given_back: bool
) -> None:
    """It is over; an award that still stands is given back with the store's reason."""
    machine = an_agent(start)
    claim = claimed(place(machine, an_award()))
    decision = answer(machine, claim, verdict, reason)
    wanted = (DeclineAward(EU, *attempt(), 7, Reason(reason), 1),) if is_given_back else ()
    assert wanted == decision.messages
    assert [] == said(machine.wait(Nanoseconds(5 * CLAIM_SAY_AGAIN)), SubmitClaim)


# Starting again.


def test_agent_that_starts_again_remembers_nothing(start: Start) -> None:
    """Its bids and claims are gone: what it offered is free, and what was awarded is said again by the queue."""
    machine = an_agent(start)
    for name in ("w-1", "w-2"):
        ask(machine, a_job(1, 8), workload=name)
    place(machine, an_award("w-1", 1, a_job(1, 8)))
    again = machine.restart()
    assert ["AgentPresent"] == kinds_said(again.wait(Nanoseconds(CLAIM_SAY_AGAIN)))
    assert [{0: 1}] == bid_on(ask(again, a_job(1, 8), workload="w-3"))


def test_agent_that_adopts_its_log_again(start: Start) -> None:
    """T7: after a gap the agent's view is the image's."""
    machine = an_agent(start)
    ask(machine)
    settle(machine, has_won=False)
    machine.adopt(EU_LOG, granted(a_claim("w-9", placed={0: 8})))
    assert [{1: 1}] == bid_on(ask(machine, a_job(1, 8), workload="w-2"))


def test_grant_that_ended_in_a_gap_counts_no_more(start: Start) -> None:
    """T7: it was answered, counts until the log shows it, and the log is adopted anew after its end."""
    machine = an_agent(start)
    made = claimed(place(machine, an_award("w-1", 1, a_job(8), spreads=(a_spread({0: 8}),))))
    machine.hear(ClaimAnswered(EU, A0, *attempt(), made.claim, "granted", sequence=99))
    assert (("claim", attempt()),) == machine.state.overlay.keys()
    machine.adopt(EU_LOG, granted(made), AttemptEnded(*attempt(), EndCause.COMPLETED))
    assert () == machine.state.overlay.keys()
