"""Auctions of the open cycle (regions asked, bids, refusals), and the refusals that keep later requests from being sent.

All of them are notes: after a restart of the queue the next cycle asks again. A refusal holds for every workload of the same shape
until a fact of the region's log could change the answer. Refusals that last are facts as well (auction/noting.py), for users alone.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from components.job_queue.state.answer_spans import AnswerSpans
from components.job_queue.state.asked_shape import AskedShape
from components.job_queue.state.refusal_dominance import RefusalDominance
from components.job_queue.state.refusal_expiry import RefusalExpiry, Resource
from core.agenda import Agenda
from core.events.queue import RankedBid
from core.images.queue import WorkloadRow
from core.messages.agents import BidSettled
from core.messages.broker import SolicitBid
from core.messages.queue import Abstention, Bid
from core.nouns.fleet import ANY_TYPE, CPU_TYPE, gpu_type_of
from core.nouns.ids import AttemptKey, RegionName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds, after
from core.nouns.limits import AUCTION_SPAN, AUCTIONS_MAX, LAGGING_VIEW_RETRY, OPEN_BIDS_RETRY
from core.nouns.reasons import Reason
from core.nouns.workload import JobSpec
from core.rules.quota import narrowed

SLOW_FACTOR = 3
"""A region without an answer within `AUCTION_SPAN` is then not asked for so many times as long as its cycle took: each such region costs
the others at most a quarter of their time."""
LACKS_CAPACITY = (Reason.NO_CAPACITY, Reason.START_RESERVED, Reason.DESTROYS_TOO_MUCH)
"""Reasons of a region that could hold the workload if others' work were not there."""


class Auction(Struct):
    """The request for one workload in the open cycle, and the answers of regions."""

    auction: str
    shape: AskedShape
    """The request: the key for which a refusal holds."""
    asked: tuple[RegionName, ...]
    is_bare: bool = False
    """Whether all tasks run on nodes without GPUs."""
    bids: dict[RegionName, Bid] = field(default_factory=dict)
    abstained: dict[RegionName, Abstention] = field(default_factory=dict)

    def has_heard(self, region: RegionName) -> bool:
        """Return whether a region has answered."""
        return region in self.bids or region in self.abstained

    def ranked(
        self, away: Callable[[RegionName], int] = lambda _: 0, drained: RegionName | None = None
    ) -> list[tuple[Bid, RankedBid]]:
        """Return the bids with their comparison keys, the best first.

        away      number of the workload's datasets with a home other than the given region
        drained   the region that is being drained for another workload
        """
        compared = [
            (bid, RankedBid(bid.region, bid.score, away(bid.region), int(bid.region == drained)))
            for bid in self.bids.values()
        ]
        return sorted(compared, key=lambda one: one[1].place)


class Auctions:
    """The open cycle, contended shapes, slow regions, and refusals."""

    def __init__(self, regions: int) -> None:
        self._regions = regions
        """Number of regions of the fleet."""
        self.open: dict[WorkloadId, Auction] = {}
        self.cycles = 0
        """Number of cycles since the start of the queue, which names them."""
        self.cycle = ""
        """Name of the open cycle: that of its auctions without their last part."""
        self.began_at = Instant(0)
        """Beginning of the open cycle."""
        self.closes_at: Instant | None = None
        """End of the open cycle: by then every region has answered, or has had its time."""
        self.spans = AnswerSpans()
        """How long each region's answers are awaited."""
        self.first_answers: dict[RegionName, Instant | None] = {}
        """Regions asked in the open cycle, and the time of each one's first answer."""
        self.owed: dict[RegionName, int] = {}
        """Number of answers that the open cycle still expects, by region."""
        self.slow: Agenda[RegionName] = Agenda()
        """Regions without an answer within `AUCTION_SPAN`, by the time from which they are asked again."""
        self.window: dict[AskedShape, int] = {}
        """Number of workloads that are asked for in one cycle, by contended shape."""
        self.shapes: dict[str, dict[AskedShape, dict[RegionName, None]]] = {}
        """Requests that were made, by the workload's shape, and the regions that have answered them."""
        self.refusals: dict[AskedShape, dict[RegionName, Abstention]] = {}
        """The newest refusals, by shape and region."""
        self.refusals_due: Agenda[tuple[AskedShape, RegionName]] = Agenda()
        """Refusals that expire by time: for open bids, and by agents with lagging views."""
        self.offered: dict[RegionName, dict[AskedShape, None]] = {}
        """Shapes refused for open bids, by region."""
        self.freed: dict[RegionName, RefusalExpiry] = {}
        self.dominance = RefusalDominance()
        """Refusals that hold for larger requests too."""
        self.willing_memo: dict[AskedShape, tuple[RegionName, ...]] = {}
        """Memo of `willing`, by shape."""

    # The open cycle.

    def begin(self, workload: WorkloadId, auction: Auction, at: Instant) -> None:
        """Add an auction to the cycle that begins now."""
        self.open[workload] = auction
        self.shapes.setdefault(auction.shape.shape, {}).setdefault(auction.shape, {})
        if self.closes_at is None:
            self.cycles += 1
            self.cycle = cycle_of(auction.auction)
            self.began_at = at
        for region in auction.asked:
            self.first_answers.setdefault(region, None)
            self.owed[region] = self.owed.get(region, 0) + 1
        self._set_end(at)

    def hear_bid(self, bid: Bid, at: Instant) -> None:
        """Record a bid for an open auction. A repeat changes nothing."""
        auction = self.open[bid.workload]
        self._note_answer(auction, bid.region, at)
        auction.bids.setdefault(bid.region, bid)

    def hear_abstention(self, said: Abstention, at: Instant) -> None:
        """Record a region's refusal for an open auction; its shape is contended from now on."""
        auction = self.open[said.workload]
        shape = auction.shape
        self.window[shape] = 1
        self._note_answer(auction, said.region, at)
        auction.abstained.setdefault(said.region, said)
        self._refuse(shape, said)
        freed = self.freed.setdefault(said.region, RefusalExpiry())
        retry = said.again_in
        if said.reason == Reason.OPEN_BIDS:
            self.offered.setdefault(said.region, {})[shape] = None
            retry = OPEN_BIDS_RETRY
        elif said.reason == Reason.NO_SUCH_HARDWARE:
            if said.view_sequence < freed.hardware_from:
                retry = LAGGING_VIEW_RETRY  # Nodes joined that the agent has not seen.
        elif not freed.hold(shape, said.view_sequence, *_waits_for(said, auction)):
            retry = LAGGING_VIEW_RETRY  # Enough was freed that the agent has not seen: asked at once, it would refuse again.
        if retry:
            self.refusals_due.put((shape, said.region), after(at, retry))

    def end(self, workload: WorkloadId, won: Bid | None, at: Instant) -> None:
        """Close an auction. Regions whose bids lost may offer that capacity again."""
        auction = self.open.pop(workload, None)
        if auction is None:
            return
        if self.closes_at is not None and at < self.closes_at:
            # The workload left the cycle, and the answers that are missing are not awaited any more.
            for region in auction.asked:
                self.owed[region] -= not auction.has_heard(region)
            self._set_end(at)
        if won is not None and auction.shape in self.window:
            self._widen(auction.shape)
        for region in auction.bids:
            if won is None or region != won.region:
                self.forget_open_bids(region)
        if not self.open:
            self._end_cycle(at)

    def forget_slow(self) -> None:
        """Ask every region again, for the usual time: the bus was lost, so that silence and late answers meant nothing."""
        self.slow = Agenda()
        self.spans = AnswerSpans()

    def hear_late(self, region: RegionName, took: Nanoseconds, at: Instant) -> None:
        """Note how long the answer of a region took that had answered nothing in its cycle; the open cycle waits for it as long."""
        self.spans.lengthen(region, took)
        self._set_end(at)

    def has_said(self, region: RegionName, shape: AskedShape) -> bool:
        """Return whether a region has answered a request for a shape since the start of the queue."""
        return region in self.shapes.get(shape.shape, {}).get(shape, ())

    def _note_answer(self, auction: Auction, region: RegionName, at: Instant) -> None:
        self.shapes.setdefault(auction.shape.shape, {}).setdefault(auction.shape, {})[region] = None
        if not auction.has_heard(region):
            self.owed[region] -= 1
        if self.first_answers[region] is None:
            self.first_answers[region] = at
        self._set_end(at)

    def _set_end(self, at: Instant) -> None:
        """Set the end of the open cycle, unless that has come: now if no answer is missing, else once all who owe one had their time."""
        if not self.open or (self.closes_at is not None and self.closes_at <= at):
            return
        ends = [after(self.began_at, self.spans.of(region)) for region, owed in self.owed.items() if owed]
        self.closes_at = max([at, *ends])

    def _end_cycle(self, at: Instant) -> None:
        """End the cycle; regions that have delayed the others are slow.

        If no region answered in time, and there were several or they are all of the fleet, the queue or the bus is the likelier cause:
        none is slow.
        """
        in_time = after(self.began_at, AUCTION_SPAN)
        answered = {region: first for region, first in self.first_answers.items() if first is not None}
        prompt = [region for region, first in answered.items() if first <= in_time]
        silent = [region for region, owed in self.owed.items() if owed and region not in answered]
        late = [*silent, *(region for region in answered if region not in prompt)]
        if prompt or len(late) < min(2, self._regions):
            for region in late:
                self.slow.put(region, after(at, Nanoseconds(SLOW_FACTOR * (at - self.began_at))))
        for region in prompt:
            self.spans.reset(region)
        for region in silent:
            self.spans.add_silent(region, self.cycle, self.began_at)
        self.closes_at = None
        self.first_answers.clear()
        self.owed.clear()

    def _widen(self, shape: AskedShape) -> None:
        self.window[shape] *= 2
        if self.window[shape] >= AUCTIONS_MAX:
            del self.window[shape]

    # Refusals.

    def _refuse(self, shape: AskedShape, said: Abstention) -> None:
        self.refusals.setdefault(shape, {})[said.region] = said
        self.dominance.add(shape, said)
        self.willing_memo.pop(shape, None)

    def forget_shape(self, workload_shape: str) -> None:
        """Forget that a shape is contended, at any level, after its last workload left. Its refusals hold until they expire."""
        for shape in self.shapes.pop(workload_shape, {}):
            self.window.pop(shape, None)
            self.willing_memo.pop(shape, None)

    def forget_open_bids(self, region: RegionName) -> None:
        """Forget a region's refusals for open bids: an offered capacity was not taken."""
        for shape in self.offered.pop(region, {}):
            self.forget_refusal(shape, region)

    def forget_refusal(self, shape: AskedShape, region: RegionName) -> None:
        """Forget a region's refusal of a shape."""
        self.refusals_due.drop((shape, region))
        self.offered.get(region, {}).pop(shape, None)
        self.willing_memo.pop(shape, None)
        self.dominance.drop(shape, region)
        if region in self.freed:
            self.freed[region].drop(shape)
        regions = self.refusals.get(shape, {})
        regions.pop(region, None)
        if not regions:
            self.refusals.pop(shape, None)

    def free(self, region: RegionName, sequence: int, amounts: Mapping[Resource, int]) -> bool:
        """Add capacity that the region's log shows freed. Return whether a refusal expired by that."""
        freed = self.freed.setdefault(region, RefusalExpiry())
        passed = freed.add(sequence, amounts)
        for shape in passed:
            self.forget_refusal(shape, region)
        return bool(passed)

    def forget_region(self, region: RegionName, sequence: int, *, is_other_hardware: bool = True) -> None:
        """Forget a region's refusals, and distrust those on views before this sequence: its nodes have changed.

        is_other_hardware   whether refusals for lack of hardware expire too
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

    def refused_by(self, shape: AskedShape) -> dict[RegionName, Abstention]:
        """Return the refusals of a shape, or of a smaller request that dominates the shape, by region."""
        return self.dominance.of_smaller(shape) | self.refusals.get(shape, {})

    def forget_memos(self) -> None:
        """Drop the memo of willing regions."""
        self.willing_memo.clear()

    def willing(
        self, shape: AskedShape, eligible: Callable[[], tuple[RegionName, ...]]
    ) -> tuple[RegionName, ...]:
        """Return the eligible regions that have not refused this very shape."""
        found = self.willing_memo.get(shape)
        if found is None:
            refused = self.refusals.get(shape, {})
            found = tuple(region for region in eligible() if region not in refused)
            self.willing_memo[shape] = found
        return found


def _waits_for(said: Abstention, auction: Auction) -> tuple[Resource, int]:
    """Return the resource that a refusal waits for, and the milli that must be freed of it."""
    if not said.missing_cpu_milli:
        return Resource.GPU, max(1, said.missing_gpu_milli)
    return Resource.BARE_CPU if auction.is_bare else Resource.CPU, said.missing_cpu_milli


def cycle_of(auction: str) -> str:
    """Return the name of an auction's cycle."""
    return auction.rpartition(".")[0]


def settled(bid: Bid, *, has_won: bool, reason: str = "") -> BidSettled:
    """Return the message that tells an agent whether its bid won."""
    return BidSettled(bid.region, bid.agent, bid.workload, bid.auction, has_won, reason)


def solicited(
    region: RegionName,
    workload: WorkloadId,
    auction: Auction,
    row: WorkloadRow,
    how: tuple[bool, bool],
    held_for: Nanoseconds,
    beside: AttemptKey | None = None,
) -> SolicitBid:
    """Return the request to a region; `how` is `how_asked` of components/job_queue/reservations.py."""
    spec = row.spec
    return SolicitBid(
        region,
        workload,
        auction.auction,
        narrowed(spec.jobs, auction.shape.types),
        auction.shape.level,
        spec.kind,
        spec.tenant,
        row.is_healing,
        spec.max_duration,
        spec.grace,
        *how,
        held_for,
        beside,
    )


def kinds_of(jobs: tuple[JobSpec, ...]) -> frozenset[str]:
    """Return the node types that the jobs with GPUs name, `any` among them."""
    return frozenset(kind for job in jobs if job.need.gpu_milli for kind in job.node_types)


def is_bare(jobs: tuple[JobSpec, ...]) -> bool:
    """Return whether all node types that the jobs name have no GPUs."""
    return all(gpu_type_of(kind)[0] == CPU_TYPE for job in jobs for kind in job.node_types)


def overlap(mine: frozenset[str], others: frozenset[str]) -> bool:
    """Return whether some node could be of a type in both sets."""
    is_any = any(gpu_type_of(kind)[0] == ANY_TYPE for kind in mine | others)
    return bool(mine and others) if is_any else not mine.isdisjoint(others)
