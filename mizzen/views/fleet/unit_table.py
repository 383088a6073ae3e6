"""The units of a plane as a table, and below the table each thing that an operator should look at."""

from collections.abc import Sequence

from core.messages.auditor import FoundViolation
from core.nouns.instant import MILLISECOND
from mizzen.views.fleet.plane_health import WORKER, PlaneHealth, UnitHealth
from mizzen.views.phrases.durations import short_text
from mizzen.views.phrases.text import columns_text

COLUMNS = ("UNIT", "STATE", "HOST", "BUILD", "UP", "RESTARTS", "BEHIND", "WAITING", "LATE", "LOST")
FIGURES = ("UP", "RESTARTS", "BEHIND", "WAITING", "LATE", "LOST")
WORKERS_LISTED_MAX = 20
"""Workers without trouble that are listed one by one; more are one line, unless all are asked for."""
VIOLATIONS_LISTED_MAX = 10
LATE_MIN = 100 * MILLISECOND
"""Of an event loop: less is shown as none."""
STATES = {"": "UP", "does not answer": "SILENT", "never heard": "MISSING"}


def lines_of(health: PlaneHealth, width: int | None, *, shows_all: bool) -> list[str]:
    """Return the table, the troubles and the violations."""
    listed, well = _listed(health.units, shows_all=shows_all)
    lines = columns_text(COLUMNS, [_cells(one) for one in listed], width, FIGURES)
    if well:
        lines.append(f"and {well} workers that are well; --all lists them")
    troubles = [
        *(
            []
            if health.has_auditor
            else ["auditor: does not answer, so missing units and violations are not known"]
        ),
        *(f"{one.unit}: {text}" for one in health.units for text in _told(one)),
    ]
    if troubles:
        lines += ["", *troubles]
    if health.violation_count:
        lines += ["", *_violation_lines(health.violations, health.violation_count)]
    return lines


def _listed(units: Sequence[UnitHealth], *, shows_all: bool) -> tuple[list[UnitHealth], int]:
    """Return the units with a line of their own, and the number of workers without one."""
    well = [one for one in units if one.unit.startswith(WORKER) and not one.troubles and not one.restarts]
    if shows_all or len(well) <= WORKERS_LISTED_MAX:
        return list(units), 0
    hidden = {one.unit for one in well}
    return [one for one in units if one.unit not in hidden], len(well)


def _cells(one: UnitHealth) -> tuple[object, ...]:
    status, state = one.status, STATES[one.fault]
    if status is None:
        return one.unit, state, "-", "-", "-", "-", "-", "-", "-", "-"
    if status.waits_for and not one.fault:
        state = "WAITS"
    late = "-" if status.late < LATE_MIN else f"{status.late / MILLISECOND / 1000:.1f}s"
    return (
        one.unit,
        state,
        status.host,
        status.build,
        short_text(status.up_for + one.silent_for),
        one.restarts,
        status.behind,
        status.waiting,
        late,
        sum(status.counts.values()),
    )


def _told(one: UnitHealth) -> list[str]:
    """Return the troubles of a unit, what its last life ended of, and its counts."""
    status = one.status
    found = list(one.troubles)
    if one.fault == "does not answer":
        found[0] = f"does not answer, silent for {short_text(one.silent_for)}"
    if status is None:
        return found
    if status.last_end:
        found.append(f"its life before this one ended: {status.last_end}")
    if status.counts:
        found.append(", ".join(f"{name} {count}" for name, count in sorted(status.counts.items())))
    return found


def _violation_lines(violations: Sequence[FoundViolation], count: int) -> list[str]:
    shown = violations[:VIOLATIONS_LISTED_MAX]
    more = count - len(shown)
    return [
        f"{count} {'invariant is' if count == 1 else 'invariants are'} broken:",
        *(f"  rule {one.rule}: {one.log} {one.sequence}: {one.text}" for one in shown),
        *([f"  and {more} more"] if more > 0 else []),
        "docs/operating.md says what to do; then `mizzen plane acknowledge`",
    ]
