"""The request to a task controller: the state of one attempt, as Twine's six fields and the tasks with acknowledged operations."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from core.codec import encode
from core.images import RegionImage
from core.images.control import AttemptControl, OperationRow
from core.messages.control import (
    AdvanceNotice,
    JobHandle,
    OperationAsked,
    OperationCompleted,
    TaskControlRequest,
)
from core.nouns.ids import AttemptKey, RegionName, TenantName
from core.nouns.instant import Instant
from core.nouns.limits import CONTROL_ASKED_MAX, MESSAGE_BYTES_MAX, MESSAGE_BYTES_SPARE
from core.nouns.operation import DRAIN, MAINTENANCE, WHOLE, OperationPhase, Outcome, task_number
from core.nouns.placement import nodes_of_ranks

Closing = Mapping[int, Sequence[str]]

REQUEST_BYTES_MAX = MESSAGE_BYTES_MAX - MESSAGE_BYTES_SPARE


def request_of(
    region: RegionName,
    image: RegionImage,
    closing: Closing,
    key: AttemptKey,
    row: AttemptControl,
    now: Instant,
) -> TaskControlRequest:
    """Return the request to the attempt's controller, cut to the size of a message.

    closing   drains and maintenances that are to empty each node (`closing_of`)
    now       estimated time on the keeper's clock
    """
    asked = [
        (number, operation)
        for number, operation in row.operations.items()
        if operation.phase is OperationPhase.ASKED
    ]
    asked.sort(key=_urgency)
    done = [(number, operation) for number, operation in row.operations.items() if not operation.is_live]
    request = TaskControlRequest(
        tenant=TenantName(row.tenant),
        controller=row.spec.controller,
        job=JobHandle(region, *key),
        requests=tuple(_asked(number, operation, now) for number, operation in asked[:CONTROL_ASKED_MAX]),
        completed=tuple(
            OperationCompleted(number, operation.kind, operation.task, Outcome(operation.outcome))
            for number, operation in done[:CONTROL_ASKED_MAX]
        ),
        notices=_notices(image, closing, key, row, now),
        unhealthy=tuple(row.unavailable()),
        sequence=row.changed,
        acked=tuple(sorted(row.acknowledged())),
    )
    is_small = len(encode(request)) <= REQUEST_BYTES_MAX
    return request if is_small else _with_what_fits(request)


def _with_what_fits(request: TaskControlRequest) -> TaskControlRequest:
    """Return the request with as much as a message holds: the most urgent operations, each with the notice for it, then other notices.

    The list of unhealthy tasks is never cut: a controller that saw only a part might let too many tasks stop. Operations left
    out follow once others have begun. An operation that is too long for the remaining bytes does not exclude shorter ones.
    """
    left = REQUEST_BYTES_MAX - len(encode(replace(request, requests=(), notices=())))
    notices = {notice.notice: notice for notice in request.notices}
    told: set[str] = set()
    asked = []
    for one in request.requests:
        fresh = [notices[one.notice]] if one.notice in notices and one.notice not in told else []
        size = sum(len(encode(part)) for part in (one, *fresh))
        if size > left:
            continue
        left -= size
        asked.append(one)
        told.update(notice.notice for notice in fresh)
    for notice in request.notices:
        size = len(encode(notice))
        if notice.notice not in told and size <= left:
            left -= size
            told.add(notice.notice)
    shown = tuple(notice for notice in request.notices if notice.notice in told)
    return replace(request, requests=tuple(asked), notices=shown)


def says_something(row: AttemptControl) -> bool:
    """Return whether an operation waits for the controller's decision, or is over and still to be reported."""
    return any(
        operation.phase is OperationPhase.ASKED or not operation.is_live
        for operation in row.operations.values()
    )


def _urgency(asked: tuple[int, OperationRow]) -> tuple[bool, int, int]:
    """Return the sort key: involuntary operations by deadline, then optional ones by age, because a controller may hold these back."""
    number, operation = asked
    return not operation.deadline, operation.requested_at + operation.deadline, number


def _asked(number: int, operation: OperationRow, now: Instant) -> OperationAsked:
    left = max(1, operation.requested_at + operation.deadline - now) if operation.deadline else 0
    notice = operation.source if operation.source.startswith((DRAIN, MAINTENANCE)) else ""
    return OperationAsked(number, operation.kind, operation.task, operation.reason, notice, left)


def _notices(
    image: RegionImage, closing: Closing, key: AttemptKey, row: AttemptControl, now: Instant
) -> tuple[AdvanceNotice, ...]:
    """Return one notice for each drain and maintenance that a task is under, or that a live operation is for.

    A drain without an operation is included: a drain without a deadline waits behind an update that the controller holds back.
    """
    live = [operation for operation in row.operations.values() if operation.is_live]
    tasks: dict[str, set[int]] = {}
    for task, node in _places(image, key, row) if closing and live else ():
        for source in closing.get(node, ()):
            tasks.setdefault(source, set()).add(task)
    for operation in live:
        if operation.source in image.capacity.closures:
            touched = tasks.setdefault(operation.source, set())
            if operation.task != WHOLE or not touched:
                touched.add(operation.task)
    notices = []
    for source, numbers in sorted(tasks.items()):
        closure = image.capacity.closures[source]
        planned = image.maintenance.rows.get(source)
        ends_at = planned.starts_at if planned is not None else closure.at + closure.deadline
        has_deadline = planned is not None or closure.deadline > 0
        notices.append(
            AdvanceNotice(
                source,
                planned.kind if planned is not None else None,
                tuple(sorted(numbers)),
                closure.reason,
                max(1, ends_at - now) if has_deadline else 0,
                planned.lasts if planned is not None else 0,
            )
        )
    return tuple(notices)


def _places(image: RegionImage, key: AttemptKey, row: AttemptControl) -> list[tuple[int, int]]:
    """Return task numbers and nodes: all tasks of a gang, or the independent tasks that are up or completed."""
    if row.stands_alone:
        return [(number, task.node) for number, task in row.tasks.items() if not task.is_missed]
    held = image.capacity.holding(*key)
    return [
        (task_number(job, rank), node)
        for job, spread in enumerate(held.claim.spreads if held is not None else ())
        for rank, node in enumerate(nodes_of_ranks(spread))
    ]
