"""Regions that did not answer in time: for a while auctions are not kept open for them.

An auction is closed when all that were asked have answered. A region that is silent would cost every auction all of its time, and where one of a
shape is asked for at a time, each of these a second. So whoever let the time of one pass is asked as ever, and not waited for: for three seconds,
or until it answers in time. Its answers count wherever they come before an auction is over (docs/decisions/0035-awards-by-rank.md).
"""

from msgspec import Struct

from core.nouns.ids import RegionName
from core.nouns.instant import Instant, Nanoseconds, after
from core.nouns.limits import AUCTION_SPAN, AUCTIONS_MAX

LATE_SPAN = Nanoseconds(3 * AUCTION_SPAN)
"""Chosen as long as offers are given back for whoever is ahead: in that time all of these are asked for."""
NOT_AWAITED_MAX = 4 * AUCTIONS_MAX
"""Auctions in that time, of each region. All of them are asked of it, and what it is asked it will answer once it can: that is not to be more
than it answers within moments."""


class _Late(Struct):
    until: Instant
    left: int = NOT_AWAITED_MAX
    """How many more auctions do not wait for it."""


class LateRegions:
    """Those that let an auction's time pass a while ago."""

    def __init__(self) -> None:
        self._late: dict[RegionName, _Late] = {}

    def let_pass(self, region: RegionName, at: Instant) -> None:
        """It had not answered when the time of an auction was over. From when it first did so counts, so that it is waited for now and then."""
        late = self._late.get(region)
        if late is None or late.until <= at:
            self._late[region] = _Late(after(at, LATE_SPAN))

    def hear(self, region: RegionName) -> None:
        """It answered in time."""
        self._late.pop(region, None)

    def awaited(self, asked: tuple[RegionName, ...], at: Instant) -> tuple[RegionName, ...]:
        """Of those that are asked, for which an auction is kept open that begins now. It counts as one."""
        found = tuple(region for region in asked if self._is_awaited(region, at))
        for region in asked:
            if region not in found:
                self._late[region].left -= 1
        return found

    def _is_awaited(self, region: RegionName, at: Instant) -> bool:
        late = self._late.get(region)
        return late is None or late.until <= at or not late.left
