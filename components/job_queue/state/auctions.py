"""Auctions: which regions are asked for which workloads, what they answered, and who wins.

Kept by the job queue as notes: an auction lost with its queue is simply held again. A refusal holds for every workload of
the same shape until a fact of that region's log could change it.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from components.job_queue.state.deferrals import PutOffs
from components.job_queue.state.inadmissible import Unaskable
from components.job_queue.state.refusal_dominance import RefusalDominance
from components.job_queue.state.refusal_expiry import RefusalExpiry, Resource
from components.job_queue.state.slow_regions import LateRegions
from core.agenda import Agenda
from core.events.queue import RankedBid
from core.images.queue import WorkloadRow
from core.messages.agents import BidSettled
from core.messages.broker import SolicitBid
from core.messages.queue import Abstention, Bid
from core.nouns.fleet import ANY_TYPE, CPU_TYPE, gpu_type_of
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.instant import Instant, after
from core.nouns.limits import AUCTION_SPAN, LAGGING_VIEW_RETRY, OPEN_BIDS_RETRY
from core.nouns.reasons import Reason
from core.nouns.workload import JobSpec
from core.rules.quota import Narrowing, narrowed

LACKS_ROOM = (Reason.NO_CAPACITY, Reason.START_RESERVED, Reason.DESTROYS_TOO_MUCH)
"""Of regions that could take it if nobody else were there."""


class Auction(Struct):
    """One workload's, from the asking to the award."""

    auction: str
    shape: str
    """With the level, what a refusal holds for."""
    asked: tuple[RegionName, ...]
    level: int = 0
    """At which it is asked for, `OVER_LEVEL` if it is over quota."""
    types: Narrowing = ()
    """For each job, to which GPU types its tenant's quota holds it."""
    base: str = ""
    """The shape, whatever the level."""
    gpu_milli: int = 0
    """That all its tasks want."""
    kinds: frozenset[str] = frozenset()
    """Types of node on which it would have them."""
    is_bare: bool = False
    """Whether all of it lies on nodes without GPUs."""
    reads_data: bool = False
    """How far away that is matters more than a moment."""
    awaited: tuple[RegionName, ...] = ()
    """Of those that are asked, the ones that answer in time."""
    until: Instant = Instant(0)
    """When its time is over, whoever has not answered."""
    is_held: bool = False
    """It has offers, and waits for others who are ahead: of its shape these may be asked for."""
    bids: dict[RegionName, Bid] = field(default_factory=dict)
    abstained: dict[RegionName, Abstention] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether all that were asked have answered; or all but some that are late, and there is an offer for which nobody has to leave."""
        missing = self.unanswered
        return not missing or (
            not self.reads_data
            and not any(region in self.awaited for region in missing)
            and any(not bid.victims for bid in self.bids.values())
        )

    @property
    def unanswered(self) -> tuple[RegionName, ...]:
        """Those that were asked and have not answered."""
        return tuple(
            region for region in self.asked if region not in self.bids and region not in self.abstained
        )

    def ranked(
        self, away: Callable[[RegionName], int] = lambda _: 0, gathered: RegionName | None = None
    ) -> list[tuple[Bid, RankedBid]]:
        """Bids, best first, and how each was compared.

        away       of a region, how many datasets that the workload reads have their home elsewhere
        gathered   where room is gathered for another
        """
        compared = [
            (bid, RankedBid(bid.region, bid.score, away(bid.region), int(bid.region == gathered)))
            for bid in self.bids.values()
        ]
        return sorted(compared, key=lambda one: one[1].place)


class Auctions:
    """All open auctions, and the refusals that keep others from being opened."""

    def __init__(self) -> None:
        self.open: dict[WorkloadId, Auction] = {}
        self.opened = 0
        self.asking: dict[str, int] = {}
        """Open auctions by shape, but for those that are held."""
        self.shapes: dict[str, dict[str, None]] = {}
        """Those that were asked for, by shape whatever the level: what `forget_shape` forgets."""
        self.tight: dict[str, None] = {}
        """Shapes that were refused since one was last awarded: one of each is asked for at a time, for if it cannot be
        placed, none of them can."""
        self.due: Agenda[WorkloadId] = Agenda()
        """When each is to be closed."""
        self.put_offs = PutOffs()
        self.ranked: list[WorkloadId] = []
        """Of open auctions, the first in the queue first, as it was when the later of any two was opened."""
        self.refusals: dict[str, dict[RegionName, Abstention]] = {}
        """By shape and region, as last said."""
        self.refusals_due: Agenda[tuple[str, RegionName]] = Agenda()
        """Refusals for open bids, or by agents whose views lag: they pass by themselves, if nothing else ends them."""
        self.late = LateRegions()
        self.offered: dict[RegionName, dict[str, None]] = {}
        """By region, the shapes refused for open bids."""
        self.freed: dict[RegionName, RefusalExpiry] = {}
        self.dominance = RefusalDominance()
        """Which of the refusals hold for larger requests too."""
        self.willing_memo: dict[str, tuple[RegionName, ...]] = {}
        """By shape, the regions to ask: filled by `willing`, emptied by whatever could change it."""
        self.unaskable = Unaskable()
        """Filled by the auctioneer, emptied by whatever could change it."""

    def begin(
        self, workload: WorkloadId, auction: Auction, at: Instant, before: WorkloadId | None = None
    ) -> None:
        """An auction was opened.

        before   of the open ones the first that is behind it in the queue; None: it is the last
        """
        self.opened += 1
        self.open[workload] = auction
        self.ranked.insert(len(self.ranked) if before is None else self.ranked.index(before), workload)
        self.asking[auction.shape] = self.asking.get(auction.shape, 0) + 1
        self.shapes.setdefault(auction.base, {})[auction.shape] = None
        auction.until = after(at, AUCTION_SPAN)
        auction.awaited = self.late.awaited(auction.asked, at)
        self.due.put(workload, auction.until)

    def hold(self, workload: WorkloadId) -> None:
        """It keeps its offers, and is not closed before somebody else is answered, or its time is over."""
        auction = self.open[workload]
        self.due.put(workload, auction.until)
        if not auction.is_held:
            auction.is_held = True
            self._asks_no_more(auction.shape)

    def hear_bid(self, bid: Bid, at: Instant) -> None:
        """A bid for an open auction. A repeat changes nothing."""
        auction = self.open[bid.workload]
        auction.bids.setdefault(bid.region, bid)
        self.late.hear(bid.region)
        if auction.is_complete:
            self._call(at)

    def may_ask(self, workload: WorkloadId, shape: str) -> bool:
        """Whether an auction may be opened for it now."""
        return workload not in self.open and not (shape in self.tight and shape in self.asking)

    def hear_abstention(self, said: Abstention, at: Instant) -> None:
        """A region's refusal, for an open auction."""
        auction = self.open[said.workload]
        shape = auction.shape
        self.tight[shape] = None
        auction.abstained.setdefault(said.region, said)
        self.late.hear(said.region)
        if said.reason == Reason.OPEN_BIDS:
            self._refuse(shape, said)
            self.refusals_due.put((shape, said.region), after(at, OPEN_BIDS_RETRY))
            self.offered.setdefault(said.region, {})[shape] = None
        else:
            freed = self.freed.setdefault(said.region, RefusalExpiry())
            self._refuse(shape, said)
            if said.reason == Reason.NO_SUCH_HARDWARE:
                # It holds until nodes join, whatever is freed; if they have joined already, the agent has not seen it yet.
                if said.view_sequence < freed.hardware_from:
                    self.refusals_due.put((shape, said.region), after(at, LAGGING_VIEW_RETRY))
            elif not freed.hold(shape, said.view_sequence, *_waits_for(said, auction)):
                # What it waits for is there already, and the agent has not seen it yet: asked at once, it would say the same.
                self.refusals_due.put((shape, said.region), after(at, LAGGING_VIEW_RETRY))
        if said.again_in and (shape, said.region) not in self.refusals_due:
            self.refusals_due.put((shape, said.region), after(at, said.again_in))
        if auction.is_complete:
            self._call(at)

    def _call(self, at: Instant) -> None:
        """Those that have heard everybody are to be closed, in the order of the queue: one that is ahead and still waits for a region
        keeps back all behind it that ask there too and want as much, until their own time is over.
        """
        least: dict[RegionName, dict[frozenset[str], int]] = {}
        """By region and types of node, the least that somebody ahead still waits for."""
        for workload in self.ranked:
            auction = self.open[workload]
            wants, kinds = auction.gpu_milli, auction.kinds
            if not auction.is_complete:
                for region in auction.asked if wants else ():
                    others = least.setdefault(region, {})
                    others[kinds] = min(wants, others.get(kinds, wants))
            elif not any(
                other <= wants and overlap(kinds, theirs)
                for region in auction.bids
                for theirs, other in least.get(region, {}).items()
            ):
                due = self.due.at(workload)
                if due is not None and due > at:
                    self.due.put(workload, at)

    def _refuse(self, shape: str, said: Abstention) -> None:
        self.refusals.setdefault(shape, {})[said.region] = said
        still_from = self.dominance.add(shape, said)
        if still_from is not None:
            self.unaskable.drop_wider(shape, still_from)
        self.willing_memo.pop(shape, None)

    def end(self, workload: WorkloadId, won: Bid | None, at: Instant, *, is_put_off: bool = False) -> None:
        """An auction is over. Regions whose bids lost have their room back to offer."""
        if is_put_off:
            self.put_offs.add(workload, at)
        elif won is not None:
            self.put_offs.drop(workload)
        auction = self.open.pop(workload, None)
        if auction is None:
            return
        self.due.drop(workload)
        self.ranked.remove(workload)
        if auction.until <= at:
            for region in auction.unanswered:
                self.late.let_pass(region, at)
        if not auction.is_complete:
            self._call(at)
        if not auction.is_held:
            self._asks_no_more(auction.shape)
        if won is not None:
            self.tight.pop(auction.shape, None)
        for region in auction.bids:
            if won is None or region != won.region:
                self.forget_open_bids(region)

    def _asks_no_more(self, shape: str) -> None:
        self.asking[shape] -= 1
        if not self.asking[shape]:
            del self.asking[shape]

    def forget_shape(self, base: str) -> None:
        """Nobody of this shape is left to ask for, at any level. Its refusals still hold, and pass by themselves."""
        for shape in self.shapes.pop(base, {}):
            self.tight.pop(shape, None)
            self.willing_memo.pop(shape, None)

    def forget_open_bids(self, region: RegionName) -> None:
        """Room that was offered in this region was not taken."""
        for shape in self.offered.pop(region, {}):
            self.forget_refusal(shape, region)

    def forget_refusal(self, shape: str, region: RegionName) -> None:
        """It has passed."""
        self.refusals_due.drop((shape, region))
        self.offered.get(region, {}).pop(shape, None)
        self.willing_memo.pop(shape, None)
        self.unaskable.drop_shape(shape)
        still_from = self.dominance.drop(shape, region)
        if still_from is not None:
            self.unaskable.drop_wider(shape, still_from)
        if region in self.freed:
            self.freed[region].drop(shape)
        regions = self.refusals.get(shape, {})
        regions.pop(region, None)
        if not regions:
            self.refusals.pop(shape, None)

    def free(self, region: RegionName, sequence: int, amounts: Mapping[Resource, int]) -> bool:
        """The region's log shows that so much was freed. Whether a refusal passed by it."""
        freed = self.freed.setdefault(region, RefusalExpiry())
        passed = freed.add(sequence, amounts)
        for shape in passed:
            self.forget_refusal(shape, region)
        return bool(passed)

    def forget_region(self, region: RegionName, sequence: int, *, is_other_hardware: bool = True) -> None:
        """Nothing said of this region counts that was said before this fact: its nodes, or what is known of it, changed.

        is_other_hardware   whether what could never be held might be now
        """
        freed = self.freed.setdefault(region, RefusalExpiry())
        freed.known_from = sequence
        if is_other_hardware:
            freed.hardware_from = sequence
        self.forget_memos()
        for shape, regions in list(self.refusals.items()):
            said = regions.get(region)
            if said is not None and (is_other_hardware or said.reason != Reason.NO_SUCH_HARDWARE):
                self.forget_refusal(shape, region)

    def refused_by(self, shape: str) -> dict[RegionName, Abstention]:
        """Who refuses this shape, or as much of it as makes asking useless, and why."""
        return self.dominance.of_smaller(shape) | self.refusals.get(shape, {})

    def forget_memos(self) -> None:
        """Which regions are willing, and who cannot be asked for, is worked out anew."""
        self.willing_memo.clear()
        self.unaskable.clear()

    def willing(self, shape: str, eligible: Callable[[], tuple[RegionName, ...]]) -> tuple[RegionName, ...]:
        """Those of the eligible regions that do not refuse this very shape."""
        found = self.willing_memo.get(shape)
        if found is None:
            refused = self.refusals.get(shape, {})
            found = tuple(region for region in eligible() if region not in refused)
            self.willing_memo[shape] = found
        return found


def _waits_for(said: Abstention, auction: Auction) -> tuple[Resource, int]:
    """Of what a refusal waits for, and how much of that must be freed."""
    if not said.missing_cpu_milli:
        return Resource.GPU, max(1, said.missing_gpu_milli)
    return Resource.BARE_CPU if auction.is_bare else Resource.CPU, said.missing_cpu_milli


def settled(bid: Bid, *, has_won: bool, reason: str = "") -> BidSettled:
    """What the agent that bid is told."""
    return BidSettled(bid.region, bid.agent, bid.workload, bid.auction, has_won, reason)


def solicited(
    region: RegionName, workload: WorkloadId, auction: Auction, row: WorkloadRow, how: tuple[bool, bool]
) -> SolicitBid:
    """What a region is asked; how, components/job_queue/reservations.py says."""
    spec = row.spec
    return SolicitBid(
        region,
        workload,
        auction.auction,
        narrowed(spec.jobs, auction.types),
        auction.level,
        spec.kind,
        spec.tenant,
        row.is_healing,
        spec.max_duration,
        spec.grace,
        *how,
    )


def kinds_of(jobs: tuple[JobSpec, ...]) -> frozenset[str]:
    """The types of node that will do for what of it wants GPUs."""
    return frozenset(kind for job in jobs if job.need.gpu_milli for kind in job.node_types)


def is_bare(jobs: tuple[JobSpec, ...]) -> bool:
    """Whether all of it lies on nodes without GPUs."""
    return all(gpu_type_of(kind)[0] == CPU_TYPE for job in jobs for kind in job.node_types)


def overlap(mine: frozenset[str], others: frozenset[str]) -> bool:
    """Whether there may be a node that is of a type of both."""
    is_any = any(gpu_type_of(kind)[0] == ANY_TYPE for kind in mine | others)
    return bool(mine and others) if is_any else not mine.isdisjoint(others)
