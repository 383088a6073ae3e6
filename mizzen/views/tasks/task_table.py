"""The tasks of one attempt: where each is, since when, and what is about to happen to it and waits for what."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from core.images import RegionImage
from core.images.control import AttemptControl, OperationRow, TaskPhase, TaskRow
from core.images.region import AttemptPhase, AttemptRow
from core.nouns.ids import AttemptKey, RegionName
from core.nouns.instant import Instant
from core.nouns.operation import WHOLE, job_and_rank
from mizzen.views.phrases.text import columns_text, nodes_text, time_text
from mizzen.views.tasks.operation_waits import Controllers, Waits, left_of

COLUMNS = ("TASK", "NODE", "STATE", "CAUSE", "FOR", "RUN", "OPERATION", "WAITS FOR")
FIGURES = ("FOR", "RUN")
SECTIONS = ("attempts", "control", "maintenance", "destruction")
OF_RETURNS = (*SECTIONS, "capacity")
"""Where something stopped to return: whether its node was drained meanwhile. That section is by far the largest."""
"""Of a region's image: what is read here."""
NO_CONTROLLERS: Controllers = {}


class OperationShown(Struct, frozen=True):
    """One operation that is not over."""

    number: int
    kind: str
    phase: str
    reason: str
    source: str
    """The drain, maintenance or change that calls for it."""
    requester: str
    asked_ago: int
    """Nanoseconds."""
    begins_in: int
    """Nanoseconds until it begins unasked; 0: it never does, or has begun."""
    waits: str
    """For what, in one word."""
    waits_for: str
    is_unreachable: bool
    """Whether the controller that it waits for does not answer."""
    is_stuck: bool


class TaskShown(Struct, frozen=True):
    """One task that stands alone, or those of a gang's job that are on one node."""

    job: str
    first: int
    """Rank, or the first of several."""
    last: int
    node: int
    """-1: it has none."""
    state: str
    cause: str
    """Why it is not up."""
    ago: int
    """Nanoseconds since it is so; -1: not told."""
    run: int
    """How often it was started again in this attempt; -1: it has not been started yet."""
    failures: int
    task: int
    """Its number, by which operations know it; -1: the whole gang."""
    operation: OperationShown | None = None


def rows_of(
    image: RegionImage,
    key: AttemptKey,
    now: Instant,
    controllers: Controllers = NO_CONTROLLERS,
    up_for: int = -1,
) -> list[TaskShown]:
    """Every task of a live attempt, by job and rank; none of one that holds nothing here.

    `image` has `SECTIONS`, or `OF_RETURNS`; `now` is on the keeper's clock, as well as can be told.
    Since when a gang is up that was never touched, only the queue knows: `up_for`.
    """
    attempt = image.attempts.row(*key)
    row = image.control.spec_of(*key)
    if attempt is None or row is None or not attempt.phase.is_live:
        return []
    waits = Waits(row, image, now, controllers)
    shown = {
        operation.task: _operation(number, operation, waits, now)
        for number, operation in row.operations.items()
        if operation.is_live
    }
    if not row.stands_alone:
        return _of_gang(attempt, row, now, up_for, shown.get(WHOLE))
    of_all = shown.get(WHOLE)
    return [_of_task(attempt, row, number, now, shown.get(number, of_all)) for number in sorted(row.tasks)]


def _operation(number: int, operation: OperationRow, waits: Waits, now: Instant) -> OperationShown:
    wait = waits.of(operation)
    return OperationShown(
        number=number,
        kind=operation.kind,
        phase=operation.phase,
        reason=operation.reason,
        source=operation.source,
        requester=operation.requester,
        asked_ago=max(0, now - operation.requested_at),
        begins_in=left_of(operation, now),
        waits=wait.code,
        waits_for=wait.text,
        is_unreachable=wait.is_unreachable,
        is_stuck=operation.is_stuck,
    )


def _of_task(
    attempt: AttemptRow, row: AttemptControl, number: int, now: Instant, operation: OperationShown | None
) -> TaskShown:
    job, rank = job_and_rank(number)
    task = row.tasks[number]
    is_stopping = bool(attempt.stop_cause) and task.phase in (TaskPhase.STARTING, TaskPhase.UP)
    return TaskShown(
        job=row.jobs[job].name,
        first=rank,
        last=rank,
        node=task.node,
        state="stopping" if is_stopping else task.phase,
        cause=attempt.stop_cause if is_stopping else task.cause,
        ago=max(0, now - task.since),
        run=task.run,
        failures=task.failures,
        task=number,
        operation=operation,
    )


def _of_gang(
    attempt: AttemptRow, row: AttemptControl, now: Instant, up_for: int, operation: OperationShown | None
) -> list[TaskShown]:
    """By job and node, in the order of ranks: they are numbered node by node."""
    whole = row.tasks.get(WHOLE)
    state, cause = _gang_state(attempt, whole)
    ago = up_for if state == TaskPhase.UP else -1
    if whole is not None and state == whole.phase and (whole.run or state != TaskPhase.UP):
        # Its row began with its first operation, and tells only what has happened since.
        ago = max(0, now - whole.since)
    found = []
    for job, spread in zip(row.jobs, attempt.spreads, strict=True):
        first = 0
        for node, tasks in zip(spread.nodes, spread.tasks, strict=True):
            found.append(
                TaskShown(
                    job=job.name,
                    first=first,
                    last=first + tasks - 1,
                    node=node,
                    state=state,
                    cause=cause,
                    ago=ago,
                    run=whole.run if whole is not None else 0,
                    failures=0,
                    task=WHOLE,
                    operation=operation,
                )
            )
            first += tasks
    return found


def _gang_state(attempt: AttemptRow, whole: TaskRow | None) -> tuple[str, str]:
    if attempt.stop_cause:
        return "stopping", attempt.stop_cause
    if attempt.phase is AttemptPhase.GRANTED:
        return TaskPhase.STARTING, ""
    if whole is None:
        return TaskPhase.UP, ""
    return whole.phase, whole.cause


# For people, and for machines.


def ranks_text(row: TaskShown) -> str:
    """`main/3`, or `main/0-7`."""
    ranks = str(row.first) if row.first == row.last else f"{row.first}-{row.last}"
    return f"{row.job}/{ranks}"


def table_of(region: RegionName, rows: Iterable[TaskShown], width: int | None = None) -> list[str]:
    """The lines of a table."""
    return columns_text(COLUMNS, [_cells(region, row) for row in rows], width, FIGURES)


def _cells(region: RegionName, row: TaskShown) -> tuple[object, ...]:
    operation = row.operation
    return (
        ranks_text(row),
        nodes_text(region, ((row.node, row.node),)) if row.node >= 0 else "-",
        row.state,
        row.cause or "-",
        time_text(row.ago) if row.ago >= 0 else "-",
        row.run if row.run >= 0 else "-",
        f"{operation.kind} {operation.number}" if operation is not None else "-",
        waits_text(operation) if operation is not None else "",
    )


def waits_text(operation: OperationShown) -> str:
    """What it waits for, and who wants it done."""
    stuck = "STUCK: " if operation.is_stuck else ""
    return f"{stuck}{operation.waits_for} ({why_text(operation)})"


def why_text(operation: OperationShown) -> str:
    """What calls for it."""
    return f"{operation.source}: {operation.reason}" if operation.source else operation.reason


def builtins_of(row: TaskShown) -> dict[str, Any]:  # Any: whatever JSON can hold
    """A row as JSON has it."""
    told: dict[str, Any] = msgspec.to_builtins(row)
    return told
