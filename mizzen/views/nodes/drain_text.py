"""A drain or a maintenance for whoever was woken by it: first whether it is done, then what does not move by itself, then the racks."""

from collections.abc import Iterable, Mapping

from core.nouns.instant import Instant
from core.nouns.limits import CONTROL_SAY_AGAIN, CONTROL_SILENCE_MAX, PLACE_AGAIN
from core.nouns.maintenance import ClosureKind, MaintenanceKind, MaintenancePhase
from core.nouns.placement import runs_of
from mizzen.views.nodes.drain_progress import LeavingRow, Progress, RackRow
from mizzen.views.nodes.occupants import URGENCY, Wait, WaitKind
from mizzen.views.phrases.durations import clock_text, short_text
from mizzen.views.phrases.text import columns_text, nodes_text

COLUMNS = ("RACK", "EMPTY", "WORKLOAD", "TASKS", "NODELIST", "SINCE", "FORCED", "WAITS FOR")
FIGURES = ("RACK", "TASKS", "SINCE", "FORCED")
OVERVIEW = ("REGION", "NAME", "STATE", "NODES", "EMPTY", "LEFT", "WORKLOADS", "NODELIST", "REASON")
OVERVIEW_FIGURES = ("NODES", "EMPTY", "LEFT", "WORKLOADS")
CALLS_SHOWN_MAX = 8
"""Of what wants a look; the table has all."""
WORKLOADS_SHOWN_MAX = 3
"""That one of them names."""
PATIENCE = 5 * CONTROL_SAY_AGAIN
"""What task control does by itself it has done within this, unless it is down."""
ROOM_PATIENCE = 3 * PLACE_AGAIN
"""So many tries to find room may fail before somebody is told."""

FORCEABLE = (
    WaitKind.CONTROLLER,
    WaitKind.CHECKPOINT,
    WaitKind.FIRST,
    WaitKind.LIMIT,
    WaitKind.BUDGET,
    WaitKind.TURN,
    WaitKind.UNASKED,
)
"""What a deadline puts an end to."""

Heard = Mapping[str, int]
"""By `tenant/controller`, nanoseconds since the region last heard it; below zero: never."""


def lines_of(
    progress: Progress, now: Instant, heard: Heard | None = None, width: int | None = None
) -> list[str]:
    """All that there is to see."""
    known = heard or {}
    lines = [*brief_of(progress, now, known), f"  {_story(progress, now)}"]
    rows = [_cells(progress, rack, row, now, known) for rack in progress.racks for row in rack.rows]
    if rows:
        lines += [
            "",
            *(f"  {line}".rstrip() for line in columns_text(COLUMNS, rows, _less(width, 2), FIGURES)),
        ]
    return [*lines, *_quiet(progress)]


def brief_of(progress: Progress, now: Instant, heard: Heard) -> list[str]:
    """What to read first: how far it is, and a line for each thing that wants a look."""
    calls = _calls(progress, now, heard)
    more = len(calls) - CALLS_SHOWN_MAX
    shown = [f"  ! {call}" for call in calls[:CALLS_SHOWN_MAX]]
    return [_head(progress, now), *shown, *([f"  ! and {more} more"] if more > 0 else [])]


def _head(progress: Progress, now: Instant) -> str:
    """In a line how far it is, and what happens next by itself."""
    parts = [_window(progress, now), _emptiness(progress)]
    if progress.left and progress.forced_at and not progress.starts_at:
        parts.append(f"forced {_in(progress.forced_at, now)}")
    return f"{progress.source} of {progress.region}: {', '.join(part for part in parts if part)}"


def wait_text(wait: Wait, progress: Progress, now: Instant, heard: Heard) -> str:
    """What a task waits for."""
    what = wait.what
    match wait.kind:
        case WaitKind.STUCK:
            return "capacity elsewhere, stuck" if what == "room" else "its stop, stuck"
        case WaitKind.BUDGET:
            return f"the budget of stops a minute that {what} has used up"
        case WaitKind.CONTROLLER:
            return f"its controller {what}{_silence(what, heard)}"
        case WaitKind.ROOM:
            return "capacity elsewhere (it has stopped)"
        case WaitKind.UNASKED:
            return f"task control of {progress.region} to ask for it"
        case WaitKind.CHECKPOINT:
            return f"a checkpoint after step {what}"
        case WaitKind.FIRST:
            return f"its {what}, which comes first"
        case WaitKind.LIMIT:
            return f"its own limit: {what} tasks are down"
        case WaitKind.TURN:
            return "nothing: it may go now"
        case WaitKind.STOPPING:
            return f"its stop ({what})" if what else "its stop"
        case WaitKind.WINDOW:
            return "the window (it returns afterwards)"
        case WaitKind.NOTICE:
            return f"the notice {_in(progress.notice_at, now)}"
        case WaitKind.RETURN:
            return f"the end of {what} (it has stopped)"
        case WaitKind.STAYS:
            return "nothing: it may stay"
    return "its node, which is lost"


def overview_of(found: Iterable[Progress], now: Instant, width: int | None = None) -> list[str]:
    """A line for each drain or maintenance, those first that are not done."""
    ordered = sorted(
        found, key=lambda one: (one.is_done, one.starts_at, one.region, len(one.source), one.source)
    )
    rows = [
        (
            one.region,
            one.source,
            _state(one, now),
            one.nodes,
            one.empty,
            one.left,
            len(one.workloads),
            nodes_text(one.region, one.node_runs),
            _reason(one),
        )
        for one in ordered
    ]
    return columns_text(OVERVIEW, rows, width, OVERVIEW_FIGURES)


def _state(progress: Progress, now: Instant) -> str:
    """Where it is in its life, and when that changes."""
    if progress.kind is ClosureKind.MAINTENANCE:
        return f"{progress.work} {_window(progress, now)}"
    if progress.is_done:
        return f"drained, {progress.lost} lost" if progress.lost else "drained"
    forced = f", forced {_in(progress.forced_at, now)}" if progress.forced_at else ""
    return f"draining{forced}"


def _window(progress: Progress, now: Instant) -> str:
    if not progress.starts_at:
        return ""
    if progress.phase == MaintenancePhase.OPEN:
        return f"open until {clock_text(progress.ends_at, now)}"
    opens = f"opens {_in(progress.starts_at, now)} at {clock_text(progress.starts_at, now)}"
    if progress.phase == MaintenancePhase.PLANNED:
        return f"{opens}, notice {_in(progress.notice_at, now)}"
    return opens


def _emptiness(progress: Progress) -> str:
    lost = f", {_are(progress.lost)} lost" if progress.lost else ""
    if progress.is_done and not progress.staying and not progress.lost:
        return f"{_nodes(progress.nodes)} {'is' if progress.nodes == 1 else 'are'} empty"
    are = "is" if progress.nodes == 1 else "are"
    empty = f"{progress.empty} of {_nodes(progress.nodes)} {are} empty{lost}"
    if not progress.left:
        stay = f", {_tasks(progress.staying)} may stay" if progress.staying else ""
        return f"{empty}{stay}, nothing else is left"
    of = len(progress.workloads)
    return f"{empty}, {_tasks(progress.left)} of {of} {'workload' if of == 1 else 'workloads'} to go"


def _story(progress: Progress, now: Instant) -> str:
    """Which nodes, since when, by whom and why."""
    where = (
        f"{nodes_text(progress.region, progress.node_runs)}, {_racks([rack.rack for rack in progress.racks])}"
    )
    what = f"{progress.work} work planned" if progress.work else "drained"
    by = f" by {progress.by}" if progress.by else ""
    lasts = f", for {short_text(progress.ends_at - progress.starts_at)}" if progress.starts_at else ""
    lifts = f"; lifts itself in {short_text(max(0, progress.lifts_at - now))}" if progress.lifts_at else ""
    return f"{where}{lasts}; {what} {short_text(now - progress.since)} ago{by}: {_reason(progress)}{lifts}"


def _reason(progress: Progress) -> str:
    return progress.reason or progress.work or "no reason was given"


def _quiet(progress: Progress) -> list[str]:
    """The racks that have nobody to be shown: those that are empty, and those of which nobody can tell."""
    lines = []
    empty = [rack.rack for rack in progress.racks if not rack.rows and rack.empty == rack.nodes]
    if empty and len(empty) < len(progress.racks):
        lines.append(f"  {_racks(empty)}: empty")
    dark = [rack for rack in progress.racks if not rack.rows and rack.lost]
    if dark:
        lost = sum(rack.lost for rack in dark)
        told = f"{_nodes(lost)} {'is' if lost == 1 else 'are'} lost; it is not known which tasks run there"
        lines.append(f"  {_racks([rack.rack for rack in dark])}: {told}")
    return lines


def _racks(racks: list[int]) -> str:
    listed = ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs_of(racks))
    return f"{'rack' if len(racks) == 1 else 'racks'} {listed}"


# What wants a look.


def _calls(progress: Progress, now: Instant, heard: Heard) -> list[str]:
    """What does not move by itself, or not in time: a line for each cause, the most urgent first."""
    calls = []
    if progress.phase == MaintenancePhase.OPEN and progress.left and _needs_empty(progress):
        still = f"the window is open, and {_tasks(progress.left)} may still run"
        calls.append(f"{still}: do not touch those nodes yet")
    found: dict[tuple[int, str], list[LeavingRow]] = {}
    for row in (row for rack in progress.racks for row in rack.rows):
        if _calls_for_a_look(row, now, heard):
            found.setdefault((URGENCY[row.wait.kind], row.wait.what), []).append(row)
    for rows in sorted(found.values(), key=_order):
        tasks = sum(row.tasks for row in rows)
        since = min(row.wait.since for row in rows)
        waits = f"{_have(tasks)} waited {short_text(now - since)}" if since else _wait(tasks)
        text = wait_text(rows[0].wait, progress, now, heard)
        calls.append(f"{_workloads(rows)}: {_tasks(tasks)} {waits} for {text}: {_advice(rows, progress)}")
    return calls


def _order(rows: list[LeavingRow]) -> tuple[int, bool, int, str]:
    """What nothing forces before what is forced in time, and the most tasks first."""
    wait = rows[0].wait
    return URGENCY[wait.kind], _is_forced(rows), -sum(row.tasks for row in rows), wait.what


def _is_forced(rows: list[LeavingRow]) -> bool:
    return all(row.wait.forced_at for row in rows)


def _workloads(rows: list[LeavingRow]) -> str:
    names = list(dict.fromkeys(row.workload for row in rows))
    more = len(names) - WORKLOADS_SHOWN_MAX
    return ", ".join(names[:WORKLOADS_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")


def _calls_for_a_look(row: LeavingRow, now: Instant, heard: Heard) -> bool:
    wait = row.wait
    match wait.kind:
        case WaitKind.STUCK | WaitKind.BUDGET:
            return True
        case WaitKind.CONTROLLER:
            is_held = not wait.forced_at or bool(_silence(wait.what, heard))
            return is_held and wait.since + PATIENCE <= now
        case WaitKind.UNASKED | WaitKind.TURN:
            return wait.since + PATIENCE <= now
        case WaitKind.ROOM:
            return wait.since + ROOM_PATIENCE <= now
    return False


def _advice(rows: list[LeavingRow], progress: Progress) -> str:
    """What to do about it."""
    kind = rows[0].wait.kind
    match kind:
        case WaitKind.CONTROLLER if not _is_forced(rows):
            return f"nothing forces it; `mizzen drain {progress.source} --deadline 10m` would"
        case WaitKind.CONTROLLER:
            return "it is stopped unasked when its time is up"
        case WaitKind.UNASKED | WaitKind.TURN:
            return f"see that task control of {progress.region} is up"
        case WaitKind.ROOM:
            return f"`mizzen nodes --region {progress.region}` tells how much is free"
        case WaitKind.BUDGET:
            return "more may stop in a minute"
    return f"`mizzen log region.{progress.region} --about {rows[0].workload}` tells more"


def _needs_empty(progress: Progress) -> bool:
    return MaintenanceKind(progress.work).needs_empty


def _silence(controller: str, heard: Heard) -> str:
    ago = heard.get(controller)
    if ago is None or 0 <= ago <= CONTROL_SILENCE_MAX:
        return ""
    return ", never heard" if ago < 0 else f", not heard for {short_text(ago)}"


# The table.


def _cells(
    progress: Progress, rack: RackRow, row: LeavingRow, now: Instant, heard: Heard
) -> tuple[object, ...]:
    wait = row.wait
    return (
        row.rack,
        f"{rack.empty}/{rack.nodes}",
        row.workload,
        row.tasks,
        nodes_text(progress.region, row.nodes),
        short_text(now - wait.since) if wait.since else "-",
        _forced(wait, now),
        wait_text(wait, progress, now, heard),
    )


def _forced(wait: Wait, now: Instant) -> str:
    """Whether consent is only waited for until then; nothing to say of what is under way already."""
    if wait.forced_at:
        return _in(wait.forced_at, now)
    return "never" if wait.kind in FORCEABLE else "-"


def _in(at: int, now: Instant) -> str:
    return f"in {short_text(at - now)}" if at > now else "now"


def _tasks(count: int) -> str:
    return f"{count} task" if count == 1 else f"{count} tasks"


def _nodes(count: int) -> str:
    return f"{count} node" if count == 1 else f"{count} nodes"


def _are(count: int) -> str:
    return f"{count} {'is' if count == 1 else 'are'}"


def _wait(count: int) -> str:
    return "waits" if count == 1 else "wait"


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _less(width: int | None, by: int) -> int | None:
    return None if width is None else width - by
