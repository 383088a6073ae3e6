"""What the queue makes of quotas and budgets: who runs within quota or over it, what may be borrowed, and what a restart makes of it."""

import pytest

from components.job_queue.ordering import there_is
from core.events.queue import StandingChanged, WorkloadAwarded
from core.events.region import AttemptRanked
from core.events.tenants import EntitlementSet, TenantSet
from core.messages.base import Refused
from core.messages.broker import RankAttempt, SolicitBid
from core.messages.queue import (
    CancelWorkload,
    ChangeWorkload,
)
from core.messages.tenants import ListTenants, TenantsListed
from core.nouns.ids import GLOBAL_LOG, TenantName, WorkloadId
from core.nouns.instant import Nanoseconds, after, seconds
from core.nouns.limits import AWARD_SAY_AGAIN
from core.nouns.reasons import Reason
from tests.builders import EU, EU_LOG, US, a_job, attempt, joined, of_types
from tests.components.support.job_queue import W1, W2, W3, W4, Start, a_job_queue
from tests.components.support.quota import (
    ART,
    DAY,
    HOUR,
    ML,
    OVER,
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
    with_quota,
)
from tests.matching import all_of, facts, said, said_once

MOMENT = Nanoseconds(1)


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


def test_freed_quota_lifts_running_work_and_then_waiting_work(start: Start) -> None:
    """M10: at once, as soon as it is known; running work over quota comes before waiting work."""
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


def test_gpus_held_by_a_tenant_float_with_its_need(start: Start) -> None:
    """T2: between nothing and its entitlement, up to which it is within quota in any region; and all of it goes back."""
    queue = with_quota(start, 24)
    running = [runs(queue, node=node) for node in range(3)]
    assert {"H100": 24_000} == queue.state.ledger.held[ML]
    assert {3} == set(levels(queue).values())
    for count, workload in enumerate(running, 1):
        ends(queue, workload)
        assert 24_000 - 8_000 * count == queue.state.ledger.held.get(ML, {}).get("H100", 0)
    assert {} == queue.state.ledger.awards


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


def test_tenant_at_its_borrowing_limit_waits(start: Start) -> None:
    """A tenant borrows up to its limit; beyond it, its workload stays in the order, and no region is asked for it."""
    queue = with_quota(start, borrow_max=8)
    runs(queue)
    runs(queue, node=1)
    waits(queue)
    assert {} == asked(queue.wake())
    told = explained(queue, W3)
    assert ("held", Reason.BORROWED_ALL) == (told.standing, told.reason)
    assert Reason.BORROWED_ALL == listed(queue, W3).reason
    ends(queue, W2)
    assert OVER == queue.state.auctions.open[W3].shape.level


def test_quota_that_is_not_lent_stays_free(start: Start) -> None:
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
    assert OVER == queue.state.auctions.open[W3].shape.level


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
    assert queue.state.ledger.held[ML]["H100"] <= 8_000


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
    assert (8, 0) == (mine.used_gpu_hours, mine.period_left)
    budget(queue, 100)
    queue.wait(Nanoseconds(HOUR // 2))
    _, mine = said_once(queue.hear(ListTenants()), TenantsListed).rows
    assert (4, DAY - HOUR // 2) == (mine.used_gpu_hours, mine.period_left)


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


def test_only_types_with_headroom_in_the_quota_are_asked_for(start: Start) -> None:
    """Eight H100 are held, so for a workload that takes H100 or A100 only A100 is asked for, and the award is held against that."""
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
    assert queue.state.ledger.awards == again.state.ledger.awards
    assert queue.state.ledger.within == again.state.ledger.within
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
