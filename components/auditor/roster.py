"""The units of a plane, with the newest status of each. Units of the plan are listed before they have told any."""

from bisect import bisect_right, insort

from msgspec import Struct

from core.messages.units import SeenUnit, UnitsShown, UnitStatus
from core.nouns.instant import Instant, Nanoseconds, after, seconds
from core.nouns.limits import UNIT_FORGOTTEN_AFTER, UNITS_KEPT_MAX, UNITS_SHOWN_MAX

SWEEP_INTERVAL: Nanoseconds = seconds(3600)
"""Between two looks for units that are to be forgotten."""


class Heard(Struct):
    """The newest status of one unit."""

    status: UnitStatus
    at: Instant
    lives: int = 1


class Roster:
    """Which units there are, and what each told last."""

    def __init__(self, planned: tuple[str, ...], at: Instant) -> None:
        self._planned = frozenset(planned)
        self._began = at
        self._heard: dict[str, Heard] = {}
        self._names = sorted(self._planned)
        self._swept_at = at
        self.not_kept = 0
        """Statuses that were not kept, because the units of others fill the roster."""

    def hear(self, status: UnitStatus, at: Instant) -> None:
        """Keep a unit's status; another life than before is a restart."""
        known = self._heard.get(status.unit)
        if known is None:
            if status.unit not in self._planned:
                if len(self._names) >= UNITS_KEPT_MAX or after(self._swept_at, SWEEP_INTERVAL) <= at:
                    self._sweep(at)
                if len(self._names) >= UNITS_KEPT_MAX:
                    self.not_kept += 1
                    return
                insort(self._names, status.unit)
            self._heard[status.unit] = Heard(status, at)
            return
        known.lives += known.status.life != status.life
        known.status, known.at = status, at

    def shown(self, behind: str, now: Instant) -> UnitsShown:
        """Return the units after a name, as many as one answer holds."""
        first = bisect_right(self._names, behind)
        names = self._names[first : first + UNITS_SHOWN_MAX]
        is_last = first + UNITS_SHOWN_MAX >= len(self._names)
        units = tuple(self._seen(name, now) for name in names)
        return UnitsShown(units, "" if is_last or not names else names[-1])

    def _seen(self, name: str, now: Instant) -> SeenUnit:
        heard = self._heard.get(name)
        if heard is None:
            return SeenUnit(name, None, now - self._began)
        return SeenUnit(name, heard.status, now - heard.at, heard.lives)

    def _sweep(self, now: Instant) -> None:
        """Forget units that the plan does not name and that have told nothing for long."""
        self._swept_at = now
        gone = {
            name
            for name, heard in self._heard.items()
            if name not in self._planned and after(heard.at, UNIT_FORGOTTEN_AFTER) <= now
        }
        for name in sorted(gone):
            del self._heard[name]
        self._names = [name for name in self._names if name not in gone]
