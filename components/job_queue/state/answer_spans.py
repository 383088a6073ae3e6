"""How long the queue waits for each region's answers: longer for regions whose answers came after the end of their cycle.

A cycle that ends before its answers come has asked in vain, and the next one would again: a region that is further away than
`AUCTION_SPAN` would never get work, and every cycle would ask it anew. A late answer tells how long the region needs. A region that never
answers tells nothing, and delays nobody for longer than before.
"""

from core.nouns.ids import RegionName
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.limits import AUCTION_SPAN, AUCTION_SPAN_MAX, AUCTIONS_OVERDUE_MAX


class AnswerSpans:
    """Spans by region, and the auctions to which answers may still come."""

    def __init__(self) -> None:
        self._spans: dict[RegionName, Nanoseconds] = {}
        """Of regions that are given more than `AUCTION_SPAN`."""
        self._overdue: dict[str, Instant] = {}
        """The newest auctions that ended before every region had answered, and when the regions were asked."""

    def of(self, region: RegionName) -> Nanoseconds:
        """Return how long a region has for its answers: from `AUCTION_SPAN` to `AUCTION_SPAN_MAX`."""
        return self._spans.get(region, AUCTION_SPAN)

    def is_overdue(self, auction: str) -> bool:
        """Return whether an auction ended before every region had answered, not too long ago."""
        return auction in self._overdue

    def add_overdue(self, auction: str, asked_at: Instant) -> None:
        """Remember an auction that ended before every region had answered."""
        self._overdue[auction] = asked_at
        if len(self._overdue) > AUCTIONS_OVERDUE_MAX:
            del self._overdue[next(iter(self._overdue))]

    def lengthen(self, region: RegionName, auction: str, at: Instant) -> None:
        """Give a region twice the time that its answer to an overdue auction took."""
        took = at - self._overdue[auction]
        self._spans[region] = min(AUCTION_SPAN_MAX, Nanoseconds(max(self.of(region), 2 * took)))

    def shorten(self, region: RegionName) -> None:
        """Give a region `AUCTION_SPAN` again: its answers came within that time, or none came in the longer time that it had."""
        self._spans.pop(region, None)
