"""Regions whose answers come after the end of their cycle: they get work, and delay others by a bounded time."""

from typing import Any

import pytest

from components.job_queue.component import JobQueue
from components.job_queue.state.answer_spans import AnswerSpans
from components.job_queue.state.auctions import SLOW_FACTOR
from core.component import Decision
from core.messages.base import BusBack, BusLost
from core.messages.broker import SolicitBid
from core.messages.queue import CancelWorkload
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.instant import SECOND, Instant, Nanoseconds, seconds
from core.nouns.limits import (
    AUCTION_SPAN,
    AUCTION_SPAN_MAX,
    AUCTIONS_MAX,
    OPEN_BID_SPAN,
    SILENT_CYCLES_MAX,
)
from tests.builders import EU, EU_LOG, US, a_job, a_spec, joined
from tests.components.support.job_queue import (
    W1,
    W2,
    W3,
    Start,
    a_job_queue,
    asked,
    auction_of,
    awards,
    bid,
    small,
    submit,
)
from tests.components.support.machine import Machine
from tests.matching import said

BOTH = (EU, US)
LATE = seconds(3)
"""How late the answers of a region that is far away come."""
SOON = seconds(0.01)


def alone(region: RegionName = US) -> Any:
    """A workload for one region."""
    return a_spec(a_job(1, 1), regions=(region,))


def a_late_region(start: Start, region: RegionName = US) -> Machine[Any]:
    """A queue of two regions, one of which has answered so late that its cycle was over. Nothing is open, and no region is slow."""
    machine = a_job_queue(start)
    submit(machine, alone(region))
    auction = auction_of(machine.wake())
    machine.hear(CancelWorkload(answered_late(machine, auction, region)))
    machine.wait(Nanoseconds(SLOW_FACTOR * LATE))
    assert not len(machine.state.auctions.slow)
    assert 2 * LATE == span(machine, region)
    return machine


def answered_late(machine: Machine[Any], auction: str, region: RegionName = US) -> WorkloadId:
    """W1 is bid for after `LATE`, and the bid has lost."""
    machine.wait(LATE)
    assert [] == awards(bid(machine, auction, region))
    return W1


def span(machine: Machine[Any], region: RegionName = US) -> Nanoseconds:
    """How long the region has for its answers."""
    found: Nanoseconds = machine.state.auctions.spans.of(region)
    return found


def answer(machine: Machine[Any], region: RegionName, *workloads: WorkloadId) -> Decision:
    """The region bids for these workloads of the open cycle."""
    for workload in workloads:
        bid(machine, machine.state.auctions.open[workload].auction, region, workload=workload)
    return machine.wake()


def test_region_whose_answers_come_late_gets_work(start: Start) -> None:
    """The next cycle waits for it: twice what its answer took."""
    machine = a_late_region(start)
    submit(machine, alone())
    assert [(W2, US)] == asked(machine.wake())
    assert [] == asked(machine.wait(LATE)), "its time is not over"
    assert [W2] == awards(answer(machine, US, W2))


def test_late_region_delays_one_cycle_in_four(start: Start) -> None:
    """It is then not asked for three times as long as the cycle took, and not longer."""
    machine = a_late_region(start)
    both = a_spec(a_job(1, 1), regions=BOTH)
    submit(machine, both)
    machine.wake()
    answer(machine, EU, W2)
    machine.wait(LATE)
    assert [W2] == awards(answer(machine, US, W2))
    submit(machine, both)
    assert [(W3, EU)] == asked(machine.wake())
    assert [W3] == awards(answer(machine, EU, W3))
    assert [] == asked(machine.wait(Nanoseconds(SLOW_FACTOR * LATE - 1)))
    machine.wait(Nanoseconds(1))
    submit(machine, both)
    assert [EU, US] == [region for _, region in asked(machine.wake())]


def test_each_region_has_its_own_time(start: Start) -> None:
    """EU was late once and answers at once now; US is silent, as it was before: it delays the cycle by a second, and no more."""
    machine = a_late_region(start, EU)
    submit(machine, a_spec(a_job(1, 1), regions=BOTH))
    machine.wake()
    machine.wait(SOON)
    answer(machine, EU, W2)
    assert [W2] == awards(machine.wait(Nanoseconds(AUCTION_SPAN - SOON)))
    assert US in machine.state.auctions.slow


def test_region_that_answers_in_time_again_has_the_usual_time(start: Start) -> None:
    """Though its other answer was lost, and though another region is late: it costs its cycle the long time once, and then a second."""
    machine = a_late_region(start)
    submit(machine, alone())
    submit(machine, small())
    machine.wake()
    machine.wait(SOON)
    answer(machine, US, W2)
    assert [W2] == awards(machine.wait(AUCTION_SPAN))
    assert AUCTION_SPAN == span(machine)


def test_region_that_falls_silent_has_half_the_time(start: Start) -> None:
    """After that, the usual one."""
    machine = a_late_region(start)
    submit(machine, alone())
    assert [(W2, US)] == asked(machine.wake())
    machine.wait(Nanoseconds(2 * LATE))
    assert LATE == span(machine)
    assert US in machine.state.auctions.slow


def test_region_that_is_busy_with_its_later_answers_is_not_given_longer(start: Start) -> None:
    """Its first answer came in time, and the others come after the cycle: it is asked for less in the next one, and others need not wait."""
    machine = a_job_queue(start)
    submit(machine, alone())
    submit(machine, alone())
    machine.wake()
    second = machine.state.auctions.open[W2].auction
    answer(machine, US, W1)
    machine.wait(LATE)
    bid(machine, second, US, workload=W2)
    assert AUCTION_SPAN == span(machine)


def test_repeated_answer_is_no_late_one(start: Start) -> None:
    """EU had answered; US is silent, and ends the cycle late."""
    machine = a_job_queue(start)
    submit(machine, a_spec(a_job(1, 1), regions=BOTH))
    auction = auction_of(machine.wake())
    bid(machine, auction, EU)
    machine.wait(seconds(5))
    bid(machine, auction, EU)
    assert AUCTION_SPAN == span(machine, EU)


def test_workload_that_leaves_a_cycle_says_nothing_of_its_region(start: Start) -> None:
    """It is neither slow nor in time."""
    machine = a_late_region(start)
    workload = submit(machine, alone())
    machine.wake()
    machine.wait(SOON)
    machine.hear(CancelWorkload(workload))
    machine.wake()
    assert 2 * LATE == span(machine)
    assert US not in machine.state.auctions.slow


def test_answers_that_the_lost_bus_held_up_say_nothing(start: Start) -> None:
    """They took as long as the bus was lost."""
    machine = a_job_queue(start)
    submit(machine, a_spec(a_job(1, 1), regions=BOTH))
    auction = auction_of(machine.wake())
    machine.hear(BusLost())
    machine.wait(seconds(30))
    machine.hear(BusBack())
    bid(machine, auction, EU)
    assert AUCTION_SPAN == span(machine, EU)


def test_open_cycle_waits_for_a_late_answer_too(start: Start) -> None:
    """All messages are late, as on a slow bus: the answer to an earlier cycle tells how long the open one takes."""
    machine = start(JobQueue((EU,)))
    machine.fact(EU_LOG, joined())
    machine.wake()
    submit(machine, small())
    first = auction_of(machine.wake())
    machine.wait(Nanoseconds(2 * AUCTION_SPAN))
    third = machine.state.auctions.open[W1].auction
    machine.wait(SOON)
    bid(machine, first)
    assert [] == asked(machine.wait(seconds(3)))
    assert [W1] == awards(answer(machine, EU, W1))
    assert third.rpartition(".")[0] == machine.state.auctions.cycle


@pytest.mark.parametrize("late", [12, 20, 50])
def test_full_cycles_of_a_bus_that_is_far_too_late_are_long(start: Start, late: int) -> None:
    """Nothing is awarded, for the answers take longer than a cycle may; but requests are few: 64 in eight seconds, not in one."""
    machine = start(JobQueue((EU,)))
    machine.fact(EU_LOG, joined())
    machine.wake()
    for _ in range(AUCTIONS_MAX):
        submit(machine, alone(EU))
    sent: list[tuple[int, SolicitBid]] = []
    for second in range(3 * late):
        requests = said(machine.wait(seconds(1)) if second else machine.wake(), SolicitBid)
        sent.extend((second, one) for one in requests)
        for one in [one for at, one in sent if at == second - late][:2]:
            bid(machine, one.auction, EU, workload=one.workload)
    assert sum(at > 2 * late for at, _ in sent) <= AUCTIONS_MAX * (1 + late // 4)


def test_agent_holds_its_bid_for_longer_than_the_cycle_may_last(start: Start) -> None:
    """For 3 s in a cycle of the usual length, and for so much longer in one that waits for a late region."""
    machine = a_late_region(start)
    submit(machine, small())
    assert [OPEN_BID_SPAN] == [one.held_for for one in said(machine.wake(), SolicitBid)]
    answer(machine, EU, W2)
    submit(machine, a_spec(a_job(1, 1), regions=BOTH))
    held = {one.held_for for one in said(machine.wake(), SolicitBid)}
    assert {OPEN_BID_SPAN * 2 * LATE // AUCTION_SPAN} == held


def test_time_for_late_answers_has_an_end() -> None:
    """An answer that took a minute makes no cycle of two minutes; answers of cycles long ago tell nothing."""
    spans = AnswerSpans()
    for number in range(SILENT_CYCLES_MAX + 1):
        spans.add_silent(US, f"1.{number}", Instant(number))
    assert spans.asked_at(US, "1.0") is None
    assert 1 == spans.asked_at(US, "1.1")
    spans.lengthen(US, seconds(60))
    assert AUCTION_SPAN_MAX == spans.of(US) == 8 * SECOND
