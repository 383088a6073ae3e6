"""Two jobs of a shared pool on one GPU: who stays, who comes beside whom, and what each receives."""

from typing import Any

from core.events.region import AttemptEnded, CheckpointCommitted
from core.events.sharing import RoundBegun, SpeedMeasured
from core.messages.broker import ExecuteAward, SolicitBid
from core.messages.queue import Bid, CancelWorkload
from core.nouns.ids import GLOBAL_LOG, AgentName, WorkloadId
from core.nouns.instant import Instant, seconds
from core.nouns.placement import View
from core.nouns.sharing import MICRO_STEPS, WHOLE, ShareColumn
from core.nouns.workload import EndCause
from tests.builders import US, US_LOG, a_spread, attempt
from tests.components.support.job_queue import W1, W2, W3, Start
from tests.components.support.shared_pool import (
    GRACE,
    A,
    B,
    C,
    Queue,
    a_queue_of_pairs,
    begun,
    next_round,
    owe,
    starts,
)
from tests.matching import facts, said


def asked(queue: Queue, decision: Any) -> set[WorkloadId]:
    """Who is asked for, at once or soon."""
    return {one.workload for one in (*said(decision, SolicitBid), *said(queue.wait(seconds(1)), SolicitBid))}


def test_job_comes_to_the_gpu_of_one_that_runs(start: Start) -> None:
    """G14, G16: a pair of classes becomes a pair of jobs; who runs there is told nothing, and the other comes beside it."""
    queue = a_queue_of_pairs(start)
    owe(queue, (A, B, WHOLE), (B, A, WHOLE))
    decision = next_round(queue)
    round_ = begun(decision)
    assert ({W2: 0}, (), {W2: W1}) == (round_.joins, round_.leaves, round_.beside)
    (request,) = said(decision, SolicitBid)
    assert (W2, (W1, 1)) == (request.workload, request.beside)
    stays = begun(next_round(queue))
    assert ({}, (), {}) == (stays.joins, stays.leaves, stays.beside)
    picks = queue.state.image.sharing.picks
    assert (W2, False, W1, True) == (
        picks[W1].beside,
        picks[W1].is_guest,
        picks[W2].beside,
        picks[W2].is_guest,
    )


def test_of_two_that_are_new_one_waits_for_the_other(start: Start) -> None:
    """The second is asked for once the first runs."""
    queue = a_queue_of_pairs(start, "abc")
    owe(queue, (B, C, WHOLE), (C, B, WHOLE))
    while not begun(decision := next_round(queue)).leaves:
        pass
    round_ = begun(decision)
    assert ({W2: 0, W3: 0}, (W1,), {W3: W2}) == (round_.joins, round_.leaves, round_.beside)
    queue.fact(US_LOG, AttemptEnded(*attempt(W1), EndCause.ROUND_OVER))
    assert {W2} == asked(queue, decision)
    assert W3 not in queue.state.order
    starts(queue, next_cycle(queue), W2)
    assert [W3] == list(queue.state.auctions.open)


def next_cycle(queue: Queue) -> Any:
    """Wait until the open auctions are over, and others begin."""
    while not said(decision := queue.wait(seconds(1)), SolicitBid):
        pass
    return decision


def test_when_one_of_a_pair_ends_the_other_stays(start: Start) -> None:
    """G15: it is told nothing, and has the GPU alone, whichever of the two came first."""
    for gone, stays in ((W1, W2), (W2, W1)):
        queue = a_queue_of_pairs(start)
        owe(queue, (A, B, WHOLE), (B, A, WHOLE))
        starts(queue, next_round(queue), W2)
        queue.fact(US_LOG, AttemptEnded(*attempt(gone), EndCause.COMPLETED))
        queue.wake()
        pick = queue.state.image.sharing.picks[stays]
        assert ("", False, True) == (pick.beside, pick.is_guest, bool(pick.counted_at))
        assert "" == queue.state.image.awards.rows[stays].moving
        round_ = begun(next_round(queue))
        assert ({}, ()) == (round_.joins, round_.leaves)


def test_job_that_fails_beside_another_is_picked_anew(start: Start) -> None:
    """By then the GPU is the other's: it waits, is no guest of anybody, and comes beside the other again in the next round."""
    queue = a_queue_of_pairs(start)
    owe(queue, (A, B, WHOLE), (B, A, WHOLE))
    starts(queue, next_round(queue), W2)
    queue.fact(US_LOG, AttemptEnded(*attempt(W1), EndCause.NODE_FAILED))
    assert set() == asked(queue, queue.wake())
    assert W1 not in queue.state.image.sharing.picks
    assert {W1: W2} == begun(next_round(queue)).beside


def test_guest_waits_for_the_next_attempt_of_a_host_that_changes_its_gpu(start: Start) -> None:
    """The host leaves the GPU of its old pair, and the guest comes to the next: the end of the old attempt changes nothing of that."""
    queue = a_queue_of_pairs(start, "ab", gpus=2)
    number = queue.state.image.sharing.number + 1
    queue.fact(
        GLOBAL_LOG,
        RoundBegun(number, (ShareColumn(US, "V100"),), {W1: 0, W2: 0}, (W1, W2), GRACE, (), {W2: W1}),
    )
    for workload in (W1, W2):
        queue.fact(US_LOG, AttemptEnded(*attempt(workload), EndCause.ROUND_OVER))
    decision = queue.wake()
    assert {W1} == {one.workload for one in said(decision, SolicitBid)}
    starts(queue, decision, W1, epoch=2)
    assert [W2] == list(queue.state.auctions.open)


def test_guest_has_the_gpu_alone_when_its_host_is_cancelled_while_it_changes_its_gpu(start: Start) -> None:
    """The host's attempt ends because its round is over, and no other follows."""
    queue = a_queue_of_pairs(start, "ab", gpus=2)
    number = queue.state.image.sharing.number + 1
    queue.fact(
        GLOBAL_LOG,
        RoundBegun(number, (ShareColumn(US, "V100"),), {W1: 0, W2: 0}, (W1, W2), GRACE, (), {W2: W1}),
    )
    queue.hear(CancelWorkload(W1))
    queue.fact(US_LOG, AttemptEnded(*attempt(W1), EndCause.ROUND_OVER))
    queue.fact(US_LOG, AttemptEnded(*attempt(W2), EndCause.ROUND_OVER))
    assert {W2} == asked(queue, queue.wake())
    assert not queue.state.image.workloads.rows[W2].is_guest


def test_time_beside_another_is_received_there(start: Start) -> None:
    """Half of the time is owed beside, and half alone: a round beside counts for the one and not for the other."""
    queue = a_queue_of_pairs(start)
    owe(queue, (A, B, WHOLE // 2), (B, A, WHOLE // 2), (A, "", WHOLE // 2))
    while not begun(decision := next_round(queue)).beside:
        pass
    starts(queue, decision, W2)
    before = {name: dict(lags) for name, lags in queue.state.image.sharing.lags.items()}
    next_round(queue)
    lags = queue.state.image.sharing.lags
    assert {f"us/V100 beside {B}", "us/V100"} == set(lags[W1])
    assert before[W1]["us/V100"] + WHOLE // 2 == lags[W1]["us/V100"]
    assert abs(before[W2][f"us/V100 beside {A}"] - WHOLE // 2 - lags[W2][f"us/V100 beside {A}"]) <= 2


def test_pair_changes_partners(start: Start) -> None:
    """The one that has the GPU stays; the other of the old pair leaves, and the new one comes."""
    queue = a_queue_of_pairs(start, "abc")
    owe(queue, (A, B, WHOLE), (B, A, WHOLE))
    starts(queue, next_round(queue), W2)
    owe(queue, (A, C, WHOLE), (C, A, WHOLE))
    while not (round_ := begun(next_round(queue))).leaves:
        pass
    assert ({W3: 0}, (W2,), {W3: W1}) == (round_.joins, round_.leaves, round_.beside)


def test_jobs_of_a_pair_that_are_to_run_alone_have_a_gpu_each(start: Start) -> None:
    """The one that came last leaves the other's GPU, and joins the same column."""
    queue = a_queue_of_pairs(start, "abc", gpus=2)
    owe(queue, (A, C, WHOLE), (C, A, WHOLE), gpus=2)
    round_ = begun(decision := next_round(queue))
    assert {W3: W1} == round_.beside
    starts(queue, decision, W3)
    queue.fact(US_LOG, AttemptEnded(*attempt(W2), EndCause.COMPLETED))
    queue.wake()
    owe(queue, (A, "", WHOLE), (C, "", WHOLE), gpus=2)
    while not (round_ := begun(next_round(queue))).leaves:
        pass
    assert ({W3: 0}, (W3,), {}) == (round_.joins, round_.leaves, round_.beside)


def test_speed_beside_another_is_measured_apart(start: Start) -> None:
    """G29: by the kind of jobs beside it, and not while the neighbour came or went."""
    queue = a_queue_of_pairs(start)

    def saves(steps: int) -> list[SpeedMeasured]:
        queue.now = Instant(queue.now + seconds(60))
        queue.fact(US_LOG, CheckpointCommitted(*attempt(W1), steps))
        return [event for event in facts(queue.wake()) if isinstance(event, SpeedMeasured)]

    saves(0)
    (alone,) = saves(600)
    assert ("", 10 * MICRO_STEPS) == (alone.beside, alone.speed)
    owe(queue, (A, B, WHOLE), (B, A, WHOLE))
    starts(queue, next_round(queue), W2)
    assert [] == saves(700)
    (beside,) = saves(1_060)
    assert ("b x1 in 1 of default", 6 * MICRO_STEPS) == (beside.beside, beside.speed)
    sharing = queue.state.image.sharing
    assert (10.0, 6.0, 0.0) == (
        sharing.speed(A, "V100"),
        sharing.speed_beside(A, B, "V100"),
        sharing.speed_beside(B, A, "V100"),
    )


def test_job_of_one_gpu_is_charged_half_where_two_may_share_it(start: Start) -> None:
    """Alone or not: its budget does not depend on who comes beside it."""
    queue = a_queue_of_pairs(start)
    assert {"shared/V100": 500} == queue.state.image.workloads.rows[W1].charge


def test_award_names_the_attempt_beside_which_it_is(start: Start) -> None:
    """With its epoch: a host that was started again is another attempt, on another GPU."""
    queue = a_queue_of_pairs(start)
    owe(queue, (A, B, WHOLE), (B, A, WHOLE))
    (request,) = said(next_round(queue), SolicitBid)
    queue.hear(Bid(US, AgentName("a0"), W2, request.auction, (0,) * 6, (a_spread({0: 1}),), (), View(1)))
    (award,) = said(queue.wake(), ExecuteAward)
    assert (W1, 1) == award.beside
