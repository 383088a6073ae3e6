"""Awards are made in the order of the queue, in whatever order regions answer (docs/decisions/0035-awards-by-rank.md)."""

from typing import Any

import pytest

from components.job_queue.state.deferrals import PUT_OFF_MAX, PUT_OFF_SPAN
from core.events.queue import WorkloadAwarded
from core.messages.agents import BidSettled
from core.messages.base import LogHeard, LogSilent
from core.messages.broker import SolicitBid
from core.messages.queue import CancelWorkload
from core.nouns.ids import LogName, RegionName, WorkloadId
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.limits import AUCTION_SPAN
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause, WorkloadSpec
from tests.builders import EU, EU_LOG, US, US_LOG, a_job, a_spec, joined
from tests.components.support.job_queue import (
    W1,
    W2,
    W3,
    W4,
    Start,
    a_job_queue,
    abstain,
    asked,
    auction_of,
    awarded,
    awards,
    bid,
    declined,
    ended,
    large,
    running,
    small,
    submit,
)
from tests.components.support.machine import Machine
from tests.matching import facts, said

# While answers come.


def test_awards_go_by_rank_whoever_answers_first(start: Start) -> None:
    """A bid for who is ahead is waited for, and then all are awarded together, the first in the queue first."""
    machine = a_job_queue(start)
    for priority in (4, 3, 6):
        submit(machine, small(priority))
    decision = machine.wake()
    for workload in (W2, W1):
        bid(machine, auction_of(decision, workload), workload=workload)
        assert [] == facts(machine.wake())
    bid(machine, auction_of(decision, W3), workload=W3)
    found = [event for event in facts(machine.wake()) if isinstance(event, WorkloadAwarded)]
    assert [(W3, 0), (W1, 1), (W2, 2)] == [(event.workload, event.rank) for event in found]


@pytest.mark.parametrize(
    "ahead",
    [
        pytest.param(large(6), id="who wants more"),
        pytest.param(a_spec(a_job(1, 1), priority=6, regions=(US,)), id="who is asked for elsewhere"),
    ],
)
def test_nobody_waits_for_an_answer_that_takes_nothing_from_it(start: Start, ahead: WorkloadSpec) -> None:
    """It is awarded though somebody ahead waits."""
    machine = a_job_queue(start)
    submit(machine, ahead)
    submit(machine, small())
    decision = machine.wake()
    bid(machine, auction_of(decision, W2), workload=W2)
    assert [W2] == awards(machine.wake())


@pytest.mark.parametrize("is_refused", [True, False], ids=["refused", "cancelled"])
def test_who_is_ahead_and_wants_it_no_more_is_not_waited_for(start: Start, *, is_refused: bool) -> None:
    """Its auction is over by that, and the next is awarded."""
    machine = a_job_queue(start)
    submit(machine, small(6))
    submit(machine, small())
    decision = machine.wake()
    bid(machine, auction_of(decision, W2), workload=W2)
    assert [] == facts(machine.wake())
    if is_refused:
        abstain(machine, auction_of(decision, W1))
    else:
        machine.hear(CancelWorkload(W1))
    assert [W2] == awards(machine.wake())


def test_silence_ahead_keeps_nobody_back_for_longer_than_an_auction(start: Start) -> None:
    """Who waits for it is closed when its own time is over."""
    machine = a_job_queue(start)
    submit(machine, small(6))
    submit(machine, small())
    decision = machine.wake()
    bid(machine, auction_of(decision, W2), workload=W2)
    assert [W2] == awards(machine.wait(AUCTION_SPAN))


# While something is refused.


@pytest.mark.parametrize("is_refused", [False, True])
def test_who_wants_more_is_not_awarded_before_those_of_a_tight_shape_ahead_of_it(
    start: Start, *, is_refused: bool
) -> None:
    """Both are asked for at once; if the first of the shape is bid for, the next of it come first, and who wants more after them.
    If it is refused, so are they, and nobody waits for them.
    """
    machine = a_job_queue(start)
    for spec in (small(6), small(6), large()):
        submit(machine, spec)
    decision = machine.wake()
    for workload in (W1, W2, W3):
        abstain(machine, auction_of(decision, workload), workload=workload)
    machine.fact(EU_LOG, joined("w9", 8, 1))
    decision = machine.wake()
    assert [W1, W3] == [workload for workload, _ in asked(decision)]
    bid(machine, auction_of(decision, W3), workload=W3)
    if is_refused:
        abstain(machine, auction_of(decision, W1))
        assert [W3] == awards(machine.wake())
        return
    bid(machine, auction_of(decision, W1))
    decision = machine.wake()
    assert [W1] == awards(decision)
    assert [True] == [one.has_won for one in said(decision, BidSettled)]
    assert [W2] == [workload for workload, _ in asked(decision)]
    bid(machine, auction_of(decision, W2), workload=W2)
    assert [W2, W3] == awards(machine.wake())


def test_who_is_asked_for_again_stands_where_it_stood(start: Start) -> None:
    """Its first auction came to nothing: who was asked for after that waits for its second."""
    machine = a_job_queue(start)
    submit(machine, small())
    first = auction_of(machine.wake())
    submit(machine, large())
    late = auction_of(machine.wake(), W2)
    abstain(machine, first, missing=1)
    machine.wake()
    machine.fact(EU_LOG, joined("w9", 8, 1))
    again = auction_of(machine.wake(), W1)
    bid(machine, late, workload=W2)
    assert [] == awards(machine.wake())
    bid(machine, again)
    assert [W1, W2] == awards(machine.wake())


@pytest.mark.parametrize("is_pushed_out", [False, True])
def test_who_comes_back_stands_where_it_stood(start: Start, *, is_pushed_out: bool) -> None:
    """Its award was declined, or somebody needed its room: as in the queue it is ahead of who was asked for meanwhile, who waits until all
    have answered it, though the region that both are offered has room for both.
    """
    machine = a_job_queue(start)
    submit(machine, a_spec(a_job(1, 1), regions=(EU, US)))
    awarded(machine)
    if is_pushed_out:
        running(machine)
    submit(machine, a_spec(a_job(1, 2), regions=(EU,)))
    late = auction_of(machine.wake(), W2)
    machine.fact(EU_LOG, ended(EndCause.PREEMPTED) if is_pushed_out else declined())
    machine.fact(US_LOG, joined("w8", 8, 8))
    machine.wake()
    again = machine.state.auctions.open[W1].auction
    bid(machine, again)
    bid(machine, late, workload=W2)
    assert [] == awards(machine.wake())
    bid(machine, again, US)
    assert [W1, W2] == awards(machine.wake())


def test_nobody_waits_for_who_stood_ahead_of_it_an_hour_ago(start: Start) -> None:
    """One was pushed out after an hour in which its tenant had its due: a newcomer of another tenant is ahead of it now."""
    machine = a_job_queue(start)
    submit(machine, a_spec(a_job(1, 1), regions=(EU, US)))
    awarded(machine)
    running(machine)
    machine.wait(seconds(3_600))
    submit(machine, a_spec(a_job(1, 2), tenant="another", regions=(EU,)))
    machine.fact(EU_LOG, ended(EndCause.PREEMPTED))
    machine.fact(US_LOG, joined("w8", 8, 8))
    machine.wake()
    assert {W1, W2} == set(machine.state.auctions.open)
    bid(machine, machine.state.auctions.open[W2].auction, workload=W2)
    assert [W2] == awards(machine.wake())


def test_who_was_asked_for_later_is_awarded_first_if_it_is_ahead(start: Start) -> None:
    """It waited for another of its shape, and who is behind was asked for meanwhile: closed together, they go by the queue."""
    machine = a_job_queue(start)
    submit(machine, small(6))
    abstain(machine, auction_of(machine.wake()))
    machine.wake()
    for spec in (small(6), large(6)):
        submit(machine, spec)
    machine.fact(EU_LOG, joined("w9", 8, 1))
    first = machine.wake()
    assert [W1, W3] == [workload for workload, _ in asked(first)]
    bid(machine, auction_of(first, W1))
    second = machine.wake()
    assert [W1] == awards(second)
    bid(machine, auction_of(first, W3), workload=W3)
    assert [] == awards(machine.wake())
    bid(machine, auction_of(second, W2), workload=W2)
    assert [W2, W3] == awards(machine.wake())


@pytest.mark.parametrize("is_over", [True, False])
def test_who_was_refused_for_what_others_are_offered_comes_before_them(
    start: Start, *, is_over: bool
) -> None:
    """It is ahead and wants less, but a region had offered all of its room to somebody behind it: that one gives it back.

    is_over   whether its auction is over before the other's
    """
    machine = a_job_queue(start)
    submit(machine, a_spec(a_job(4, 8), priority=1))
    low = auction_of(machine.wake())
    bid(machine, low, EU)
    submit(machine, small(6))
    abstain(machine, auction_of(machine.wake(), W2), workload=W2, reason=Reason.OPEN_BIDS)
    if is_over:
        machine.wake()
    abstain(machine, low, US)
    decision = machine.wake()
    assert ([], [False]) == (awards(decision), [one.has_won for one in said(decision, BidSettled)])
    bid(machine, auction_of(decision, W2), workload=W2)
    assert [W2] == awards(machine.wake())


def test_who_is_refused_in_one_region_and_served_in_another_keeps_nobody_back(start: Start) -> None:
    """The one has offered all to somebody behind it: that one waits for what the other says, and for no more."""
    machine = a_job_queue(start)
    submit(machine, a_spec(a_job(4, 8), priority=1))
    low = auction_of(machine.wake())
    bid(machine, low, US)
    submit(machine, a_spec(a_job(1, 1), priority=6))
    high = auction_of(machine.wake(), W2)
    abstain(machine, high, US, workload=W2, reason=Reason.OPEN_BIDS)
    abstain(machine, low, EU)
    decision = machine.wake()
    assert ([], []) == (awards(decision), said(decision, BidSettled))
    bid(machine, high, EU, workload=W2)
    assert [W2, W1] == awards(machine.wake())


@pytest.mark.parametrize("is_short", [True, False])
def test_who_is_asked_for_in_one_region_when_another_comes_up(start: Start, *, is_short: bool) -> None:
    """If it was refused before, who is behind it is not given the new region's room first. Where nothing is short nobody waits."""
    machine = a_job_queue(start, us=joined(gpu_type="A100"))
    submit(machine, a_spec(a_job(1, 1), priority=6))
    if is_short:
        abstain(machine, auction_of(machine.wake()))
        machine.wake()
        machine.fact(EU_LOG, joined("w9", 8, 1))
    high = auction_of(machine.wake())
    machine.fact(US_LOG, joined("w8", 4, 4))
    machine.wake()
    submit(machine, a_spec(a_job(4, 8), priority=1, regions=(US,)))
    bid(machine, auction_of(machine.wake(), W2), US, workload=W2)
    decision = machine.wake()
    assert ([] if is_short else [W2]) == awards(decision)
    if is_short:
        abstain(machine, high)
        decision = machine.wake()
        bid(machine, auction_of(decision), US)
        bid(machine, machine.state.auctions.open[W2].auction, US, workload=W2)
        assert [W1, W2] == awards(machine.wake())


def behind_two(start: Start, first: WorkloadSpec, log: LogName) -> Machine[Any]:
    """Two of these were refused; nodes joined, one of them is asked for again, and a third workload, for which a region bids at once."""
    machine = a_job_queue(start)
    for name in (EU_LOG, US_LOG):
        machine.fact(name, joined("wa", 64, 1, gpu_type="A100"))
    for _ in range(2):
        submit(machine, first)
    decision = machine.wake()
    for workload in (W1, W2):
        for region in sorted({name for one, name in asked(decision) if one == workload}):
            abstain(machine, auction_of(decision, workload), RegionName(region), workload=workload)
    machine.wake()
    submit(machine, a_spec(a_job(1, 4), regions=(EU,), priority=1))
    machine.fact(log, joined("w9", 80, 1, gpu_type=first.jobs[0].gpu_type))
    decision = machine.wake()
    assert {W1, W3} <= {workload for workload, _ in asked(decision)}
    return machine


def award_of_third(machine: Machine[Any]) -> bool:
    """Whether it is awarded once its region has bid."""
    if W3 in machine.state.auctions.open:
        bid(machine, machine.state.auctions.open[W3].auction, workload=W3)
    machine.wake()
    return bool(machine.state.image.workloads.rows[W3].is_active)


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(a_spec(a_job(1, 1), priority=6, regions=(US,)), id="in another region"),
        pytest.param(a_spec(a_job(1, 1, gpu_type="A100"), priority=6, regions=(EU,)), id="on other hardware"),
        pytest.param(a_spec(a_job(1, 0, cpus=1), priority=6, regions=(EU, US)), id="without GPUs"),
        pytest.param(a_spec(a_job(4, 8), priority=6, regions=(EU,)), id="more"),
    ],
)
def test_who_wants_something_else_is_not_waited_for(start: Start, first: WorkloadSpec) -> None:
    """Whoever waits ahead for what this award takes nothing of, or for more."""
    log = US_LOG if US in first.regions else EU_LOG
    assert award_of_third(behind_two(start, first, log))


def test_silence_ahead_of_who_was_refused_before_keeps_nobody_back(start: Start) -> None:
    """It is asked for where the other has an offer, and that region does not answer: the other is awarded when its time is over."""
    machine = a_job_queue(start)
    submit(machine, small(6))
    abstain(machine, auction_of(machine.wake()))
    machine.wake()
    submit(machine, large())
    machine.fact(EU_LOG, joined("w9", 8, 1))
    decision = machine.wake()
    assert [W1, W2] == [workload for workload, _ in asked(decision)]
    bid(machine, auction_of(decision, W2), workload=W2)
    assert [W2] == awards(machine.wait(AUCTION_SPAN))


@pytest.mark.parametrize("is_pinned", [True, False])
def test_who_was_not_asked_for_because_a_region_is_silent_comes_first(
    start: Start, *, is_pinned: bool
) -> None:
    """Of a shape that is short one is asked for at a time, and one of two regions does not answer. When the time of that auction is
    over, the others of the shape are asked for, and that region is not waited for: nobody behind them is awarded what the other has.

    is_pinned   whether who is behind them is asked for in the region alone that answers
    """
    machine = a_job_queue(start)
    last = a_spec(a_job(4, 8), priority=3, regions=(EU,) if is_pinned else ())
    for spec in (*[a_spec(a_job(1, 1), priority=6)] * 3, last):
        submit(machine, spec)
    decision = machine.wake()
    for workload, region in asked(decision):
        abstain(
            machine,
            auction_of(decision, WorkloadId(workload)),
            RegionName(region),
            workload=WorkloadId(workload),
        )
    machine.wake()
    machine.fact(EU_LOG, joined("w9", 80, 1))
    machine.fact(US_LOG, joined("w8", 80, 1))
    decision = machine.wake()
    assert {(W1, EU), (W1, US), (W4, EU)} <= set(asked(decision)) <= {(W1, EU), (W1, US), (W4, EU), (W4, US)}
    for workload in (W1, W4):
        bid(machine, auction_of(decision, workload), workload=workload)
    decision = machine.wait(AUCTION_SPAN)
    assert ([W1], [False, True]) == (
        awards(decision),
        sorted(one.has_won for one in said(decision, BidSettled)),
    )
    assert {W2, W3} <= {workload for workload, _ in asked(decision)}
    for workload in (W2, W3):
        bid(machine, auction_of(decision, workload), workload=workload)
    assert [W2, W3] == awards(machine.wake())


def test_nobody_is_put_off_for_long(start: Start) -> None:
    """For two auctions at the most, though whoever is ahead is asked for in that region too, and that never answers."""
    first = a_spec(a_job(1, 1), priority=6, regions=(EU,))
    machine = behind_two(start, first, EU_LOG)
    begun, rounds = machine.now, 0
    while not award_of_third(machine):
        rounds += 1
        machine.wait(Nanoseconds(AUCTION_SPAN // 4))
        assert machine.now <= begun + 2 * AUCTION_SPAN
    assert rounds


def test_award_elsewhere_leaves_others_of_the_shape_their_turn(start: Start) -> None:
    """Two were refused for what is offered to somebody behind them. When one is awarded in another region, the other still comes first."""
    machine = a_job_queue(start)
    submit(machine, a_spec(a_job(4, 8), priority=1))
    low = auction_of(machine.wake())
    bid(machine, low, EU)
    for _ in range(2):
        submit(machine, a_spec(a_job(1, 1), priority=6))
    opened = machine.wake()
    for workload in (W2, W3):
        name = auction_of(opened, workload)
        abstain(machine, name, EU, workload=workload, reason=Reason.OPEN_BIDS)
    abstain(machine, auction_of(opened, W3), US, workload=W3)
    machine.wake()
    bid(machine, auction_of(opened, W2), US, workload=W2)
    assert [W2] == awards(machine.wake())
    abstain(machine, low, US)
    assert [] == awards(machine.wake())


def test_who_gives_its_offers_back_keeps_its_place_in_all_regions(start: Start) -> None:
    """W1 has offers of two regions, and gives both back for who was refused in one of them: nobody behind it is awarded in the other."""
    machine = a_job_queue(start)
    submit(machine, a_spec(a_job(1, 2), priority=3))
    first = auction_of(machine.wake())
    bid(machine, first, EU, score=(0, 0, 0, 0, 0, 0))
    submit(machine, a_spec(a_job(1, 1), priority=6, regions=(EU,)))
    abstain(machine, auction_of(machine.wake(), W2), workload=W2, reason=Reason.OPEN_BIDS)
    machine.wake()
    submit(machine, a_spec(a_job(1, 4), priority=1, regions=(US,)))
    bid(machine, auction_of(machine.wake(), W3), US, workload=W3)
    bid(machine, first, US, score=(0, 0, 0, 9, 9, 0))
    decision = machine.wake()
    assert ([], [False, False]) == (awards(decision), [one.has_won for one in said(decision, BidSettled)])


def test_offers_are_held_while_a_slow_region_is_asked_for_who_is_ahead(start: Start) -> None:
    """Nobody is asked for again and again meanwhile."""
    machine = a_job_queue(start, us=joined(gpu_type="A100"))
    submit(machine, a_spec(a_job(1, 1), priority=6))
    abstain(machine, auction_of(machine.wake()))
    machine.wake()
    machine.fact(EU_LOG, joined("w9", 8, 1))
    machine.wake()
    machine.fact(US_LOG, joined("w8", 4, 4))
    machine.wake()
    behind = [submit(machine, a_spec(a_job(4, 8), priority=1, regions=(US,))) for _ in range(20)]
    decision, begun, solicited = machine.wake(), machine.now, 0
    while not awards(decision):
        solicited += len(said(decision, SolicitBid))
        for workload in behind:
            auction = machine.state.auctions.open.get(workload)
            if auction is not None and not auction.bids:
                bid(machine, auction.auction, US, workload=workload)
        decision = machine.wait(Nanoseconds(AUCTION_SPAN // 50))
    assert solicited <= 2 * len(behind)
    assert machine.now <= begun + 2 * AUCTION_SPAN


def test_offers_are_given_back_for_three_seconds_and_then_taken(start: Start) -> None:
    """However long who is ahead is refused because all is offered: else whoever is behind would never start."""
    machine = a_job_queue(start)
    submit(machine, large(1))
    low = auction_of(machine.wake())
    submit(machine, small(6))
    abstain(machine, auction_of(machine.wake(), W2), workload=W2, reason=Reason.OPEN_BIDS)
    machine.wake()
    bid(machine, low)
    begun, given_back = machine.now, 0
    decision = machine.hear_due_once()
    while not awards(decision) and machine.now < begun + 2 * PUT_OFF_SPAN:
        given_back += len(said(decision, BidSettled))
        for workload, auction in list(machine.state.auctions.open.items()):
            if workload == W2 and not auction.abstained:
                abstain(machine, auction.auction, workload=W2, reason=Reason.OPEN_BIDS)
            elif workload == W1 and not auction.bids:
                bid(machine, auction.auction)
        decision = machine.wait(Nanoseconds(AUCTION_SPAN // 10))
    assert [W1] == awards(decision)
    assert given_back >= 1
    assert begun + PUT_OFF_SPAN <= machine.now <= begun + PUT_OFF_SPAN + AUCTION_SPAN
    machine.fact(EU_LOG, declined())
    machine.wake()
    names = {workload: auction.auction for workload, auction in machine.state.auctions.open.items()}
    abstain(machine, names[W2], workload=W2, reason=Reason.OPEN_BIDS)
    bid(machine, names[W1])
    assert [] == awards(machine.wake())  # What was before its award is forgotten.


@pytest.mark.parametrize("pause", [PUT_OFF_SPAN - SECOND, PUT_OFF_SPAN + SECOND])
def test_nobody_is_put_off_for_ever_by_a_region_that_comes_and_goes(start: Start, pause: int) -> None:
    """Each time it offers room to who is behind, and has none for who is ahead; and then it is silent, and auctions end without an offer."""
    machine = a_job_queue(start)
    submit(machine, large(1))
    submit(machine, small(6))
    opened = machine.wake()
    abstain(machine, auction_of(opened, W2), workload=W2, reason=Reason.OPEN_BIDS)
    bid(machine, auction_of(opened))
    begun, decision = machine.now, machine.hear_due_once()
    assert [] == awards(decision)
    while not awards(decision):
        assert machine.now < begun + PUT_OFF_MAX + 2 * pause
        machine.hear(LogSilent(EU_LOG))
        machine.wait(Nanoseconds(pause))
        machine.hear(LogHeard(EU_LOG))
        machine.wake()
        names = {workload: auction.auction for workload, auction in machine.state.auctions.open.items()}
        if W2 in names:
            abstain(machine, names[W2], workload=W2, reason=Reason.OPEN_BIDS)
        bid(machine, names[W1])
        decision = machine.wake()
    assert [W1] == awards(decision)
    assert machine.now > begun + PUT_OFF_SPAN + pause


@pytest.mark.parametrize("silence", [PUT_OFF_SPAN + AUCTION_SPAN, seconds(3_600)])
def test_who_gave_its_offers_back_and_then_had_none_gives_them_back_again(
    start: Start, silence: Nanoseconds
) -> None:
    """Its region fell silent meanwhile: what was then is no reason to pass anybody now."""
    machine = a_job_queue(start)
    submit(machine, a_spec(a_job(4, 8), priority=1, regions=(EU,)))
    low = auction_of(machine.wake())
    submit(machine, small(6))
    abstain(machine, auction_of(machine.wake(), W2), workload=W2, reason=Reason.OPEN_BIDS)
    machine.wake()
    bid(machine, low)
    assert [] == awards(machine.hear_due_once())
    machine.hear(LogSilent(EU_LOG))
    machine.wait(silence)
    machine.hear(LogHeard(EU_LOG))
    machine.wake()
    names = {workload: auction.auction for workload, auction in machine.state.auctions.open.items()}
    abstain(machine, names[W2], workload=W2, reason=Reason.OPEN_BIDS)
    bid(machine, names[W1])
    assert [] == awards(machine.wake())
