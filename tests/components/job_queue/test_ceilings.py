"""How many workloads may be pending, how many ended ones are remembered, and the counts by which the queue knows."""

from typing import Any

import pytest
from msgspec.structs import replace

from core.component import Decision
from core.events.queue import AttemptClosed, WorkloadsForgotten
from core.events.region import AttemptsForgotten
from core.messages.base import Refused
from core.messages.queue import (
    CancelWorkload,
    HoldWorkload,
    RequeueWorkload,
    Submitted,
    SubmitWorkload,
)
from core.messages.starts import TestSubmission
from core.messages.tenants import ListTenants, SetRanking, SetTenant, TenantsListed
from core.nouns.ids import GLOBAL_LOG, TenantName, WorkloadId
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import (
    BLOCKED_INTERVAL,
    CEILING_MAX,
    FORGET_AGAIN,
    FORGET_INTERVAL,
    PENDING_MAX,
    RETENTION,
    TENANT_PENDING_MAX,
)
from core.nouns.ranking import RankingSettings
from core.nouns.reasons import Reason
from core.nouns.tenant import TenantSettings
from core.nouns.workload import EndCause, Phase
from tests.builders import EU, EU_LOG, US, US_LOG, a_spec, attempt
from tests.components.support.job_queue import (
    W1,
    W2,
    W3,
    W4,
    Start,
    a_job_queue,
    awarded,
    check_counts,
    declined,
    ended,
    happens,
    running,
    submit,
)
from tests.components.support.quota import ART, ML, Queue, tenant
from tests.matching import facts, said_once


def ceilings(queue: Queue, **named: int) -> Decision:
    """An operator sets ceilings of the queue."""
    tenants = queue.state.image.tenants
    return queue.hear(SetRanking(replace(tenants.ranking, **named), tenants.ranking_revision))


def refused(queue: Queue, of: TenantName = ML) -> tuple[str, ...]:
    """One more workload of a tenant is refused, and nothing is recorded. Returns the problems."""
    decision = queue.hear(SubmitWorkload(a_spec(tenant=of), "ada"))
    refusal = said_once(decision, Refused)
    assert Reason.TOO_MANY == refusal.reason
    assert [] == facts(decision)
    return refusal.problems


def listed(queue: Queue) -> TenantsListed:
    """As `mizzen tenants` asks for it."""
    return said_once(queue.hear(ListTenants()), TenantsListed)


# Pending workloads.


def test_defaults_allow_what_the_plane_is_designed_for() -> None:
    """100,000 pending workloads, also of one tenant, which leaves as much to others."""
    assert RankingSettings().pending_max == PENDING_MAX >= 2 * TENANT_PENDING_MAX
    assert TenantSettings().pending_max == TENANT_PENDING_MAX >= 100_000


def test_tenant_with_as_many_pending_workloads_as_it_may_have(start: Start) -> None:
    """Its next one is refused with both numbers, held ones count, and other tenants submit on."""
    queue = a_job_queue(start)
    tenant(queue, ML)
    tenant(queue, ART)
    queue.hear(SetTenant(ML, TenantSettings(3, pending_max=2), 1))
    held = submit(queue, a_spec(tenant=ML))
    queue.hear(HoldWorkload(held, 0))
    submit(queue, a_spec(tenant=ML))
    assert ("tenant: ml has 2 pending workloads, and may have 2",) == refused(queue)
    assert Reason.TOO_MANY == said_once(queue.hear(TestSubmission(a_spec(tenant=ML), "ada")), Refused).reason
    assert W3 == submit(queue, a_spec(tenant=ART))
    queue.hear(CancelWorkload(held))
    assert W4 == submit(queue, a_spec(tenant=ML))


def test_plane_with_as_many_pending_workloads_as_it_may_have(start: Start) -> None:
    """Nobody's next one is accepted, until one of them is placed."""
    queue = a_job_queue(start)
    ceilings(queue, pending_max=1)
    submit(queue)
    assert ("1 workloads of all tenants are pending, and 1 may be",) == refused(queue)
    assert refused(queue.restart())
    awarded(queue)
    assert W2 == submit(queue)


def test_key_that_is_known_is_answered_at_the_ceiling(start: Start) -> None:
    """Whoever repeats a submission must hear its id."""
    queue = a_job_queue(start)
    submit(queue, key="k")
    ceilings(queue, pending_max=0)
    assert refused(queue)
    assert W1 == said_once(queue.hear(SubmitWorkload(a_spec(), "ada", "k")), Submitted).workload


@pytest.mark.parametrize("cause", [EndCause.PREEMPTED, EndCause.REQUEUED, EndCause.NODE_LOST])
def test_accepted_workload_is_pending_again_over_the_ceiling(start: Start, cause: EndCause) -> None:
    """A ceiling holds for submissions alone: whatever was accepted is pending again, and regions are asked for it again."""
    queue = a_job_queue(start)
    submit(queue)
    awarded(queue)
    running(queue)
    ceilings(queue, pending_max=0)
    if cause == EndCause.REQUEUED:
        queue.hear(RequeueWorkload(W1, 1))
    (closed,) = [event for event in happens(queue, ended(cause)) if isinstance(event, AttemptClosed)]
    assert Phase.PENDING == closed.phase
    assert refused(queue)
    assert W1 in queue.state.auctions.open


def test_submission_that_can_never_run_is_told_so_first(start: Start) -> None:
    """To wait until others have started would be in vain."""
    queue = a_job_queue(start)
    ceilings(queue, pending_max=0)
    decision = queue.hear(SubmitWorkload(a_spec(regions=("mars",)), "ada"))  # type: ignore[arg-type]
    assert Reason.UNKNOWN_REGION == said_once(decision, Refused).reason


@pytest.mark.parametrize("name", ["pending_max", "remembered_max"])
@pytest.mark.parametrize("value", [-1, CEILING_MAX + 1])
def test_ceiling_that_cannot_be(start: Start, name: str, value: int) -> None:
    """Every problem is told with its field."""
    queue = a_job_queue(start)
    refusal = said_once(ceilings(queue, **{name: value}), Refused)
    assert (Reason.INVALID, (f"{name}: {value} is not between 0 and {CEILING_MAX}",)) == (
        refusal.reason,
        refusal.problems,
    )
    wrong = SetTenant(ML, TenantSettings(pending_max=value), 0)
    assert Reason.INVALID == said_once(queue.hear(wrong), Refused).reason


def test_counts_and_ceilings_are_listed(start: Start) -> None:
    """Of each tenant, also of one that only waits, and of all together."""
    queue = a_job_queue(start)
    ceilings(queue, pending_max=7, remembered_max=9)
    for of in (ML, ML, ART):
        submit(queue, a_spec(tenant=of))
    queue.hear(CancelWorkload(W1))
    found = listed(queue)
    assert [(ART, 1, TENANT_PENDING_MAX), (ML, 1, TENANT_PENDING_MAX)] == [
        (row.tenant, row.pending, row.settings.pending_max) for row in found.rows
    ]
    assert (2, 7, 1, 9) == (found.pending, found.pending_max, found.remembered, found.remembered_max)


class Unwalked(dict[Any, Any]):
    """A table that may be asked for one row, and not be walked through."""

    def __iter__(self) -> Any:
        raise AssertionError("walked through")

    keys = values = items = __iter__


def test_submission_walks_through_no_table_of_workloads(start: Start) -> None:
    """Nor does a new ceiling: each costs the same however many are pending or remembered."""
    queue = a_job_queue(start)
    submit(queue)
    workloads = queue.state.image.workloads
    workloads.rows = Unwalked(workloads.rows)
    submit(queue)
    ceilings(queue, pending_max=2)
    refused(queue)
    workloads.rows = dict(dict.items(workloads.rows))
    check_counts(queue.state)


# Ended workloads.


def ends(queue: Queue, count: int) -> list[WorkloadId]:
    """So many workloads are submitted and cancelled, a second apart."""
    found = []
    for _ in range(count):
        found.append(submit(queue))
        queue.hear(CancelWorkload(found[-1]))
        queue.wait(seconds(1))
    return found


def test_more_ended_workloads_than_are_remembered(start: Start) -> None:
    """The oldest ends leave together, at the next sweep; the others stay until their day is over."""
    queue = a_job_queue(start)
    ends(queue, 4)
    ceilings(queue, remembered_max=2)
    assert [WorkloadsForgotten((W1, W2))] == facts(queue.wake())
    (fifth,) = ends(queue, 1)
    check_counts(queue.state)
    assert (3, 2) == (listed(queue).remembered, listed(queue).remembered_max)
    assert [WorkloadsForgotten((W3,))] == facts(queue.wait(FORGET_INTERVAL))
    assert [] == facts(queue.wait(Nanoseconds(RETENTION - 2 * FORGET_INTERVAL)))
    gone = facts(queue.wait(Nanoseconds(2 * FORGET_INTERVAL)))
    assert [WorkloadsForgotten((W4,)), WorkloadsForgotten((fifth,))] == gone
    check_counts(queue.state)


def test_queue_that_starts_with_more_than_it_is_to_remember(start: Start) -> None:
    """It forgets the oldest ends, in the order of the ends and not of the submissions."""
    queue = a_job_queue(start)
    first, second = submit(queue), submit(queue)
    queue.hear(CancelWorkload(second))
    queue.wait(seconds(1))
    queue.hear(CancelWorkload(first))
    queue.wait(seconds(1))
    ceilings(queue, remembered_max=1)
    assert [WorkloadsForgotten((second,))] == facts(queue.restart().wait(FORGET_INTERVAL))


def test_ended_workload_over_the_ceiling_that_its_region_remembers(start: Start) -> None:
    """It stays until the region has recorded the end; a younger one that no region remembers leaves in its place."""
    queue = a_job_queue(start)
    submit(queue)
    awarded(queue)
    running(queue)
    happens(queue, ended(EndCause.COMPLETED))
    ends(queue, 1)
    ceilings(queue, remembered_max=0)
    assert [WorkloadsForgotten((W2,))] == facts(queue.wait(FORGET_INTERVAL))
    check_counts(queue.state)
    assert [] == facts(queue.wait(Nanoseconds(2 * BLOCKED_INTERVAL)))
    queue.fact(EU_LOG, AttemptsForgotten((attempt(),), queue.sequence(GLOBAL_LOG)))
    assert [WorkloadsForgotten((W1,))] == facts(queue.wait(BLOCKED_INTERVAL))
    check_counts(queue.state)


def test_more_is_due_than_one_sweep_forgets(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next sweep follows at once: 1,000 a minute are fewer than end in a busy plane."""
    monkeypatch.setattr("components.job_queue.retention.FORGOTTEN_AT_ONCE_MAX", 2)
    queue = a_job_queue(start)
    gone = ends(queue, 5)
    ceilings(queue, remembered_max=0)
    found = facts(queue.wait(Nanoseconds(2 * FORGET_AGAIN)))
    assert [WorkloadsForgotten(tuple(gone[at : at + 2])) for at in (0, 2, 4)] == found


def test_workload_of_which_an_unknown_region_was_never_told(start: Start) -> None:
    """A region that is not heard since the queue started keeps nothing from being forgotten but what may have run there."""
    queue = a_job_queue(start)
    for region, log in ((US, US_LOG), (EU, EU_LOG)):
        workload = submit(queue, a_spec(regions=(region,)))
        awarded(queue, region, workload)
        queue.hear(CancelWorkload(workload))
        queue.fact(log, declined(workload=workload))
        queue.wake()
    here, waited = workload, submit(queue)
    queue.hear(CancelWorkload(waited))
    queue.fact(EU_LOG, AttemptsForgotten((attempt(here),), queue.sequence(GLOBAL_LOG)))
    again = start(queue.component, logs=queue.logs, unknown=(US_LOG,), at=queue.now)
    assert [WorkloadsForgotten((here, waited))] == facts(again.wait(Nanoseconds(RETENTION + FORGET_INTERVAL)))


# What is left of tenants.


def test_tenant_without_work_leaves_nothing_behind(start: Start) -> None:
    """Where no operator makes tenants, any name is accepted: a thousand names a day would fill the queue's tables."""
    queue = a_job_queue(start)
    of = TenantName("once")
    submit(queue, a_spec(tenant=of))
    awarded(queue)
    running(queue)
    happens(queue, ended(EndCause.COMPLETED))
    ledger = queue.state.ledger
    for table in (ledger.held, ledger.within, ledger.lasting, ledger.by_tenant, ledger.wanted):
        assert of not in table


def test_tenant_whose_work_never_ran_leaves_nothing_behind(start: Start) -> None:
    """It used nothing, so not even its use is remembered, and a fair share counts it no longer than its work waits."""
    queue = a_job_queue(start)
    of = TenantName("once")
    workload = submit(queue, a_spec(tenant=of))
    assert queue.state.order.knows(of)
    queue.hear(CancelWorkload(workload))
    assert not queue.state.order.knows(of)
    tables = [table for table in vars(queue.state.waits).values() if isinstance(table, dict)]
    assert [] == [table for table in tables if of in table]
