"""Which new runs a task may have, and which operation gives way to which: the rules by themselves."""

import pytest

from core.images.control import OperationRow, TaskPhase, TaskRow
from core.nouns.instant import Instant
from core.nouns.limits import MOVE_PATIENCE
from core.nouns.operation import WHOLE, Answer, OperationKind, OperationPhase, TaskMove
from core.rules.disruption_budget import HEALTH
from core.rules.operations import gives_way, may_run_again, returns_here

MOVE, RESTART, UPDATE = OperationKind.MOVE, OperationKind.RESTART, OperationKind.UPDATE
START, STOP = OperationKind.START, OperationKind.STOP


def an_operation(
    kind: OperationKind = RESTART,
    *,
    task: int = 0,
    phase: OperationPhase = OperationPhase.BEGUN,
    answer: Answer = Answer.PROCEED,
    source: str = "",
    requested_at: int = 0,
    deadline: int = 0,
) -> OperationRow:
    """One that has begun, unless told otherwise."""
    return OperationRow(
        kind, task, "because", source, "user:ada", requested_at, deadline, phase, answer, begun_at=NOW
    )


NOW = Instant(1 << 60)
HERE, AWAY, NOWHERE = TaskMove(0, 1, 1), TaskMove(0, 1, 2), TaskMove(0, 1, -1)


@pytest.mark.parametrize(
    ("kind", "answer", "may_stay", "may_go"),
    [
        (START, Answer.PROCEED, True, True),
        (RESTART, Answer.PROCEED, True, True),
        (UPDATE, Answer.PROCEED, True, True),
        (MOVE, Answer.PROCEED, False, True),
        (MOVE, Answer.MOVE, False, True),
        (MOVE, Answer.STOP_AND_RETURN, True, True),
        (STOP, Answer.PROCEED, False, False),
    ],
)
def test_new_run_by_each_operation(
    kind: OperationKind, answer: Answer, *, may_stay: bool, may_go: bool
) -> None:
    """A move leaves its node, unless it agreed to return; a stop has none; and nobody goes nowhere."""
    gone, operation = TaskRow(1, TaskPhase.GONE), an_operation(kind, answer=answer)
    assert may_stay == may_run_again(gone, operation, HERE, NOW)
    assert may_go == may_run_again(gone, operation, AWAY, NOW)
    assert not may_run_again(gone, operation, NOWHERE, NOW)


@pytest.mark.parametrize(
    ("source", "requester", "waited", "may"),
    [
        ("", "rebalancer", MOVE_PATIENCE - 1, False),
        ("", "rebalancer", MOVE_PATIENCE, True),
        ("d-1", "operator:olga", 0, True),
        ("", HEALTH, 0, True),
    ],
)
def test_move_that_comes_back(source: str, requester: str, waited: int, *, may: bool) -> None:
    """Who had to leave because of its node may return to it; who was wanted elsewhere, only when no place was found for long."""
    operation = an_operation(MOVE, source=source)
    operation.requester = requester
    operation.begun_at = NOW - waited
    assert may == may_run_again(TaskRow(1, TaskPhase.GONE), operation, HERE, NOW)


@pytest.mark.parametrize("phase", list(OperationPhase))
def test_new_run_needs_an_operation_that_has_begun(phase: OperationPhase) -> None:
    """An operation that is asked for or acknowledged is not enough; one that is over has had its run."""
    operation = an_operation(phase=phase)
    assert (phase is OperationPhase.BEGUN) == may_run_again(TaskRow(1, TaskPhase.GONE), operation, HERE, NOW)


@pytest.mark.parametrize("phase", list(TaskPhase))
def test_new_run_of_a_task_that_is_gone(phase: TaskPhase) -> None:
    """While anything of the old run may be there, two would live."""
    assert (phase is TaskPhase.GONE) == may_run_again(TaskRow(1, phase), an_operation(), HERE, NOW)
    assert not may_run_again(None, an_operation(), HERE, NOW)
    assert not may_run_again(TaskRow(2, TaskPhase.GONE), an_operation(), HERE, NOW)


@pytest.mark.parametrize(
    ("kind", "answer", "may"),
    [
        (RESTART, Answer.PROCEED, True),
        (MOVE, Answer.STOP_AND_RETURN, True),
        (MOVE, Answer.PROCEED, False),
        (UPDATE, Answer.PROCEED, False),
    ],
)
def test_new_run_of_a_gang(kind: OperationKind, answer: Answer, *, may: bool) -> None:
    """Where it was, if it is to stay; what becomes of it otherwise is for the queue to say."""
    gone, operation = TaskRow(-1, TaskPhase.GONE), an_operation(kind, task=WHOLE, answer=answer)
    assert may == returns_here(operation) == may_run_again(gone, operation, TaskMove(WHOLE, -1, -1), NOW)
    assert not may_run_again(gone, operation, TaskMove(WHOLE, -1, 3), NOW)


@pytest.mark.parametrize(
    ("known", "source", "deadline", "wanted"),
    [
        (an_operation(phase=OperationPhase.ASKED), "d-1", 5, True),
        (an_operation(phase=OperationPhase.ACKED), "d-1", 5, True),
        (an_operation(phase=OperationPhase.BEGUN), "d-1", 5, False),
        (an_operation(phase=OperationPhase.ASKED), "d-1", 0, False),
        (an_operation(phase=OperationPhase.ASKED, deadline=20, source="m-1"), "d-1", 9, True),
        (an_operation(phase=OperationPhase.ASKED, deadline=20, source="m-1"), "d-1", 10, False),
        (an_operation(phase=OperationPhase.ASKED, deadline=20, source="m-1"), "d-1", 0, False),
        (an_operation(phase=OperationPhase.ASKED, deadline=20, source="d-1"), "d-1", 9, False),
        (
            an_operation(phase=OperationPhase.ASKED, deadline=20, requested_at=5, source="m-1"),
            "d-1",
            14,
            True,
        ),
    ],
)
def test_operation_that_gives_way(known: OperationRow, source: str, deadline: int, *, wanted: bool) -> None:
    """At instant 10: while it waits, to a deadline that comes sooner and is another's, or to any if it has none."""
    assert wanted == gives_way(known, source, deadline, Instant(10))
