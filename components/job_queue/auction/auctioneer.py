"""How the job queue holds auctions: whom it asks for from the head of the order, and who is awarded what."""

from bisect import bisect_left

from components.job_queue.auction.award_order import AwardOrder, Passed
from components.job_queue.moves import regions_for
from components.job_queue.ordering import (
    Asked,
    asked_for,
    bring_up,
    lending_now,
    may_be_lent,
    quota_held_from,
)
from components.job_queue.quota.classification import award_of
from components.job_queue.quota.drain import closed_to
from components.job_queue.quota.fair_share import where_asked
from components.job_queue.reservations import StartPromising
from components.job_queue.state.auctions import Auction, is_bare, kinds_of, overlap, settled, solicited
from components.job_queue.state.queue_state import (
    AbstentionHeard,
    AuctionClosed,
    AuctionHeld,
    AuctionOpened,
    BidHeard,
    MoveLooked,
    OpeningsSeen,
    QueueState,
    RefusalPassed,
    Settled,
    StoodAnew,
    Swept,
    against,
    away_for,
)
from components.job_queue.state.reservation_candidates import (
    FoundBlocked,
    NoProspect,
    PromiseSeen,
    ProspectsWanted,
)
from core.component import NOTHING, Decision
from core.events.queue import (
    AttemptClosed,
    StandingChanged,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadsForgotten,
    WorkloadSubmitted,
)
from core.events.region import (
    AttemptEnded,
    AttemptRanked,
    AttemptsForgotten,
    CheckpointCommitted,
    ClaimGranted,
    ClaimPromised,
    GangStarted,
    StopOrdered,
)
from core.fact import Event, Note
from core.messages.agents import BidSettled
from core.messages.base import Message
from core.messages.queue import Bid
from core.nouns.ids import RegionName, TenantName, WorkloadId
from core.nouns.instant import Instant
from core.nouns.limits import AUCTIONS_MAX
from core.nouns.placement import gpu_milli_of
from core.nouns.reasons import Reason
from core.nouns.tenant import OVER_LEVEL
from core.ranking.incremental import Line
from core.ranking.scan import Group, PendingWork, QuotaClass, Ranked
from core.rules.quota import Amounts

CHANGES_NOBODY = (
    WorkloadSubmitted,
    WorkloadAwarded,
    WorkloadBound,
    StandingChanged,
    AttemptClosed,
    WorkloadsForgotten,
    ClaimPromised,
    ClaimGranted,
    GangStarted,
    CheckpointCommitted,
    AttemptRanked,
    StopOrdered,
    AttemptEnded,
    AttemptsForgotten,
    AuctionOpened,
    AuctionHeld,
    AuctionClosed,
    BidHeard,
    AbstentionHeard,
    RefusalPassed,
    OpeningsSeen,
    FoundBlocked,
    ProspectsWanted,
    NoProspect,
    PromiseSeen,
    Settled,
    MoveLooked,
    StoodAnew,
    Swept,
)
"""Facts and notes after which nobody else can be asked for, but for what is told of shapes, of tenants' lines, and of what is held."""
PROMISING = StartPromising()
"""Says of whom regions are to tell when they could start."""


def close_auctions(state: QueueState, now: Instant) -> Decision:
    """Of each tenant one at a time, and who borrows before anybody else is awarded: what the next may hold depends on what this one
    gets. The first in the queue first: when one is awarded, nobody ahead of it that wants no more still waits for an answer.
    """
    auctions, due = state.auctions, state.auctions.due.passed(now)
    if not due:
        return NOTHING
    bring_up(state, now)
    workloads = sorted(due, key=lambda workload: state.order.one(workload).place)
    events: list[Event | Note] = []
    messages: list[Message] = []
    served: set[TenantName] = set()
    has_awarded = False
    order = AwardOrder(state, workloads, now)
    for workload in workloads:
        tenant = state.image.workloads.rows[workload].spec.tenant
        kept = closed_to(state, state.order.work(workload))
        bids = auctions.open[workload].ranked(away_for(state, workload), kept)
        spec, level = state.image.workloads.rows[workload].spec, auctions.open[workload].level
        compared = [one for one in bids if against(state, one[0].region, spec, level) is None]
        best = compared[0][0] if compared else None
        if best is not None:
            borrows = bool(state.ledger.quota) and auctions.open[workload].level == OVER_LEVEL
            if tenant in served or (borrows and has_awarded):
                continue
            passed = order.passed(workload, best.region)
            gives_back = passed is Passed.REFUSED or (
                passed is Passed.UNASKED and not auctions.put_offs.gives_way(workload, now)
            )
            if gives_back and auctions.put_offs.may_give_back(workload, now):
                events.append(AuctionClosed(workload, None, is_put_off=True))
                messages.extend(_settled(state, bid, has_won=False) for bid, _ in bids)
                order.give_back(workload)
                continue
            if passed in (Passed.UNANSWERED, Passed.UNASKED) and now < auctions.open[workload].until:
                events.append(AuctionHeld(workload))
                continue
            if state.ledger.quota:
                served.add(tenant)
        award = award_of(state, workload, best, [one for _, one in compared], now) if best is not None else ()
        won = best if award else None
        if award:
            has_awarded = True
            order.award(workload)
        events += [AuctionClosed(workload, won, is_void=best is not None and won is None), *award]
        if best is None:
            events.extend(PROMISING.closed(state, workload, now))
        messages.extend(_settled(state, bid, has_won=bid is won) for bid, _ in bids)
    return Decision(tuple(events), tuple(messages))


def _settled(state: QueueState, bid: Bid, *, has_won: bool) -> BidSettled:
    is_abandoned = bid.region in state.image.regions.abandoned
    return settled(bid, has_won=has_won, reason=Reason.REGION_ABANDONED if is_abandoned else "")


def pass_refusals(state: QueueState, now: Instant) -> Decision:
    """Those that pass by themselves."""
    passed = state.auctions.refusals_due.passed(now)
    return (
        Decision(events=tuple(RefusalPassed(shape, region) for shape, region in passed))
        if passed
        else NOTHING
    )


def open_auctions(state: QueueState, now: Instant) -> Decision:
    """A bounded window from the head of the order: whoever every region refuses is passed over."""
    if state.open_at is None or state.open_at > now:
        return NOTHING
    if not len(state.order):
        return Decision(events=(OpeningsSeen(),))
    room = AUCTIONS_MAX - len(state.auctions.open)
    events: list[Event | Note] = [OpeningsSeen()]
    messages: list[Message] = []
    bring_up(state, now)
    rows = state.image.workloads.rows
    window = _Window(state, now)
    found = state.order.first(room, window.is_wanted, window.is_free, window.done) if room > 0 else []
    if len(found) < room:
        window.keep_unaskable()
    ranked = state.auctions.ranked
    for count, one in enumerate(found):
        workload = one.work.workload
        ahead = bisect_left(ranked, one.place, key=lambda other: state.order.one(other).place)
        asked, willing = window.askable[one.group][0], window.regions[workload]
        name = f"{state.image.regions.term}.{state.auctions.opened + count}"
        opened = Auction(name, asked.shape, willing, asked.level, asked.types, one.work.shape)
        jobs = rows[workload].spec.jobs
        opened.gpu_milli, opened.kinds, opened.is_bare = gpu_milli_of(jobs), kinds_of(jobs), is_bare(jobs)
        opened.reads_data = bool(rows[workload].spec.data)
        events.append(AuctionOpened(workload, opened, ranked[ahead] if ahead < len(ranked) else None))
        how = PROMISING.how_asked(state, workload, now)
        messages.extend(solicited(region, workload, opened, rows[workload], how) for region in willing)
    events.extend(FoundBlocked(workload) for workload in window.blocked)
    return Decision(tuple(events), tuple(messages))


class _Window:
    """Whom of the order regions are asked for now, and which regions."""

    def __init__(self, state: QueueState, now: Instant) -> None:
        self._state, self._now = state, now
        self._lending = lending_now(state)
        self.askable: dict[Group, tuple[Asked, tuple[RegionName, ...]]] = {}
        self.regions: dict[WorkloadId, tuple[RegionName, ...]] = {}
        """Of those that are worth asking for, which regions to ask."""
        self._kept: dict[Group, Amounts] = {}
        """Of those that name several GPU types: what of them somebody ahead of the first of them keeps."""
        self._chosen: dict[str, None] = {}
        self._waiting: list[tuple[int, frozenset[str], tuple[RegionName, ...]]] = []
        """Those that wait until another of their shape is answered: GPU milli, types of node, and where they may be asked for."""
        self._found_unaskable: dict[Group, str | None] = {}
        """Of these nobody is asked for until something changes, unless somebody is; and for which shape."""
        known, touched = state.auctions.unaskable, state.order.take_touched()
        if touched is None:
            known.clear()
        else:
            known.drop_all(touched)
        self.done: set[Group | Line] = set(known)
        """Of these nobody else is asked for now."""
        self.blocked: list[WorkloadId] = []
        """The first of their shapes and tenants, refused everywhere because no more of the same was: nobody need be asked to know that."""

    def is_wanted(self, group: Group, example: PendingWork) -> bool:
        """Whether somebody does not refuse what is of this band and shape."""
        state, (level, quota_class) = self._state, group[0]
        self._found_unaskable[group] = None
        if quota_class is QuotaClass.BLOCKED:
            return False
        if quota_class is QuotaClass.BORROWING and not any(
            self._lending.could_cover(need) for need in example.needs
        ):
            return False
        if quota_class is QuotaClass.NOMINAL and len(example.needs) > 1:
            self._kept[group] = quota_held_from(state, example, -level)
        asked = asked_for(state, example, -level, quota_class)
        if len(example.needs) > 1:
            # For which types it is asked goes by more than is told of its tenant's line.
            del self._found_unaskable[group]
        else:
            self._found_unaskable[group] = asked.shape
        row = state.image.workloads.rows[example.workload]
        willing = state.auctions.willing(asked.shape, lambda: regions_for(state, row, asked.level, self._now))
        self.askable[group] = asked, willing
        return bool(willing)

    def is_free(self, one: Ranked) -> bool:
        """Whether it is this one's turn. Of each band and shape they are looked at in their order."""
        state, auctions = self._state, self._state.auctions
        shape = self.askable[one.group][0].shape
        if shape in auctions.tight and (shape in self._chosen or shape in auctions.asking):
            self.done.add(one.group)
            jobs = state.image.workloads.rows[one.work.workload].spec.jobs
            self._waiting.append((gpu_milli_of(jobs), kinds_of(jobs), self.askable[one.group][1]))
            return False
        if not where_asked(state, one, self.askable[one.group][1]):
            self.done.add((one.group, one.work.tenant))
            return False
        if one.group in self._kept and self._kept[one.group] != quota_held_from(state, one.work, one.level):
            # It is asked for on other types, once those before it are not asked for.
            self.done.add(one.group)
            return False
        may = auctions.may_ask(one.work.workload, shape)
        if not may:
            self._found_unaskable.pop(one.group, None)  # Until the auction that is open is over.
        if (
            may
            and one.quota_class is QuotaClass.BORROWING
            and not may_be_lent(state, one.work, self._lending)
        ):
            return False
        if may and not self._is_worth_asking(one):
            return False
        gives_way = may and auctions.put_offs.gives_way(one.work.workload, self._now)
        if gives_way and not self._is_left(one.work.workload):
            self._found_unaskable.pop(one.group, None)  # For so long alone as it gives way.
            return False
        if may:
            self._chosen[shape] = None
        return may

    def _is_left(self, workload: WorkloadId) -> bool:
        """Whether any region is left if it is not asked for where others wait who are ahead and want no more."""
        jobs = self._state.image.workloads.rows[workload].spec.jobs
        gpu_milli, kinds = gpu_milli_of(jobs), kinds_of(jobs)
        kept = {
            region
            for wants, theirs, regions in self._waiting
            if wants <= gpu_milli and overlap(kinds, theirs)
            for region in regions
        }
        self.regions[workload] = tuple(name for name in self.regions[workload] if name not in kept)
        return bool(self.regions[workload])

    def _is_worth_asking(self, one: Ranked) -> bool:
        """Whether anybody is left who has not refused less of the same. If that goes for all who may be asked for it, it does for its
        tenant's behind it, too. The first of each tenant is looked at: who of them is ahead goes by time and use.
        """
        state, workload = self._state, one.work.workload
        asked, willing = self.askable[one.group]
        where = where_asked(state, one, willing)
        left = PROMISING.worth_asking(state, workload, asked.shape, where)
        self.regions[workload] = left
        if not left:
            self.done.add((one.group, one.work.tenant))
        if not left and workload not in state.starts.blocked:
            # By this look it is found blocked, or by another refusal.
            self._found_unaskable.pop(one.group, None)
            if PROMISING.is_newly_blocked(state, workload, asked.shape):
                self.blocked.append(workload)
        return bool(left)

    def keep_unaskable(self) -> None:
        """Of all that were looked at."""
        auctions = self._state.auctions
        for group, shape in self._found_unaskable.items():
            if shape is None or not (shape in auctions.asking or shape in self._chosen):
                auctions.unaskable.put(group, shape)
