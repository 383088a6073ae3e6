"""The health of a plane: the status of each unit, and the violations that no operator has acknowledged."""

import asyncio

from msgspec import Struct

from bus.catalogue import STATUS
from bus.port import Address, Bus
from core.codec import Parcel
from core.messages.auditor import AuditShown, FoundViolation, ShowAudit
from core.messages.units import SeenUnit, ShowUnits, StatusWanted, UnitsShown, UnitStatus
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.limits import STATUS_INTERVAL, STATUS_MISSED_MAX
from mizzen.connect.plane import ask
from mizzen.terminal.output import CommandError
from mizzen.views.phrases.durations import short_text
from runtime.status.unit_status import GROWN_INTERVALS

ANSWER_SPAN: Nanoseconds = seconds(2)
"""Units answer in milliseconds; one that has not answered after so long hangs, is down, or is cut off."""
LOOK_AGAIN_SECONDS = 0.02
WORKER = "worker."
TROUBLING = frozenset({"log_full", "not_archived", "not_said", "unanswered"})
"""Counts that no log heals: while one grows, an operator should look."""


class UnitHealth(Struct, frozen=True):
    """One unit, as it is now."""

    unit: str
    status: UnitStatus | None
    """The newest status; None: no status of it is known."""
    silent_for: int
    """Nanoseconds since that status, or since the auditor's start."""
    restarts: int
    """Lives before the present one, as far as the supervisor or the auditor has counted them."""
    fault: str = ""
    """Why the unit seems not to be there; empty: it is there."""

    @property
    def troubles(self) -> list[str]:
        """Each thing about the unit that an operator should look at, as a phrase."""
        status = self.status
        if status is None:
            return [self.fault] if self.fault else []
        found = [self.fault] if self.fault else []
        if status.waits_for:
            found.append(status.waits_for)
        found += [
            f"{name} has grown to {status.counts.get(name, 0)} within the last {short_text(GROWN_INTERVALS * status.again_in)}"
            for name in status.grown
            if name in TROUBLING
        ]
        found += [
            f"{one.message} of {one.subject} is put aside ({one.count} so far): {one.error}"
            for one in status.aside
        ]
        return found


class PlaneHealth(Struct, frozen=True):
    """A whole plane."""

    units: tuple[UnitHealth, ...]
    """In the order of their names."""
    violations: tuple[FoundViolation, ...]
    """The oldest that are not acknowledged."""
    violation_count: int
    """All that are not acknowledged."""
    has_auditor: bool
    """Whether the auditor answers; without it, units that are gone and violations are not known."""

    @property
    def is_well(self) -> bool:
        """Whether no operator needs to look."""
        return self.has_auditor and not self.violation_count and not any(one.troubles for one in self.units)


async def health_of(bus: Bus) -> PlaneHealth:
    """Return the health of the plane, after at most `ANSWER_SPAN` for units that do not answer."""
    heard: dict[str, UnitStatus] = {}

    def hear(parcel: Parcel, _: str) -> None:
        if isinstance(parcel.message, UnitStatus):
            heard[parcel.message.unit] = parcel.message

    ear = await bus.listen(Address(STATUS.noun), hear)
    bus.say(StatusWanted())
    try:
        roster, audit = await _roster(bus), await _audit(bus)
        asked = {one.unit for one in roster or () if not one.unit.startswith(WORKER)}
        loop = asyncio.get_running_loop()
        until = loop.time() + ANSWER_SPAN / SECOND
        while (roster is None or not asked <= heard.keys()) and loop.time() < until:
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
    finally:
        await ear.close()
    seen = {one.unit: one for one in roster or ()}
    units = tuple(_health(name, seen.get(name), heard.get(name)) for name in sorted({*seen, *heard}))
    if audit is None:
        return PlaneHealth(units, (), 0, has_auditor=False)
    return PlaneHealth(units, audit.violations, audit.count, has_auditor=True)


def _health(name: str, seen: SeenUnit | None, heard: UnitStatus | None) -> UnitHealth:
    status = heard or (seen.status if seen is not None else None)
    silent_for = 0 if heard is not None or seen is None else seen.silent_for
    restarts = max(status.restarts if status is not None else 0, (seen.lives if seen is not None else 1) - 1)
    return UnitHealth(
        name,
        status,
        silent_for,
        max(0, restarts),
        _fault(name, status, silent_for, has_answered=heard is not None),
    )


def _fault(name: str, status: UnitStatus | None, silent_for: int, *, has_answered: bool) -> str:
    if has_answered:
        return ""
    interval = status.again_in if status is not None else STATUS_INTERVAL
    if name.startswith(WORKER) and silent_for <= STATUS_MISSED_MAX * interval:
        return ""
    return "never heard" if status is None else "does not answer"


async def _roster(bus: Bus) -> tuple[SeenUnit, ...] | None:
    """Return all units that the auditor knows; None if the auditor does not answer."""
    found: list[SeenUnit] = []
    behind = ""
    try:
        while True:
            shown = await ask(bus, ShowUnits(behind), UnitsShown, ANSWER_SPAN)
            found += shown.units
            behind = shown.following
            if not behind:
                return tuple(found)
    except CommandError:
        return None


async def _audit(bus: Bus) -> AuditShown | None:
    try:
        return await ask(bus, ShowAudit(), AuditShown, ANSWER_SPAN)
    except CommandError:
        return None
