"""How long what an agent offered counts as taken, and cannot be offered to others."""

import pytest

from core.events.region import AwardDeclined
from core.fact import Event
from core.messages.agents import FindBid
from core.messages.broker import SolicitBid
from core.messages.queue import Bid
from core.nouns.ids import WorkloadId
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import AWARD_SPAN, OPEN_BID_SPAN
from core.nouns.reasons import Reason
from core.nouns.workload import Kind
from tests.builders import EU, EU_LOG, a_claim, a_job, attempt, granted, joined, promised
from tests.components.allocation_agent.test_bids_and_claims import (
    A0,
    Start,
    an_agent,
    an_award,
    answer,
    ask,
    bid_on,
    claimed,
    place,
    refusal,
    settle,
)
from tests.matching import said_once


def test_open_bid_counts_as_taken(start: Start) -> None:
    """The same room is not offered twice: the next bid is for another, and then there is none."""
    machine = an_agent(start)
    assert [[{0: 1}], [{1: 1}]] == [
        bid_on(ask(machine, a_job(1, 8), workload=name)) for name in ("w-1", "w-2")
    ]
    assert (Reason.OPEN_BIDS, 0) == refusal(ask(machine, a_job(1, 8), workload="w-3"))


def test_open_bid_that_lost_is_free_again(start: Start) -> None:
    """At once."""
    machine = an_agent(start)
    for name in ("w-1", "w-2"):
        ask(machine, a_job(1, 8), workload=name)
    settle(machine, "w-1", has_won=False)
    assert [{0: 1}] == bid_on(ask(machine, a_job(1, 8), workload="w-3"))


def test_unsettled_open_bid_is_free_after_a_while(start: Start) -> None:
    """The queue's message was lost."""
    machine = an_agent(start)
    for name in ("w-1", "w-2"):
        ask(machine, a_job(1, 8), workload=name)
    machine.wait(Nanoseconds(OPEN_BID_SPAN - 1))
    assert Reason.OPEN_BIDS == refusal(ask(machine, a_job(1, 8), workload="w-3"))[0]
    machine.wait(Nanoseconds(1))
    assert [{0: 1}] == bid_on(ask(machine, a_job(1, 8), workload="w-3"))


def test_open_bid_counts_for_as_long_as_its_cycle_may_last(start: Start) -> None:
    """The queue says how long that is: its word may come after `OPEN_BID_SPAN` where a region is late, and the bid may win."""
    machine = an_agent(start)
    request = SolicitBid(
        EU, WorkloadId("w-1"), "auction of w-1", (a_job(2, 8),), 3, Kind.TRAINING, held_for=seconds(24)
    )
    machine.hear(FindBid(EU, A0, request))
    machine.wait(seconds(8))
    assert Reason.OPEN_BIDS == refusal(ask(machine, a_job(1, 8), workload="w-2"))[0]
    settle(machine, has_won=True)
    machine.wait(Nanoseconds(AWARD_SPAN - 1))
    assert Reason.OPEN_BIDS == refusal(ask(machine, a_job(1, 8), workload="w-2"))[0]


def test_open_bid_that_won_counts_until_it_is_claimed(start: Start) -> None:
    """And then its claim counts instead: once, not twice."""
    machine = an_agent(start)
    told = said_once(ask(machine, a_job(1, 8)), Bid)
    settle(machine, has_won=True)
    assert [{1: 1}] == bid_on(ask(machine, a_job(1, 8), workload="w-2"))
    settle(machine, "w-2", has_won=False)
    place(machine, an_award("w-1", 1, a_job(1, 8), spreads=told.spreads))
    assert [{1: 1}] == bid_on(ask(machine, a_job(1, 8), workload="w-3"))


def test_open_bid_that_won_counts_for_as_long_as_its_award_may_come(start: Start) -> None:
    """And not for the span of one that nobody answered: its room would be offered to others, and one of two awards come to nothing."""
    machine = an_agent(start)
    ask(machine, a_job(2, 8))
    settle(machine, has_won=True)
    machine.wait(Nanoseconds(AWARD_SPAN - 1))
    assert Reason.OPEN_BIDS == refusal(ask(machine, a_job(1, 8), workload="w-2"))[0]
    machine.wait(Nanoseconds(1))
    assert [{0: 1}] == bid_on(ask(machine, a_job(1, 8), workload="w-2"))


@pytest.mark.parametrize(
    ("event", "left"),
    [
        (granted(a_claim(placed={1: 8})), {0: 1}),
        (promised(a_claim(placed={1: 8})), {0: 1}),
        (AwardDeclined(*attempt(), Reason.NO_CAPACITY, 1), {0: 1}),
    ],
)
def test_open_bid_that_won_and_that_another_agent_claimed(
    start: Start, event: Event, left: dict[int, int]
) -> None:
    """It counts no longer once the log shows what came of it: the room is free again, or the other's."""
    machine = an_agent(start)
    assert [{0: 1}] == bid_on(ask(machine, a_job(1, 8)))
    settle(machine, has_won=True)
    machine.fact(EU_LOG, event)
    assert [left] == bid_on(ask(machine, a_job(1, 8), workload="w-2"))


def test_bid_for_a_later_auction_counts_though_an_earlier_award_was_declined(start: Start) -> None:
    """The decline was heard late: what is offered anew is offered to nobody else."""
    machine = an_agent(start)
    assert [{0: 1}] == bid_on(ask(machine, a_job(1, 8)))
    machine.fact(EU_LOG, AwardDeclined(*attempt(), Reason.NO_CAPACITY, 1))
    assert [{1: 1}] == bid_on(ask(machine, a_job(1, 8), workload="w-2"))


def test_victims_of_an_open_bid_are_offered_to_no_other_workload(start: Start) -> None:
    """M21: of five workloads that need the same victim, one is offered its capacity; once that bid came to nothing, another is."""
    machine = an_agent(start, joined("w0", 0, 1), granted(a_claim("w-9", placed={0: 8}, priority=1)))
    names = [f"w-{number}" for number in range(5)]
    first, *others = [ask(machine, a_job(1, 8), workload=name, priority=5) for name in names]
    assert (attempt("w-9"),) == said_once(first, Bid).victims
    assert {(Reason.OPEN_BIDS, 0)} == {refusal(other) for other in others}
    settle(machine, "w-0", has_won=False)
    again = ask(machine, a_job(1, 8), workload="w-1", priority=5, auction="again")
    assert (attempt("w-9"),) == said_once(again, Bid).victims


def test_each_victim_on_a_node_is_offered_once(start: Start) -> None:
    """Two that lie on one node make room for two; then there is nobody left, and a claim counts as its bid did."""
    full = [granted(a_claim(name, placed={0: 4}, priority=1)) for name in ("w-8", "w-9")]
    machine = an_agent(start, joined("w0", 0, 1), *full)
    told = [said_once(ask(machine, a_job(1, 4), workload=name, priority=5), Bid) for name in ("w-1", "w-2")]
    assert {(attempt("w-8"),), (attempt("w-9"),)} == {one.victims for one in told}
    settle(machine, "w-1", has_won=True)
    award = an_award("w-1", 1, a_job(1, 4), spreads=told[0].spreads, victims=told[0].victims, priority=5)
    made = claimed(place(machine, award))
    assert told[0].victims == made.victims
    assert Reason.OPEN_BIDS == refusal(ask(machine, a_job(1, 4), workload="w-3", priority=5))[0]
    answer(machine, made, "refused", Reason.PROMISE_BROKEN)
    assert told[0].victims == said_once(ask(machine, a_job(1, 4), workload="w-4", priority=5), Bid).victims
