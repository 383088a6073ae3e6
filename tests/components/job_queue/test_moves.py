"""Moves between regions: what is asked before anything stops, each step to the end, and what becomes of a move that fails."""

from typing import Any

import pytest
from msgspec.structs import replace

from core.component import Decision
from core.events.moves import MoveBegun, MoveEnded, MovePlanned
from core.events.queue import AttemptClosed, WorkloadAwarded
from core.events.region import AttemptEnded, CheckpointCommitted, ClaimGranted, GangStarted
from core.events.starts import StartPromised, StartPromiseEnded, StartReserved, StartUnreserved
from core.fact import Event
from core.messages.base import LogSilent, Refused
from core.messages.broker import SolicitBid
from core.messages.data import SetDataset
from core.messages.moves import MoveAnswered, MoveWorkload
from core.messages.queue import Bid, CancelWorkload, HoldWorkload
from core.messages.regions import AbandonRegion
from core.messages.reserved_starts import ReserveStart
from core.nouns.ids import AgentName, DatasetName, RegionName, WorkloadId
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.limits import (
    AUCTION_SPAN_MAX,
    GRACE,
    MOVE_ANSWER_HOLDS,
    MOVE_DEADLINE,
    SHIP_BYTES_PER_SECOND,
    START_ALLOWANCE,
)
from core.nouns.moving import MoveCost
from core.nouns.placement import View
from core.nouns.reasons import Reason
from core.nouns.starts import StartOver
from core.nouns.workload import EndCause, Kind, WorkloadSpec
from core.rules.moving import cost_of
from tests.builders import EU, EU_LOG, US, US_LOG, a_claim, a_job, a_spec, a_spread, attempt, granted, joined
from tests.components.support.job_queue import (
    W1,
    Start,
    a_job_queue,
    abstain,
    asked,
    auction_of,
    bid,
    running,
    shown,
    submit,
)
from tests.components.support.machine import Machine
from tests.matching import all_of, facts, said, said_once

SHIP_SECONDS = 40
BEGUN = MoveBegun(W1, 1, 1, MOVE_DEADLINE, US, 2)
"""The first move of the first attempt, once its room is kept."""
PAUSE = Nanoseconds(GRACE + seconds(SHIP_SECONDS) + START_ALLOWANCE)
KEPT = Nanoseconds(MOVE_DEADLINE + PAUSE)
SPEC = replace(a_spec(), checkpoint_bytes=SHIP_SECONDS * SHIP_BYTES_PER_SECOND)


def runs_in_eu(
    start: Start, spec: WorkloadSpec = SPEC, **regions: Any
) -> Machine[Any]:  # Any: what regions have
    """One workload runs there; both regions had bid."""
    queue = a_job_queue(start, **regions)
    submit(queue, spec)
    opened = queue.wake()
    auction = auction_of(opened)
    for region in sorted({RegionName(name) for _, name in asked(opened)} - {EU}):
        bid(queue, auction, region, score=(0, 0, 0, 9, 9, 9))
    bid(queue, auction, EU)
    queue.hear_due_once()
    running(queue)
    return queue


def move(
    queue: Machine[Any],
    to: RegionName = US,
    epoch: int = 1,
    *,
    is_forced: bool = False,
    revision: int | None = None,
) -> Decision:
    """Somebody asks for it, who has just looked, or looked when it was at this revision."""
    row = queue.state.image.workloads.rows.get(W1)
    seen = row.move_revision if row is not None else 0
    return queue.hear(MoveWorkload(W1, epoch, to, seen if revision is None else revision, is_forced, "ada"))


def planned(queue: Machine[Any]) -> list[Event]:
    """It is asked for, and the other region bids."""
    (asked_for,) = said(move(queue), SolicitBid)
    return facts(bid(queue, asked_for.auction, US))


def reserved(queue: Machine[Any], revision: int = 1) -> list[Event]:
    """The other region's log shows the room kept."""
    spread, job = (a_spread({0: 1}),), (a_job(),)
    kept = StartReserved(W1, revision, MOVE_DEADLINE, 3, "training", SPEC.tenant, job, spread, 9)
    queue.fact(US_LOG, kept)
    return facts(queue.wake())


def stopped(queue: Machine[Any], cause: EndCause = EndCause.MOVED) -> Decision:
    """The old attempt saved its fifth step and ended."""
    queue.fact(EU_LOG, CheckpointCommitted(*attempt(), 5), AttemptEnded(*attempt(), cause))
    return queue.wake()


def under_way(start: Start) -> Machine[Any]:
    """The old attempt has stopped, and its checkpoint is on its way."""
    queue = runs_in_eu(start)
    planned(queue)
    reserved(queue)
    stopped(queue)
    return queue


# What is asked before.


def test_region_is_asked_for_capacity_before_anything_stops(start: Start) -> None:
    """N10: no workload is preempted for it; a repeat of the request meanwhile is answered that the region is being asked, and the move's
    cost.
    """
    queue = runs_in_eu(start)
    first = move(queue)
    cost = MoveCost(PAUSE, seconds(SHIP_SECONDS), PAUSE // SECOND, seconds(1_200))
    assert MoveAnswered(W1, US, 0, cost) == said_once(first, MoveAnswered)
    request = said_once(first, SolicitBid)
    assert (US, True, 3) == (request.region, request.spares_all, request.priority)
    again = move(queue)
    assert ([], []) == (facts(again), said(again, SolicitBid))
    found = facts(bid(queue, request.auction, US))
    promised = StartPromised(
        W1, 1, US, Nanoseconds(KEPT + START_ALLOWANCE), KEPT, (a_spread({0: 1}),), 3, is_move=True
    )
    assert [MovePlanned(W1, 1, 1, US, cost, "ada"), promised] == found
    assert MoveAnswered(W1, US, 1, cost) == said_once(move(queue, revision=0), MoveAnswered)


def test_region_without_capacity(start: Start) -> None:
    """A repeat of the request is told so; after a while the region is asked again."""
    queue = runs_in_eu(start)
    request = said_once(move(queue), SolicitBid)
    abstain(queue, request.auction, US, missing=8_000)
    for _ in range(2):
        refusal = said_once(move(queue), Refused)
        assert Reason.NO_CAPACITY == refusal.reason
        assert ("us: 8 GPUs must come free there first",) == refusal.problems
    queue.wait(MOVE_ANSWER_HOLDS)
    assert 1 == len(said(move(queue), SolicitBid))


def offered(queue: Machine[Any], **changed: Any) -> list[Event]:  # Any: fields of the bid
    """What follows from the other region's bid, or from one that differs from it in something."""
    request = said_once(move(queue), SolicitBid)
    offer = Bid(US, AgentName("a"), W1, request.auction, (0,) * 6, (a_spread({0: 1}),), (), View(1))
    return facts(queue.hear(replace(offer, **changed)))


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"victims": (attempt("w-9"),)}, id="over somebody else"),
        pytest.param({"auction": "move.0.0"}, id="of an older asking"),
        pytest.param({"region": EU}, id="of another region"),
        pytest.param({"workload": WorkloadId("w-9")}, id="for another workload"),
    ],
)
def test_bid_that_does_not_count(start: Start, changed: dict[str, Any]) -> None:
    """Nothing is planned by it; as it was asked for it is."""
    queue = runs_in_eu(start)
    assert [] == offered(queue, **changed)
    queue.wait(AUCTION_SPAN_MAX)
    assert [MovePlanned, StartPromised] == [type(event) for event in offered(queue)]


def test_move_into_a_region_that_is_far_away(start: Start) -> None:
    """Its answer takes three seconds; nobody else waits for it."""
    queue = runs_in_eu(start)
    request = said_once(move(queue), SolicitBid)
    assert AUCTION_SPAN_MAX == request.held_for
    queue.wait(seconds(3))
    assert [MovePlanned, StartPromised] == [type(event) for event in facts(bid(queue, request.auction, US))]


@pytest.mark.parametrize("meanwhile", ["cancelled", "late", "ended", "another attempt", "called off"])
def test_bid_that_comes_too_late(start: Start, meanwhile: str) -> None:
    """What it was asked for is not so any more."""
    queue = runs_in_eu(start)
    request = said_once(move(queue), SolicitBid)
    if meanwhile == "cancelled":
        queue.hear(CancelWorkload(W1))
    elif meanwhile == "late":
        queue.wait(AUCTION_SPAN_MAX)
    elif meanwhile == "called off":
        assert 1 == said_once(move(queue, EU), MoveAnswered).revision
    else:
        queue.fact(EU_LOG, AttemptEnded(*attempt(), EndCause.NODE_LOST))
        queue.wake()
        if meanwhile == "another attempt":
            bid(queue, queue.state.auctions.open[W1].auction, EU)
            bid(queue, queue.state.auctions.open[W1].auction, US, score=(0, 0, 0, 9, 9, 9))
            queue.wake()
            queue.fact(EU_LOG, granted(a_claim(epoch=2)), GangStarted(*attempt(epoch=2)))
            queue.wake()
    assert [] == facts(bid(queue, request.auction, US))


def test_words_that_come_late_or_twice(start: Start) -> None:
    """Each names the revision that it was given for: what another has undone since stays undone."""
    queue = runs_in_eu(start)
    planned(queue)
    assert 2 == len(facts(move(queue, EU, revision=1)))
    again = move(queue, EU, revision=1)
    assert ([], 1) == (facts(again), said_once(again, MoveAnswered).revision)
    late = move(queue, US, revision=0)
    assert Reason.SUPERSEDED == said_once(late, Refused).reason
    planned(queue)
    assert ([], Reason.SUPERSEDED) == (
        facts(late_word := move(queue, EU, revision=1)),
        said_once(late_word, Refused).reason,
    )


@pytest.mark.parametrize(
    ("spec", "to", "epoch", "reason"),
    [
        pytest.param(SPEC, RegionName("mars"), 1, Reason.UNKNOWN_REGION, id="no such region"),
        pytest.param(SPEC, EU, 1, Reason.ALREADY_THERE, id="where it is"),
        pytest.param(SPEC, US, 2, Reason.NOT_RUNNING, id="another attempt"),
        pytest.param(replace(SPEC, regions=(EU,)), US, 1, Reason.REGION_EXCLUDED, id="pinned"),
        pytest.param(replace(SPEC, kind=Kind.SERVICE), US, 1, Reason.NOT_ALLOWED, id="a service"),
    ],
)
def test_move_that_makes_no_sense(
    start: Start, spec: WorkloadSpec, to: RegionName, epoch: int, reason: Reason
) -> None:
    """One clear answer each, and nothing happens."""
    decision = move(runs_in_eu(start, spec), to, epoch)
    assert ([], reason) == (facts(decision), said_once(decision, Refused).reason)


def test_move_to_where_it_cannot_fit(start: Start) -> None:
    """However empty that region is."""
    queue = runs_in_eu(start, a_spec(a_job(4, 8)), us=joined("w0", 0, 1))
    assert Reason.NO_SUCH_HARDWARE == said_once(move(queue), Refused).reason


def test_move_to_where_its_data_is_not(start: Start) -> None:
    """Nor to a region that does not answer, or is given up."""
    queue = a_job_queue(start)
    clicks = DatasetName("clicks")
    queue.hear(SetDataset(clicks, (EU,), None, 0))
    submit(queue, replace(SPEC, data=(clicks,)))
    bid(queue, auction_of(queue.wake()), EU)
    queue.hear_due_once()
    running(queue)
    refusal = said_once(move(queue), Refused)
    assert (Reason.NO_DATA, ("us lacks clicks",)) == (refusal.reason, refusal.problems)
    queue.hear(SetDataset(clicks, (EU, US), None, 1))
    queue.hear(LogSilent(US_LOG))
    assert Reason.REGION_UNREACHABLE == said_once(move(queue), Refused).reason
    queue.hear(AbandonRegion(US, 0))
    assert Reason.REGION_ABANDONED == said_once(move(queue), Refused).reason


def test_workload_that_is_not_there(start: Start) -> None:
    """Unknown, waiting, or over."""
    queue = a_job_queue(start)
    assert Reason.UNKNOWN_WORKLOAD == said_once(move(queue), Refused).reason
    submit(queue)
    assert Reason.NOT_RUNNING == said_once(move(queue, epoch=0), Refused).reason
    queue.hear(CancelWorkload(W1))
    assert Reason.ALREADY_ENDED == said_once(move(queue), Refused).reason


@pytest.mark.parametrize(("left", "pays"), [(None, True), (PAUSE, False), (PAUSE + 1, True), (0, False)])
def test_move_pays_within_the_time_that_is_left(left: int | None, *, pays: bool) -> None:
    """It would otherwise have ended before it ran again; of what nobody can say, it is taken to."""
    cost = cost_of(SPEC, None if left is None else Nanoseconds(left))
    assert pays == cost.pays
    assert PAUSE == cost.pause


def test_move_that_does_not_pay_is_refused(start: Start) -> None:
    """Who insists may have it."""
    queue = runs_in_eu(start, replace(SPEC, max_duration=seconds(60)))
    queue.wait(seconds(1))
    assert Reason.MOVE_DOES_NOT_PAY == said_once(move(queue), Refused).reason
    assert 1 == len(said(move(queue, is_forced=True), SolicitBid))


# The steps.


def test_it_is_told_to_stop_once_its_capacity_is_reserved(start: Start) -> None:
    """It is not told before; the other region is told what to keep until its log shows it."""
    queue = runs_in_eu(start)
    planned(queue)
    assert [] == facts(queue.wait(seconds(3)))
    assert [BEGUN] == reserved(queue)
    assert [] == facts(queue.wait(seconds(3)))
    award = queue.state.image.awards.rows[W1]
    assert ("t-1", MOVE_DEADLINE) == (award.moving, award.move_deadline)


def test_it_waits_while_its_checkpoint_is_on_its_way(start: Start) -> None:
    """Then the other region alone is asked, and it goes on from what it had saved."""
    queue = under_way(start)
    assert Reason.MOVING == shown(queue).reason
    assert [] == asked(queue.wait(Nanoseconds(seconds(SHIP_SECONDS) - 1)))
    opened = queue.wait(Nanoseconds(1))
    assert [(W1, US)] == asked(opened)
    bid(queue, auction_of(opened), US)
    (award,) = [event for event in facts(queue.wake()) if isinstance(event, WorkloadAwarded)]
    assert (US, 2, 1, 5) == (award.region, award.epoch, award.resume_epoch, award.resume_step)
    queue.fact(US_LOG, granted(a_claim(epoch=2, region=US)), GangStarted(*attempt(epoch=2)))
    queue.wake()
    row = queue.state.image.workloads.rows[W1]
    assert (None, 1) == (row.move, row.move_revision)
    late = said_once(move(queue, revision=0), MoveAnswered)
    assert 1 == late.revision, "it is there, and whoever asks again is told"
    assert {} == queue.state.image.start_promises.rows


def test_it_goes_on_after_a_restart(start: Start) -> None:
    """Each step follows from the log."""
    queue = runs_in_eu(start)
    planned(queue)
    queue = queue.restart()
    assert [BEGUN] == reserved(queue)
    stopped(queue)
    opened = queue.restart().wait(seconds(SHIP_SECONDS))
    assert [(W1, US)] == asked(opened)


# What can go wrong.


@pytest.mark.parametrize("why", [StartOver.NO_ROOM, StartOver.DISPLACED, StartOver.NODE_CLOSED])
def test_capacity_that_is_not_kept(start: Start, why: StartOver) -> None:
    """Before the workload stops, it stays. After that, it is placed anywhere."""
    queue = runs_in_eu(start)
    planned(queue)
    queue.fact(US_LOG, StartUnreserved(W1, 1, why))
    assert [StartPromiseEnded(W1, 1, why), MoveEnded(W1, 1, why)] == facts(queue.wake())
    assert "" == queue.state.image.awards.rows[W1].moving
    assert (EU, None) == (
        queue.state.image.workloads.rows[W1].region,
        queue.state.image.workloads.rows[W1].move,
    )
    later = under_way(start)
    later.fact(US_LOG, StartUnreserved(W1, 1, why))
    decision = later.wake()
    assert [StartPromiseEnded(W1, 1, why), MoveEnded(W1, 1, why)] == facts(decision)
    assert {(W1, EU), (W1, US)} == set(asked(decision))


def test_region_that_never_confirms_the_capacity(start: Start) -> None:
    """After a while the move is over."""
    queue = runs_in_eu(start)
    planned(queue)
    found = facts(queue.wait(seconds(60)))
    assert MoveEnded(W1, 1, StartOver.UNREACHABLE) in found


def test_region_falls_silent_while_it_moves_there(start: Start) -> None:
    """The move is over when its reservation must have lapsed, and every region that is heard is asked for the workload."""
    queue = under_way(start)
    queue.hear(LogSilent(US_LOG))
    decision = queue.wait(Nanoseconds(KEPT + seconds(300)))
    assert MoveEnded(W1, 1, StartOver.UNREACHABLE) in facts(decision)
    assert {(W1, EU)} == set(asked(decision))


def test_it_stops_by_itself_before_its_capacity_is_reserved(start: Start) -> None:
    """The region is told what to keep until its log shows it, or that it will not."""
    queue = runs_in_eu(start)
    planned(queue)
    decision = stopped(queue, EndCause.NODE_LOST)
    assert 1 <= len(said(all_of([decision, queue.wait(seconds(5))]), ReserveStart))
    found = facts(queue.wait(seconds(60)))
    assert MoveEnded(W1, 1, StartOver.UNREACHABLE) in found


def test_moving_workload_preempts_no_other(start: Start) -> None:
    """Nor does it when it is asked for at last; once its move is over it may."""
    queue = under_way(start)
    opened = queue.wait(seconds(SHIP_SECONDS))
    assert said_once(opened, SolicitBid).spares_all
    queue.fact(US_LOG, StartUnreserved(W1, 1, StartOver.NODE_CLOSED))
    queue.wait(seconds(2))
    (row,) = [row for row in queue.state.image.workloads.rows.values() if row.move is None]
    assert not row.is_start_promised


def test_running_workload_is_not_blocked_by_a_move_that_failed(start: Start) -> None:
    """The queue looks for no start for it."""
    queue = runs_in_eu(start)
    planned(queue)
    queue.fact(US_LOG, StartUnreserved(W1, 1, StartOver.NO_ROOM))
    queue.wake()
    assert {} == queue.state.starts.blocked


def test_region_is_given_up_while_it_moves_there(start: Start) -> None:
    """Nobody waits for it."""
    queue = under_way(start)
    queue.hear(LogSilent(US_LOG))
    queue.hear(AbandonRegion(US, 0))
    decision = queue.wake()
    assert MoveEnded(W1, 1, StartOver.UNREACHABLE) in facts(decision)
    assert [(W1, EU)] == asked(decision)


@pytest.mark.parametrize("word", [HoldWorkload(W1, 0), CancelWorkload(W1)])
def test_user_wants_something_else(start: Start, word: HoldWorkload | CancelWorkload) -> None:
    """What is held or to be cancelled moves nowhere."""
    queue = runs_in_eu(start)
    planned(queue)
    reserved(queue)
    queue.hear(word)
    assert [MoveEnded(W1, 1, StartOver.GIVEN_UP)] == facts(queue.wake())


def test_move_is_called_off(start: Start) -> None:
    """By moving it to where it runs, until it was told to stop; and to a third place it does not go meanwhile."""
    queue = runs_in_eu(start)
    planned(queue)
    called_off = move(queue, EU)
    ended = [StartPromiseEnded(W1, 1, StartOver.GIVEN_UP), MoveEnded(W1, 1, StartOver.GIVEN_UP)]
    assert ended == facts(called_off)
    planned(queue)
    reserved(queue, revision=2)
    refusal = said_once(move(queue, EU), Refused)
    assert (Reason.MOVES_ALREADY, ("it moves to us",)) == (refusal.reason, refusal.problems)


def test_second_move_is_called_off_while_its_region_is_asked(start: Start) -> None:
    """A first one was planned and called off before; to ask that it stays is answered again, and again."""
    queue = runs_in_eu(start)
    planned(queue)
    move(queue, EU)
    request = said_once(move(queue), SolicitBid)
    for _ in range(2):
        assert (EU, 1) == (
            said_once(move(queue, EU), MoveAnswered).region,
            queue.state.image.workloads.rows[W1].move_revision,
        )
    assert [] == facts(bid(queue, request.auction, US))


@pytest.mark.parametrize("cause", [EndCause.NODE_LOST, EndCause.PREEMPTED])
def test_attempt_ends_for_another_reason(start: Start, cause: EndCause) -> None:
    """Its room elsewhere is kept all the same, and it goes there."""
    queue = runs_in_eu(start)
    planned(queue)
    reserved(queue)
    (closed,) = [event for event in facts(stopped(queue, cause)) if isinstance(event, AttemptClosed)]
    assert cause == closed.cause
    assert [(W1, US)] == asked(queue.wait(seconds(SHIP_SECONDS)))


def test_workload_ends_before_it_stops(start: Start) -> None:
    """Then nothing moves, and nothing is kept for it."""
    queue = runs_in_eu(start)
    planned(queue)
    reserved(queue)
    stopped(queue, EndCause.COMPLETED)
    assert None is queue.state.image.workloads.rows[WorkloadId("w-1")].move
    assert {} == queue.state.image.start_promises.rows
    assert [] == [event for event in facts(queue.wait(seconds(600))) if isinstance(event, ClaimGranted)]
