"""Auctions: which regions are asked for which workloads, what they answered, and who wins.

Kept by the job queue as notes: an auction lost with its queue is simply held again. A refusal holds for every workload of
the same shape until a fact of that region's log could change it.
"""

from collections.abc import Iterable

from msgspec import Struct, field

from core.agenda import Agenda
from core.messages.queue import Bid
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.instant import Instant, after
from core.nouns.limits import AUCTION_SPAN, OPEN_BIDS_RETRY
from core.nouns.reasons import Reason


class Auction(Struct):
    """One workload's, from the asking to the award."""

    auction: str
    asked: tuple[RegionName, ...]
    bids: dict[RegionName, Bid] = field(default_factory=dict)
    abstained: dict[RegionName, str] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether all that were asked have answered."""
        return len(self.bids) + len(self.abstained) >= len(self.asked)

    def ranked(self) -> list[Bid]:
        """Bids, best first; ties by region."""
        return sorted(self.bids.values(), key=lambda bid: (bid.score, bid.region))


class AuctionHouse:
    """All open auctions, and the refusals that keep others from being opened."""

    def __init__(self) -> None:
        self.open: dict[WorkloadId, Auction] = {}
        self.opened = 0
        self.due: Agenda[WorkloadId] = Agenda()
        self.refusals: dict[str, dict[RegionName, str]] = {}
        self.refusals_due: Agenda[tuple[str, RegionName]] = Agenda()
        """Refusals for open bids: they pass by themselves."""
        self.freed: dict[RegionName, int] = {}
        """Of each region's log, the newest fact that gave room back: an older abstention says nothing."""

    def begin(self, workload: WorkloadId, auction: str, asked: tuple[RegionName, ...], at: Instant) -> None:
        """An auction was opened."""
        self.opened += 1
        self.open[workload] = Auction(auction, asked)
        self.due.put(workload, after(at, AUCTION_SPAN))

    def hear_bid(self, bid: Bid, at: Instant) -> None:
        """A bid for an open auction. A repeat changes nothing."""
        auction = self.open[bid.workload]
        auction.bids.setdefault(bid.region, bid)
        if auction.is_complete:
            self.due.put(bid.workload, at)

    def hear_abstention(
        self, workload: WorkloadId, shape: str, region: RegionName, reason: str, view_sequence: int, at: Instant
    ) -> None:
        """A region's refusal, for an open auction."""
        auction = self.open[workload]
        auction.abstained.setdefault(region, reason)
        if reason == Reason.OPEN_BIDS:
            self.refusals.setdefault(shape, {})[region] = reason
            self.refusals_due.put((shape, region), after(at, OPEN_BIDS_RETRY))
        elif view_sequence >= self.freed.get(region, 0):
            self.refusals.setdefault(shape, {})[region] = reason
        if auction.is_complete:
            self.due.put(workload, at)

    def end(self, workload: WorkloadId) -> None:
        """An auction is over, with or without an award."""
        if self.open.pop(workload, None) is not None:
            self.due.drop(workload)

    def forget_refusal(self, shape: str, region: RegionName) -> None:
        """It has passed."""
        self.refusals_due.drop((shape, region))
        regions = self.refusals.get(shape, {})
        regions.pop(region, None)
        if not regions:
            self.refusals.pop(shape, None)

    def give_room(self, region: RegionName, sequence: int) -> bool:
        """A fact of this region's log could change its refusals: they are forgotten. Whether there were any."""
        self.freed[region] = sequence
        shapes = [shape for shape, regions in self.refusals.items() if region in regions]
        for shape in shapes:
            self.forget_refusal(shape, region)
        return bool(shapes)

    def refused_by(self, shape: str) -> dict[RegionName, str]:
        """Who refuses this shape, and why."""
        return self.refusals.get(shape, {})

    def willing(self, shape: str, regions: Iterable[RegionName]) -> tuple[RegionName, ...]:
        """Those of these regions that do not refuse this shape."""
        refused = self.refusals.get(shape)
        return tuple(regions) if not refused else tuple(region for region in regions if region not in refused)
