"""The mailboxes of a plane's processes, as each process tells them: how long messages waited, by class, and which were late or lost."""

import asyncio
import difflib
import heapq
from collections.abc import Iterable, Sequence
from itertools import takewhile

from msgspec import Struct

from bus.port import Bus
from core.messages.dispatch import (
    ClassWaits,
    DispatchAnswered,
    DispatchShown,
    ShowDispatch,
    ShowDispatchSettings,
)
from core.messages.units import ShowUnits, UnitsShown
from core.nouns.dispatch import DEFAULT_QUANTUM, DEFAULT_RATE, DispatchSettings, Target, UrgencyClass
from core.nouns.ids import RegionName
from core.nouns.instant import MILLISECOND, SECOND, Nanoseconds, seconds
from mizzen.connect.plane import ask
from mizzen.jobs.values import span_text
from mizzen.terminal.output import MISUSED, CommandError
from mizzen.views.phrases.text import columns_text
from runtime.wiring import Unit, bus_name_of

ANSWER_SPAN: Nanoseconds = seconds(2)
"""A mailbox is told beside the messages in it, in milliseconds; a process without an answer after so long hangs, is down or is cut off."""
ASKED_AT_ONCE_MAX = 256
"""Processes that are asked at the same time; a plane may have 100,000 workers."""
NEAREST_MAX = 3
"""Names that are told beside an unknown one."""
NEAREST_OF_MAX = 200
"""Names among which the nearest are looked for: those that begin most alike."""
AUDITOR, QUEUE = "auditor", "job_queue"
COLUMNS = (
    "PROCESS", "CLASS", "WAITING", "TAKEN", "P50", "P99", "LATE", "HANDED-OVER", "MOVED", "LOST", "DISBELIEVED",
)  # fmt: skip
SELDOM = ("HANDED-OVER", "MOVED", "LOST", "DISBELIEVED")
"""Columns that are left out where all counts are 0."""
NONE = "-"


class ProcessDispatch(Struct, frozen=True):
    """One process and its mailbox."""

    unit: str
    """As `mizzen plane` lists the process."""
    process: str
    """As the process is called on the bus and in log lines."""
    settings: DispatchSettings
    revision: int
    """Of the settings by which the mailbox goes; 0: the default ones."""
    classes: tuple[ClassWaits, ...]


class PlaneDispatch(Struct, frozen=True):
    """The mailboxes of a plane."""

    settings: DispatchSettings | None
    """As the queue tells them; where the queue does not answer, the newest by which a process goes; None: no process answers."""
    revision: int
    processes: tuple[ProcessDispatch, ...]
    """In the order of their units."""


Silent = list[tuple[str, str]]
"""Each process without an answer, and the reason."""


async def dispatch_of_plane(
    bus: Bus, process: str = "", *, with_workers: bool = False
) -> tuple[PlaneDispatch, Silent]:
    """Return the settings and the mailboxes of one process or of all, and the processes that do not answer.

    Raises CommandError if there is no process of that name. Without the auditor's list of units a named process is asked all the same,
    and of the others only the queue.
    """
    silent: Silent = []
    told, why = None, ""
    try:
        # First: settings that are new meanwhile are no reason to call a process behind.
        told = await ask(bus, ShowDispatchSettings(), DispatchAnswered)
    except CommandError as error:
        why = str(error)
    try:
        listed = await _units(bus)
    except CommandError as error:
        silent.append((AUDITOR, str(error)))
        units = [process or QUEUE]
    else:
        units = chosen_units(listed, process, with_workers=with_workers)
    found, missing = await _ask_all(bus, units)
    silent += [(unit, said) for unit, said in missing if unit not in dict(silent)]
    if told is not None:
        return PlaneDispatch(told.settings, told.revision, tuple(found)), silent
    if QUEUE not in dict(silent):
        silent.append(("the queue's answer about settings", why))
    newest = max(found, key=lambda one: one.revision, default=None)
    if newest is None:
        return PlaneDispatch(None, 0, ()), silent
    return PlaneDispatch(newest.settings, newest.revision, tuple(found)), silent


def chosen_units(units: Iterable[str], process: str, *, with_workers: bool) -> list[str]:
    """Return the units to ask: those with a mailbox, or the one that is named. Raises CommandError if there is none of that name."""
    listed = [name for name in units if _role_of(name) != "reader"]
    if not process:
        return [name for name in listed if with_workers or _role_of(name) != "worker"]
    for name in listed:
        if process in (name, bus_name(name)):
            return [name]
    if _role_of(process) == "reader":
        raise CommandError(f"{process[:80]}: readers have no mailbox; name another process", MISUSED)
    near = _nearest(process[:80], listed)
    hint = f"; the nearest are {', '.join(near)}" if near else ""
    raise CommandError(f"there is no process {process[:80]}{hint}; `mizzen plane` lists all", MISUSED)


def bus_name(unit: str) -> str:
    """Return the name on the bus of a unit that has a mailbox."""
    role, _, rest = unit.partition(".")
    return bus_name_of(Unit(role, RegionName(rest)))


def lines_of(found: PlaneDispatch, width: int | None) -> list[str]:
    """Return the settings, the table by process and class, and the processes that go by older settings."""
    rows = [cells for one in found.processes for cells in _rows(one)]
    seldom = [at for at, name in enumerate(COLUMNS) if name in SELDOM]
    left_out = {at for at in seldom if all(row[at] in (0, NONE) for row in rows)}
    kept = [at for at in range(len(COLUMNS)) if at not in left_out]
    columns = [COLUMNS[at] for at in kept]
    table = columns_text(columns, [[row[at] for at in kept] for row in rows], width, columns[2:])
    behind = [
        f"{one.unit} goes by {_revision_text(one.revision)}; the newest is revision {found.revision}"
        for one in found.processes
        if one.revision < found.revision
    ]
    known = found.settings
    return [
        settings_text(known, found.revision) if known is not None else "the settings are not known",
        *(["", *table] if rows else []),
        *(["", *behind] if behind else []),
    ]


def settings_text(settings: DispatchSettings, revision: int) -> str:
    """Return in a sentence the order by which messages are decided, and all that differs from the default settings."""
    parts = [
        f"{sort} within {_span_text(target.within)} (longest wait {_span_text(target.max_wait)})"
        for sort, target in _ordered(settings.targets)
    ]
    if settings.quantum != DEFAULT_QUANTUM:
        parts.append(f"a quantum of {_span_text(settings.quantum)}")
    if settings.rate != DEFAULT_RATE or settings.policy == "token":
        parts.append(f"{settings.rate} requests of a tenant in a second")
    details = f": {', '.join(parts)}" if parts else ""
    return f"messages are decided by {settings.policy}, {_revision_text(revision)}{details}"


async def _units(bus: Bus) -> list[str]:
    """Return all units that the auditor knows. Raises CommandError."""
    found: list[str] = []
    behind = ""
    while True:
        shown = await ask(bus, ShowUnits(behind), UnitsShown)
        found += [one.unit for one in shown.units]
        behind = shown.following
        if not behind:
            return found


async def _ask_all(bus: Bus, units: Sequence[str]) -> tuple[list[ProcessDispatch], Silent]:
    """Return each unit's mailbox, and the units that do not answer, both in the order given."""
    answers: dict[str, ProcessDispatch] = {}
    silent: dict[str, str] = {}
    left = iter(units)

    async def ask_some() -> None:
        for unit in left:
            name = bus_name(unit)
            try:
                shown = await ask(bus, ShowDispatch(name), DispatchShown, ANSWER_SPAN)
                answers[unit] = ProcessDispatch(
                    unit, shown.process, shown.settings, shown.revision, shown.classes
                )
            except CommandError as error:
                silent[unit] = str(error)

    await asyncio.gather(*(ask_some() for _ in range(min(ASKED_AT_ONCE_MAX, len(units)))))
    return (
        [answers[unit] for unit in units if unit in answers],
        [(unit, silent[unit]) for unit in units if unit in silent],
    )


def _role_of(unit: str) -> str:
    return unit.partition(".")[0]


def _nearest(process: str, units: Sequence[str]) -> list[str]:
    """Return the names, of units or on the bus, that are most like an unknown one; those of workers come last."""
    first = sorted(units, key=lambda name: _role_of(name) == "worker")
    names = dict.fromkeys(name for unit in first for name in (unit, bus_name(unit)))
    alike = heapq.nlargest(NEAREST_OF_MAX, names, key=lambda name: _letters_alike(name, process))
    near = difflib.get_close_matches(process, alike, n=NEAREST_MAX)
    return near or [name for name in alike if f".{process}." in f".{name}."][:NEAREST_MAX]


def _letters_alike(one: str, other: str) -> int:
    """Return the number of letters with which both texts begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _rows(one: ProcessDispatch) -> list[tuple[object, ...]]:
    """Return a row for each class of which a process has something to tell; a process with nothing to tell has one row."""
    rows: list[tuple[object, ...]] = [
        (
            one.unit, waits.sort, waits.waiting, waits.taken, *_percentiles(waits),
            waits.late, waits.handed_over, waits.moved, waits.lost, waits.disbelieved,
        )
        for waits in one.classes
        if waits.waiting or waits.taken or waits.lost or waits.disbelieved
    ]  # fmt: skip
    return rows or [(one.unit, *(NONE,) * (len(COLUMNS) - 1))]


def _percentiles(waits: ClassWaits) -> tuple[str, str]:
    if not waits.taken:
        return NONE, NONE
    return wait_text(waits.p50), wait_text(waits.p99)


def wait_text(nanoseconds: int) -> str:
    """Return a wait with two or three digits: `0.3ms`, `42ms`, `1.7s`."""
    if nanoseconds < 10 * MILLISECOND:
        return f"{nanoseconds / MILLISECOND:.1f}ms"
    if nanoseconds < SECOND:
        return f"{nanoseconds / MILLISECOND:.0f}ms"
    return f"{nanoseconds / SECOND:.1f}s"


def _ordered(targets: dict[str, Target]) -> list[tuple[str, Target]]:
    return [(str(sort), targets[sort]) for sort in UrgencyClass if sort in targets]


def _span_text(span: int) -> str:
    """Return a span as `mizzen dispatch set` takes it, exactly."""
    if span % MILLISECOND == 0:
        return span_text(span)
    return f"{span / MILLISECOND:.6f}".rstrip("0") + "ms"


def _revision_text(revision: int) -> str:
    return f"revision {revision} of the settings" if revision else "the default settings"
