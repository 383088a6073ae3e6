"""Regions that let an auction's time pass: for a while auctions are not kept open for them."""

from typing import Any

import pytest

from components.job_queue.state.slow_regions import LATE_SPAN, NOT_AWAITED_MAX, LateRegions
from core.component import Decision
from core.events.queue import WorkloadAwarded
from core.messages.queue import Bid
from core.nouns.ids import AgentName, WorkloadId
from core.nouns.instant import Instant, after
from core.nouns.limits import AUCTION_SPAN
from core.nouns.placement import View
from core.nouns.reasons import Reason
from tests.builders import EU, US, a_spec, a_spread
from tests.components.job_queue.test_datasets import CLICKS, place
from tests.components.support.job_queue import (
    W1,
    W2,
    W3,
    Start,
    a_job_queue,
    abstain,
    asked,
    auction_of,
    awards,
    bid,
    submit,
)
from tests.components.support.machine import Machine
from tests.matching import facts

BOTH = (US, EU)
NOW = Instant(1)
WORST = (9, 9, 9, 9, 9, 9)


def with_late_eu(start: Start) -> Machine[Any]:
    """W1 was awarded in us, without eu's answer."""
    machine = a_job_queue(start)
    submit(machine)
    bid(machine, auction_of(machine.wake()), US)
    assert [W1] == awards(machine.wait(AUCTION_SPAN))
    return machine


def asked_for(machine: Machine[Any], workload: WorkloadId, *, data: tuple[str, ...] = ()) -> str:
    """The auction that is opened for one more; eu is asked like us."""
    submit(machine, a_spec(data=data))
    decision = machine.wake()
    assert {(workload, EU), (workload, US)} == set(asked(decision))
    return auction_of(decision, workload)


def award_in(decision: Decision) -> WorkloadAwarded:
    """The one that there is."""
    (award,) = [event for event in facts(decision) if isinstance(event, WorkloadAwarded)]
    return award


def test_auction_is_not_kept_open_for_a_late_region(start: Start) -> None:
    """Closed when the others have answered; the award says who did not."""
    machine = with_late_eu(start)
    bid(machine, asked_for(machine, W2), US, workload=W2)
    assert {EU: Reason.NO_ANSWER} == award_in(machine.wake()).refusals


def test_region_that_answers_in_time_is_waited_for(start: Start) -> None:
    """Its bid is as good as any other's, and the next auctions are kept open for it."""
    machine = with_late_eu(start)
    auction = asked_for(machine, W2)
    bid(machine, auction, EU, workload=W2)
    bid(machine, auction, US, workload=W2, score=WORST)
    assert EU == award_in(machine.wake()).region
    bid(machine, asked_for(machine, W3), US, workload=W3)
    assert [] == awards(machine.wake())


def test_region_is_waited_for_again_after_a_while(start: Start) -> None:
    """However silent it is: it may be well."""
    machine = with_late_eu(start)
    machine.wait(LATE_SPAN)
    bid(machine, asked_for(machine, W2), US, workload=W2)
    assert [] == awards(machine.wake())
    assert [W2] == awards(machine.wait(AUCTION_SPAN))


def test_answer_that_comes_too_late_makes_no_region_well(start: Start) -> None:
    """It works off what it was asked while it stood still, and whoever is asked for now would wait behind that."""
    machine = a_job_queue(start)
    submit(machine)
    first = auction_of(machine.wake())
    bid(machine, first, US)
    assert [W1] == awards(machine.wait(AUCTION_SPAN))
    bid(machine, first, EU)
    bid(machine, asked_for(machine, W2), US, workload=W2)
    assert [W2] == awards(machine.wake())


@pytest.mark.parametrize("why", ["somebody has to leave", "it reads data", "nobody bids"])
def test_late_region_is_waited_for_where_much_goes_by_its_answer(start: Start, why: str) -> None:
    """There may be room for which nobody has to leave, or at the data's home, or any at all."""
    machine = with_late_eu(start)
    place(machine, CLICKS, US, EU, home=EU)
    auction = asked_for(machine, W2, data=(CLICKS,) if why == "it reads data" else ())
    if why == "nobody bids":
        abstain(machine, auction, US, workload=W2)
    else:
        victims = ((W1, 1),) if why == "somebody has to leave" else ()
        machine.hear(Bid(US, AgentName("a0"), W2, auction, WORST, (a_spread({0: 1}),), victims, View(1)))
    decision = machine.wake()
    assert ([], []) == (awards(decision), asked(decision))
    bid(machine, auction, EU, workload=W2)
    assert EU == award_in(machine.wake()).region


def test_so_many_auctions_do_not_wait_and_no_more() -> None:
    """Each is one more for it to answer: then they wait, and so are fewer."""
    late = LateRegions()
    late.let_pass(EU, NOW)
    for _ in range(NOT_AWAITED_MAX):
        assert (US,) == late.awaited(BOTH, NOW)
    assert BOTH == late.awaited(BOTH, NOW)
    again = after(NOW, LATE_SPAN)
    late.let_pass(EU, again)
    assert (US,) == late.awaited(BOTH, again)


def test_it_counts_from_when_a_region_was_late_first() -> None:
    """Else who is silent for good would never be waited for, and who is back would not be found well."""
    late = LateRegions()
    late.let_pass(EU, NOW)
    late.let_pass(EU, after(NOW, AUCTION_SPAN))
    assert (US,) == late.awaited(BOTH, Instant(NOW + LATE_SPAN - 1))
    assert BOTH == late.awaited(BOTH, after(NOW, LATE_SPAN))


def test_who_is_not_late_is_waited_for() -> None:
    """Nobody was; or it answered since."""
    late = LateRegions()
    assert BOTH == late.awaited(BOTH, NOW)
    late.let_pass(EU, NOW)
    late.hear(EU)
    assert BOTH == late.awaited(BOTH, NOW)
