"""Jobs of shared pools that may not run, whatever room there is: on hold, or without budget. They rest, and others take turns."""

import pytest

from core.events.region import AttemptEnded
from core.messages.broker import SolicitBid
from core.messages.queue import (
    HoldWorkload,
    ReleaseWorkload,
)
from core.messages.tenants import SetBudget, SetTenant
from core.nouns.ids import (
    TenantName,
)
from core.nouns.instant import seconds
from core.nouns.reasons import Reason
from core.nouns.sharing import ROUND_SPAN
from core.nouns.tenant import Budget, TenantSettings
from core.nouns.workload import EndCause
from core.sharing.accounts import PATIENCE
from tests.builders import US_LOG, attempt
from tests.components.support.job_queue import W1, W2, W3, Start, submit
from tests.components.support.shared_pool import (
    a_pool_queue,
    begun,
    boundary,
    next_round,
    picked,
    reason,
    shared,
    starts,
    take_turns,
)
from tests.matching import said


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
