"""What the job queue remembers: the global image, what each region's log shows, the order, auctions, and when to look at
what; and the notes that change it.
"""

from collections import Counter
from collections.abc import Callable

from msgspec import Struct

from components.job_queue.state.auctions import Auction, Auctions
from components.job_queue.state.quota_ledger import QuotaLedger
from components.job_queue.state.reservation_candidates import ReservationCandidates
from components.job_queue.state.wait_index import WaitIndex
from core.agenda import Agenda
from core.fact import Note
from core.images import GlobalImage, RegionImage
from core.messages.queue import (
    Abstention,
    Bid,
)
from core.nouns.ids import RegionName, TenantName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.moving import MoveCost
from core.nouns.ranking import CreditSettings
from core.nouns.reasons import Reason
from core.nouns.workload import WorkloadSpec
from core.ranking.incremental import RankedQueue
from core.rules.datasets import against_data
from core.rules.quota import level_asked
from core.rules.submission import could_fit


class AuctionOpened(Note, frozen=True):
    """These regions were asked."""

    workload: WorkloadId
    auction: Auction
    before: WorkloadId | None = None
    """Of those for whom auctions are open, the first behind it in the queue; None: it is the last."""


class OpeningsSeen(Note, frozen=True):
    """No other auction can be opened before something changes."""


class BidHeard(Note, frozen=True):
    """A region bid."""

    bid: Bid


class AbstentionHeard(Note, frozen=True):
    """A region refused."""

    abstention: Abstention


class AuctionClosed(Note, frozen=True):
    """An auction is over."""

    workload: WorkloadId
    won: Bid | None
    is_void: bool = False
    """Somebody bid, and it may not be awarded so."""
    is_put_off: bool = False
    """Somebody bid, and others who are ahead lack what it was offered."""


class AuctionHeld(Note, frozen=True):
    """All have answered, and somebody who is ahead is answered first."""

    workload: WorkloadId


class RefusalPassed(Note, frozen=True):
    """A refusal for open bids is old."""

    shape: str
    region: RegionName


class Settled(Note, frozen=True):
    """An award's next step was taken; it is looked at again then, if at all."""

    workload: WorkloadId
    again_at: Instant | None


class RegionSilent(Note, frozen=True):
    """Whether a region's log is heard."""

    region: RegionName
    is_silent: bool


class BusHeard(Note, frozen=True):
    """Whether anybody at all can be heard."""

    is_back: bool


class MoveAsked(Note, frozen=True):
    """A region was asked for room for a workload that is to move there."""

    workload: WorkloadId
    region: RegionName
    auction: str
    epoch: int
    cost: MoveCost
    until: Instant
    """After which it is asked again."""
    by: str


class MoveRefused(Struct, frozen=True):
    """Why a region has no room for a move."""

    region: RegionName
    reason: Reason
    problems: tuple[str, ...]
    until: Instant
    """After which it is asked again."""


class MoveHeard(Note, frozen=True):
    """The region has none."""

    workload: WorkloadId
    why: MoveRefused


class MoveDropped(Note, frozen=True):
    """It is not to move any more: what its region answers counts for nothing."""

    workload: WorkloadId


class MoveLooked(Note, frozen=True):
    """A move's next step was taken; it is looked at again then, if nothing changes before."""

    workload: WorkloadId
    again_at: Instant | None


class MoveArrived(Note, frozen=True):
    """The checkpoint of one that moves is where it goes."""

    workload: WorkloadId


class PassBegun(Note, frozen=True):
    """The order is kept in passes, and it is time for one."""


class Gathered(Struct, frozen=True):
    """Who it is gathered for, where, and since when."""

    workload: WorkloadId
    tenant: TenantName
    shape: str
    region: RegionName
    kinds: tuple[str, ...]
    """GPU types of which it wants some: nothing else is kept for it."""
    since: Instant


class SharesSeen(Note, frozen=True):
    """What is due to each tenant was looked at."""

    lacking: tuple[TenantName, ...] = ()
    """For whose work over quota nothing but room is missing."""
    nearest: tuple[RegionName, ...] = ()
    """For each of them the region in which the least is missing."""
    gathered: Gathered | None = None
    """For whom room is gathered, for it is as old as waiting counts."""


class BudgetTurned(Note, frozen=True):
    """A tenant's budget is used up, or its next period has begun."""

    tenant: TenantName


class StoodAnew(Note, frozen=True):
    """Whether awards of these tenants must stand otherwise was looked at."""

    tenants: tuple[TenantName, ...]


class Swept(Note, frozen=True):
    """Ended workloads were looked through; those that a region still remembers are looked at again later."""

    blocked: tuple[WorkloadId, ...] = ()


class QueueState:
    """The global image, what each region's log shows, the order, auctions, and when to look at what."""

    def __init__(self, at: Instant, regions: tuple[RegionName, ...]) -> None:
        self.image = GlobalImage.empty()
        self.sequence = 0
        self.regions: dict[RegionName, RegionImage | None] = dict.fromkeys(regions)
        """None until the region's log is known."""
        self.silent: dict[RegionName, bool] = {}
        self.silent_since: dict[RegionName, Instant] = dict.fromkeys(regions, at)
        """As far as it counts: since this queue started, or the bus came back."""
        self.hears_bus = True
        self.order = RankedQueue(CreditSettings(), at)
        self.ranked_at = Instant(-1)
        """Of the pass whose uses the order has: filled by `bring_up`."""
        self.shapes: Counter[str] = Counter()
        """How many in the order have each."""
        self.ledger = QuotaLedger()
        self.fleet: tuple[str, ...] = ()
        """The GPU types that there are."""
        self.restand: dict[TenantName, bool] = {}
        """Tenants whose awards are to be looked at; True: at each, whatever has changed."""
        self.recharge: dict[WorkloadId, None] = {}
        """Awards that may hold something else than they are charged for."""
        self.budgets_due: Agenda[TenantName] = Agenda()
        self.waits = WaitIndex()
        self.auctions = Auctions()
        self.passes_at: Instant | None = None
        """When the next pass begins, where the order is kept in passes."""
        self.shares_at: Instant | None = None
        """When what is due to each tenant is looked at."""
        self.lacking: dict[TenantName, tuple[Nanoseconds, Instant]] = {}
        """Tenants for whose work over quota nothing but room was missing of late: for how long they held others back since they were
        lent anything, and when that was last so."""
        self.lends_from: int | None = None
        """Only to tenants with so much lag anything is lent; None: to all."""
        self.gathers_in: RegionName | None = None
        """Where they alone are lent it: there room is gathered for who is furthest behind. None: nowhere."""
        self.gathered: Gathered | None = None
        """For whom room is gathered, for it is as old as waiting counts."""
        self.gathered_last: dict[WorkloadId, Instant] = {}
        """For whom it was before, and when that was over."""
        self.standings_at: Instant | None = None
        """Set when awards may have to stand otherwise."""
        self.open_at: Instant | None = at
        """Set when an auction might be opened that could not before."""
        self.awarded_at: dict[WorkloadId, Instant] = {}
        self.won: dict[WorkloadId, Bid] = {}
        self.awards_due: Agenda[WorkloadId] = Agenda()
        self.ended: Agenda[WorkloadId] = Agenda()
        self.sweep_at = at
        self.moves_asked: dict[WorkloadId, MoveAsked] = {}
        self.moves_refused: dict[WorkloadId, MoveRefused] = {}
        """Of those that are not planned: what their regions said, until it is told."""
        self.moves_due: Agenda[WorkloadId] = Agenda()
        self.starts = ReservationCandidates()
        """Whom a start might be promised."""


def eligible(state: QueueState, spec: WorkloadSpec, level: int | None = None) -> tuple[RegionName, ...]:
    """Regions that are known, are heard and not given up, and have the hardware and the data.

    level   at which it is asked for; None: at which it asks to run
    """
    level = level_asked(spec, state.image.tenants) if level is None else level
    found = []
    for region in spec.regions or state.regions:
        image = state.regions[region]
        is_heard = image is not None and not state.silent.get(region, True)
        if not is_heard or against(state, region, spec, level) is not None:
            continue
        if image is not None and could_fit(spec, image.hardware):
            found.append(region)
    return tuple(found)


def why_not_asked(state: QueueState, region: RegionName, spec: WorkloadSpec, level: int) -> Reason | None:
    """Why a region is not among the `eligible`; None: it is."""
    if spec.regions and region not in spec.regions:
        return Reason.REGION_EXCLUDED
    if region in state.image.regions.abandoned:
        return Reason.REGION_ABANDONED
    image = state.regions[region]
    if image is None or state.silent.get(region, True):
        return Reason.REGION_UNREACHABLE
    if not could_fit(spec, image.hardware):
        return Reason.NO_SUCH_HARDWARE
    return against(state, region, spec, level)


def away_for(state: QueueState, workload: WorkloadId) -> Callable[[RegionName], int]:
    """Of a region, how many datasets that a workload reads have their home elsewhere."""
    data, datasets = state.image.workloads.rows[workload].spec.data, state.image.datasets
    return lambda region: datasets.away_from(region, data)


def against(state: QueueState, region: RegionName, spec: WorkloadSpec, level: int) -> Reason | None:
    """Why nothing like this is placed there, whatever room there is; None: it may be."""
    if region in state.image.regions.abandoned:
        return Reason.REGION_ABANDONED
    return against_data(state.image.datasets, spec, region, level)
