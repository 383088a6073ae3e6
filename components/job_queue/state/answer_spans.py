"""How long the queue waits for each region's answers: longer for a region whose answers came after the end of their cycle.

A cycle that ends before a region's answers come has asked the region in vain, and so would the next one: a region that is further away
than `AUCTION_SPAN` would never get work, and would be asked anew for ever. A late answer tells how long the region needs. A region that
never answers tells nothing, and is awaited for `AUCTION_SPAN`.

Only cycles in which a region answered nothing count. A region that has answered some requests in time has lost the other answers, or is
busy with them; what it answered is awarded, and the next cycle asks for less.

Bound: a region whose answers take longer than `AUCTION_SPAN_MAX` gets no work.
"""

from core.nouns.ids import RegionName
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.limits import AUCTION_SPAN, AUCTION_SPAN_MAX, SILENT_CYCLES_MAX


class AnswerSpans:
    """Spans by region, and the cycles in which regions were silent."""

    def __init__(self) -> None:
        self._spans: dict[RegionName, Nanoseconds] = {}
        """Of regions that are given more than `AUCTION_SPAN`."""
        self._silent: dict[RegionName, dict[str, Instant]] = {}
        """The newest cycles in which a region answered nothing, and when each cycle began."""

    def of(self, region: RegionName) -> Nanoseconds:
        """Return how long a region has for its answers: from `AUCTION_SPAN` to `AUCTION_SPAN_MAX`."""
        return self._spans.get(region, AUCTION_SPAN)

    def asked_at(self, region: RegionName, cycle: str) -> Instant | None:
        """Return the beginning of a cycle in which a region answered nothing; None if it did, or the cycle is long ago."""
        return self._silent.get(region, {}).get(cycle)

    def add_silent(self, region: RegionName, cycle: str, asked_at: Instant) -> None:
        """Note that a region has answered nothing in a cycle, in all the time that it had: it is given half of that time."""
        cycles = self._silent.setdefault(region, {})
        cycles[cycle] = asked_at
        if len(cycles) > SILENT_CYCLES_MAX:
            del cycles[next(iter(cycles))]
        self._set(region, Nanoseconds(self.of(region) // 2))

    def lengthen(self, region: RegionName, took: Nanoseconds) -> None:
        """Note how long a late answer took: the region is given at least twice that time."""
        self._set(region, Nanoseconds(max(self.of(region), 2 * took)))

    def reset(self, region: RegionName) -> None:
        """Note that a region has answered within `AUCTION_SPAN`: it is given no more than that."""
        self._spans.pop(region, None)

    def _set(self, region: RegionName, span: Nanoseconds) -> None:
        if span <= AUCTION_SPAN:
            self.reset(region)
        else:
            self._spans[region] = min(AUCTION_SPAN_MAX, span)
