"""The job queue's state (the global image, regions' images, the order, auctions, deadlines), and the notes that change the state."""

from collections import Counter
from collections.abc import Callable
from enum import IntEnum

from msgspec import Struct

from components.job_queue.state.asked_shape import AskedShape
from components.job_queue.state.auctions import Auction, Auctions
from components.job_queue.state.data_ledger import DataLedger
from components.job_queue.state.pipeline_looks import PipelineLooks
from components.job_queue.state.quota_ledger import QuotaLedger
from components.job_queue.state.refusal_walk import RefusalWalk
from components.job_queue.state.remembered import Remembered
from components.job_queue.state.reservation_candidates import ReservationCandidates
from components.job_queue.state.speed_meter import SpeedMeter
from components.job_queue.state.wait_index import WaitIndex
from core.agenda import Agenda
from core.fact import Note
from core.images import GlobalImage, RegionImage
from core.messages.queue import Abstention, Bid
from core.nouns.ids import RegionName, TenantName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.moving import MoveCost
from core.nouns.ranking import DEFAULT_RANKING, CreditSettings
from core.nouns.reasons import Reason
from core.nouns.workload import WorkloadSpec
from core.ranking.incremental import RankedQueue
from core.rules.data.datasets import against_data
from core.rules.never_fits import could_fit
from core.rules.quota import level_asked


class AuctionOpened(Note, frozen=True):
    """An auction was opened: the regions were asked for bids."""

    workload: WorkloadId
    auction: Auction


class OpeningsSeen(Note, frozen=True):
    """A cycle began, or none could: the next one needs a change."""


class BidHeard(Note, frozen=True):
    """A region bid for a workload."""

    bid: Bid


class AbstentionHeard(Note, frozen=True):
    """A region refused to bid for a workload."""

    abstention: Abstention


class LateAnswerHeard(Note, frozen=True):
    """A region has answered an auction of a cycle that had ended without any answer of it."""

    region: RegionName
    took: Nanoseconds
    """From the beginning of that cycle."""


class AuctionClosed(Note, frozen=True):
    """An auction is over."""

    workload: WorkloadId
    won: Bid | None
    is_void: bool = False
    """A region bid, but quota or budget forbids the award."""


class SlowRegionRetried(Note, frozen=True):
    """A region that had no answer within `AUCTION_SPAN` is asked again."""

    region: RegionName


class RefusalPassed(Note, frozen=True):
    """A region's refusal of a shape no longer holds."""

    shape: AskedShape
    region: RegionName


class Settled(Note, frozen=True):
    """An award's next step was taken; the next look is due at `again_at`, or at the next change."""

    workload: WorkloadId
    again_at: Instant | None


class RegionSilent(Note, frozen=True):
    """A region's log fell silent, or is heard again."""

    region: RegionName
    is_silent: bool


class BusHeard(Note, frozen=True):
    """The bus was lost, or is back."""

    is_back: bool


class MoveAsked(Note, frozen=True):
    """A region was asked for capacity for a move."""

    workload: WorkloadId
    region: RegionName
    auction: str
    epoch: int
    cost: MoveCost
    until: Instant
    """Deadline of the answer; a later request asks the region again."""
    by: str


class MoveRefused(Struct, frozen=True):
    """A region's refusal of a move."""

    region: RegionName
    reason: Reason
    problems: tuple[str, ...]
    until: Instant
    """End of the refusal; a later request asks the region again."""


class MoveHeard(Note, frozen=True):
    """A region refused a move."""

    workload: WorkloadId
    why: MoveRefused


class MoveDropped(Note, frozen=True):
    """A requested move was called off: a later answer of the region does not count."""

    workload: WorkloadId


class MoveLooked(Note, frozen=True):
    """A move's next step was taken; the next look is due at `again_at`, or at the next change."""

    workload: WorkloadId
    again_at: Instant | None


class MoveArrived(Note, frozen=True):
    """The checkpoint of a moving workload has arrived in the new region."""

    workload: WorkloadId


class PassBegun(Note, frozen=True):
    """A pass begins; only where the order is kept in passes."""


class DrainReason(IntEnum):
    """The choice of the workload for which a region is drained (components/job_queue/quota/drain.py)."""

    LAG = 0
    """Its tenant has the largest lag."""
    AGE = 1
    """The workload has waited longest."""


class Drain(Struct, frozen=True):
    """A region drained for one workload."""

    workload: WorkloadId
    tenant: TenantName
    shape: str
    region: RegionName
    types: tuple[str, ...]
    """GPU types that the workload may use; the drain keeps no other type."""
    since: Instant
    reason: DrainReason


class SharesSeen(Note, frozen=True):
    """Fair shares, shortages and the drain were computed."""

    lacking: tuple[TenantName, ...] = ()
    """Tenants with borrowing work that lacks only capacity."""
    drain: Drain | None = None


class BudgetTurned(Note, frozen=True):
    """A tenant's budget is spent, or the budget's next period has begun."""

    tenant: TenantName


class Reclassified(Note, frozen=True):
    """The quota classes of these tenants' awards were checked."""

    tenants: tuple[TenantName, ...]


class RoundLooked(Note, frozen=True):
    """Idle GPUs of shared pools were given out."""


class CopyArrived(Note, frozen=True):
    """The checkpoint of a job of a shared pool has arrived in the region where it is picked."""

    workload: WorkloadId


class DispatchSaid(Note, frozen=True):
    """All hosts were told in which order they are to decide messages."""


class Swept(Note, frozen=True):
    """Ended workloads were swept; those in `blocked`, which a region still remembers, are looked at again later."""

    blocked: tuple[WorkloadId, ...] = ()
    looked_at: int = 0
    """Number of workloads looked at for the first time: those at the front of `Remembered.ended`."""
    has_more: bool = False
    """Whether more may be due."""


class QueueState:
    """The global image, regions' images, the order, auctions, and deadlines."""

    def __init__(
        self,
        at: Instant,
        regions: tuple[RegionName, ...],
        data_services: tuple[RegionName, ...] = (),
    ) -> None:
        self.image = GlobalImage.empty()
        self.sequence = 0
        self.regions: dict[RegionName, RegionImage | None] = dict.fromkeys(regions)
        """Images by region; None until the region's log is known."""
        self.silent: dict[RegionName, bool] = {}
        self.silent_since: dict[RegionName, Instant] = dict.fromkeys(regions, at)
        """Start of the silence of each silent region: at the earliest the start of this queue or the return of the bus."""
        self.hears_bus = True
        self.order = RankedQueue(CreditSettings(), at)
        self.ranking = DEFAULT_RANKING
        """The rules by which the order is kept."""
        self.ranked_at = Instant(-1)
        """Time of the pass up to which the order has tenants' use and lag; set by `bring_up`."""
        self.shapes: Counter[str] = Counter()
        """Number of workloads in the order, by shape."""
        self.shape_names: dict[str, None] = {}
        """Digests of these shapes."""
        self.ledger = QuotaLedger()
        self.fleet: tuple[str, ...] = ()
        """GPU types of the known regions, sorted."""
        self.dispatch_at: Instant | None = at
        """When hosts are told next in which order they are to decide messages; None: operators have set nothing."""
        self.to_reclassify: dict[TenantName, bool] = {}
        """Tenants with awards to check for another quota class; True: even if `may_stand_otherwise` is false."""
        self.recharge: dict[WorkloadId, None] = {}
        """Awards that may hold other amounts than charged."""
        self.budgets_due: Agenda[TenantName] = Agenda()
        self.waits = WaitIndex()
        self.auctions = Auctions(len(regions))
        self.refusal_walk = RefusalWalk()
        self.passes_at: Instant | None = None
        """Start of the next pass, where the order is kept in passes."""
        self.shares_at: Instant | None = None
        """Time of the next computation of fair shares, if one is due."""
        self.lacking: dict[TenantName, tuple[Nanoseconds, Instant]] = {}
        """Tenants with borrowing work that recently lacked only capacity: how long a region has been drained for them since their last
        borrowed award, and when the shortage was last seen."""
        self.drain: Drain | None = None
        self.drained_last: dict[WorkloadId, Instant] = {}
        """End of the last AGE drain, by workload."""
        self.reclassify_at: Instant | None = None
        """Time of the next check of quota classes, if one is due."""
        self.open_at: Instant | None = at
        """Time of the next search for auctions to open; set by each change that may allow one."""
        self.awarded_at: dict[WorkloadId, Instant] = {}
        self.won: dict[WorkloadId, Bid] = {}
        self.awards_due: Agenda[WorkloadId] = Agenda()
        self.remembered = Remembered()
        self.sweep_at = at
        """The earliest time of the next sweep of ended workloads."""
        self.moves_asked: dict[WorkloadId, MoveAsked] = {}
        self.moves_refused: dict[WorkloadId, MoveRefused] = {}
        """Refusals of requested moves, each the answer to repeats before its `until`."""
        self.moves_due: Agenda[WorkloadId] = Agenda()
        self.fill_at: Instant | None = at
        """Time at which idle GPUs of shared pools are given out, if something has changed."""
        self.speeds = SpeedMeter()
        self.copies_due: Agenda[WorkloadId] = Agenda()
        """When checkpoints of jobs of shared pools have arrived in the regions where these are picked."""
        self.copied: dict[WorkloadId, Instant] = {}
        """When those arrived that have."""
        self.neighbours: dict[WorkloadId, WorkloadId] = {}
        """Of jobs that run on one GPU each the other, until the attempt of one of them is over."""
        self.guests: dict[WorkloadId, WorkloadId] = {}
        """Of jobs of shared pools to whose GPU another was picked to come, that other."""
        self.starts = ReservationCandidates()
        """Workloads that may get a reservation."""
        self.data = DataLedger(data_services, at)
        self.pipeline_looks = PipelineLooks()


def eligible(state: QueueState, spec: WorkloadSpec, level: int | None = None) -> tuple[RegionName, ...]:
    """Return the regions that are known, heard and not abandoned, and have the hardware and the data.

    level   of the request; by default the level that the workload asks for
    """
    level = level_asked(spec, state.image.tenants) if level is None else level
    regions = spec.regions or state.regions
    return tuple(region for region in regions if why_not_asked(state, region, spec, level) is None)


def why_not_asked(state: QueueState, region: RegionName, spec: WorkloadSpec, level: int) -> Reason | None:
    """Return the reason why a region is not `eligible`, if there is one."""
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


def refusal_in(
    state: QueueState, region: RegionName, spec: WorkloadSpec, asked: AskedShape
) -> tuple[Reason | None, Abstention | None]:
    """Return why a region does not bid for a request, and its refusal if the region was asked; no reason: it would be asked."""
    why = why_not_asked(state, region, spec, asked.level)
    said = state.auctions.refused_by(asked).get(region) if why is None else None
    return (Reason(said.reason) if said is not None else why), said


def away_for(state: QueueState, workload: WorkloadId) -> Callable[[RegionName], int]:
    """Return a function that counts the workload's datasets with a home other than the given region."""
    data, datasets = state.image.workloads.rows[workload].spec.data, state.image.datasets
    return lambda region: datasets.away_from(region, data)


def against(state: QueueState, region: RegionName, spec: WorkloadSpec, level: int) -> Reason | None:
    """Return why a region may not run a workload even with free capacity: abandoned, or without (fresh) data."""
    if region in state.image.regions.abandoned:
        return Reason.REGION_ABANDONED
    return against_data(state.image.datasets, spec, region, level)
