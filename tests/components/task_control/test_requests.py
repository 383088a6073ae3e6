"""What the controller of the largest service is asked: the whole of what is down, in a message that may be said."""

from components.task_control.requests import request_of
from components.task_control.state import SECTIONS
from core.codec import Parcel, encode
from core.images import RegionImage
from core.images.closures import Closure
from core.images.control import AttemptControl, OperationRow, TaskPhase, TaskRow
from core.messages.control import TaskControlRequest
from core.nouns.ids import WorkerName
from core.nouns.instant import Instant
from core.nouns.limits import CONTROL_ASKED_MAX, CONTROLLED_TASKS_MAX, MESSAGE_BYTES_MAX, REASON_LENGTH_MAX
from core.nouns.maintenance import ClosureKind
from core.nouns.operation import OperationKind, OperationPhase, Outcome, task_number
from tests.builders import EU
from tests.components.support.task_control import SHARDS, TENANT, W1

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
    task: int,
    source: str = "",
    phase: OperationPhase = OperationPhase.ASKED,
    reason: str = "",
    *,
    deadline: int = 0,
    at: int = 0,
) -> OperationRow:
    """One operation on it."""
    return OperationRow(OperationKind.MOVE, task, reason, source, "olga", at, deadline, phase)


def request(operations: list[OperationRow], reasons: dict[str, str] | None = None) -> TaskControlRequest:
    """What its controller is asked then, which may be said; the drains that are named have these reasons."""
    image = RegionImage.empty(SECTIONS)
    for name, reason in (reasons or {}).items():
        image.capacity.closures[name] = Closure(ClosureKind.DRAIN, ((0, 0),), reason, 0)
    made = request_of(EU, image, {}, (W1, 1), row_of(operations), Instant(1))
    assert MESSAGE_BYTES_MAX >= len(encode(Parcel("x" * 64, WorkerName("control.eu"), made)))
    return made


def test_everything_is_down() -> None:
    """T13: all of it is told, and as much is asked as ever: what will not wait before what will, however late it came."""
    urgent = {TASKS[-1]: 30, TASKS[-2]: 20, TASKS[-3]: 40}
    made = request([asked(task, deadline=urgent.get(task, 0), at=5 * (task == TASKS[-3])) for task in TASKS])
    assert tuple(TASKS) == made.unhealthy
    first = [TASKS[-2], TASKS[-1], TASKS[-3]]
    assert first + TASKS[: CONTROL_ASKED_MAX - 3] == [one.task for one in made.requests]


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
    """T10: the most urgent of what is asked is told, each with its notice; the rest when these have been begun."""
    drains = {f"d-{number}": LONG for number, _ in enumerate(TASKS)}
    every = [asked(task, name, reason=LONG) for task, name in zip(TASKS, drains, strict=True)]
    every[-1].deadline = 60
    made = request(every, drains)
    assert tuple(TASKS) == made.unhealthy
    count = len(made.requests) - 1
    assert 50 < count < CONTROL_ASKED_MAX
    assert [TASKS[-1], *TASKS[:count]] == [one.task for one in made.requests]
    assert {one.notice for one in made.requests} <= {notice.notice for notice in made.notices}
    again = request(
        [
            asked(task, name, reason=LONG)
            for task, name in zip(TASKS[count:], list(drains)[count:], strict=True)
        ],
        drains,
    )
    assert TASKS[count] == again.requests[0].task


def test_too_long_request_keeps_no_other_out() -> None:
    """T10: a shorter one behind it is asked for if it still fits."""
    made = request([*(asked(task, reason=LONG) for task in TASKS[:1000]), asked(TASKS[1000])])
    assert TASKS[1000] == made.requests[-1].task
    assert 100 < len(made.requests) < 1000


def test_notices_that_fill_a_message() -> None:
    """T10: those for which nothing waits any more come behind those for which something does."""
    drains = {f"d-{number}": LONG for number, _ in enumerate(TASKS)}
    begun = [asked(task, name, OperationPhase.BEGUN) for task, name in zip(TASKS, drains, strict=True)]
    begun[-1] = asked(TASKS[-1], "d-29999")
    made = request(begun, drains)
    assert ["d-29999"] == [one.notice for one in made.requests]
    assert "d-29999" in [notice.notice for notice in made.notices]
    assert 100 < len(made.notices) < len(TASKS)
