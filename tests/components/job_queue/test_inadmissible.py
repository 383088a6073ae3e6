"""Inadmissible workloads: every region refused them, and none is asked again until a change could make a region bid.

Each decision of these tests is also taken by a twin that remembers no results (tests/components/support/machine.py).
"""

from typing import Any

import pytest

from core.component import Decision
from core.messages.queue import CancelWorkload
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import Nanoseconds
from core.nouns.limits import AUCTION_SPAN
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause, WorkloadSpec
from tests.builders import EU, EU_LOG, a_claim, a_job, a_spec, granted
from tests.components.job_queue.test_cpu_only_work import refusal
from tests.components.support.job_queue import (
    W1,
    W2,
    W3,
    Start,
    a_job_queue,
    abstain,
    asked,
    auction_of,
    ended,
    submit,
)
from tests.components.support.machine import Machine
from tests.components.support.quota import ART, ends, runs, tenant, waits, with_quota

OPS = TenantName("ops")
OTHER = WorkloadId("w-8")


def in_eu(tasks: int, gpus: int = 4) -> WorkloadSpec:
    """Work that may run in one region alone."""
    return a_spec(a_job(tasks, gpus), regions=[EU])


def refused(start: Start, *missing: tuple[int, int, int]) -> Machine[Any]:
    """One workload of each was refused: so many tasks of so many GPUs, for want of so many milli."""
    queue = a_job_queue(start)
    for tasks, gpus, _ in missing:
        submit(queue, in_eu(tasks, gpus), key=f"{tasks} x {gpus}")
    opened = queue.wake()
    for (workload, _), (_, _, lack) in zip(asked(opened), missing, strict=True):
        refuse(queue, opened, WorkloadId(workload), gpus=lack)
    assert [] == asked(queue.wake())
    return queue


def refuse(
    queue: Machine[Any], opened: Decision, workload: WorkloadId, *, gpus: int = 0, cpus: int = 0
) -> None:
    """The region lacks so many milli."""
    queue.hear(refusal(queue, workload, auction_of(opened, workload), gpus=gpus, cpus=cpus))


def tasks_asked(queue: Machine[Any], decision: Decision) -> set[int]:
    """Number of tasks of each workload that is asked for."""
    rows = queue.state.image.workloads.rows
    return {rows[WorkloadId(workload)].spec.jobs[0].tasks for workload, _ in asked(decision)}


def frees(queue: Machine[Any], gpu_milli: int) -> Decision:
    """Another workload ends in the region. Return the decisions that follow."""
    epoch = queue.sequence(EU_LOG)
    end = ended(EndCause.COMPLETED, epoch, OTHER, gpu_milli=gpu_milli)
    queue.fact(EU_LOG, granted(a_claim(OTHER, epoch)), end)
    return queue.wake()


def test_workloads_refused_everywhere_are_not_asked_for(start: Start) -> None:
    """However long they wait, when others of their shapes are submitted, and when less comes free than they lack."""
    shapes = ((1, 1), (2, 2), (3, 4))
    queue = refused(start, *((tasks, gpus, 9_000) for tasks, gpus in shapes))
    assert [] == asked(queue.wait(Nanoseconds(20 * AUCTION_SPAN)))
    for tasks, gpus in shapes:
        submit(queue, in_eu(tasks, gpus), key=f"again {tasks} x {gpus}")
        assert [] == asked(queue.wake())
    assert [] == asked(frees(queue, 8_999))
    assert {1, 2, 3} == tasks_asked(queue, frees(queue, 1))


def test_workloads_whose_refusal_expired_are_asked_for(start: Start) -> None:
    """Only those, whatever came free."""
    queue = refused(start, (1, 1, 1_000), (2, 2, 9_000), (3, 4, 9_000))
    assert [(W1, EU)] == asked(frees(queue, 1_000))


@pytest.mark.parametrize(
    ("two", "four", "are_asked"),
    [
        pytest.param(9_000, 9_000, set(), id="neither expires"),
        pytest.param(
            1_000, 9_000, {2, 3}, id="the smaller expires: up to the larger, which is still refused"
        ),
        pytest.param(9_000, 1_000, set(), id="the larger expires: the smaller still holds for all above it"),
        pytest.param(1_000, 1_000, {2, 3, 4, 5}, id="both expire"),
    ],
)
def test_workloads_refused_for_a_smaller_one_are_asked_for_with_it(
    start: Start, two: int, four: int, are_asked: set[int]
) -> None:
    """M20: two and four tasks were refused, and three and five for these, without being asked for."""
    queue = refused(start, (2, 4, two), (4, 4, four))
    for tasks in (3, 5):
        submit(queue, in_eu(tasks), key=f"more {tasks}")
    assert [] == asked(queue.wake())
    assert are_asked == tasks_asked(queue, frees(queue, 1_000))


def test_next_workload_of_a_shape_is_asked_for_when_the_first_leaves(start: Start) -> None:
    """Of a contended shape one is asked for at a time; the one that was asked for is cancelled before its region answers."""
    queue = refused(start, (1, 4, 1_000))
    submit(queue, in_eu(1), key="again")
    opened = frees(queue, 1_000)
    assert [(W1, EU)] == asked(opened)
    queue.hear(CancelWorkload(W1))
    assert [(W2, EU)] == asked(queue.wake())


def test_next_workload_of_a_shape_is_not_asked_for_when_the_first_is_refused(start: Start) -> None:
    """The refusal holds for the shape, until as much comes free again: then the first has its turn again."""
    queue = refused(start, (1, 4, 1_000))
    submit(queue, in_eu(1), key="again")
    refuse(queue, frees(queue, 1_000), W1, gpus=1_000)
    assert [] == asked(queue.wake())
    assert [(W1, EU)] == asked(frees(queue, 1_000))


def test_submitted_workload_is_asked_for(start: Start) -> None:
    """Though all others are refused."""
    queue = refused(start, (1, 1, 9_000), (2, 2, 9_000))
    submit(queue, in_eu(3, 8), key="new")
    assert [(W3, EU)] == asked(queue.wake())


def test_borrowing_workload_is_asked_for_when_others_hold_less(start: Start) -> None:
    """Of 64 GPUs 48 are ART's, which lends none, and ML borrows the others; OPS waits for them."""
    queue = with_quota(start, 0)
    tenant(queue, ART, 48, is_lent=False)
    tenant(queue, OPS, 0)
    first, _ = runs(queue), runs(queue, node=1)
    third = waits(queue, of=OPS)
    assert [] == asked(queue.wake())
    assert {} == queue.state.auctions.open
    ends(queue, first)
    assert [third] == list(queue.state.auctions.open)


@pytest.mark.parametrize(
    ("reasons", "is_asked"),
    [
        pytest.param((Reason.NO_CAPACITY, Reason.OPEN_BIDS), True, id="open bids are the newer reason"),
        pytest.param((Reason.OPEN_BIDS, Reason.NO_CAPACITY), False, id="capacity is the newer reason"),
    ],
)
def test_wider_workload_is_asked_for_when_the_smaller_refusal_has_another_reason(
    start: Start, reasons: tuple[Reason, Reason], *, is_asked: bool
) -> None:
    """Two of a shape are refused in one cycle, each for a reason: a refusal for open bids does not hold for wider workloads."""
    queue = a_job_queue(start)
    for key in ("one", "other"):
        submit(queue, in_eu(2), key=key)
    opened = queue.wake()
    submit(queue, in_eu(3), key="wider")
    for workload, reason in zip((W1, W2), reasons, strict=True):
        abstain(queue, auction_of(opened, workload), workload=workload, reason=reason, missing=9_000)
    assert ([(W3, EU)] if is_asked else []) == asked(queue.wake())


def test_first_workload_of_each_tenant_is_found_blocked(start: Start) -> None:
    """Which tenant is ahead depends on time and use, so each tenant's first workload is; the tenant's later ones are not before it."""
    queue = a_job_queue(start)
    submit(queue, a_spec(a_job(2, 4), regions=[EU], tenant="a"))
    refuse(queue, queue.wake(), W1, gpus=9_000)
    queue.wake()
    first, behind, other = (
        submit(queue, a_spec(a_job(3, 4), regions=[EU], tenant=tenant), key=key)
        for tenant, key in (("a", "first"), ("a", "behind"), ("b", "other"))
    )
    queue.wake()
    found = queue.state.starts.blocked
    assert [first, other] == [one for one in (first, behind, other) if one in found]


def test_workload_beyond_the_bound_of_a_cycle_is_asked_for_next(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A workload that the walk of the order did not reach is not taken for refused."""
    monkeypatch.setattr("components.job_queue.auction.selection.AUCTIONS_MAX", 1)
    queue = a_job_queue(start)
    for tasks, gpus in ((2, 1), (1, 2)):
        submit(queue, in_eu(tasks, gpus), key=str(tasks))
    opened = queue.wake()
    assert [(W1, EU)] == asked(opened)
    refuse(queue, opened, W1, gpus=1_000)
    assert [(W2, EU)] == asked(queue.wake())


def test_workload_is_found_blocked_by_the_refusal_of_another(start: Start) -> None:
    """Three tasks were refused for two, by a reserve that is kept free; then one is refused for want of capacity, and so are three."""
    queue = a_job_queue(start)
    submit(queue, in_eu(2), key="two")
    abstain(queue, auction_of(queue.wake()), reason=Reason.RESERVED)
    submit(queue, in_eu(3), key="three")
    submit(queue, in_eu(1), key="one")
    opened = queue.wake()
    assert [(W3, EU)] == asked(opened)
    assert W2 not in queue.state.starts.blocked
    refuse(queue, opened, W3, gpus=1_000)
    queue.wake()
    assert W2 in queue.state.starts.blocked
