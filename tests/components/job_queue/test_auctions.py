"""Who is put up for auction, who is asked, and who wins."""

import pytest

from components.job_queue.component import JobQueue
from core.events.queue import RankedBid, WorkloadAwarded
from core.messages.agents import BidSettled
from core.messages.base import LogHeard, LogSilent
from core.messages.broker import ExecuteAward, SolicitBid
from core.messages.queue import Bid, HoldWorkload
from core.messages.regions import AbandonRegion
from core.nouns.ids import AgentName, RegionName, TenantName, WorkloadId
from core.nouns.instant import Nanoseconds, after
from core.nouns.limits import (
    AUCTION_SPAN,
    AUCTIONS_MAX,
    AWARD_SAY_AGAIN,
    NOTED_INTERVAL,
    RESERVE_AFTER,
)
from core.nouns.placement import View
from core.nouns.reasons import Reason
from core.nouns.workload import Kind, WorkloadSpec
from tests.builders import (
    EU,
    EU_LOG,
    US,
    US_LOG,
    a_job,
    a_spec,
    a_spread,
    joined,
)
from tests.components.job_queue.test_datasets import CLICKS, place
from tests.components.support.job_queue import (
    W1,
    W2,
    Start,
    a_job_queue,
    abstain,
    asked,
    auction_of,
    awarded,
    awards,
    bid,
    large,
    refuse_all,
    small,
    submit,
)
from tests.matching import facts, kinds_said, said, said_once

ONLY_EU = (EU,)


# Opening.


def test_workload_is_put_up_in_every_region_that_could_hold_it(start: Start) -> None:
    """M13: all are asked the same."""
    machine = a_job_queue(start)
    spec = a_spec(a_job(2), priority=5, kind=Kind.BATCH)
    submit(machine, spec)
    decision = machine.wake()
    auction = auction_of(decision)
    wanted = [SolicitBid(region, W1, auction, spec.jobs, 5, Kind.BATCH, spec.tenant) for region in (EU, US)]
    assert wanted == said(decision, SolicitBid)
    assert [] == facts(decision)


def test_higher_priority_is_put_up_first_then_who_came_first(start: Start) -> None:
    """M6: the order in which they are asked about is the order of the queue."""
    machine = a_job_queue(start)
    for priority in (3, 5, 3, 6):
        submit(machine, small(priority))
    assert ["w-4", "w-2", "w-1", "w-3"] == [workload for workload, _ in asked(machine.wake())]


def test_cycle_is_bounded(start: Start) -> None:
    """The rest waits for the next cycle, which begins once all workloads of this one have an answer."""
    machine = a_job_queue(start)
    for _ in range(AUCTIONS_MAX + 3):
        submit(machine, small())
    decision = machine.wake()
    assert [f"w-{number}" for number in range(1, AUCTIONS_MAX + 1)] == [name for name, _ in asked(decision)]
    for number in range(1, AUCTIONS_MAX + 1):
        assert [] == asked(machine.wake())
        workload = WorkloadId(f"w-{number}")
        bid(machine, auction_of(decision, workload), workload=workload)
    assert [(f"w-{AUCTIONS_MAX + number}", EU) for number in (1, 2, 3)] == asked(machine.wake())


@pytest.mark.parametrize(
    ("spec", "regions"),
    [
        pytest.param(a_spec(), [EU, US], id="anywhere"),
        pytest.param(a_spec(regions=(US,)), [US], id="pinned"),
        pytest.param(a_spec(a_job(gpu_type="A100")), [US], id="hardware of one"),
        pytest.param(a_spec(a_job(17, 1)), [EU], id="too large for one"),
    ],
)
def test_only_regions_that_could_hold_it_are_asked(
    start: Start, spec: WorkloadSpec, regions: list[str]
) -> None:
    """By pin, by type and by size."""
    machine = start(JobQueue((EU, US)))
    machine.fact(EU_LOG, joined("w0", 0, 4))
    machine.fact(US_LOG, joined("w0", 0, 2), joined("w1", 2, 2, gpu_type="A100"))
    machine.wake()
    submit(machine, spec)
    assert [(W1, region) for region in regions] == asked(machine.wake())


def test_region_that_is_not_known_yet_is_asked_once_it_is(start: Start) -> None:
    """By the next auction."""
    machine = a_job_queue(start, unknown=(US_LOG,))
    submit(machine)
    decision = machine.wake()
    assert [(W1, EU)] == asked(decision)
    machine.adopt(US_LOG, joined())
    abstain(machine, auction_of(decision))
    assert [(W1, US)] == asked(machine.wake())


def test_silent_region_is_not_asked_until_it_is_heard(start: Start) -> None:
    """The keeper of its log was not heard for a while: the region would not answer."""
    machine = a_job_queue(start)
    machine.hear(LogSilent(EU_LOG))
    submit(machine)
    assert [(W1, US)] == asked(machine.wake())
    refuse_all(machine)
    submit(machine, small())
    assert [] == asked(machine.wake())
    machine.hear(LogHeard(EU_LOG))
    assert [(W1, EU), (W2, EU)] == asked(machine.wake())


# Closing.


def test_auction_closes_when_all_have_answered(start: Start) -> None:
    """At once: nobody waits for a deadline."""
    machine = a_job_queue(start)
    submit(machine)
    auction = auction_of(machine.wake())
    bid(machine, auction, EU)
    assert [] == facts(machine.wake())
    abstain(machine, auction, US)
    assert [WorkloadAwarded] == [type(event) for event in facts(machine.wake())]


def test_auction_closes_at_its_deadline(start: Start) -> None:
    """With the bids that are there; who is late has lost."""
    machine = a_job_queue(start)
    submit(machine)
    auction = auction_of(machine.wake())
    bid(machine, auction, US)
    assert [] == facts(machine.wait(Nanoseconds(AUCTION_SPAN - 1)))
    [award] = facts(machine.wait(Nanoseconds(1)))
    assert isinstance(award, WorkloadAwarded)
    assert US == award.region
    late = bid(machine, auction, EU)
    assert (BidSettled(EU, AgentName("a-eu"), W1, auction, has_won=False),) == late.messages
    assert [] == facts(late)


def test_auction_without_answers_is_opened_again(start: Start) -> None:
    """Under another name, so that a late answer to the first is told from one to the second."""
    machine = a_job_queue(start)
    submit(machine)
    first = auction_of(machine.wake())
    second = auction_of(machine.wait(AUCTION_SPAN))
    assert first != second
    assert [False] == [told.has_won for told in said(bid(machine, first), BidSettled)]
    assert () == bid(machine, second).messages


def test_best_score_wins(start: Start) -> None:
    """M13: compared from the left; the award names all bids in their order, and each bidder is told."""
    machine = a_job_queue(start)
    submit(machine)
    auction = auction_of(machine.wake())
    bid(machine, auction, EU, score=(1, 0, 0))
    bid(machine, auction, US, score=(0, 9, 9))
    decision = machine.hear_due_once()
    ranked = (RankedBid(US, (0, 9, 9)), RankedBid(EU, (1, 0, 0)))
    award = WorkloadAwarded(
        W1, 1, US, 0, ranked, tenant=TenantName("default"), level=3, charge={"H100": 1_000}
    )
    assert [award] == facts(decision)
    told = said(decision, BidSettled)
    assert [("us", "a-us", True), ("eu", "a-eu", False)] == [
        (one.region, one.agent, one.has_won) for one in told
    ]


def test_best_score_when_two_are_equal(start: Start) -> None:
    """M13: ties are broken by the region's name, whoever was first."""
    machine = a_job_queue(start)
    submit(machine)
    auction = auction_of(machine.wake())
    bid(machine, auction, US)
    bid(machine, auction, EU)
    assert [EU] == [event.region for event in facts(machine.wake()) if isinstance(event, WorkloadAwarded)]


def test_award_is_a_fact_before_anybody_is_told(start: Start) -> None:
    """The decision that records it says it to nobody; the next one does, as it was bid."""
    machine = a_job_queue(start)
    submit(machine, small(5))
    bid(machine, auction_of(machine.wake()))
    first = machine.hear_due_once()
    assert [WorkloadAwarded] == [type(event) for event in facts(first)]
    assert ["BidSettled"] == kinds_said(first)
    second = machine.hear_due_once()
    assert [] == facts(second)
    award = said_once(second, ExecuteAward)
    sequence = machine.state.image.workloads.rows[W1].award_sequence
    assert (EU, W1, 1, sequence, 5) == (
        award.region,
        award.workload,
        award.epoch,
        award.award_sequence,
        award.priority,
    )
    assert ("a-eu", (a_spread({0: 1}),), small().jobs) == (award.agent, award.spreads, award.jobs)


def test_rank_counts_workloads_ahead(start: Start) -> None:
    """An award past others says how far down the queue it was made."""
    machine = a_job_queue(start)
    submit(machine, large(6))
    submit(machine, small())
    decision = machine.wake()
    abstain(machine, auction_of(decision, W1))
    bid(machine, auction_of(decision, W2), workload=W2)
    assert [1] == [event.rank for event in facts(machine.wake()) if isinstance(event, WorkloadAwarded)]


# Answers that do not count.


def test_bid_said_twice(start: Start) -> None:
    """The first stands."""
    machine = a_job_queue(start)
    submit(machine)
    auction = auction_of(machine.wake())
    bid(machine, auction, EU, score=(5,))
    assert ((), ()) == (bid(machine, auction, EU, score=(0,)).events, bid(machine, auction, EU).messages)
    bid(machine, auction, US, score=(1,))
    assert [US] == [event.region for event in facts(machine.wake()) if isinstance(event, WorkloadAwarded)]


@pytest.mark.parametrize(
    ("workload", "auction", "region"),
    [
        pytest.param(W1, "9.9", EU, id="another auction"),
        pytest.param(W2, None, EU, id="another workload"),
        pytest.param(W1, None, RegionName("mars"), id="a region that was not asked"),
    ],
)
def test_bid_that_nobody_asked_for(
    start: Start, workload: WorkloadId, auction: str | None, region: RegionName
) -> None:
    """It lost: its room is free again."""
    machine = a_job_queue(start)
    submit(machine)
    name = auction or auction_of(machine.wake())
    stray = Bid(region, AgentName("a0"), workload, name, (0,), (), (), View(1))
    assert (BidSettled(region, AgentName("a0"), workload, name, has_won=False),) == machine.hear(
        stray
    ).messages


def test_bid_of_a_second_agent_of_a_region(start: Start) -> None:
    """The bus repeated the request and the broker handed it to another: the first bid stands, and the other has lost."""
    machine = a_job_queue(start)
    submit(machine)
    auction = auction_of(machine.wake())
    bid(machine, auction, EU)
    second = AgentName("a-second")
    decision = machine.hear(Bid(EU, second, W1, auction, (0,), (), (), View(1)))
    assert ((), (BidSettled(EU, second, W1, auction, has_won=False),)) == (decision.events, decision.messages)


@pytest.mark.parametrize("auction", ["9.9", None])
def test_abstention_that_does_not_count(start: Start, auction: str | None) -> None:
    """Of another auction, or said twice."""
    machine = a_job_queue(start)
    submit(machine)
    name = auction_of(machine.wake())
    if auction is None:
        abstain(machine, name)
    decision = abstain(machine, auction or name)
    assert ((), ()) == (decision.events, decision.messages)


def test_two_answers_of_one_region_do_not_stand_for_two_regions(start: Start) -> None:
    """One that bid and then abstains has answered once: the other is waited for, and its better bid wins."""
    machine = a_job_queue(start)
    submit(machine)
    auction = auction_of(machine.wake())
    bid(machine, auction, EU, score=(5,))
    abstain(machine, auction, EU)
    assert [] == facts(machine.wake())
    bid(machine, auction, US, score=(1,))
    assert [US] == [event.region for event in facts(machine.wake()) if isinstance(event, WorkloadAwarded)]


# Beside that.


def test_auctions_when_the_queue_starts_again(start: Start) -> None:
    """They are held again, under names that the ones before had not: nothing of an auction is remembered but its award."""
    machine = a_job_queue(start)
    submit(machine)
    first = auction_of(machine.wake())
    bid(machine, first)
    again = machine.restart()
    second = auction_of(again.wake())
    assert first != second
    assert [False] == [told.has_won for told in said(bid(again, first), BidSettled)]


def test_workload_that_is_held_while_others_are_auctioned(start: Start) -> None:
    """Only its own auction is closed."""
    machine = a_job_queue(start)
    submit(machine, small())
    submit(machine, small())
    decision = machine.wake()
    machine.hear(HoldWorkload(W1, 0))
    bid(machine, auction_of(decision, W2), workload=W2)
    assert [W2] == awards(machine.wake())


def test_nothing_is_due_when_nothing_can_happen(start: Start) -> None:
    """A queue that waits for facts is not woken for nothing: only to see whether a refusal lasts, and whether a start can be promised
    to a workload that waits for long.
    """
    machine = a_job_queue(start)
    assert machine.component.due(machine.state) is None
    submit(machine, small())
    begun = machine.now
    abstain(machine, auction_of(machine.wake()))
    machine.wake()
    for seen in (1, 2):
        assert after(begun, Nanoseconds(seen * NOTED_INTERVAL)) == machine.component.due(machine.state)
        machine.wait(NOTED_INTERVAL)
    assert after(begun, RESERVE_AFTER) == machine.component.due(machine.state)
    submit(machine, a_spec(a_job(1, 2), regions=ONLY_EU))
    awarded(machine, workload=W2)
    machine.wake()
    assert after(machine.now, AWARD_SAY_AGAIN) == machine.component.due(machine.state)


def test_award_says_who_did_not_bid(start: Start) -> None:
    """M11: with the reason, whether it was said for this workload or holds for its like."""
    queue = a_job_queue(start)
    submit(queue)
    auction = auction_of(queue.wake())
    abstain(queue, auction, US, reason=Reason.OVER_LIMIT)
    bid(queue, auction, EU)
    (award,) = [event for event in facts(queue.hear_due_once()) if isinstance(event, WorkloadAwarded)]
    assert {US: Reason.OVER_LIMIT} == award.refusals
    queue.wake()
    submit(queue)
    opened = queue.wake()
    assert [(W2, EU)] == asked(opened)
    bid(queue, auction_of(opened, W2), EU, workload=W2)
    (award,) = [event for event in facts(queue.hear_due_once()) if isinstance(event, WorkloadAwarded)]
    assert {US: Reason.OVER_LIMIT} == award.refusals


def test_award_says_of_each_region_why_it_did_not_bid(start: Start) -> None:
    """M11: of those too that were not asked, for they lack what it reads, its user left them out, they are silent, or an operator gave them up;
    and of who was asked and said nothing.
    """
    queue = a_job_queue(start)

    def refusals() -> dict[RegionName, str]:
        opened = queue.wake()
        (workload,) = {message.workload for message in said(opened, SolicitBid)}
        bid(queue, auction_of(opened, workload), EU, workload=workload)
        decision = queue.hear_due_once()
        if not facts(decision):
            decision = queue.wait(AUCTION_SPAN)
        (award,) = [event for event in facts(decision) if isinstance(event, WorkloadAwarded)]
        queue.wake()
        return award.refusals

    submit(queue)
    assert {US: Reason.NO_ANSWER} == refusals()
    submit(queue, a_spec(regions=ONLY_EU))
    assert {US: Reason.REGION_EXCLUDED} == refusals()
    place(queue, CLICKS, EU)
    submit(queue, a_spec(data=(CLICKS,)))
    assert {US: Reason.NO_DATA} == refusals()
    queue.hear(LogSilent(US_LOG))
    submit(queue)
    assert {US: Reason.REGION_UNREACHABLE} == refusals()
    queue.hear(AbandonRegion(US, 0))
    submit(queue)
    assert {US: Reason.REGION_ABANDONED} == refusals()
