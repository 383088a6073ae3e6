"""Rounds of shared pools: who is picked, who leaves, who stays, and the border to quota work."""

import pytest
from msgspec.structs import replace

from components.job_queue import rounds
from core.codec import encode
from core.events.queue import WorkloadSubmitted
from core.events.region import AttemptEnded, ClaimPromised
from core.events.sharing import PicksAdded, RoundBegun, SharesSet
from core.images import GlobalImage
from core.messages.base import LogHeard, LogSilent, Refused
from core.messages.broker import SolicitBid, WithdrawAward
from core.messages.data import SetDataset
from core.messages.moves import MoveWorkload
from core.messages.queue import (
    Bid,
    CancelWorkload,
    ChangeWorkload,
    ExplainWorkload,
    HoldWorkload,
    SetPriority,
    SubmitWorkload,
    WorkloadExplained,
)
from core.messages.starts import ListStarts, StartsListed, SubmissionTested, TestSubmission
from core.messages.tenants import SetEntitlement, SetTenant
from core.nouns.ids import (
    GLOBAL_LOG,
    AgentName,
    DatasetName,
    RegionName,
    TenantName,
    WorkloadId,
)
from core.nouns.instant import Instant, seconds
from core.nouns.limits import FACT_BYTES_MAX
from core.nouns.placement import View
from core.nouns.reasons import Reason
from core.nouns.sharing import MICRO_STEPS, ROUND_SPAN, WHOLE, ShareColumn
from core.nouns.tenant import Entitlement, TenantSettings
from core.nouns.workload import EndCause, Kind, Phase
from core.sharing.accounts import PATIENCE
from tests.builders import EU, EU_LOG, US, US_LOG, a_claim, a_job, a_spec, a_spread, attempt
from tests.components.support.job_queue import W1, W2, W3, Start, a_job_queue, submit
from tests.components.support.shared_pool import (
    a_pool_queue,
    begun,
    boundary,
    next_round,
    picked,
    pool_nodes,
    reason,
    shared,
    starts,
    take_turns,
)
from tests.matching import facts, said, said_once


def test_job_is_picked_at_once_where_its_pool_is(start: Start) -> None:
    """G20: idle GPUs go to a new job without a wait; it is asked for in its column alone, with its type alone, whatever else will do."""
    queue = a_pool_queue(start)
    submit(queue, shared())
    decision = queue.wake()
    assert [W1] == picked(decision)
    (asked,) = said(decision, SolicitBid)
    assert (W1, US, "V100", ()) == (
        asked.workload,
        asked.region,
        asked.jobs[0].gpu_type,
        asked.jobs[0].or_types,
    )
    assert [] == [event for event in facts(decision) if isinstance(event, RoundBegun)], "only at a boundary"
    (shares,) = [event for event in facts(next_round(queue)) if isinstance(event, SharesSet)]
    assert "isolated" == shares.shares.by, "no planner is waited for"


def test_two_jobs_take_turns_on_one_gpu(start: Start) -> None:
    """G22, G24: who waits is not asked for, and no job before the attempt that has the GPU is over.

    Each has every second stretch of rounds, as many rounds as the other within the credit for staying.
    """
    queue = a_pool_queue(start)
    submit(queue, shared(1))
    starts(queue, queue.wake(), W1)
    submit(queue, shared(2))
    assert [] == said(queue.wake(), SolicitBid)
    ran, epochs = take_turns(queue, W1, 40)
    assert abs(ran[W1] - ran[W2]) <= 5
    assert epochs[W1] + epochs[W2] <= 16, "two rounds of credit for staying"


def test_who_stays_is_told_nothing(start: Start) -> None:
    """G23: the same GPUs in the next round are no fact about the job, no message, and no stop."""
    queue = a_pool_queue(start, pool_nodes(2))
    for number in (1, 2):
        submit(queue, shared(number))
    opened = queue.wake()
    starts(queue, opened, W1, W2)
    decision = next_round(queue)
    assert ({}, ()) == (begun(decision).joins, begun(decision).leaves)
    assert [] == said(decision, SolicitBid)
    assert "" == queue.state.image.awards.rows[W1].moving


def test_nothing_else_runs_in_the_pool_and_its_jobs_nowhere_else(start: Start) -> None:
    """The border: training on V100 has no node in the fleet, and a fleet without a pool takes no shared job; both are told at once."""
    queue = a_pool_queue(start)
    no = said(queue.hear(SubmitWorkload(a_spec(a_job(1, 1, gpu_type="V100")), "ada", "")), Refused)
    assert [Reason.NEVER_FITS] == [one.reason for one in no]
    other = a_job_queue(start)
    (refusal,) = said(other.hear(SubmitWorkload(shared(), "ada", "")), Refused)
    assert Reason.NEVER_FITS == refusal.reason
    assert ("share: the fleet has no node in the pool shared",) == refusal.problems


def test_quota_is_not_touched(start: Start) -> None:
    """A tenant entitled to no V100 has its turn all the same; what it holds there is charged by another name, and is no use that counts."""
    queue = a_pool_queue(start)
    tenant = TenantName("default")
    queue.hear(SetTenant(tenant, TenantSettings(), 0))
    queue.hear(SetEntitlement(tenant, "V100", Entitlement(0), 1))
    submit(queue, shared())
    (award,) = starts(queue, queue.wake(), W1)
    assert {"shared/V100": 1_000} == award.charge
    usage = queue.state.image.usage.rows[tenant]
    assert (0, 1_000) == (usage.fading.gpu_milli, usage.rate)


def test_jobs_do_not_change_places_between_regions_with_the_same_gpus(start: Start) -> None:
    """Two jobs are owed half of their time in either region: each stays where it is for good."""
    queue = a_job_queue(start, eu=pool_nodes(), us=pool_nodes(first=1))
    for number in (1, 2):
        submit(queue, shared(number))
    opened = queue.wake()
    picks = {job: pick.column for job, pick in queue.state.image.sharing.picks.items()}
    assert {f"{EU}/V100", f"{US}/V100"} == set(picks.values())
    starts(queue, opened, W1, W2)
    for _ in range(40):
        round_ = begun(next_round(queue))
        assert ({}, ()) == (round_.joins, round_.leaves)
    targets = queue.state.image.sharing.targets_of(W1)
    assert {f"{EU}/V100": WHOLE // 2, f"{US}/V100": WHOLE // 2} == targets
    lags = [lag for mine in queue.state.image.sharing.lags.values() for lag in mine.values()]
    assert max(map(abs, lags)) <= 1_000_000


def test_nodes_that_join_are_shared_where_no_planner_tells(start: Start) -> None:
    """From the next round on; the equal parts are of all GPUs that are there."""
    queue = a_pool_queue(start)
    for number in (1, 2, 3):
        submit(queue, shared(number))
    starts(queue, queue.wake(), W1)
    next_round(queue)
    queue.fact(US_LOG, pool_nodes(2, first=1))
    assert [W2, W3] == picked(next_round(queue))
    shares = queue.state.image.sharing.shares
    assert ((3,), {f"{US}/V100": WHOLE}) == (shares.gpus, queue.state.image.sharing.targets_of(W2))
    assert [] == [event for event in facts(next_round(queue)) if isinstance(event, SharesSet)]


def test_job_with_data_is_picked_where_the_data_is(start: Start) -> None:
    """A job of the same model that reads none is of another class, and goes where it is fastest."""
    queue = a_job_queue(start, eu=pool_nodes(2, 1, "K80"), us=pool_nodes(2))
    clicks = DatasetName("clicks")
    queue.hear(SetDataset(clicks, (EU,), None, 0))
    spec = shared(speeds={"V100": 9 * MICRO_STEPS, "K80": MICRO_STEPS})
    submit(queue, replace(spec, data=(clicks,)))
    submit(queue, spec)
    queue.wake()
    picks = queue.state.image.sharing.picks
    assert (f"{EU}/K80", f"{US}/V100") == (picks[W1].column, picks[W2].column)


def test_gpus_of_a_job_that_ends_are_not_idle_before(start: Start) -> None:
    """A job that is cancelled while it runs keeps its GPUs, and its pick, until its attempt is over; then they go to a job that waits."""
    queue = a_pool_queue(start)
    submit(queue, shared(1))
    starts(queue, queue.wake(), W1)
    queue.hear(CancelWorkload(W1))
    submit(queue, shared(2))
    assert [] == picked(queue.wake())
    queue.fact(US_LOG, AttemptEnded(*attempt(W1), EndCause.CANCELLED))
    assert [W2] == picked(queue.wake())


def test_pick_of_a_job_out_of_reach_is_given_up_at_a_boundary(start: Start) -> None:
    """A job that is to go on in another region, and whose own falls silent, holds the GPU there for the rest of the round, and no longer."""
    queue = a_job_queue(start, eu=pool_nodes(gpu_type="K80"), us=pool_nodes())
    submit(queue, replace(shared(1), regions=(EU,)))
    submit(queue, shared(2))
    opened = queue.wake()
    queue.hear(CancelWorkload(W1))
    starts(queue, opened, W2)
    for _ in range(10):
        if begun(next_round(queue)).leaves:
            break
    assert f"{EU}/K80" == queue.state.image.sharing.picks[W2].column
    queue.hear(LogSilent(US_LOG))
    submit(queue, shared(3))
    assert [] == picked(queue.wake())
    round_ = begun(next_round(queue))
    assert ([W3], (W2,)) == (list(round_.joins), round_.leaves)
    assert f"{US}/V100" == queue.state.image.sharing.leaving[W2], "it is told to stop all the same"
    assert ({}, ()) == (begun(again := next_round(queue)).joins, begun(again).leaves)


def test_region_that_is_silent_keeps_its_work_and_gets_no_picks(start: Start) -> None:
    """What runs there stays picked; when the region is heard again its GPUs are given out as before."""
    queue = a_pool_queue(start, pool_nodes(2))
    submit(queue, shared(1))
    starts(queue, queue.wake(), W1)
    queue.hear(LogSilent(US_LOG))
    submit(queue, shared(2))
    queue.wake()
    round_ = begun(next_round(queue))
    assert ({}, ()) == (round_.joins, round_.leaves)
    queue.hear(LogHeard(US_LOG))
    assert [W2] == picked(queue.wake()), "at once"


def test_queue_that_starts_again_goes_on_in_the_round(start: Start) -> None:
    """G32: picks, lags and the number of the round are in the log: the queue that starts again decides the next round alike."""
    queue = a_pool_queue(start)
    for number in (1, 2, 3):
        submit(queue, shared(number))
    starts(queue, queue.wake(), W1)
    for _ in range(2):
        next_round(queue)
    again = queue.restart()
    before, after = queue.state.image, again.state.image
    assert isinstance(after, GlobalImage)
    assert before.sharing == after.sharing
    again.fact(EU_LOG)
    again.wake()
    expected, actual = begun(next_round(queue)), begun(next_round(again))
    assert (expected.number, expected.joins, expected.leaves) == (actual.number, actual.joins, actual.leaves)


def test_reason_of_a_job_without_a_pick(start: Start) -> None:
    """Others have the GPUs, or the region of its pool does not answer."""
    queue = a_pool_queue(start)
    submit(queue, shared(1))
    starts(queue, queue.wake(), W1)
    submit(queue, shared(2))
    queue.wake()
    assert Reason.WAITS_FOR_ROUND == reason(queue, W2)
    assert "" == reason(queue, W1), "it runs"
    queue.hear(LogSilent(US_LOG))
    assert Reason.REGION_UNREACHABLE == reason(queue, W2)


def test_start_of_a_job_is_that_of_a_round(start: Start) -> None:
    """It has no estimate: a job that is picked starts in this round, and one that is not may start in the next; a held one is not told."""
    queue = a_pool_queue(start)
    for number in (1, 2, 3):
        submit(queue, shared(number))
    queue.wake()
    (held,) = queue.state.image.sharing.jobs.keys() - {W1, W2}
    queue.hear(HoldWorkload(held, 0))
    found = said_once(queue.hear(ListStarts()), StartsListed)
    left = boundary(queue) - queue.now
    assert [(W1, None, 0, 0), (W2, None, left, -1)] == [
        (row.workload, row.start, row.round_in, row.rank) for row in found.rows
    ]
    assert [Reason.WAITING_TURN, Reason.WAITS_FOR_ROUND] == [row.reason for row in found.rows]
    few = said_once(queue.hear(ListStarts(count_max=1)), StartsListed)
    assert ([W1], 1) == ([row.workload for row in few.rows], few.more)
    for asked, tenant in ((ListStarts("others"), ""), (ListStarts(), "others")):
        assert () == said_once(queue.hear(asked, tenant=tenant), StartsListed).rows
    queue.hear(LogSilent(US_LOG))
    found = said_once(queue.hear(ListStarts()), StartsListed)
    assert (Reason.REGION_UNREACHABLE, -1) == (found.rows[-1].reason, found.rows[-1].round_in)


def test_no_start_is_estimated_of_a_job(start: Start) -> None:
    """Neither at its submission, nor in a test of one, nor while it is picked: so none is judged, and bands of quota work stay as they were."""
    queue = a_pool_queue(start)
    tested = said_once(queue.hear(TestSubmission(shared(1), "ada")), SubmissionTested)
    assert (None, 0, "") == (tested.start, tested.ahead, tested.standing)
    submit(queue, shared(1))
    queue.wake()
    tested = said_once(queue.hear(TestSubmission(shared(2), "ada")), SubmissionTested)
    assert boundary(queue) - queue.now == tested.round_in
    explained = said_once(queue.hear(ExplainWorkload(W1)), WorkloadExplained)
    assert (0, None) == (explained.rank, explained.start)
    submitted = [fact.event for fact in queue.logs[GLOBAL_LOG] if isinstance(fact.event, WorkloadSubmitted)]
    assert [None] == [event.start for event in submitted]


def test_priority_of_a_shared_job_is_refused(start: Start) -> None:
    """Its weight decides, and the refusal names it."""
    queue = a_pool_queue(start)
    submit(queue, shared())
    for level in (5, None):
        (refused,) = said(queue.hear(SetPriority(W1, 0, level)), Refused)
        assert Reason.INVALID == refused.reason
        assert "share.weight" in refused.problems[0]


def test_promise_of_a_past_round_is_withdrawn(start: Start) -> None:
    """A pick that waits for the end of its victims, and is told to leave: nobody else would stop it, and it would push out others."""
    queue = a_pool_queue(start)
    submit(queue, shared(1))
    starts(queue, queue.wake(), W1)
    submit(queue, shared(2))
    for _ in range(2):
        next_round(queue)
    queue.fact(US_LOG, AttemptEnded(*attempt(W1), EndCause.PREEMPTED))
    (message,) = said(queue.wake(), SolicitBid)
    queue.hear(Bid(US, AgentName("a0"), W1, message.auction, (0,) * 6, (a_spread({0: 1}),), (), View(1)))
    queue.wake()
    claim = replace(
        a_claim(W1, 2), region=US, jobs=message.jobs, spreads=(a_spread({0: 1}),), kind=Kind.SHARED
    )
    queue.fact(US_LOG, ClaimPromised(W1, 2, claim))
    assert [] == said(queue.wake(), WithdrawAward)
    decision = next(decision for _ in range(2 * PATIENCE) if begun(decision := next_round(queue)).leaves)
    assert [(W1, 2)] == [(one.workload, one.epoch) for one in said(decision, WithdrawAward)]


def test_job_that_comes_to_an_empty_pool_begins_no_round(start: Start) -> None:
    """Rounds that nobody was there for are not made up for: it has idle GPUs of its fastest type, and the next round begins on time."""
    queue = a_pool_queue(start)
    queue.wake(Instant(queue.now + 9 * ROUND_SPAN + seconds(7)))
    submit(queue, shared(1))
    decision = queue.wake()
    assert [PicksAdded] == [type(one) for one in facts(decision) if isinstance(one, PicksAdded | RoundBegun)]
    assert queue.now // ROUND_SPAN + 1 == begun(next_round(queue)).number


def test_job_whose_node_is_lost_waits_for_its_turn_again(start: Start) -> None:
    """G25: it keeps its pick and goes on from its checkpoint; who cannot be started five times ends."""
    queue = a_pool_queue(start, pool_nodes(2))
    submit(queue, shared(1))
    starts(queue, queue.wake(), W1)
    queue.fact(US_LOG, AttemptEnded(*attempt(W1), EndCause.NODE_LOST))
    opened = queue.wake()
    assert [W1] == [one.workload for one in said(opened, SolicitBid)]
    for epoch in range(2, 8):
        starts(queue, opened, W1, epoch=epoch)
        queue.fact(US_LOG, AttemptEnded(*attempt(W1, epoch), EndCause.START_FAILED))
        opened = queue.wake()
        row = queue.state.image.workloads.rows[W1]
        if row.phase.is_terminal:
            break
    assert (Phase.FAILED, 6) == (row.phase, row.starts_failed)
    assert W1 not in queue.state.image.sharing.jobs


def test_rounds_alone_decide_where_and_on_how_many_gpus_a_job_runs(start: Start) -> None:
    """No user moves it to another region: a pick would hold it where it is. Nor does it grow: rounds count the GPUs with which it came."""
    queue = a_job_queue(start, eu=pool_nodes(4), us=pool_nodes(4))
    submit(queue, replace(shared(), regions=(US,)))
    starts(queue, queue.wake(), W1)
    no = said_once(queue.hear(MoveWorkload(W1, 1, EU, 0, is_forced=True)), Refused)
    assert Reason.NOT_ALLOWED == no.reason
    (job,) = queue.state.image.workloads.rows[W1].spec.jobs
    no = said_once(queue.hear(ChangeWorkload(W1, 0, (replace(job, tasks=4),))), Refused)
    assert ("jobs[0].tasks: in a shared pool a job has the GPUs of its share; submit it anew",) == no.problems


def test_round_in_which_more_join_than_a_fact_holds(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """They join in further facts, at once; each once, and for as many GPUs as there are."""
    monkeypatch.setattr(rounds, "JOINS_MAX", 2)
    queue = a_pool_queue(start, pool_nodes(5))
    jobs = [submit(queue, shared(number)) for number in range(1, 11)]
    opened = queue.wake()
    first = list(queue.state.image.sharing.picks)
    starts(queue, opened, *first)
    while not begun(decision := next_round(queue)).leaves:
        pass
    told = [event for event in facts(decision) if isinstance(event, RoundBegun | PicksAdded)]
    assert ([RoundBegun, PicksAdded, PicksAdded], [2, 2, 1]) == (
        [type(event) for event in told],
        [len(event.joins) for event in told],
    )
    assert (set(first), set(jobs) - set(first)) == (set(begun(decision).leaves), set(picked(decision)))
    assert set(jobs) - set(first) == queue.state.image.sharing.picks.keys()


def test_facts_of_the_largest_round_have_room_for_it() -> None:
    """As many as may join, rest and resume at once, beside 4,000 that change their column or 10,000 that leave, all of several GPUs."""
    columns = tuple(ShareColumn(RegionName("r" * 30), f"gpu-{number}") for number in range(64))
    jobs = [WorkloadId(f"w-{10**7 + number}") for number in range(20_000)]
    joins, rests = dict.fromkeys(jobs[: rounds.JOINS_MAX], 63), tuple(jobs[: rounds.RESTS_MAX])
    moved = dict.fromkeys(jobs[-4_000:], 63)
    for more, leaves in (({}, tuple(jobs[-10_000:])), (moved, tuple(moved))):
        all_who_join = joins | more
        wide = tuple(all_who_join)
        largest = RoundBegun(
            10**9, columns, all_who_join, leaves, seconds(60), wide, rests=rests, resumes=rests
        )
        assert len(encode(largest)) < FACT_BYTES_MAX
