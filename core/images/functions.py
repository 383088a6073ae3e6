"""A section of a region's image: counts of calls by function, of the last day."""

from msgspec import Struct, field

from core.events.functions import FunctionsCounted
from core.fact import Fact
from core.images.base import Section
from core.nouns.function import FunctionCount, FunctionEstimate
from core.nouns.function_limits import FUNCTIONS_COUNTED, FUNCTIONS_REMEMBERED_MAX
from core.nouns.ids import FunctionId
from core.nouns.instant import SECOND, Instant, Nanoseconds

HOUR = 3_600 * SECOND
HOURS_KEPT = 24
ESTIMATE_SPAN = Nanoseconds(10 * FUNCTIONS_COUNTED)
"""After which the rate of an older count says nothing of the present one."""


class RouterCounts(Struct):
    """The newest count of one router."""

    life: str
    number: int
    at: Instant


class CountedFunction(Struct):
    """One function."""

    hours: dict[int, FunctionCount] = field(default_factory=dict)
    """Of the last day, by whole hours since the epoch."""
    newest: FunctionCount | None = None
    span: Nanoseconds = Nanoseconds(0)
    """Of the newest count."""
    at: Instant = Instant(0)


class Functions(Section):
    """Counts of calls."""

    FOLDS = {FunctionsCounted: "_count"}

    routers: dict[str, RouterCounts] = field(default_factory=dict)
    rows: dict[FunctionId, CountedFunction] = field(default_factory=dict)
    """At most `FUNCTIONS_REMEMBERED_MAX`, those that were called last."""
    hour: int = 0
    """Of the newest count."""

    def estimates(self, now: Instant) -> tuple[FunctionEstimate, ...]:
        """Return the loads of the functions that were called in the last ten minutes."""
        found = []
        for function, row in self.rows.items():
            if row.newest is None or not row.newest.ended or now - row.at > ESTIMATE_SPAN:
                continue
            rate = row.newest.ended * FUNCTIONS_COUNTED // max(row.span, SECOND)
            found.append(FunctionEstimate(function, rate, Nanoseconds(row.newest.ran // row.newest.ended)))
        return tuple(found)

    def _count(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, FunctionsCounted)
        self.routers[event.router] = RouterCounts(event.life, event.number, fact.at)
        hour = fact.at // HOUR
        if hour > self.hour:
            self.hour = hour
            self._forget_hours()
        for count in event.counts:
            row = self.rows.pop(count.function, None) or CountedFunction()
            known = row.hours.get(hour)
            row.hours[hour] = count if known is None else known.plus(count)
            row.newest, row.span, row.at = count, event.span, fact.at
            self.rows[count.function] = row
        while len(self.rows) > FUNCTIONS_REMEMBERED_MAX:
            del self.rows[next(iter(self.rows))]

    def _forget_hours(self) -> None:
        for function, row in list(self.rows.items()):
            row.hours = {hour: one for hour, one in row.hours.items() if hour > self.hour - HOURS_KEPT}
            if not row.hours:
                del self.rows[function]
