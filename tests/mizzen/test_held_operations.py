"""A controller that holds more than one request has room for is still asked, before anything, about what will not wait."""

from collections.abc import Iterable

import pytest

from core.messages.control import TaskControlRequest
from core.nouns.limits import CONTROL_ASKED_MAX, REASON_LENGTH_MAX
from core.nouns.operation import Ack, OperationKind
from mizzen import TaskController
from mizzen.control.harness import ControllerHarness


class Holds(TaskController):
    """Holds one kind of operation and lets every other proceed."""

    def __init__(self, held: OperationKind) -> None:
        self.held = held
        self.asked: list[tuple[OperationKind, int]] = []

    async def process(self, request: TaskControlRequest) -> Iterable[Ack]:
        others = [asked for asked in request.requests if asked.kind is not self.held]
        self.asked += [(asked.kind, asked.task) for asked in others]
        return [Ack(asked.operation) for asked in others]


@pytest.mark.parametrize(
    ("tasks", "held", "reason"),
    [
        (CONTROL_ASKED_MAX + 904, OperationKind.UPDATE, "a release"),
        (1_000, OperationKind.RESTART, "x" * REASON_LENGTH_MAX),
    ],
    ids=["more-than-are-asked", "more-than-a-message-holds"],
)
async def test_held_operations_hide_nothing_urgent(tasks: int, held: OperationKind, reason: str) -> None:
    """T11, T15, T17: a drain with a deadline, a maintenance and the replacement of a failure are asked for at once."""
    controller = Holds(held)
    harness = ControllerHarness(controller, tasks=tasks, spares=2, takes_seconds=10, unavailable_max=10)
    await harness.operate(held, reason=reason)
    assert tasks > len(harness.requests[-1].requests), "not all of them have room"
    drained, worked_on, failed = tasks - 2, tasks - 4, tasks - 6
    await harness.drain(drained, deadline_seconds=120)
    await harness.notice(worked_on, starts_in_seconds=120, lasts_seconds=60)
    await harness.fail(failed)
    assert (OperationKind.MOVE, drained) in controller.asked
    assert (OperationKind.MOVE, worked_on) in controller.asked
    assert failed in [task for _, task in controller.asked]
    await harness.pass_seconds(20)
    assert [1, 1, 1] == [harness.run_of(task) for task in (drained, worked_on, failed)]
    assert ([], []) == (harness.unavailable(), harness.acked())
