"""What a controller is asked: the whole state of one attempt, as Twine's six fields and what it acknowledged."""

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
    """The request that the image makes now, small enough to be said.

    closing   what empties each closed node (`closing_of`)
    now       on the keeper's clock, as well as can be told
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
    """The most urgent of what is asked, each with the notice that calls for it, and other notices as there is room.

    Which tasks are down is never cut: a controller that knew of a part would give away what is left. What has no room comes up
    once these have been begun; one that is too long for what is left keeps none out that is not.
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
    """Whether a controller has anything to hear or to decide."""
    return any(
        operation.phase is OperationPhase.ASKED or not operation.is_live
        for operation in row.operations.values()
    )


def _urgency(asked: tuple[int, OperationRow]) -> tuple[bool, int, int]:
    """What begins unasked comes first, the nearest deadline before the others: what is held may wait in front of nothing."""
    number, operation = asked
    return not operation.deadline, operation.requested_at + operation.deadline, number


def _asked(number: int, operation: OperationRow, now: Instant) -> OperationAsked:
    left = max(1, operation.requested_at + operation.deadline - now) if operation.deadline else 0
    notice = operation.source if operation.source.startswith((DRAIN, MAINTENANCE)) else ""
    return OperationAsked(number, operation.kind, operation.task, operation.reason, notice, left)


def _notices(
    image: RegionImage, closing: Closing, key: AttemptKey, row: AttemptControl, now: Instant
) -> tuple[AdvanceNotice, ...]:
    """One for each drain and maintenance that any of its tasks is under, or that an operation is for.

    Also where nothing is asked for it yet: an update that its controller holds stands before a drain that can wait.
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
    """Where each task is: of a gang those that its controller may have to do without."""
    if row.stands_alone:
        return [(number, task.node) for number, task in row.tasks.items() if not task.is_missed]
    held = image.capacity.holding(*key)
    return [
        (task_number(job, rank), node)
        for job, spread in enumerate(held.claim.spreads if held is not None else ())
        for rank, node in enumerate(nodes_of_ranks(spread))
    ]
