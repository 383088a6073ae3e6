"""Scheduling cycles: the workloads that are asked for, where, and that awards go by rank (docs/decisions/0035-awards-by-rank.md)."""

from typing import Any

import pytest

from components.job_queue.component import JobQueue
from components.job_queue.ordering import asked_now
from components.job_queue.state.auctions import SLOW_FACTOR
from core.component import Decision
from core.events.queue import WorkloadAwarded
from core.messages.agents import BidSettled
from core.messages.base import BusBack, BusLost
from core.messages.broker import SolicitBid
from core.messages.queue import CancelWorkload, HoldWorkload
from core.nouns.ids import LogName, RegionName, TenantName, WorkloadId
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import AUCTION_SPAN, AUCTIONS_MAX
from core.nouns.placement import gpu_milli_of
from core.nouns.workload import WorkloadSpec
from tests.builders import EU, EU_LOG, US, a_job, a_spec, joined, of_types
from tests.components.job_queue.test_negative_cache import Planet
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
    awards,
    bid,
    large,
    small,
    submit,
)
from tests.components.support.machine import Machine
from tests.components.support.quota import ART, ML, OVER, tenant, waits
from tests.matching import facts, said

BOTH = (EU, US)
OPS = TenantName("ops")
FLEXIBLE = of_types(a_job(1, 2), "H100", "A100")


def wide(gpus: int = 8, *, regions: tuple[RegionName, ...] = (EU,), gpu_type: str = "H100") -> WorkloadSpec:
    """One task of so many GPUs, of level 3."""
    return a_spec(a_job(1, gpus, gpu_type=gpu_type), priority=3, regions=regions)


def contended(start: Start, count: int, spec: WorkloadSpec | None = None, **options: Any) -> Machine[Any]:
    """A queue in which so many workloads of one shape wait, the first of which was just refused; then capacity was added."""
    machine = a_job_queue(start, **options)
    submit(machine, spec or small(6))
    opened = machine.wake()
    for _, region in asked(opened):
        abstain(machine, auction_of(opened), RegionName(region))
    machine.wake()
    for _ in range(count - 1):
        submit(machine, spec or small(6))
    return machine


def adds_capacity(machine: Machine[Any], *logs: LogName) -> None:
    """Nodes join: refusals of these regions expire. The next decision begins a cycle."""
    for log in logs or (EU_LOG,):
        machine.fact(log, joined(f"w{machine.sequence(log) + 8}", machine.sequence(log) + 8, 1))


# One cycle at a time.


def test_awards_go_by_rank_in_whatever_order_regions_answer(start: Start) -> None:
    """No workload is awarded before every region has answered every request; then all are, the first in the queue first."""
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


def test_workload_that_arrives_in_a_cycle_waits_for_the_next(start: Start) -> None:
    """Also one of a higher level, and the next cycle begins when the last answer has come, not later."""
    machine = a_job_queue(start)
    submit(machine, small())
    first = machine.wake()
    submit(machine, small(6))
    assert [] == asked(machine.wake())
    assert [] == asked(machine.hear_due_once())
    bid(machine, auction_of(first))
    decision = machine.wake()
    assert [W1] == awards(decision)
    assert [(W2, EU)] == asked(decision)


def test_cycle_ends_when_the_last_open_workload_is_held(start: Start) -> None:
    """The held workload is asked for no more, the other's bid is awarded, and neither region counts as slow."""
    machine = a_job_queue(start)
    submit(machine, a_spec(a_job(1, 1), regions=(US,)))
    submit(machine, small())
    decision = machine.wake()
    bid(machine, auction_of(decision, W2), workload=W2)
    assert [] == awards(machine.wake())
    machine.hear(HoldWorkload(W1, 0))
    assert [W2] == awards(machine.wake())
    submit(machine, a_spec(a_job(1, 1), regions=BOTH))
    assert [(W3, EU), (W3, US)] == asked(machine.wake())


@pytest.mark.parametrize("has_others", [True, False])
def test_cancelled_workload_leaves_its_cycle(start: Start, *, has_others: bool) -> None:
    """A cycle without workloads is over at once; with others it goes on."""
    machine = a_job_queue(start)
    submit(machine, small(6))
    if has_others:
        submit(machine, small())
    decision = machine.wake()
    machine.hear(CancelWorkload(W1))
    machine.wake()
    assert has_others == bool(machine.state.auctions.open)
    if has_others:
        bid(machine, auction_of(decision, W2), workload=W2)
        assert [W2] == awards(machine.wake())


def test_queue_that_starts_again_in_a_cycle_asks_again(start: Start) -> None:
    """Under other names: bids for the cycle before have lost, and awards go by rank all the same."""
    machine = a_job_queue(start)
    submit(machine, small())
    submit(machine, small(6))
    before = machine.wake()
    bid(machine, auction_of(before, W2), workload=W2)
    again = machine.restart()
    after = again.wake()
    assert [(W2, EU), (W1, EU)] == asked(after)
    late = bid(again, auction_of(before, W1))
    assert [False] == [one.has_won for one in said(late, BidSettled)]
    for workload in (W1, W2):
        assert auction_of(before, workload) != auction_of(after, workload)
        bid(again, auction_of(after, workload), workload=workload)
    assert [W2, W1] == awards(again.wake())


# Contended shapes.


def test_one_workload_of_a_refused_shape_is_asked_for_and_twice_as_many_after_each_award(
    start: Start,
) -> None:
    """Slow start: 1 after a refusal, doubled by each award, so that cycles that fill up a region grow quickly."""
    machine = contended(start, 12)
    adds_capacity(machine)
    sizes = []
    decision = machine.wake()
    while asked(decision):
        sizes.append(len(asked(decision)))
        for workload, _ in asked(decision):
            bid(machine, auction_of(decision, WorkloadId(workload)), workload=WorkloadId(workload))
        decision = machine.wake()
    assert [1, 2, 8, 1] == sizes


@pytest.mark.parametrize("cycles", [2, 3])
def test_refusal_shrinks_the_window_of_its_shape_to_one(start: Start, cycles: int) -> None:
    """Whatever the window had grown to; a shape with as wide a window as a cycle is contended no more."""
    machine = contended(start, AUCTIONS_MAX + 20)
    adds_capacity(machine)
    for _ in range(cycles):
        decision = machine.wake()
        for workload, _ in asked(decision):
            bid(machine, auction_of(decision, WorkloadId(workload)), workload=WorkloadId(workload))
    decision = machine.wake()
    assert {2: [8], 3: []}[cycles] == list(machine.state.auctions.window.values())
    assert {2: 8, 3: AUCTIONS_MAX}[cycles] == len(asked(decision))
    for workload, _ in asked(decision):
        abstain(machine, auction_of(decision, WorkloadId(workload)), workload=WorkloadId(workload))
    machine.wake()
    adds_capacity(machine)
    assert 1 == len(asked(machine.wake()))


@pytest.mark.parametrize(
    ("behind", "is_asked"),
    [
        pytest.param(large(), False, id="wants more"),
        pytest.param(a_spec(a_job(1, 1, gpu_type="any"), regions=(EU,)), False, id="as much of any type"),
        pytest.param(wide(8, regions=BOTH), True, id="elsewhere too"),
        pytest.param(wide(8, gpu_type="A100"), True, id="another type"),
        pytest.param(a_spec(a_job(1, 0, cpus=8), regions=(EU,)), True, id="no GPUs"),
    ],
)
def test_workload_is_not_asked_for_where_one_ahead_was_left_out(
    start: Start, behind: WorkloadSpec, *, is_asked: bool
) -> None:
    """Two of a contended shape wait ahead: the second is left out, and so is who wants as much of the same behind it."""
    machine = contended(start, 2)
    machine.fact(EU_LOG, joined("c0", 90, 1, gpu_type="A100"), joined("c1", 91, 1, gpu_type="CPU"))
    submit(machine, behind)
    decision = machine.wake()
    assert (W1, EU) in asked(decision)
    assert W2 not in dict(asked(decision))
    found = [region for workload, region in asked(decision) if workload == W3]
    assert found == ([] if not is_asked else [US] if behind.regions == BOTH else [EU])


def test_workload_that_wants_less_than_one_left_out_is_asked_for(start: Start) -> None:
    """Backfill: it takes nothing that the wider workload ahead could use whole."""
    machine = contended(start, 2, large(6))
    submit(machine, small())
    adds_capacity(machine)
    assert {W1, W3} == dict(asked(machine.wake())).keys()


def test_workload_left_out_by_the_second_rule_keeps_others_back_too(start: Start) -> None:
    """A flexible workload is left out behind a contended one; who wants as much of its other type is not asked for either."""
    machine = contended(start, 2, us=joined(gpu_type="V100"))
    machine.fact(EU_LOG, joined("c0", 90, 1, gpu_type="A100"))
    submit(machine, a_spec(FLEXIBLE, priority=4, regions=(EU,)))
    submit(machine, wide(2, gpu_type="A100"))
    first = machine.wake()
    assert {W1} == dict(asked(first)).keys()
    bid(machine, auction_of(first))
    assert {W2, W3, W4} == dict(asked(machine.wake())).keys()


# Quotas.


def test_awards_of_one_tenant_go_by_rank_and_within_its_quota(start: Start) -> None:
    """Each is decided on what the one before it took; none of another tenant is awarded in between out of its turn."""
    machine = a_job_queue(start)
    tenant(machine, ML, 16)
    tenant(machine, ART, 16)
    names = [waits(machine, of=of) for of in (ML, ML, ART, ART)]
    decision = machine.wake()
    assert names == list(dict(asked(decision)))
    for node, workload in reversed(list(enumerate(names))):
        _bid_all(machine, decision, workload, node)
    found = [event for event in facts(machine.wake()) if isinstance(event, WorkloadAwarded)]
    assert names == [event.workload for event in found]
    assert {3} == {event.level for event in found}


def test_borrowing_award_behind_another_award_is_decided_next(start: Start) -> None:
    """Capacity that may be borrowed depends on the awards ahead: of two tenants that could each borrow the last of it one does."""
    machine = a_job_queue(start)
    tenant(machine, ART, 56, is_lent=False)
    tenant(machine, ML, 0)
    tenant(machine, OPS, 0)
    names = [waits(machine, 8, of=of) for of in (ML, OPS)]
    decision = machine.wake()
    assert names == list(dict(asked(decision)))
    for node, workload in enumerate(names):
        _bid_all(machine, decision, workload, node)
    found = [event.level for event in facts(machine.wake()) if isinstance(event, WorkloadAwarded)]
    assert [OVER] == found


def _bid_all(machine: Machine[Any], decision: Any, workload: WorkloadId, node: int) -> None:
    auction = auction_of(decision, workload)
    for name, region in asked(decision):
        if name == workload:
            score = (int(region != EU), 0, 0, 1, 1, node)
            bid(machine, auction, RegionName(region), workload=workload, score=score)


# Regions that are silent, slow or lossy.


def test_silent_region_delays_one_cycle_in_four(start: Start) -> None:
    """The cycle ends after `AUCTION_SPAN` with the bids that are there; for three spans the region is not asked, then it is again."""
    machine = a_job_queue(start)
    submit(machine, a_spec(a_job(1, 1), regions=BOTH))
    first = machine.wake()
    bid(machine, auction_of(first), EU)
    assert [] == awards(machine.wait(Nanoseconds(AUCTION_SPAN - 1)))
    assert [W1] == awards(machine.wait(Nanoseconds(1)))
    submit(machine, a_spec(a_job(1, 2), regions=BOTH))
    second = machine.wake()
    assert [(W2, EU)] == asked(second)
    bid(machine, auction_of(second, W2), EU, workload=W2)
    assert [W2] == awards(machine.wake())
    machine.wait(Nanoseconds(SLOW_FACTOR * AUCTION_SPAN))
    submit(machine, a_spec(a_job(1, 3), regions=BOTH))
    assert [(W3, EU), (W3, US)] == asked(machine.wake())


def test_workload_that_only_a_slow_region_could_hold_is_asked_for_once_the_span_is_over(start: Start) -> None:
    """Nothing else need happen for that."""
    machine = a_job_queue(start)
    submit(machine, small())
    machine.wake()
    assert [] == asked(machine.wait(AUCTION_SPAN))
    assert [(W1, EU)] == asked(machine.wait(Nanoseconds(SLOW_FACTOR * AUCTION_SPAN)))


@pytest.mark.parametrize("is_bid", [True, False])
def test_region_that_answered_anything_in_a_cycle_is_not_slow(start: Start, *, is_bid: bool) -> None:
    """A lost answer costs one cycle its time, and its workload is asked for again at once in the same region."""
    machine = a_job_queue(start)
    submit(machine, small(6))
    submit(machine, small())
    decision = machine.wake()
    if is_bid:
        bid(machine, auction_of(decision, W2), workload=W2)
    else:
        abstain(machine, auction_of(decision, W2), workload=W2)
    ended = machine.wait(AUCTION_SPAN)
    assert ([W2] if is_bid else []) == awards(ended)
    adds_capacity(machine)
    machine.wake()
    assert W1 in machine.state.auctions.open


def test_answer_that_comes_after_its_cycle_counts_for_nothing(start: Start) -> None:
    """Its bid is released, and the region is asked again when its span is over, not before."""
    machine = a_job_queue(start)
    submit(machine, small())
    decision = machine.wake()
    machine.wait(AUCTION_SPAN)
    late = bid(machine, auction_of(decision))
    assert [False] == [one.has_won for one in said(late, BidSettled)]
    assert [] == asked(machine.wait(seconds(1)))


def test_region_of_a_cancelled_workload_is_not_slow(start: Start) -> None:
    """US was asked for the cancelled workload alone; EU lets the cycle's time pass."""
    machine = a_job_queue(start)
    submit(machine, a_spec(a_job(1, 1), regions=(US,)))
    submit(machine, small())
    decision = machine.wake()
    machine.hear(CancelWorkload(W1))
    bid(machine, auction_of(decision, W1), US)
    machine.wait(AUCTION_SPAN)
    assert (EU in machine.state.auctions.slow, US in machine.state.auctions.slow) == (True, False)


def test_silence_of_all_regions_makes_no_region_slow(start: Start) -> None:
    """The queue itself stood still, or the bus: both are asked again at once. A region that is silent beside another is slow."""
    machine = a_job_queue(start)
    submit(machine, a_spec(a_job(1, 1), regions=BOTH))
    machine.wake()
    second = machine.wait(AUCTION_SPAN)
    assert [(W1, EU), (W1, US)] == asked(second)
    bid(machine, auction_of(second), EU)
    assert [W1] == awards(machine.wait(AUCTION_SPAN))
    assert (False, True) == (EU in machine.state.auctions.slow, US in machine.state.auctions.slow)


def test_silence_of_the_only_region_makes_it_not_slow(start: Start) -> None:
    """There is no other that it could delay."""
    machine = start(JobQueue((EU,)))
    machine.fact(EU_LOG, joined())
    machine.wake()
    submit(machine, small())
    machine.wake()
    assert [(W1, EU)] == asked(machine.wait(AUCTION_SPAN))


def test_silence_while_the_bus_is_lost_makes_no_region_slow(start: Start) -> None:
    """US is asked again as soon as the bus is back."""
    machine = a_job_queue(start)
    submit(machine, a_spec(a_job(1, 1), regions=BOTH))
    bid(machine, auction_of(machine.wake()), EU)
    machine.hear(BusLost())
    machine.wait(AUCTION_SPAN)
    assert US in machine.state.auctions.slow
    machine.hear(BusBack())
    submit(machine, a_spec(a_job(1, 2), regions=BOTH))
    assert [(W2, EU), (W2, US)] == asked(machine.wake())


# In the large.


class RankedPlanet(Planet):
    """Regions that answer in the order of requests, workloads that arrive in bursts and in cycles, and a check of each award."""

    begun_with = 0
    """Number of the newest workload when the open cycle began."""
    compared = 0
    """Pairs of an award and a workload ahead of it that wants no more."""

    def burst(self) -> list[tuple[WorkloadId, RegionName]]:
        """Half of the running workloads end, and several of a few shapes arrive. Return the awards that follow."""
        for workload in [one for one in self.running if self.dice.random() < 0.5]:
            self.end(workload)
        for _ in range(self.dice.randint(0, 8)):
            self._arrives()
        return self.all_that_follows()

    def _arrives(self) -> None:
        submit(self.queue, a_spec(a_job(1, self.dice.choice((1, 4, 8))), priority=self.dice.randint(2, 4)))

    def _answer(self, ask: SolicitBid) -> bool:
        if self.dice.random() < 0.1:
            self._arrives()
        return super()._answer(ask)

    def woken(self) -> Decision:
        """Wake the queue; no award passes a workload that was pending at the cycle's begin, wants no more, and was not refused."""
        state, rows = self.queue.state, self.queue.state.image.workloads.rows
        order = [one.work.workload for one in state.order.ranked()]
        refused = {
            name: set(state.auctions.refused_by(asked_now(state, name, self.queue.now)[1])) for name in order
        }
        bids = {name: set(auction.bids) for name, auction in state.auctions.open.items()}
        decision = super().woken()
        found = {one.workload: one.region for one in facts(decision) if isinstance(one, WorkloadAwarded)}
        for workload, region in found.items():
            jobs = rows[workload].spec.jobs
            for other in order[: order.index(workload)]:
                theirs = rows[other].spec.jobs
                if rows[other].number > self.begun_with or gpu_milli_of(theirs) > gpu_milli_of(jobs):
                    continue
                self.compared += 1
                assert other in found or region in refused[other] | bids.get(other, set()), (workload, other)
        if asked(decision):
            self.begun_with = max(row.number for row in rows.values())
        return decision


@pytest.mark.parametrize("seed", range(8))
def test_no_award_passes_a_workload_that_wants_no_more(start: Start, seed: int) -> None:
    """Of bursts of workloads over two regions that fill up and empty."""
    planet = RankedPlanet(start, seed)
    awarded = sum(len(planet.burst()) for _ in range(30))
    assert awarded > 20
    assert planet.compared > 50
