"""What the queue makes of quotas, budgets and priorities: who is asked for at which level, and who runs within quota or over it."""

from typing import Any

import pytest

from components.queue_order import there_is
from core.events.queue import PrioritySet, StandingChanged, WorkloadAwarded
from core.events.region import AttemptRanked
from core.events.tenants import EntitlementSet, RankingSet, TenantSet
from core.images.usage import gpu_hours
from core.messages.base import Refused
from core.messages.broker import ExecuteAward, RankAttempt, SolicitBid
from core.messages.queue import (
    Acknowledged,
    CancelWorkload,
    ChangeWorkload,
    HoldWorkload,
    ReleaseWorkload,
    SetPriority,
    SubmitWorkload,
)
from core.messages.tenants import ListTenants, RankingAnswered, SetRanking, TenantsListed
from core.nouns.ids import GLOBAL_LOG, TenantName, WorkloadId
from core.nouns.instant import Nanoseconds, after, seconds
from core.nouns.limits import AWARD_SAY_AGAIN, FORGET_INTERVAL, RETENTION
from core.nouns.ranking import RankingSettings
from core.nouns.reasons import Reason
from core.nouns.tenant import OVER_LEVEL
from core.nouns.workload import Kind
from tests.builders import EU, EU_LOG, US, a_job, a_spec, attempt, joined, of_types
from tests.components.queueing import W1, W2, Start, a_job_queue
from tests.components.quota_scene import (
    ART,
    DAY,
    HOUR,
    ML,
    OVER,
    Queue,
    asked,
    award,
    bids,
    budget,
    changed,
    ends,
    explained,
    levels,
    listed,
    runs,
    tenant,
    up,
    waits,
)
from tests.matching import all_of, facts, said, said_once

W3, W4 = WorkloadId("w-3"), WorkloadId("w-4")
MOMENT = Nanoseconds(1)


def with_quota(start: Start, gpus: int = 8, **options: Any) -> Queue:  # Any: as `tenant` takes them
    """64 H100 in two regions, so many of them ML's and 16 ART's."""
    queue = a_job_queue(start)
    tenant(queue, ML, gpus, **options)
    tenant(queue, ART, 16)
    return queue


# Order.


def test_within_quota_is_asked_for_before_over_quota(start: Start) -> None:
    """M19, M8: whoever came first; over quota at a level below every tenant's, and a smaller one behind is still within."""
    queue = with_quota(start, 12)
    assert [W1, W2, W3, W4] == [waits(queue), waits(queue), waits(queue, of=ART), waits(queue, 4)]
    assert [(W1, 3), (W3, 3), (W4, 3), (W2, OVER)] == list(asked(queue.wake()).items())


def test_over_quota_has_the_room_that_is_left(start: Start) -> None:
    """M19: two want the last node, and it is ML's; ART, which came first and is over quota, is asked for only at the lowest level."""
    queue = with_quota(start, 32)
    tenant(queue, ART, 0)
    assert [W1, W2] == [waits(queue, of=ART), waits(queue)]
    assert [(W2, 3), (W1, OVER)] == list(asked(queue.wake()).items())
    (event,) = award(queue, W1)
    assert isinstance(event, WorkloadAwarded)
    assert (OVER, {"H100": 8_000}) == (event.level, event.charge)
    assert OVER == said_once(queue.wait(AWARD_SAY_AGAIN), ExecuteAward).priority
    assert (3, True) == (listed(queue, W1).priority, listed(queue, W1).is_over)


def test_nothing_is_over_quota_before_somebody_is_entitled(start: Start) -> None:
    """Of a type: a tenant alone makes none, and neither does quota of another type."""
    queue = a_job_queue(start, us=joined(gpu_type="A100"))
    tenant(queue, ML, 8, gpu_type="A100")
    waits(queue)
    assert {W1: 3} == asked(queue.wake())
    tenant(queue, ML, 0)
    waits(queue)
    assert {W2: OVER} == asked(queue.wake())
    assert "over" == explained(queue, W1).standing == explained(queue, W2).standing
    assert OVER_LEVEL == explained(queue, W2).level


def test_interactive_work_is_never_over_quota(start: Start) -> None:
    """It would never be pushed out, so it is lent nothing: it waits until there is quota for it."""
    queue = with_quota(start)
    running = runs(queue)
    desk = waits(queue, kind=Kind.INTERACTIVE)
    assert {} == asked(queue.wake())
    told = explained(queue, desk)
    assert ("held", Reason.BORROWED_ALL, OVER) == (told.standing, told.reason, told.level)
    ends(queue, running)
    assert desk in queue.state.house.open
    assert 3 == queue.state.house.open[desk].level


# What a tenant may hold.


def test_shrunk_quota_makes_the_newest_over_quota(start: Start) -> None:
    """Nothing is stopped; the region is told until its log shows it, and from then on others may push it out."""
    queue = with_quota(start, 16)
    runs(queue, node=0)
    runs(queue, node=1)
    decision = all_of((tenant(queue, ML, 8), queue.wake()))
    stands_anew, shrunk = (event for event in facts(decision) if not isinstance(event, TenantSet))
    assert isinstance(shrunk, EntitlementSet)
    assert StandingChanged(W2, 1, 1, ML, OVER, {"H100": 8_000}) == stands_anew
    word = RankAttempt(EU, W2, 1, 1, OVER)
    assert [word] == said(decision, RankAttempt)
    assert [word] == said(queue.wait(AWARD_SAY_AGAIN), RankAttempt)
    queue.fact(EU_LOG, AttemptRanked(*attempt("w-2"), 1, OVER))
    assert [] == said(queue.wait(Nanoseconds(3 * AWARD_SAY_AGAIN)), RankAttempt)
    assert {W1: 3, W2: OVER} == levels(queue)


def test_freed_quota_lifts_what_runs_and_then_what_waits(start: Start) -> None:
    """M10: at once, as soon as it is known; what runs over quota comes before what waits."""
    queue = with_quota(start)
    runs(queue)
    runs(queue, node=1)
    assert {W1: 3, W2: OVER} == levels(queue)
    waits(queue)
    assert "over" == explained(queue, W3).standing
    assert {W2: 3} == changed(ends(queue, W1))
    assert "over" == explained(queue, W3).standing
    ends(queue, W2)
    assert ("within", 3) == (explained(queue, W3).standing, explained(queue, W3).level)


def test_what_a_tenant_holds_floats_with_its_need(start: Start) -> None:
    """T2: between nothing and its entitlement, up to which it is within quota wherever that is; and all of it goes back."""
    queue = with_quota(start, 24)
    running = [runs(queue, node=node) for node in range(3)]
    assert {"H100": 24_000} == queue.state.book.held[ML]
    assert {3} == set(levels(queue).values())
    for count, workload in enumerate(running, 1):
        ends(queue, workload)
        assert 24_000 - 8_000 * count == queue.state.book.held[ML].get("H100", 0)
    assert {} == queue.state.book.awards


def test_entitlement_spans_regions(start: Start) -> None:
    """T3: its 16 GPUs are wherever its work is; the third, in whatever region, is over quota."""
    queue = with_quota(start, 16)
    runs(queue, region=EU)
    runs(queue, region=US)
    runs(queue, region=US, node=1)
    assert {W1: 3, W2: 3, W3: OVER} == levels(queue)
    assert {W3: 3} == changed(ends(queue, W1))


@pytest.mark.parametrize("is_first_last", [False, True])
def test_two_awards_of_one_tenant_never_exceed_its_quota(start: Start, is_first_last: bool) -> None:
    """Both auctions were open when the quota shrank; whoever is settled first has it, and the other is asked for anew."""
    queue = with_quota(start, 16)
    assert [W1, W2] == [waits(queue), waits(queue)]
    assert {W1: 3, W2: 3} == asked(queue.wake())
    tenant(queue, ML, 8)
    first, second = (W2, W1) if is_first_last else (W1, W2)
    bids(queue, first)
    bids(queue, second, node=1)
    decision = queue.wake()
    found = [event for event in facts(decision) if isinstance(event, WorkloadAwarded)]
    assert [3] == [event.level for event in found]
    (loser,) = {W1, W2} - {event.workload for event in found}
    assert OVER == asked(decision)[loser]


def test_own_lower_level_takes_nothing_from_a_higher(start: Start) -> None:
    """Its important work has the quota, and in the batch of that award the unimportant is over it."""
    queue = with_quota(start)
    runs(queue, priority=1)
    assert {W1: 1} == levels(queue)
    waits(queue, priority=3)
    assert [StandingChanged(W1, 1, 1, ML, OVER, {"H100": 8_000})] == award(queue, W2, node=1)[:1]
    assert {W1: OVER, W2: 3} == levels(queue)


# Borrowing.


def test_who_may_borrow_no_more_waits(start: Start) -> None:
    """Up to its limit it borrows; beyond, it stands in the order, and nobody is asked for it."""
    queue = with_quota(start, borrow_max=8)
    runs(queue)
    runs(queue, node=1)
    waits(queue)
    assert {} == asked(queue.wake())
    told = explained(queue, W3)
    assert ("held", Reason.BORROWED_ALL) == (told.standing, told.reason)
    assert Reason.BORROWED_ALL == listed(queue, W3).reason
    ends(queue, W2)
    assert OVER == queue.state.house.open[W3].level


def test_what_is_not_lent_stays_free(start: Start) -> None:
    """Of 64 GPUs 48 are ART's, which lends none of them: ML, entitled to 8, may hold 16."""
    queue = with_quota(start)
    tenant(queue, ART, 48, is_lent=False)
    runs(queue)
    runs(queue, node=1)
    waits(queue)
    assert {} == asked(queue.wake())
    told = explained(queue, W3)
    assert ("over", Reason.OVER_QUOTA) == (told.standing, told.reason)
    runs(queue, of=ART, node=2)
    assert {W1: 3, W2: OVER, W4: 3} == levels(queue)
    tenant(queue, ART, 40, is_lent=False)
    queue.wake()
    assert OVER == queue.state.house.open[W3].level


def test_two_that_borrow_the_same(start: Start) -> None:
    """One may be lent to; both were asked for, and only one is awarded."""
    queue = with_quota(start, 0)
    tenant(queue, ART, 56, is_lent=False)
    waits(queue, 4)
    waits(queue, 8)
    assert {W1: OVER, W2: OVER} == asked(queue.wake())
    bids(queue, W1)
    bids(queue, W2, node=1)
    queue.wake()
    assert 1 == len(levels(queue))
    assert queue.state.book.held[ML]["H100"] <= 8_000


def test_two_tenants_that_borrow_the_same(start: Start) -> None:
    """Lending is between tenants too: of 8 that may be lent one of two tenants has them, though both bid in the same moment."""
    queue = with_quota(start, 0)
    tenant(queue, ART, 56, is_lent=False)
    other = TenantName("bio")
    tenant(queue, other, 0)
    waits(queue, 8)
    waits(queue, 8, of=other)
    assert {W1: OVER, W2: OVER} == asked(queue.wake())
    bids(queue, W1)
    bids(queue, W2, node=1)
    queue.wake()
    assert 1 == len(levels(queue))


def test_resize_is_held_to_quota_and_borrowing(start: Start) -> None:
    """Within quota it may grow, beyond as far as its tenant may borrow; interactive work not at all; smaller it may be always."""
    queue = a_job_queue(start)
    tenant(queue, ML, 16, borrow_max=8)
    runs(queue)

    def wanted(tasks: int, revision: int) -> tuple[str, tuple[str, ...]] | None:
        said = queue.hear(ChangeWorkload(W1, revision, (a_job(tasks, 8),))).messages[0]
        return (said.reason, said.problems) if isinstance(said, Refused) else None

    assert wanted(2, 0) is None
    too_many = wanted(4, 1)
    assert too_many is not None
    assert (Reason.BORROWED_ALL, "24 H100 more") == (too_many[0], too_many[1][0][6:18])


# Budgets.


def test_budget_is_spent_at_the_instant(start: Start) -> None:
    """Eight GPUs use eight GPU-hours in one hour: what waits is held, what runs is over quota until the next period."""
    queue = with_quota(start, 24)
    budget(queue, 8)
    runs(queue)
    queue.wait(Nanoseconds(HOUR - MOMENT))
    assert {W1: 3} == levels(queue)
    assert changed(facts(queue.wait(MOMENT))) == {W1: OVER}
    queue.fact(EU_LOG, AttemptRanked(*attempt(), 1, OVER))
    waits(queue)
    assert {} == asked(queue.wake())
    told = explained(queue, W2)
    assert ("held", Reason.BUDGET_SPENT) == (told.standing, told.reason)
    decision = queue.wait(Nanoseconds(23 * HOUR - MOMENT))
    assert {} == changed(facts(decision))
    decision = queue.wait(MOMENT)
    assert {W1: 3} == changed(facts(decision))
    assert {W2: 3} == asked(decision)


def test_hours_are_told_with_and_without_a_budget(start: Start) -> None:
    """Of a tenant without one, since it first had work; of one with a budget, since its period began."""
    queue = with_quota(start, 24)
    runs(queue)
    queue.wait(HOUR)
    _, mine = said_once(queue.hear(ListTenants()), TenantsListed).rows
    assert (8, 0) == (gpu_hours(mine.used_gpu_milli), mine.period_left)
    budget(queue, 100)
    queue.wait(Nanoseconds(HOUR // 2))
    _, mine = said_once(queue.hear(ListTenants()), TenantsListed).rows
    assert (4, DAY - HOUR // 2) == (gpu_hours(mine.used_gpu_milli), mine.period_left)


def test_larger_budget_counts_at_once(start: Start) -> None:
    """In the same period, in which what was used stays used."""
    queue = with_quota(start, 24)
    budget(queue, 8)
    runs(queue)
    queue.wait(HOUR)
    waits(queue)
    assert Reason.BUDGET_SPENT == explained(queue, W2).reason
    budget(queue, 16)
    decision = queue.wake()
    assert {W1: 3} == changed(facts(decision))
    assert {W2: 3} == asked(decision)
    queue.hear(CancelWorkload(W2))
    assert {W1: OVER} == changed(facts(queue.wait(HOUR)))


def test_spent_budget_holds_nothing_that_takes_no_gpu(start: Start) -> None:
    """It would use none of it."""
    queue = with_quota(start, 24)
    budget(queue, 1)
    runs(queue)
    queue.wait(HOUR)
    assert [W2, W3] == [waits(queue), waits(queue, job=a_job(1, 0, cpus=1))]
    assert {W3: 3} == asked(queue.wake())
    assert ("held", "within") == (explained(queue, W2).standing, explained(queue, W3).standing)


def test_budget_that_is_spent_while_an_auction_is_open(start: Start) -> None:
    """Nothing is awarded for what the budget no longer bears, though it was bid for in time."""
    queue = with_quota(start, 24)
    budget(queue, 8)
    runs(queue)
    queue.wait(Nanoseconds(HOUR - MOMENT))
    waits(queue)
    assert {W2: 3} == asked(queue.wake())
    bids(queue, W2, node=1)
    queue.now = after(queue.now, MOMENT)
    recorded = facts(queue.wake())
    assert {W1: OVER} == changed(recorded) == levels(queue)
    assert Reason.BUDGET_SPENT == explained(queue, W2).reason


def test_awards_that_do_not_run_use_nothing(start: Start) -> None:
    """GPU-hours are counted from when all tasks are up."""
    queue = with_quota(start, 24)
    budget(queue, 1)
    waits(queue)
    award(queue, W1)
    queue.wait(seconds(30))
    assert 0 == queue.state.image.usage.rows[ML].used_at(queue.now)
    up(queue, W1, 3)
    queue.wait(seconds(450))
    assert {W1: OVER} == levels(queue)


# Types.


def test_only_types_with_room_in_the_quota_are_asked_for(start: Start) -> None:
    """Eight H100 are held, so of what takes H100 or A100 only A100 is asked for, and the award is held against that."""
    queue = a_job_queue(start, us=joined(gpu_type="A100"))
    tenant(queue, ML, 8)
    tenant(queue, ML, 8, gpu_type="A100")
    runs(queue)
    waits(queue, job=of_types(a_job(1, 8), "H100", "A100"))
    decision = queue.wake()
    assert {("A100",)} == {message.jobs[0].node_types for message in said(decision, SolicitBid)}
    assert ("A100",) == explained(queue, W2).is_held_to
    (event,) = award(queue, W2, US)
    assert isinstance(event, WorkloadAwarded)
    assert ({"A100": 8_000}, 3) == (event.charge, event.level)
    waits(queue, job=of_types(a_job(1, 8), "H100", "A100"))
    assert OVER == asked(queue.wake())[W3]


# Priorities.


def refusal(queue: Queue, message: Any) -> tuple[str, tuple[str, ...]]:  # Any: whatever users say
    """Why not."""
    decision = queue.hear(message)
    assert [] == facts(decision)
    answer = said_once(decision, Refused)
    return answer.reason, answer.problems


def test_priority_of_what_waits(start: Start) -> None:
    """It is ranked anew at once; a repeat finds it, and who saw an older one is refused."""
    queue = with_quota(start, 64, level=5)
    waits(queue, priority=3)
    waits(queue, priority=3)
    assert (0, 1) == (explained(queue, W1).rank, explained(queue, W2).rank)
    decision = queue.hear(SetPriority(W2, 0, 5))
    assert [PrioritySet(W2, 1, 5)] == facts(decision)
    assert Acknowledged(W2, 1) == said_once(decision, Acknowledged)
    assert (1, 0) == (explained(queue, W1).rank, explained(queue, W2).rank)
    assert [(W2, 5), (W1, 3)] == list(asked(queue.wake()).items())
    for revision in (0, 1):
        assert Acknowledged(W2, 1) == said_once(queue.hear(SetPriority(W2, revision, 5)), Acknowledged)
    assert Reason.SUPERSEDED == refusal(queue, SetPriority(W2, 0, 4))[0]
    queue.hear(SetPriority(W2, 1, None))
    assert (5, 2) == (listed(queue, W2).priority, queue.state.image.workloads.rows[W2].priority_revision)


def test_priority_of_what_runs(start: Start) -> None:
    """It stands anew, and its region is told: from then on what is of a higher level may push it out."""
    queue = with_quota(start, level=5)
    runs(queue)
    assert {W1: 5} == levels(queue)
    queue.hear(SetPriority(W1, 0, 2))
    decision = queue.wake()
    assert [StandingChanged(W1, 1, 1, ML, 2, {"H100": 8_000})] == facts(decision)
    assert [RankAttempt(EU, W1, 1, 1, 2)] == said(decision, RankAttempt)


def test_priority_that_is_set_while_its_auction_is_open(start: Start) -> None:
    """What was awarded at the earlier level stands at the newer one before anything else of its tenant is awarded."""
    queue = with_quota(start, level=5)
    waits(queue, priority=0)
    waits(queue, priority=1)
    assert {W1: OVER, W2: 1} == asked(queue.wake())
    queue.hear(SetPriority(W2, 0, 5))
    bids(queue, W2)
    recorded = facts(queue.wake())
    assert [WorkloadAwarded, StandingChanged] == [type(event) for event in recorded]
    assert {W2: 5} == levels(queue)
    waits(queue, priority=5)
    assert "over" == explained(queue, W3).standing


def test_priority_above_the_tenants_level(start: Start) -> None:
    """It is refused, also at submission, with the level that there is; a lowered level bounds what waits already."""
    queue = with_quota(start, level=4)
    above = ("priority: 5 is above 4, the level of ml; name 4 at most, or none",)
    assert (Reason.ABOVE_LEVEL, above) == refusal(queue, SubmitWorkload(a_spec(tenant=ML, priority=5), "ada"))
    waits(queue, priority=4)
    assert (Reason.ABOVE_LEVEL, above) == refusal(queue, SetPriority(W1, 0, 5))
    no_level = ("priority: 7 is not between 0 and 6",)
    assert (Reason.INVALID, no_level) == refusal(queue, SetPriority(W1, 0, 7))
    assert Reason.UNKNOWN_WORKLOAD == refusal(queue, SetPriority(W4, 0, 1))[0]
    tenant(queue, ML, level=2)
    assert 2 == explained(queue, W1).level == listed(queue, W1).priority
    queue.hear(CancelWorkload(W1))
    assert Reason.ALREADY_ENDED == refusal(queue, SetPriority(W1, 0, 1))[0]


def test_unknown_tenant(start: Start) -> None:
    """Refused once there is any, with those that there are, what is spelled like it first; before, all are served."""
    queue = a_job_queue(start)
    waits(queue, of=ART)
    for name in (ML, ART):
        tenant(queue, name)
    unknown = Reason.UNKNOWN_TENANT
    slip = ("tenant: there is no mll; name one of ml, art",)
    assert (unknown, slip) == refusal(queue, SubmitWorkload(a_spec(tenant=ML + "l"), "ada"))
    unnamed = ("tenant: there is no default, which is whose work is that names none; name one of art, ml",)
    assert (unknown, unnamed) == refusal(queue, SubmitWorkload(a_spec(), "ada"))


# Ranking.


def rank_by(queue: Queue, settings: RankingSettings) -> None:
    """From now on."""
    revision = queue.state.image.tenants.ranking_revision
    decision = queue.hear(SetRanking(settings, revision))
    assert [RankingSet(revision + 1, settings)] == facts(decision)
    assert RankingAnswered(settings, revision + 1) == said_once(decision, RankingAnswered)


def test_what_is_borrowed_fills_the_quota_as_in_the_paper(start: Start) -> None:
    """ML holds 8 of its 12, and 8 beyond: 4 more are within by our rule, and over by the paper's."""
    queue = with_quota(start, 12)
    runs(queue)
    runs(queue, node=1)
    waits(queue, 4)
    assert {W1: 3, W2: OVER} == levels(queue)
    assert "within" == explained(queue, W3).standing
    rank_by(queue, RankingSettings(counts_borrowed=True))
    assert "over" == explained(queue, W3).standing
    assert {W1: 3, W2: OVER} == levels(queue)
    rank_by(queue, RankingSettings())
    assert "within" == explained(queue, W3).standing


def test_walk_by_credit_as_in_the_paper(start: Start) -> None:
    """Of a tenant's work the higher level takes its quota first; by the paper's rule whoever has more credit."""
    queue = with_quota(start)
    waits(queue, priority=1)
    waits(queue, priority=3)
    assert ("over", "within") == (explained(queue, W1).standing, explained(queue, W2).standing)
    rank_by(queue, RankingSettings(walks_by_level=False))
    assert ("within", "over") == (explained(queue, W1).standing, explained(queue, W2).standing)


def test_share_of_the_mean_as_in_the_paper(start: Start) -> None:
    """M9: ML used everything, and is entitled to seven eighths of it; by the paper's rule its share is a half."""
    queue = a_job_queue(start)
    tenant(queue, ML, 56)
    tenant(queue, ART, 8)
    runs(queue)
    queue.wait(HOUR)
    waits(queue)
    weight = RankingSettings().credit.share_weight
    before = explained(queue, W2)
    assert -(weight // 7) - 1 <= before.credit <= -(weight // 7) + 1
    rank_by(queue, RankingSettings(shares_by_entitlement=False, pass_span=seconds(300)))
    assert -weight == explained(queue, W2).credit
    assert before.pass_number > explained(queue, W2).pass_number


def test_use_of_another_changes_the_order_at_the_next_pass(start: Start) -> None:
    """M9: ART came later, and is ahead once ML's use was counted; passes are numbered."""
    queue = with_quota(start, 64)
    tenant(queue, ART, 64)
    runs(queue)
    waits(queue)
    waits(queue, of=ART)
    pass_number = explained(queue, W2).pass_number
    assert (0, 1) == (explained(queue, W2).rank, explained(queue, W3).rank)
    queue.wait(seconds(10))
    assert pass_number + 1 == explained(queue, W2).pass_number
    assert (1, 0) == (explained(queue, W2).rank, explained(queue, W3).rank)


# Restarts.


def test_restart_finds_order_and_standings_as_they_were(start: Start) -> None:
    """All of it is worked out from the log; nothing stands otherwise for a restart."""
    queue = with_quota(start, borrow_max=8)
    budget(queue, 100)
    runs(queue)
    runs(queue, node=1)
    runs(queue, of=ART, region=US)
    for _ in range(2):
        waits(queue)
        waits(queue, of=ART, priority=1)
    queue.wake()
    again = queue.restart()
    again.wake()
    assert queue.state.book.awards == again.state.book.awards
    assert queue.state.book.within == again.state.book.within
    assert {W1: 3, W2: OVER, W3: 3} == levels(queue) == levels(again)
    pending = [WorkloadId(f"w-{number}") for number in range(4, 8)]
    for workload in pending:
        ours, theirs = explained(queue, workload), explained(again, workload)
        assert (ours.rank, ours.standing, ours.level) == (theirs.rank, theirs.standing, theirs.level)
    told = [type(fact.event).__name__ for fact in again.logs[GLOBAL_LOG][queue.sequence(GLOBAL_LOG) :]]
    assert [] == [name for name in told if name == "StandingChanged"]
    assert there_is(queue.state) == {"H100": 64_000} == there_is(again.state)


def test_restart_with_a_budget_that_turned_meanwhile(start: Start) -> None:
    """It was spent while the queue was down: what runs is over quota as soon as it is up."""
    queue = with_quota(start, 24)
    budget(queue, 8)
    runs(queue)
    again = queue.restart(at=after(queue.now, Nanoseconds(2 * HOUR)))
    assert {W1: OVER} == changed(facts(again.wake()))


def test_tenant_without_work_counts_in_no_share(start: Start) -> None:
    """Nor after a restart: whoever only has work that is held does, until it was forgotten, if nobody made it and it used nothing."""
    queue = a_job_queue(start)
    held = waits(queue, of=ART)
    queue.hear(HoldWorkload(held, 0))
    runs(queue)
    queue.wait(HOUR)
    waits(queue)
    weight = RankingSettings().credit.share_weight
    assert -weight == explained(queue, W3).credit == explained(queue.restart(), W3).credit
    queue.hear(CancelWorkload(held))
    assert queue.state.order.knows(ART)
    queue.hear(HoldWorkload(W3, 0))
    queue.wait(Nanoseconds(RETENTION + FORGET_INTERVAL))
    assert held not in queue.state.image.workloads.rows
    queue.hear(ReleaseWorkload(W3, 1))
    assert not queue.state.order.knows(ART)
    assert explained(queue, W3).credit == explained(queue.restart(), W3).credit


def test_whoever_came_after_the_newest_pass_is_not_over_quota(start: Start) -> None:
    """By the paper's passes it stands nowhere yet, and that is what is told."""
    queue = with_quota(start, 0)
    rank_by(queue, RankingSettings(is_in_passes=True, pass_span=seconds(300)))
    waits(queue)
    told = explained(queue, W1)
    assert ("held", Reason.NOT_RANKED) == (told.standing, told.reason)
    assert not listed(queue, W1).is_over
    queue.wait(seconds(300))
    assert "over" == explained(queue, W1).standing
    assert listed(queue, W1).is_over
