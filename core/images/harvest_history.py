"""What became of the harvested capacity of one pool, by hours of the last day: how long nodes were harvested, recalls, and losses.

From it follow the odds that a call is lost (core/rules/harvest/odds.py) and the figures that `mizzen harvest` shows.
"""

from collections.abc import Iterator

from msgspec import Struct, field

from core.nouns.instant import MILLISECOND, SECOND, Nanoseconds
from core.nouns.quantities import NOTHING, Amount

HOUR = 3_600 * SECOND
HOURS_KEPT = 24
RELEASES_KEPT = 1_024
"""The newest."""
WHOLE = 1_000
"""Of a recall of all devices of a node."""


class HarvestHour(Struct):
    """One hour."""

    node_span: int = 0
    """Milliseconds that nodes were harvested, of all nodes together."""
    recalls: int = 0
    weight: int = 0
    """Of the recalls, each by its part of the node's harvested devices, in thousandths. Where there are no devices, only the end of a
    node's harvest counts, because calls go on there while cores are taken away."""
    lost: int = 0
    """Calls that were ended before they were done."""
    lost_span: Nanoseconds = Nanoseconds(0)
    """Run time of these."""


class PoolHistory(Struct):
    """One pool."""

    nodes: int = 0
    """Nodes that are harvested now."""
    counted_at: int = 0
    """Up to when `node_span` is counted."""
    hours: dict[int, HarvestHour] = field(default_factory=dict)
    """Of the last day, by whole hours since the epoch."""
    releases: list[Nanoseconds] = field(default_factory=list)
    """From recalls to their releases, the newest last."""

    def begin(self, at: int) -> None:
        """Count a node more."""
        self._count(at)
        self.nodes += 1

    def recall(self, at: int, first: Amount, before: Amount, after: Amount) -> None:
        """Count a recall that leaves so much of a node. All recalls of a node by one fact count as one.

        first   before the first recall by this fact
        before  before this recall
        """
        self._count(at)
        hour = self._hour(at)
        hour.recalls += first == before
        if first.gpu_milli:
            left = (WHOLE * one.gpu_milli // first.gpu_milli for one in (before, after))
            hour.weight += next(left) - next(left)
        elif after == NOTHING:
            hour.weight += WHOLE
        if after == NOTHING:
            self.nodes -= 1

    def release(self, after: Nanoseconds) -> None:
        """Count the end of a recall."""
        self.releases.append(after)
        del self.releases[:-RELEASES_KEPT]

    def lose(self, at: int, lost: int, span: Nanoseconds) -> None:
        """Count lost calls."""
        if lost or span:
            hour = self._hour(at)
            hour.lost += lost
            hour.lost_span = Nanoseconds(hour.lost_span + span)

    def node_span_until(self, now: int) -> int:
        """Return the milliseconds that nodes were harvested since the last count, of the last day."""
        return self.nodes * max(0, now - max(self.counted_at, now - HOURS_KEPT * HOUR)) // MILLISECOND

    def hours_until(self, now: int) -> Iterator[tuple[int, HarvestHour]]:
        """Yield the hours of the last day, each with its number. Older ones are dropped only when something is counted."""
        first = now // HOUR - HOURS_KEPT + 1
        yield from ((number, hour) for number, hour in self.hours.items() if number >= first)

    def day_until(self, now: int) -> HarvestHour:
        """Return the figures of the last day."""
        total = HarvestHour(self.node_span_until(now))
        for _, hour in self.hours_until(now):
            total.node_span += hour.node_span
            total.recalls += hour.recalls
            total.weight += hour.weight
            total.lost += hour.lost
            total.lost_span = Nanoseconds(total.lost_span + hour.lost_span)
        return total

    def _count(self, at: int) -> None:
        """Add the time since the last count, in whole milliseconds, to the hours in which it was."""
        end = at - at % MILLISECOND
        begin = max(self.counted_at, end - HOURS_KEPT * HOUR) if self.nodes else end
        while begin < end:
            until = min(end, (begin // HOUR + 1) * HOUR)
            self._hour(begin).node_span += self.nodes * (until - begin) // MILLISECOND
            begin = until
        self.counted_at = max(self.counted_at, end)
        for old in [one for one in self.hours if one <= at // HOUR - HOURS_KEPT]:
            del self.hours[old]

    def _hour(self, at: int) -> HarvestHour:
        return self.hours.setdefault(at // HOUR, HarvestHour())
