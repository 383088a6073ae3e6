"""Whose doing an end was, and what that means for a user's retries: every cause is looked at, so a new one is decided too."""

import pytest

from components.job_queue.awards import closed
from core.events.queue import RegionAdded, WorkloadAwarded
from core.images import GlobalImage
from core.images.queue import WorkloadRow
from core.images.region import AttemptPhase, AttemptRow
from core.nouns.ids import WorkloadId
from core.nouns.workload import Blame, EndCause, Phase, RetryLimits
from tests.builders import EU, a_queue, a_spec, submitted

W1 = WorkloadId("w-1")
EVERY = pytest.mark.parametrize("cause", list(EndCause))
ENDS_IT = {
    EndCause.COMPLETED: Phase.COMPLETED,
    EndCause.TASK_FAILED: Phase.FAILED,
    EndCause.TIMEOUT: Phase.TIMEOUT,
    EndCause.CANCELLED: Phase.CANCELLED,
    EndCause.START_FAILED: Phase.FAILED,
}
"""What ends a workload that may not be tried again: all else is no reason to give it up."""
LIMITS = {EndCause.TASK_FAILED: "tasks_failed", EndCause.START_FAILED: "starts_failed"}
"""What is counted, and where. Failed starts have a limit of their own, so that nothing is tried for ever."""


def a_row(image: GlobalImage) -> WorkloadRow:
    """The workload's."""
    return image.workloads.rows[W1]


def ended_once(cause: EndCause, retry: RetryLimits) -> tuple[Phase, WorkloadRow]:
    """A workload whose first attempt ended so: what becomes of it, and how the queue's log counts it."""
    before = (RegionAdded(EU), submitted(1, a_spec(retry=retry)), WorkloadAwarded(W1, 1, EU, 0, ()))
    attempt = AttemptRow(AttemptPhase.ENDED, 2, 9, end_cause=cause)
    end = closed(W1, a_row(a_queue(*before)), attempt)
    return end.phase, a_row(a_queue(*before, end))


@EVERY
def test_end_when_nothing_may_be_tried_again(cause: EndCause) -> None:
    """With no retries left only what the user did, and a start that failed, ends a workload; all else goes on."""
    phase, _ = ended_once(cause, RetryLimits(task_failed=0, start_failed=0))
    assert ENDS_IT.get(cause, Phase.PENDING) == phase


@EVERY
def test_end_is_counted_where_its_limit_is(cause: EndCause) -> None:
    """What was planned, and what befell a node, is counted nowhere: it takes nothing from what a user allows."""
    _, row = ended_once(cause, RetryLimits(task_failed=5, start_failed=5))
    counted = {name: getattr(row, name) for name in sorted(LIMITS.values())}
    assert {name: int(name == LIMITS.get(cause)) for name in counted} == counted


@EVERY
def test_blame_and_retries_agree(cause: EndCause) -> None:
    """Only a user's own failure counts against `retry: task_failed`; whatever is planned or unplanned never does."""
    phase, row = ended_once(cause, RetryLimits(task_failed=0, start_failed=5))
    is_abandoned = phase in (Phase.FAILED, Phase.TIMEOUT, Phase.CANCELLED)
    assert is_abandoned <= (cause.blame is Blame.USER)
    assert (row.tasks_failed > 0) <= (cause.blame is Blame.USER)
    if cause.blame in (Blame.PLANNED, Blame.UNPLANNED):
        assert Phase.PENDING == phase


def test_each_end_is_somebodys_doing() -> None:
    """Planned, unplanned and user-caused are told apart; what an operator or the plane wants is planned."""
    assert {Blame.NOBODY: 1, Blame.USER: 4, Blame.PLANNED: 6, Blame.UNPLANNED: 4} == {
        blame: sum(cause.blame is blame for cause in EndCause) for blame in Blame
    }
    for cause in (
        EndCause.DRAINED,
        EndCause.MAINTENANCE,
        EndCause.MOVED,
        EndCause.ROUND_OVER,
        EndCause.PREEMPTED,
        EndCause.REQUEUED,
    ):
        assert cause.blame is Blame.PLANNED
    for cause in (EndCause.NODE_LOST, EndCause.NODE_FAILED, EndCause.START_FAILED):
        assert cause.blame is Blame.UNPLANNED


@EVERY
def test_only_failures_may_be_their_nodes_doing(cause: EndCause) -> None:
    """A node is never accused of what somebody wanted, nor twice of having been lost."""
    assert cause.accuses_node == (
        cause in (EndCause.TASK_FAILED, EndCause.START_FAILED, EndCause.NODE_FAILED)
    )
    assert cause.accuses_node <= (cause.blame in (Blame.USER, Blame.UNPLANNED))
