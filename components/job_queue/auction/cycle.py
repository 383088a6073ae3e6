"""The scheduling cycle: request bids for the head of the order, wait until every region has answered, award in the order's rank.

1. `begin_cycle`   when something has changed and no cycle is open, at most `AUCTIONS_MAX` workloads are chosen (selection.py), and
                   all their requests are sent at once, in rank order
2. bids.py         each region answers every request with a bid or an abstention
3. `close_cycle`   when every region has answered every request, or after `AUCTION_SPAN` (up to `AUCTION_SPAN_MAX` for regions whose
                   earlier answers came late), each workload in rank order is awarded to the best bid, and the other bids are released

Bound: no award passes a workload that was pending when the cycle began, wants no more GPUs of the same node types, was not refused, and
whose answers came before the cycle's end.
While requests and answers keep their order, a region offers no capacity to a workload before those ahead have an answer; agents of one
region that answer at the same moment may offer the same capacity twice. A workload that arrives in a cycle waits for its end, at most
`AUCTION_SPAN`, and where a region is slow at most `AUCTION_SPAN_MAX` (docs/decisions/0035-awards-by-rank.md).
"""

from components.job_queue.auction.selection import PROMISING, Selection
from components.job_queue.ordering import bring_up, host_of
from components.job_queue.pipelines.holding import held_by_award, is_held_elsewhere
from components.job_queue.quota.classification import award_of
from components.job_queue.quota.drain import excluded
from components.job_queue.state.auctions import Auction, is_bare, settled, solicited
from components.job_queue.state.queue_state import (
    AuctionClosed,
    AuctionOpened,
    OpeningsSeen,
    QueueState,
    RefusalPassed,
    SlowRegionRetried,
    against,
    away_for,
)
from components.job_queue.state.reservation_candidates import FoundBlocked
from core.component import NOTHING, Decision
from core.fact import Event, Note
from core.messages.agents import BidSettled
from core.messages.base import Message
from core.messages.queue import Bid
from core.nouns.ids import PipelineId, RegionName, TenantName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.limits import AUCTION_SPAN, OPEN_BID_SPAN
from core.nouns.reasons import Reason
from core.nouns.tenant import OVER_LEVEL


def begin_cycle(state: QueueState, now: Instant) -> Decision:
    """Return the requests of a new cycle, if something has changed and no cycle is open."""
    if state.open_at is None or state.open_at > now or state.auctions.open:
        return NOTHING
    if not len(state.order):
        return Decision(events=(OpeningsSeen(),))
    bring_up(state, now)
    selection = Selection(state, now)
    cycle = f"{state.image.regions.term}.{state.auctions.cycles + 1}"
    opened: list[tuple[WorkloadId, Auction]] = []
    for count, one in enumerate(selection.choose()):
        asked, regions = selection.asked_of(one)
        spec = state.image.workloads.rows[one.work.workload].spec
        opened.append((one.work.workload, Auction(f"{cycle}.{count}", asked, regions, is_bare(spec.jobs))))
    span = max(
        (state.auctions.spans.of(region) for _, one in opened for region in one.asked), default=AUCTION_SPAN
    )
    held_for = Nanoseconds(OPEN_BID_SPAN * span // AUCTION_SPAN)
    messages: list[Message] = []
    for workload, auction in opened:
        row, how = state.image.workloads.rows[workload], PROMISING.how_asked(state, workload, now)
        host = host_of(state, row)
        messages += [
            solicited(region, workload, auction, row, how, held_for, host) for region in auction.asked
        ]
    events = (
        OpeningsSeen(),
        *(AuctionOpened(workload, auction) for workload, auction in opened),
        *(FoundBlocked(workload) for workload in selection.blocked),
    )
    return Decision(events, tuple(messages))


def close_cycle(state: QueueState, now: Instant) -> Decision:
    """Return the awards of the open cycle in rank order, once every region has answered or the cycle's time is over.

    A tenant's second award, and an award to borrowing work behind another award, depend on facts of this decision: the cycle stops
    there, and the next decision goes on from the same workload.
    """
    auctions = state.auctions
    if auctions.closes_at is None or auctions.closes_at > now:
        return NOTHING
    bring_up(state, now)
    events: list[Event | Note] = []
    messages: list[Message] = []
    served: set[TenantName] = set()
    held: dict[PipelineId, RegionName] = {}
    has_awarded = False
    for workload in sorted(auctions.open, key=lambda workload: state.order.one(workload).place):
        spec, auction = state.image.workloads.rows[workload].spec, auctions.open[workload]
        ranked = auction.ranked(away_for(state, workload), excluded(state, state.order.work(workload)))
        bids = [
            one
            for one in ranked
            if against(state, one[0].region, spec, auction.shape.level) is None
            and not is_held_elsewhere(state, workload, one[0].region, held)
        ]
        if bids and state.ledger.quota:
            if spec.tenant in served or (has_awarded and auction.shape.level == OVER_LEVEL):
                break
            served.add(spec.tenant)
        best = bids[0][0] if bids else None
        award = award_of(state, workload, best, [one for _, one in bids], now) if best is not None else ()
        won = best if award else None
        if won is not None:
            events += held_by_award(state, workload, won.region, held)
        has_awarded |= won is not None
        events += [AuctionClosed(workload, won, is_void=best is not None and won is None), *award]
        if best is None:
            events.extend(PROMISING.closed(state, workload, now))
        messages.extend(_settled(state, bid, has_won=bid is won) for bid, _ in ranked)
    return Decision(tuple(events), tuple(messages))


def _settled(state: QueueState, bid: Bid, *, has_won: bool) -> BidSettled:
    is_abandoned = bid.region in state.image.regions.abandoned
    return settled(bid, has_won=has_won, reason=Reason.REGION_ABANDONED if is_abandoned else "")


def expire_refusals(state: QueueState, now: Instant) -> Decision:
    """Return a note for each refusal that expires by time alone."""
    passed = state.auctions.refusals_due.passed(now)
    return Decision(events=tuple(RefusalPassed(*one) for one in passed)) if passed else NOTHING


def retry_slow_regions(state: QueueState, now: Instant) -> Decision:
    """Return a note for each slow region that is asked again from now on."""
    passed = state.auctions.slow.passed(now)
    return Decision(events=tuple(SlowRegionRetried(region) for region in passed)) if passed else NOTHING
