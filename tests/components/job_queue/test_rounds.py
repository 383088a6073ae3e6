"""Rounds of shared pools: who is picked, who leaves, who stays, and the border to quota work."""

from typing import Any

import pytest
from msgspec.structs import replace

from components.job_queue import rounds
from core.codec import encode
from core.component import Decision
from core.events.queue import WorkloadSubmitted
from core.events.region import AttemptEnded, ClaimPromised, NodesJoined
from core.events.sharing import PicksAdded, RoundBegun, SharesSet
from core.images import GlobalImage
from core.messages.base import LogHeard, LogSilent, Refused
from core.messages.broker import SolicitBid, WithdrawAward
from core.messages.data import SetDataset
from core.messages.moves import MoveWorkload
from core.messages.queue import (
    Abstention,
    Bid,
    CancelWorkload,
    ChangeWorkload,
    ExplainWorkload,
    HoldWorkload,
    ReleaseWorkload,
    SetPriority,
    ShowWorkload,
    SubmitWorkload,
    WorkloadExplained,
    WorkloadShown,
)
from core.messages.sharing import SetShares
from core.messages.starts import ListStarts, StartsListed, SubmissionTested, TestSubmission
from core.messages.tenants import SetBudget, SetEntitlement, SetTenant
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import (
    GLOBAL_LOG,
    AgentName,
    DatasetName,
    RegionName,
    TenantName,
    WorkerName,
    WorkloadId,
)
from core.nouns.instant import Instant, seconds
from core.nouns.limits import FACT_BYTES_MAX
from core.nouns.placement import View
from core.nouns.pool import SHARED_POOL
from core.nouns.quantities import Amount
from core.nouns.reasons import Reason
from core.nouns.sharing import MICRO_STEPS, ROUND_SPAN, WHOLE, ClassShares, PoolShares, ShareColumn
from core.nouns.tenant import Budget, Entitlement, TenantSettings
from core.nouns.workload import EndCause, Extent, Kind, Phase, Topology, WorkloadSpec
from core.sharing.accounts import PATIENCE
from core.sharing.classes import class_of, speed_key_of
from tests.builders import EU, EU_LOG, US, US_LOG, a_claim, a_job, a_spec, a_spread, amount, attempt
from tests.components.support.job_queue import W1, W2, W3, Start, a_job_queue, submit
from tests.components.support.machine import Machine
from tests.components.support.shared_pool import (
    a_pool_queue,
    begun,
    boundary,
    next_round,
    picked,
    pool_nodes,
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


def test_spent_budget_is_not_picked(start: Start) -> None:
    """GPU-hours in the pool count against a budget; once it is spent the job leaves at the next boundary, and is not picked again."""
    queue = a_pool_queue(start)
    tenant = TenantName("default")
    queue.hear(SetTenant(tenant, TenantSettings(), 0))
    queue.hear(SetBudget(tenant, Budget(1, seconds(7 * 86_400)), 1))
    submit(queue, shared())
    starts(queue, queue.wake(), W1)
    for _ in range(10):
        assert () == begun(next_round(queue)).leaves
    for _ in range(3):
        if begun(next_round(queue)).leaves:
            break
    else:
        pytest.fail("its budget of an hour is spent, and it stays")
    queue.fact(US_LOG, AttemptEnded(*attempt(W1), EndCause.ROUND_OVER))
    assert [] == picked(queue.wake())
    assert {} == begun(next_round(queue)).joins
    assert Reason.BUDGET_SPENT == reason(queue, W1)
    queue.hear(SetBudget(tenant, Budget(100, seconds(7 * 86_400)), 2))
    assert [W1] == picked(queue.wake()), "with more budget it has the idle GPU at once"


def test_job_has_idle_gpus_as_soon_as_the_next_period_of_a_budget_begins(start: Start) -> None:
    """Not at the next boundary alone."""
    queue = a_pool_queue(start)
    tenant = TenantName("default")
    queue.hear(SetTenant(tenant, TenantSettings(), 0))
    queue.hear(SetBudget(tenant, Budget(1, seconds(6 * 3_600 + 100)), 1))
    submit(queue, shared())
    starts(queue, queue.wake(), W1)
    while not begun(next_round(queue)).leaves:
        pass
    queue.fact(US_LOG, AttemptEnded(*attempt(W1), EndCause.ROUND_OVER))
    queue.wake()
    period = queue.state.budgets_due.due()
    assert period is not None
    while boundary(queue) < period:
        next_round(queue)
    assert [W1] == [job for _ in range(2) for job in picked(queue.wake(period))]


def test_held_job_gives_up_its_pick(start: Start) -> None:
    """At the next boundary; and whoever waits has it."""
    queue = a_pool_queue(start)
    submit(queue, shared(1))
    queue.wake()
    submit(queue, shared(2))
    queue.wake()
    queue.hear(HoldWorkload(W1, 0))
    round_ = begun(next_round(queue))
    assert ((W1,), [W2]) == (round_.leaves, list(round_.joins))
    (asked,) = {message.workload for message in said(queue.heard[-1][1], SolicitBid)} or {W2}
    assert W2 == asked


def test_job_on_hold_does_not_keep_others_from_taking_turns(start: Start) -> None:
    """It is owed nothing: two like jobs share the GPU as long as it lasts."""
    queue = a_pool_queue(start)
    submit(queue, shared(1))
    queue.hear(HoldWorkload(W1, 0))
    submit(queue, shared(2))
    starts(queue, queue.wake(), W2)
    submit(queue, shared(3))
    queue.wake()
    ran, _ = take_turns(queue, W2, 120)
    assert W1 not in ran
    assert min(ran[W2], ran[W3]) >= 55


def test_job_rests_while_it_may_not_run(start: Start) -> None:
    """Its lag stands still and planners count without it, until it is released; each change is told once."""
    queue = a_pool_queue(start)
    for number in (1, 2):
        submit(queue, shared(number))
    starts(queue, queue.wake(), W1)
    next_round(queue)
    queue.hear(HoldWorkload(W2, 0))
    sharing = queue.state.image.sharing
    owed, changes = dict(sharing.lags[W2]), sharing.changes
    told = [begun(next_round(queue)) for _ in range(4)]
    assert [(W2,), (), (), ()] == [one.rests for one in told]
    assert (owed, changes + 1) == (sharing.lags[W2], sharing.changes)
    queue.hear(ReleaseWorkload(W2, 1))
    told = [begun(next_round(queue)) for _ in range(2)]
    assert [(W2,), ()] == [one.resumes for one in told]
    assert (True, changes + 2) == (sum(sharing.lags[W2].values()) > sum(owed.values()), sharing.changes)


def test_job_does_not_wait_while_it_rests(start: Start) -> None:
    """It waited for its turn before it was put on hold; released after many rounds, it is not overdue, and has its turn by its lag."""
    queue = a_pool_queue(start)
    for number in (1, 2):
        submit(queue, shared(number))
    starts(queue, queue.wake(), W1)
    sharing = queue.state.image.sharing
    while W2 not in sharing.waits:
        next_round(queue)
    queue.hear(HoldWorkload(W2, 0))
    for _ in range(PATIENCE + 2):
        next_round(queue)
    assert W2 not in sharing.waits
    queue.hear(ReleaseWorkload(W2, 1))
    next_round(queue)
    assert ({}, [W2]) == (sharing.overdue, list(sharing.waits))


def test_job_that_is_released_and_picked_within_a_round_is_owed_again(start: Start) -> None:
    """No round needs to tell that it resumes."""
    queue = a_pool_queue(start)
    submit(queue, shared(1))
    queue.hear(HoldWorkload(W1, 0))
    assert (W1,) == begun(next_round(queue)).rests
    queue.hear(ReleaseWorkload(W1, 1))
    assert [W1] == picked(queue.wake())
    assert not queue.state.image.sharing.jobs[W1].rests
    assert () == begun(next_round(queue)).resumes


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


def test_shares_of_a_job_that_is_released_leave_those_of_others(start: Start) -> None:
    """A class that was on hold when the queue gave out equal parts has its own at the next boundary, and all others keep theirs."""
    queue = a_pool_queue(start)
    submit(queue, shared(1, weight=2_000))
    queue.hear(HoldWorkload(W1, 0))
    submit(queue, shared(2))
    assert [W2] == picked(queue.wake())
    queue.hear(ReleaseWorkload(W1, 1))
    round_ = begun(next_round(queue))
    targets = queue.state.image.sharing.targets_of
    assert (queue.now // ROUND_SPAN, {"us/V100": 500_000}) == (round_.number, targets(W1))
    assert targets(W1) == targets(W2)


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


def test_shares_where_no_node_is_wide_enough_are_not_picked(start: Start) -> None:
    """A planner gave a task of two GPUs all of its time on nodes of one: it runs where it can, on GPUs that are idle."""
    queue = a_job_queue(start, eu=pool_nodes(1, 2, "K80"), us=pool_nodes(2))
    wide = shared(1)
    (job,) = wide.jobs
    submit(queue, replace(wide, jobs=(replace(job, need=amount(2)),)))
    opened = queue.wake()
    sharing = queue.state.image.sharing
    (name,) = sharing.classes
    columns, gpus = (ShareColumn(EU, "K80"), ShareColumn(US, "V100")), (2, 2)
    given = PoolShares(1, columns, gpus, (ClassShares(name, ((1, WHOLE),)),), "highs", sharing.changes)
    (event,) = facts(queue.hear(SetShares(given, "max_min", 0)))
    assert SharesSet(given, policy="max_min") == event
    round_ = begun(next_round(queue))
    assert [W1] == picked(opened)
    assert ({}, ()) == (round_.joins, round_.leaves)
    assert f"{EU}/K80" == queue.state.image.sharing.picks[W1].column


def test_share_where_no_node_is_wide_enough_is_replaced(start: Start) -> None:
    """A task of two GPUs has an equal part where it fits, in place of a share on nodes of one GPU, which nobody could receive."""
    queue = a_job_queue(start, eu=pool_nodes(1, 2, "K80"), us=pool_nodes(2))
    submit(queue, needing(shared(1), 2))
    submit(queue, shared(2))
    queue.wake()
    sharing = queue.state.image.sharing
    columns, gpus = (ShareColumn(EU, "K80"), ShareColumn(US, "V100")), (2, 2)
    classes = tuple(ClassShares(name, ((1, WHOLE // 2),)) for name in sharing.classes)
    queue.hear(SetShares(PoolShares(1, columns, gpus, classes, "highs", sharing.changes), "max_min", 0))
    decision = next_round(queue)
    (event,) = [event for event in facts(decision) if isinstance(event, SharesSet)]
    assert (True, {f"{EU}/K80": WHOLE // 2}) == (event.is_more, sharing.targets_of(W1))
    assert {f"{US}/V100": WHOLE // 2} == sharing.targets_of(W2)
    assert [] == [event for event in facts(next_round(queue)) if isinstance(event, SharesSet)]


def test_job_is_not_picked_for_nodes_that_are_too_narrow(start: Start) -> None:
    """Its region has nodes that hold a task of eight GPUs, and faster ones that do not."""
    worker = WorkerName("w0")
    narrow = NodeGroup(0, 4, Amount(2_000, 96_000, 1 << 40), "V100", 0, 1, pool=SHARED_POOL)
    wide = NodeGroup(4, 1, Amount(8_000, 96_000, 1 << 40), "K80", 4, 1, pool=SHARED_POOL)
    queue = a_job_queue(start, us=NodesJoined(worker, Inventory(worker, (narrow, wide))))
    submit(queue, needing(shared(1, speeds={"V100": 9 * MICRO_STEPS, "K80": MICRO_STEPS}), 8))
    queue.wake()
    assert f"{US}/K80" == queue.state.image.sharing.picks[W1].column


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


def test_packed_jobs_have_speeds_and_shares_of_their_own() -> None:
    """Tasks of one node are faster than those of two, and fit on fewer types."""
    spread = shared(tasks=2)
    (job,) = spread.jobs
    packed = replace(spread, jobs=(replace(job, topology=Topology(pack=Extent.NODE)),))
    assert speed_key_of(spread) != speed_key_of(packed)
    assert class_of(spread) != class_of(packed)


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


def test_wide_jobs_and_narrow_ones_have_their_shares(start: Start) -> None:
    """G21: a job of four tasks among four of one GPU begins within the rounds that its part, and patience, allow."""
    queue = a_pool_queue(start, pool_nodes(4))
    for number in range(1, 5):
        submit(queue, shared(number))
    opened = queue.wake()
    starts(queue, opened, *(f"w-{number}" for number in range(1, 5)))
    wide = submit(queue, shared(5, tasks=4))
    queue.wake()
    assert any(wide in begun(next_round(queue)).joins for _ in range(5 + PATIENCE + 1))


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


def reason(machine: Machine[Any], workload: WorkloadId) -> str:
    """Return why a workload does not run, as it is told to users."""
    decision = machine.hear(ShowWorkload(workload))
    (shown,) = said(decision, WorkloadShown)
    return shown.reason


def test_priority_of_a_shared_job_is_refused(start: Start) -> None:
    """Its weight decides, and the refusal names it."""
    queue = a_pool_queue(start)
    submit(queue, shared())
    for level in (5, None):
        (refused,) = said(queue.hear(SetPriority(W1, 0, level)), Refused)
        assert Reason.INVALID == refused.reason
        assert "share.weight" in refused.problems[0]


def needing(spec: WorkloadSpec, gpus: int) -> WorkloadSpec:
    """The same with tasks of so many GPUs."""
    (job,) = spec.jobs
    return replace(spec, jobs=(replace(job, need=amount(gpus)),))


def test_job_of_whole_nodes_may_push_out_others_once_all_who_leave_have_ended(start: Start) -> None:
    """It is asked for without victims while GPUs of its column are about to be free, and then one level above narrow jobs."""
    queue = a_pool_queue(start, pool_nodes(3, 2))
    for number in (1, 2, 3):
        submit(queue, shared(number, tasks=2))
    starts(queue, queue.wake(), W1, W2, W3)
    submit(queue, needing(shared(4, weight=100_000), 2))
    wide = WorkloadId("w-4")

    def levels_asked(decision: Decision) -> list[int]:
        return [one.priority for one in said(decision, SolicitBid) if one.workload == wide]

    while not begun(decision := next_round(queue)).joins:
        pass
    round_ = begun(decision)
    assert ((wide,), (wide,)) == (tuple(round_.joins), round_.wide)
    assert [0] == levels_asked(decision)
    assert dict.fromkeys(round_.leaves, f"{US}/V100") == queue.state.image.sharing.leaving != {}
    (auction,) = [one.auction for one in said(decision, SolicitBid) if one.workload == wide]
    queue.hear(Abstention(US, AgentName("a0"), wide, auction, Reason.NO_CAPACITY, 1))
    assert [] == levels_asked(queue.wait(seconds(5)))
    for workload in round_.leaves:
        queue.fact(US_LOG, AttemptEnded(*attempt(workload), EndCause.ROUND_OVER))
    assert {1} == set(levels_asked(queue.wait(seconds(30))))
    narrow = begun(next_round(queue))
    assert () == narrow.wide


def test_job_of_half_a_node_may_push_out_narrower_ones(start: Start) -> None:
    """Jobs of one GPU may lie on every node, so that four GPUs are idle and on no node together: it stands two levels above them."""
    queue = a_pool_queue(start, pool_nodes(2, 8))
    for number, gpus in enumerate((1, 2, 3, 4, 6), start=1):
        submit(queue, needing(shared(number), gpus))
    decision = queue.wake()
    levels = {one.workload: one.priority for one in said(decision, SolicitBid)}
    assert [0, 1, 1, 2, 2] == [levels[WorkloadId(f"w-{number}")] for number in range(1, 6)]


def test_job_of_whole_nodes_that_waited_for_room_is_not_pushed_out_by_another(start: Start) -> None:
    """It was asked for at the level of narrow jobs, and stands one above them from its award on."""
    queue = a_pool_queue(start, pool_nodes(3, 2))
    for number in (1, 2, 3):
        submit(queue, shared(number, tasks=2))
    starts(queue, queue.wake(), W1, W2, W3)
    submit(queue, needing(shared(4, weight=100_000), 2))
    while not begun(decision := next_round(queue)).joins:
        pass
    wide = WorkloadId("w-4")
    (asked,) = {one.priority for one in said(decision, SolicitBid) if one.workload == wide}
    for workload in begun(decision).leaves:
        queue.fact(US_LOG, AttemptEnded(*attempt(workload), EndCause.ROUND_OVER))
    (award,) = starts(queue, decision, wide)
    assert (0, 1) == (asked, award.level)


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
