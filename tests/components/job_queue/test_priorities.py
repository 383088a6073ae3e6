"""Priorities that users set: of what waits and of what runs, and which are refused."""

from typing import Any

from core.events.queue import PrioritySet, StandingChanged, WorkloadAwarded
from core.messages.base import Refused
from core.messages.broker import RankAttempt
from core.messages.queue import (
    Acknowledged,
    CancelWorkload,
    SetPriority,
    SubmitWorkload,
)
from core.nouns.reasons import Reason
from tests.builders import EU, a_spec
from tests.components.support.job_queue import W1, W2, W3, W4, Start, a_job_queue, refuse_open
from tests.components.support.quota import (
    ART,
    ML,
    OVER,
    Queue,
    asked,
    bids,
    explained,
    levels,
    listed,
    runs,
    tenant,
    waits,
    with_quota,
)
from tests.matching import facts, said, said_once


def refusal(queue: Queue, message: Any) -> tuple[str, tuple[str, ...]]:  # Any: whatever users say
    """Why not."""
    decision = queue.hear(message)
    assert [] == facts(decision)
    answer = said_once(decision, Refused)
    return answer.reason, answer.problems


def test_priority_of_a_waiting_workload(start: Start) -> None:
    """The workload is ranked again at once; a repeat finds it, and a request with an older revision is refused."""
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


def test_priority_of_a_running_workload(start: Start) -> None:
    """The award has another level, and its region is told: from then on work of a higher level may preempt it."""
    queue = with_quota(start, level=5)
    runs(queue)
    assert {W1: 5} == levels(queue)
    queue.hear(SetPriority(W1, 0, 2))
    decision = queue.wake()
    assert [StandingChanged(W1, 1, 1, ML, 2, {"H100": 8_000})] == facts(decision)
    assert [RankAttempt(EU, W1, 1, 1, 2)] == said(decision, RankAttempt)


def test_priority_that_is_set_in_an_open_cycle(start: Start) -> None:
    """A workload that is awarded at the earlier level has the newer one before another of its tenant is awarded."""
    queue = with_quota(start, level=5)
    waits(queue, priority=0)
    waits(queue, priority=1)
    assert {W1: OVER, W2: 1} == asked(queue.wake())
    queue.hear(SetPriority(W2, 0, 5))
    bids(queue, W2)
    refuse_open(queue)
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
