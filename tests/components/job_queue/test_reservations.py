"""Starts that the queue promises: to whom, what it tells regions of them, and what becomes of them."""

from typing import Any

import pytest
from msgspec.structs import replace

from components.job_queue.reservations import StartPromising
from core.component import Decision
from core.events.queue import WorkloadAwarded
from core.events.region import GangStarted
from core.events.starts import StartPromised, StartPromiseEnded, StartReserved, StartUnreserved
from core.fact import Event
from core.images.queue_reservations import PromisedStart
from core.messages.base import LogSilent
from core.messages.broker import SolicitBid
from core.messages.queue import (
    CancelWorkload,
    ChangeWorkload,
    ExplainWorkload,
    HoldWorkload,
    ListWorkloads,
    ReleaseWorkload,
    ShownStart,
    WorkloadExplained,
    WorkloadsListed,
)
from core.messages.reserved_starts import ReserveStart
from core.nouns.ids import RegionName, TenantName, WorkloadId
from core.nouns.instant import Nanoseconds, after, seconds
from core.nouns.limits import (
    AUCTION_SPAN,
    AWARD_SAY_AGAIN,
    PROMISE_SPAN,
    PROMISED_PART,
    PROSPECT_LOOK,
    PROSPECT_RETRY,
    RESERVE_AFTER,
    RESERVE_SPAN,
    START_ALLOWANCE,
    START_PATIENCE,
)
from core.nouns.reasons import Reason
from core.nouns.starts import EarliestStart, StartOver
from core.nouns.workload import EndCause, Kind, WorkloadSpec
from tests.builders import EU, EU_LOG, US, a_job, a_spec, a_spread, attempt, joined
from tests.components.support.job_queue import (
    W1,
    W2,
    Start,
    a_job_queue,
    abstain,
    asked,
    auction_of,
    bid,
    ended,
    grant,
    refuse_for,
    submit,
)
from tests.components.support.machine import Machine
from tests.matching import facts, said, said_once

FREE_IN = seconds(600)
SPREAD = a_spread({0: 1, 1: 1})
WIDE = a_spec(a_job(2, 8))


def offer(free_in: Nanoseconds = FREE_IN) -> EarliestStart:
    """What a region could promise."""
    return EarliestStart(free_in, (SPREAD,))


def refused(
    machine: Machine[Any], decision: Decision, workload: WorkloadId = W1, **by_region: EarliestStart
) -> list[Event]:
    """All that were asked for it refuse, and say what they could promise, as often as they are asked. Returns what is recorded."""
    recorded: list[Event] = []
    while regions := [region for name, region in asked(decision) if name == workload]:
        auction = auction_of(decision, workload)
        for region in regions:
            prospect = by_region.get(region)
            abstain(machine, auction, RegionName(region), workload=workload, prospect=prospect)
        decision = machine.wake()
        recorded.extend(facts(decision))
    return recorded


def blocked(start: Start, spec: WorkloadSpec = WIDE) -> Machine[Any]:
    """A queue in which `w-1` was refused everywhere."""
    machine = a_job_queue(start)
    submit(machine, spec)
    assert [] == refused(machine, machine.wake())
    return machine


def promised(start: Start, spec: WorkloadSpec = WIDE) -> Machine[Any]:
    """One that has promised it a start in `eu`, and told that region so."""
    machine = blocked(start, spec)
    assert 1 == len(refused(machine, machine.wait(RESERVE_AFTER), eu=offer()))
    return machine


def the_promise(machine: Machine[Any]) -> PromisedStart | None:
    """To `w-1`."""
    row: PromisedStart | None = machine.state.image.start_promises.rows.get(W1)
    return row


def reserved(revision: int = 1, workload: WorkloadId = W1) -> StartReserved:
    """The region's fact."""
    tenant = TenantName("default")
    return StartReserved(workload, revision, FREE_IN, 3, Kind.TRAINING, tenant, WIDE.jobs, (SPREAD,), 9)


def solicited(decision: Decision) -> list[tuple[str, bool]]:
    """For whom regions were asked, and whether for what they could promise too."""
    return [(one.workload, one.wants_prospect) for one in said(decision, SolicitBid)]


def test_earliest_starts_are_requested_for_a_workload_blocked_for_long(start: Start) -> None:
    """Not before, though nothing is freed meanwhile; and not again at once where nothing can be promised."""
    machine = blocked(start)
    assert [] == solicited(machine.wait(Nanoseconds(RESERVE_AFTER - 1)))
    second = machine.wait(Nanoseconds(1))
    assert [(W1, True)] * 2 == solicited(second)
    assert [] == refused(machine, second, eu=EarliestStart(unbounded_gpu_milli=8_000))
    assert [] == solicited(machine.wait(Nanoseconds(PROSPECT_RETRY - PROSPECT_LOOK)))
    assert (W1, True) in solicited(machine.wait(Nanoseconds(2 * PROSPECT_LOOK)))


def test_earliest_start_is_promised(start: Start) -> None:
    """Over all regions, ties by region; its nodes are free some time before, in which it is asked for and placed."""
    machine = blocked(start)
    again = machine.wait(RESERVE_AFTER)
    early, late = offer(seconds(100)), offer(seconds(101))
    assert [
        StartPromised(W1, 1, US, Nanoseconds(seconds(100) + START_ALLOWANCE), seconds(100), (SPREAD,), 3)
    ] == refused(machine, again, eu=late, us=early)
    row = the_promise(machine)
    assert row is not None
    assert after(machine.now, Nanoseconds(seconds(100) + START_ALLOWANCE)) == row.starts_at


def test_equal_starts_go_to_the_first_region(start: Start) -> None:
    """By its name, as bids."""
    machine = blocked(start)
    (event,) = refused(machine, machine.wait(RESERVE_AFTER), us=offer(), eu=offer())
    assert isinstance(event, StartPromised)
    assert EU == event.region


def test_region_is_told_until_its_log_shows_it(start: Start) -> None:
    """Less time is left each time that it is said; once it is reserved nothing is said any more."""
    machine = promised(start)
    first = [message for message, _ in machine.heard if isinstance(message, ReserveStart)]
    assert [] == first
    again = said(machine.wait(AWARD_SAY_AGAIN), ReserveStart)
    assert [Nanoseconds(FREE_IN - AWARD_SAY_AGAIN)] == [one.start_in for one in again]
    assert (W1, 1, 3, (SPREAD,)) == (again[0].workload, again[0].revision, again[0].level, again[0].spreads)
    machine.fact(EU_LOG, reserved())
    assert [] == said(machine.wait(seconds(300)), ReserveStart)
    assert the_promise(machine) is not None


def test_region_that_never_says(start: Start) -> None:
    """The promise ends, says why, and is made anew with that reason."""
    machine = promised(start)
    told = machine.wait(RESERVE_SPAN)
    assert [StartPromiseEnded(W1, 1, StartOver.UNREACHABLE)] == facts(told)
    refused(machine, told)
    told = machine.wait(PROSPECT_LOOK)
    (event,) = [one for one in refused(machine, told, us=offer()) if isinstance(one, StartPromised)]
    assert (2, US, "unreachable") == (event.revision, event.region, event.why)


@pytest.mark.parametrize(
    "why", [StartOver.NO_ROOM, StartOver.DISPLACED, StartOver.NODE_CLOSED, StartOver.LAPSED]
)
def test_promise_that_cannot_be_kept_is_made_again(start: Start, why: StartOver) -> None:
    """Never silently: the old promise ends with its reason, and the new one names it."""
    machine = promised(start)
    if why is not StartOver.NO_ROOM:
        machine.fact(EU_LOG, reserved())
    machine.fact(EU_LOG, StartUnreserved(W1, 1, why))
    told = machine.wake()
    assert [StartPromiseEnded(W1, 1, why)] == facts(told)
    refused(machine, told)
    told = machine.wait(PROSPECT_LOOK)
    (event,) = [one for one in refused(machine, told, eu=offer()) if isinstance(one, StartPromised)]
    assert (2, why) == (event.revision, event.why)


def test_promises_that_never_hold_are_made_ever_more_seldom(start: Start) -> None:
    """Agent and store may judge a start differently: neither their logs nor anybody's patience are filled with it."""
    machine = promised(start)
    at: list[int] = []
    for revision in range(1, 20):
        machine.fact(EU_LOG, StartUnreserved(W1, revision, StartOver.NO_ROOM))
        refused(machine, machine.wake())
        before = machine.now
        while the_promise(machine) is None:
            refused(machine, machine.wait(Nanoseconds(PROSPECT_LOOK // 5)), eu=offer())
        at.append(machine.now - before)
    assert sorted(at) == at
    assert PROSPECT_LOOK <= at[0] < at[5] < at[-1] <= PROSPECT_RETRY + PROSPECT_LOOK


def test_it_may_start_sooner_anywhere(start: Start) -> None:
    """Late binding stays: it is asked for everywhere as before; with its start the promise is over."""
    machine = promised(start)
    machine.fact(EU_LOG, reserved())
    machine.fact(EU_LOG, *(grant(1, W2), ended(EndCause.COMPLETED, 1, W2, gpu_milli=8_000)))
    opened = machine.wake()
    assert {EU} == {region for name, region in asked(opened) if name == W1}
    bid(machine, auction_of(opened), EU)
    assert [WorkloadAwarded] == [type(event) for event in facts(machine.wake())]
    assert the_promise(machine) is not None, "the award may come back"
    machine.fact(EU_LOG, grant(), GangStarted(*attempt()))
    machine.wake()
    assert the_promise(machine) is None


@pytest.mark.parametrize(
    "word", [CancelWorkload(W1), HoldWorkload(W1, 0), ChangeWorkload(W1, 0, (a_job(3, 8),))]
)
def test_users_request_ends_the_promise(start: Start, word: Any) -> None:
    """The workload is cancelled, held or changed: it has no promise any more, and no reason is given for it later."""
    machine = promised(start)
    machine.hear(word)
    machine.wake()
    assert the_promise(machine) is None
    assert {} == machine.state.image.start_promises.broken


def test_workload_with_a_promised_start_has_a_shape_of_its_own(start: Start) -> None:
    """Others of its need are refused where it fits, and it is not refused with them; afterwards it is one of them again."""
    machine = promised(start)
    submit(machine, WIDE)
    assert [] == asked(machine.wake()), "they were refused before"
    shapes = {machine.state.order.work(workload).shape for workload in (W1, W2)}
    assert 2 == len(shapes)
    machine.hear(HoldWorkload(W1, 0))
    machine.hear(ReleaseWorkload(W1, 1))
    assert machine.state.order.work(W1).shape == machine.state.order.work(W2).shape


def test_longer_workload_has_another_shape(start: Start) -> None:
    """Where starts are reserved short work fits and long work does not; nearly equal spans are one shape."""
    machine = a_job_queue(start)
    for minutes in (0, 1, 3, 4, 5, 60):
        submit(machine, replace(WIDE, max_duration=seconds(60 * minutes)))
    shapes = [machine.state.order.work(WorkloadId(f"w-{number}")).shape for number in range(1, 7)]
    assert shapes[2] == shapes[3]
    assert 5 == len(set(shapes))
    service = replace(WIDE, kind=Kind.SERVICE)
    assert service.lasting == replace(service, max_duration=seconds(60)).lasting == ""


def test_when_its_nodes_are_free_it_is_asked_for_once_more(start: Start) -> None:
    """Whatever was refused before, by whom ever; and again until it has started or the region lets go of it."""
    machine = promised(start)
    machine.fact(EU_LOG, reserved())
    row = the_promise(machine)
    assert row is not None
    before = Nanoseconds(row.free_at - machine.now - 1)
    assert W1 not in [name for name, _ in asked(machine.wait(before))]
    opened = machine.wait(Nanoseconds(1))
    assert {EU, US} == {region for name, region in asked(opened) if name == W1}
    refused(machine, opened)
    assert W1 in [name for name, _ in asked(machine.wait(AWARD_SAY_AGAIN))]


def test_workload_close_to_its_promised_start_preempts_no_other(start: Start) -> None:
    """The victims might not be gone by then, and it would start later than it was promised. Long before, and when it is late, it may."""
    machine = promised(start)
    machine.fact(EU_LOG, reserved())
    machine.wake()
    row = the_promise(machine)
    assert row is not None

    def spares(at: int) -> set[bool]:
        machine.wait(Nanoseconds(at - machine.now))
        freed = (grant(1, W2), ended(EndCause.COMPLETED, 1, W2, gpu_milli=8_000))
        machine.fact(EU_LOG, *freed)
        opened = machine.wake()
        refused(machine, opened)
        return {one.spares_all for one in said(opened, SolicitBid) if one.workload == W1}

    soon = row.starts_at - PROMISE_SPAN - START_ALLOWANCE
    assert [{False}, {True}] == [spares(at) for at in (soon, soon + 1)]
    later = machine.wait(Nanoseconds(row.starts_at + AUCTION_SPAN + AWARD_SAY_AGAIN - machine.now))
    asked_for = [one.spares_all for one in said(later, SolicitBid) if one.workload == W1]
    assert (True, False) == (asked_for[0], asked_for[-1])


def test_region_that_falls_silent_with_a_promise(start: Start) -> None:
    """When its time and much patience are over the promise ends: the region would have said so itself."""
    machine = promised(start)
    machine.fact(EU_LOG, reserved())
    machine.wake()
    machine.hear(LogSilent(EU_LOG))
    row = the_promise(machine)
    assert row is not None
    machine.wait(Nanoseconds(row.starts_at + 2 * START_PATIENCE - machine.now - 1))
    assert the_promise(machine) is not None
    assert StartPromiseEnded(W1, 1, StartOver.UNREACHABLE) in facts(
        machine.wait(Nanoseconds(AWARD_SAY_AGAIN + 1))
    )


def test_starts_are_promised_one_after_the_other(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """In rank order, where they want the same hardware: no workload gets nodes before one ahead of it; and only `most` get a promise."""
    monkeypatch.setattr(StartPromising, "most", 2)
    machine = a_job_queue(start, eu=joined(nodes=4 * PROMISED_PART))
    for number in range(4):
        spec = replace(
            a_spec(a_job(2, 8)),
            priority=3 if number else 2,
            name=f"n{number}",
            regions=(EU,),
            max_duration=seconds(4**number * 60),
        )
        submit(machine, spec)
    opened = machine.wake()
    for number in range(1, 5):
        name = WorkloadId(f"w-{number}")
        abstain(machine, auction_of(opened, name), EU, workload=name)
    machine.wake()
    offer = EarliestStart(seconds(300), (a_spread({0: 1, 1: 1}),))
    opened = machine.wait(RESERVE_AFTER)
    for name in (WorkloadId("w-2"), WorkloadId("w-3")):
        assert [name] == [one for one, wants in solicited(opened) if wants]
        abstain(machine, auction_of(opened, name), EU, workload=name, prospect=offer)
        assert [name] == [
            event.workload for event in facts(machine.wake()) if isinstance(event, StartPromised)
        ]
        refuse_for(machine, Nanoseconds(PROSPECT_LOOK - 1))
        opened = machine.wake(after(machine.now, Nanoseconds(1)))
    assert [] == [one for one, wants in solicited(opened) if wants]


def two_blocked(start: Start, second: WorkloadSpec, **known: Any) -> list[Event]:
    """`w-1` is promised nodes 0 and 1 of EU; of `w-2`, which could be promised 2 and 3 there. What is recorded of that."""
    machine = a_job_queue(start, **known)
    submit(machine, WIDE)
    submit(machine, second)
    opened = machine.wake()
    for name in (W1, W2):
        refused(machine, opened, name)
    refused(machine, machine.wait(RESERVE_AFTER), eu=offer())
    assert the_promise(machine) is not None
    further = EarliestStart(FREE_IN, (a_spread({2: 1, 3: 1}),))
    recorded = refused(machine, machine.wait(PROSPECT_LOOK), W2, eu=further)
    assert (W2 in machine.state.starts.barred) is not bool(recorded)
    return recorded


def test_several_starts_keep_a_small_part_of_a_region(start: Start) -> None:
    """One alone may keep half of it, and a second one not the rest; where both together are a quarter they may."""
    second = replace(WIDE, name="second", max_duration=seconds(60))
    assert [] == two_blocked(start, second)
    (event,) = two_blocked(start, second, eu=joined(nodes=4 * PROMISED_PART))
    assert isinstance(event, StartPromised)
    assert W2 == event.workload
    assert [] == two_blocked(start, second, eu=joined(nodes=4 * PROMISED_PART - 1))


@pytest.mark.parametrize("reason", [Reason.NO_SUCH_HARDWARE, Reason.OPEN_BIDS, Reason.RULE_FAILED])
def test_other_refusals_call_for_no_promise(start: Start, reason: Reason) -> None:
    """What time does not mend, or mends at once."""
    machine = a_job_queue(start)
    submit(machine, replace(WIDE, regions=(EU,)))
    abstain(machine, auction_of(machine.wake()), reason=reason)
    machine.wake()
    told = machine.wait(Nanoseconds(3 * RESERVE_AFTER))
    assert not any(wants for _, wants in solicited(told))


def test_restarted_queue_waits_for_its_regions(start: Start) -> None:
    """As long as it does not know a region, it takes for granted that the region keeps what it was told to."""
    machine = promised(start)
    machine.fact(EU_LOG, reserved())
    machine.wait(seconds(60))
    machine.unknown = (EU_LOG,)
    again = machine.restart()
    again.wait(seconds(60))
    assert the_promise(again) is not None
    again.adopt(EU_LOG)
    again.wait(seconds(60))
    assert the_promise(again) is not None


def test_restarted_queue_goes_on_with_its_promises(start: Start) -> None:
    """They are in its log; the regions' facts about them count as before."""
    machine = promised(start)
    again = machine.restart()
    assert [W1] == [one.workload for one in said(again.wake(), ReserveStart)]
    again.fact(EU_LOG, reserved(), StartUnreserved(W1, 1, StartOver.DISPLACED))
    assert StartPromiseEnded(W1, 1, StartOver.DISPLACED) in facts(again.wake())


def test_promised_start_is_shown_once_its_region_has_reserved_it(start: Start) -> None:
    """It is shown as long as the workload waits, with the reason why the promise before was not kept."""
    machine = promised(start)

    def told() -> ShownStart | None:
        shown = said_once(machine.hear(ExplainWorkload(W1)), WorkloadExplained).promised
        listed = said_once(machine.hear(ListWorkloads()), WorkloadsListed).rows[0].promised_in
        assert listed == (shown.starts_in if shown is not None else None)
        return shown

    assert told() is None, "nobody keeps it yet"
    machine.fact(EU_LOG, reserved())
    machine.wait(seconds(10))
    assert ShownStart(EU, Nanoseconds(FREE_IN + START_ALLOWANCE - seconds(10)), seconds(10)) == told()
    machine.fact(EU_LOG, StartUnreserved(W1, 1, StartOver.DISPLACED))
    refused(machine, machine.wake())
    refused(machine, machine.wait(PROSPECT_LOOK), eu=offer())
    machine.fact(EU_LOG, reserved(2))
    shown = told()
    assert shown is not None
    assert (StartOver.DISPLACED, "work of a higher level took the capacity") == (shown.why, shown.sentence)
    machine.fact(EU_LOG, *(grant(1, W2), ended(EndCause.COMPLETED, 1, W2, gpu_milli=8_000)))
    bid(machine, auction_of(machine.wake()), EU)
    machine.wake()
    assert told() is None, "it is awarded"


def test_why_nothing_can_be_promised_is_told(start: Start) -> None:
    """How much is held by work of which nobody knows when it ends."""
    machine = blocked(start)
    refused(machine, machine.wait(RESERVE_AFTER), eu=EarliestStart(unbounded_gpu_milli=8_000))
    explained = said_once(machine.hear(ExplainWorkload(W1)), WorkloadExplained)
    assert [8_000, 0] == [one.unbounded_gpu_milli for one in explained.regions]
