"""What the controller of the largest service is asked: the whole of what is down, in a message that may be said."""

from components.control_requests import request_of
from components.task_control import SECTIONS
from core.codec import Parcel, encode
from core.images import RegionImage
from core.images.capacity import Closure
from core.images.control import AttemptControl, OperationRow, TaskPhase, TaskRow
from core.messages.control import TaskControlRequest
from core.nouns.ids import WorkerName
from core.nouns.instant import Instant
from core.nouns.limits import CONTROL_ASKED_MAX, CONTROLLED_TASKS_MAX, MESSAGE_BYTES_MAX, REASON_LENGTH_MAX
from core.nouns.maintenance import ClosureKind
from core.nouns.operation import OperationKind, OperationPhase, Outcome, task_number
from tests.builders import EU
from tests.components.controlling import SHARDS, TENANT, W1

TASKS = [task_number(1, rank) for rank in range(CONTROLLED_TASKS_MAX)]
LONG = "\N{GREEK SMALL LETTER OMEGA}" * REASON_LENGTH_MAX


def row_of(operations: list[OperationRow]) -> AttemptControl:
    """The largest service, all of whose tasks are down, with these operations."""
    row = AttemptControl(SHARDS, TENANT, ())
    row.stands_alone = True
    row.tasks = {task: TaskRow(0, TaskPhase.DOWN, 1, 0) for task in TASKS}
    row.operations = dict(enumerate(operations, 1))
    return row


def asked(
    task: int, source: str = "", phase: OperationPhase = OperationPhase.ASKED, reason: str = ""
) -> OperationRow:
    """One operation on it."""
    return OperationRow(OperationKind.MOVE, task, reason, source, "olga", 0, 0, phase)


def request(operations: list[OperationRow], reasons: dict[str, str] | None = None) -> TaskControlRequest:
    """What its controller is asked then, which may be said; the drains that are named have these reasons."""
    image = RegionImage.empty(SECTIONS)
    for name, reason in (reasons or {}).items():
        image.capacity.closures[name] = Closure(ClosureKind.DRAIN, ((0, 0),), reason, 0)
    made = request_of(EU, image, {}, (W1, 1), row_of(operations), Instant(1))
    assert MESSAGE_BYTES_MAX >= len(encode(Parcel("x" * 64, WorkerName("control.eu"), made)))
    return made


def test_everything_is_down() -> None:
    """T13: all of it is told, and as much is asked as ever."""
    made = request([asked(task) for task in TASKS])
    assert tuple(TASKS) == made.unhealthy
    assert TASKS[:CONTROL_ASKED_MAX] == [one.task for one in made.requests]


def test_everything_is_down_and_acknowledged() -> None:
    """T13: what is as good as down is told in full too, beside what is over and the one notice of all of them."""
    live = [asked(task, "d-1", OperationPhase.ACKED) for task in TASKS[:-1]]
    over = [asked(task, phase=OperationPhase.DONE) for task in TASKS]
    for one in over:
        one.outcome = Outcome.HEALTHY
    made = request([*over, *live, asked(TASKS[-1], "d-1")], {"d-1": LONG})
    assert tuple(TASKS) == made.unhealthy
    assert tuple(TASKS[:-1]) == made.acked
    assert CONTROL_ASKED_MAX == len(made.completed)
    assert [TASKS[-1]] == [one.task for one in made.requests]
    assert [tuple(TASKS)] == [notice.tasks for notice in made.notices]


def test_reasons_that_fill_a_message() -> None:
    """T10: the first of what is asked is told, each with its notice; the rest when these have been begun."""
    drains = {f"d-{number}": LONG for number, _ in enumerate(TASKS)}
    made = request([asked(task, name, reason=LONG) for task, name in zip(TASKS, drains, strict=True)], drains)
    assert tuple(TASKS) == made.unhealthy
    count = len(made.requests)
    assert 50 < count < CONTROL_ASKED_MAX
    assert TASKS[:count] == [one.task for one in made.requests]
    assert {one.notice for one in made.requests} <= {notice.notice for notice in made.notices}
    again = request(
        [
            asked(task, name, reason=LONG)
            for task, name in zip(TASKS[count:], list(drains)[count:], strict=True)
        ],
        drains,
    )
    assert TASKS[count] == again.requests[0].task


def test_notices_that_fill_a_message() -> None:
    """T10: those for which nothing waits any more come behind those for which something does."""
    drains = {f"d-{number}": LONG for number, _ in enumerate(TASKS)}
    begun = [asked(task, name, OperationPhase.BEGUN) for task, name in zip(TASKS, drains, strict=True)]
    begun[-1] = asked(TASKS[-1], "d-29999")
    made = request(begun, drains)
    assert ["d-29999"] == [one.notice for one in made.requests]
    assert "d-29999" in [notice.notice for notice in made.notices]
    assert 100 < len(made.notices) < len(TASKS)
