"""The job queue: keeps the log `global`: what users asked for, in which order it is served, and which region may run what.

Ranking is simple here (priority, then first come); the protocol is whole: workloads from the head of the order are put up
for auction, the best bid is awarded as a fact before anybody is told, and an award stands until the region's own log shows
that it was declined or that its attempt ended (components/settlement.py).
"""

from collections.abc import Callable

from components.auctions import Auction, AuctionHouse
from components.settlement import Step, settle
from core.agenda import Agenda
from core.component import NOTHING, Decision, Follow, ImageAdopted, Images
from core.events.queue import (
    AttemptClosed,
    AwardReturned,
    CancelRequested,
    RankedBid,
    RegionAdded,
    RequeueRequested,
    WorkloadAwarded,
    WorkloadCancelled,
    WorkloadHeld,
    WorkloadReleased,
    WorkloadsForgotten,
    WorkloadSubmitted,
)
from core.events.region import AttemptEnded, AwardDeclined, NodesJoined, NodesReturned
from core.fact import NO_LOG, Event, Fact, Note
from core.images import GlobalImage, RegionImage
from core.images.queue import WorkloadRow, key_of
from core.messages.agents import BidSettled
from core.messages.base import Answer, Envelope, LogHeard, LogSilent, Message, Refused, Woken
from core.messages.broker import SolicitBid
from core.messages.queue import (
    Abstention,
    Acknowledged,
    Bid,
    CancelWorkload,
    HoldWorkload,
    ReleaseWorkload,
    RequeueWorkload,
    ShowWorkload,
    Submitted,
    SubmitWorkload,
    WorkloadShown,
)
from core.nouns.ids import GLOBAL_LOG, RegionName, WorkloadId, region_log, region_of
from core.nouns.instant import Instant, after, earliest
from core.nouns.limits import AUCTIONS_MAX, FORGET_INTERVAL, FORGOTTEN_AT_ONCE_MAX, RETENTION
from core.nouns.reasons import Reason, sentence
from core.nouns.workload import Phase, WorkloadSpec
from core.pending import PendingOrder
from core.rules.submission import could_fit, problems_of


class AuctionOpened(Note, frozen=True):
    """These regions were asked."""

    workload: WorkloadId
    auction: Auction


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


class Swept(Note, frozen=True):
    """Ended workloads were looked through."""


class QueueState:
    """The global image, what each region's log shows, the order, auctions, and when to look at what."""

    def __init__(self, at: Instant, regions: tuple[RegionName, ...]) -> None:
        self.image = GlobalImage.empty()
        self.sequence = 0
        self.regions: dict[RegionName, RegionImage | None] = dict.fromkeys(regions)
        """None until the region's log is known."""
        self.silent: dict[RegionName, bool] = {}
        self.order = PendingOrder()
        self.house = AuctionHouse()
        self.open_at: Instant | None = at
        """Set when an auction might be opened that could not before."""
        self.awarded_at: dict[WorkloadId, Instant] = {}
        self.won: dict[WorkloadId, Bid] = {}
        self.awards_due: Agenda[WorkloadId] = Agenda()
        self.ended: Agenda[WorkloadId] = Agenda()
        self.sweep_at = at


class JobQueue:
    """The keeper of the log `global`."""

    name = "queue"
    noun = "queue"
    scope: tuple[str, ...] = ()
    keeps = GLOBAL_LOG
    hears: tuple[type[Message], ...] = (
        SubmitWorkload,
        CancelWorkload,
        HoldWorkload,
        ReleaseWorkload,
        RequeueWorkload,
        ShowWorkload,
        Bid,
        Abstention,
    )

    def __init__(self, regions: tuple[RegionName, ...]) -> None:
        self.regions = tuple(sorted(regions))
        self.follows = tuple(
            Follow(region_log(region), ("attempts", "hardware"), is_required=False) for region in self.regions
        )
        self._deciders: dict[type[Message], Callable[[QueueState, Envelope], Decision]] = {
            Woken: self._woken,
            SubmitWorkload: self._submit,
            CancelWorkload: self._cancel,
            HoldWorkload: self._hold,
            ReleaseWorkload: self._release,
            RequeueWorkload: self._requeue,
            ShowWorkload: self._show,
            Bid: self._bid,
            Abstention: self._abstention,
            LogSilent: self._log_silent,
            LogHeard: self._log_heard,
        }

    def initial(self, images: Images) -> QueueState:
        """The order of what is pending, and every standing award to be looked at."""
        state = QueueState(images.at, self.regions)
        if images.own is not None:
            assert isinstance(images.own, GlobalImage)
            state.image = images.own
        for workload, row in state.image.workloads.rows.items():
            self._place(state, workload, row)
            if row.is_standing or row.is_cancel_requested:
                state.awarded_at[workload] = images.at
                state.awards_due.put(workload, images.at)
            if row.phase.is_terminal:
                state.ended.put(workload, after(Instant(row.ended_at), RETENTION))
        for log, (image, _) in images.followed.items():
            assert isinstance(image, RegionImage)
            self._adopt(state, region_of(log), image, images.at)
        return state

    def due(self, state: QueueState) -> Instant | None:
        """The next auction to close or open, award to settle, refusal to forget, workload to drop."""
        sweep = state.ended.due()
        return earliest(
            state.open_at,
            state.house.due.due(),
            state.house.refusals_due.due(),
            state.awards_due.due(),
            None if sweep is None else max(sweep, state.sweep_at),
        )

    def decide(self, state: QueueState, envelope: Envelope) -> Decision:
        """Accept, refuse, auction, award, settle."""
        decider = self._deciders.get(type(envelope.message))
        return decider(state, envelope) if decider else NOTHING

    def forget_memos(self, state: QueueState) -> None:
        """Which regions are willing is worked out anew."""
        state.house.willing_memo.clear()

    # Folding.

    def evolve(self, state: QueueState, fact: Fact) -> QueueState:
        """Fold a fact of the queue or of a region, or a note."""
        if fact.log == GLOBAL_LOG:
            state.image.fold(fact)
            state.sequence = fact.sequence
            self._index(state, fact)
        elif fact.log != NO_LOG:
            self._fold_region(state, fact)
        else:
            self._evolve_note(state, fact)
        return state

    def _index(self, state: QueueState, fact: Fact) -> None:
        event = fact.event
        workload = getattr(event, "workload", None)
        if workload is None:
            if isinstance(event, WorkloadsForgotten):
                for gone in event.workloads:
                    state.ended.drop(gone)
            elif isinstance(event, RegionAdded):
                state.open_at = fact.at
            return
        row = state.image.workloads.rows[workload]
        match event:
            case WorkloadAwarded():
                state.awarded_at[workload] = fact.at
                state.awards_due.put(workload, fact.at)
            case AwardReturned() | AttemptClosed():
                state.awarded_at.pop(workload, None)
                state.won.pop(workload, None)
                state.awards_due.drop(workload)
                if row.is_cancel_requested and row.phase == Phase.PENDING:
                    state.awards_due.put(workload, fact.at)
            case CancelRequested() | RequeueRequested():
                state.awards_due.put(workload, fact.at)
            case WorkloadCancelled():
                state.awards_due.drop(workload)
        self._place(state, workload, row)
        if row.phase.is_terminal:
            state.ended.put(workload, after(fact.at, RETENTION))
        if isinstance(event, WorkloadSubmitted | WorkloadReleased | AwardReturned | AttemptClosed):
            state.open_at = fact.at

    def _place(self, state: QueueState, workload: WorkloadId, row: WorkloadRow) -> None:
        """In the order exactly while it is pending and neither held nor to be cancelled."""
        wanted = row.phase == Phase.PENDING and not row.is_held and not row.is_cancel_requested
        if wanted and workload not in state.order:
            state.order.add(workload, row.spec.priority, row.number, row.spec.shape)
        elif not wanted and workload in state.order:
            state.order.drop(workload)

    def _fold_region(self, state: QueueState, fact: Fact) -> None:
        region = region_of(fact.log)
        image = state.regions[region]
        assert image is not None, region
        event = fact.event
        if isinstance(event, AwardDeclined):
            row = image.attempts.row(event.workload, event.epoch)
            if row is None:
                state.house.forget_open_bids(region)  # What it was to have is free again, and always was.
            else:
                state.house.forget_region(region)  # A promise is withdrawn.
            state.open_at = fact.heard_at
        image.fold(fact)
        workload = getattr(event, "workload", None)
        if workload in state.awarded_at:
            state.awards_due.put(workload, fact.heard_at)
        if isinstance(event, AttemptEnded):
            if state.house.free(region, fact.sequence, event.gpu_milli):
                state.open_at = fact.heard_at
        elif isinstance(event, NodesJoined | NodesReturned):
            state.house.forget_region(region)
            state.open_at = fact.heard_at

    def _adopt(self, state: QueueState, region: RegionName, image: RegionImage, at: Instant) -> None:
        state.regions[region] = image
        state.silent[region] = False
        state.house.freed.pop(region, None)
        state.house.forget_region(region)
        state.open_at = at
        for workload in state.awarded_at:
            if state.image.workloads.rows[workload].region == region:
                state.awards_due.put(workload, at)

    def _evolve_note(self, state: QueueState, fact: Fact) -> None:
        house = state.house
        match fact.event:
            case AuctionOpened(workload, auction):
                house.begin(workload, auction, fact.at)
            case OpeningsSeen():
                state.open_at = None
            case BidHeard(bid):
                house.hear_bid(bid, fact.at)
            case AbstentionHeard(said):
                house.hear_abstention(said, fact.at)
            case AuctionClosed(workload, won):
                house.end(workload, won)
                state.open_at = fact.at
                if won is not None:
                    state.won[workload] = won
            case RefusalPassed(shape, region):
                house.forget_refusal(shape, region)
                state.open_at = fact.at
            case Settled(workload, again_at):
                if again_at is None:
                    state.awards_due.drop(workload)
                else:
                    state.awards_due.put(workload, again_at)
            case RegionSilent(region, is_silent):
                state.silent[region] = is_silent
                house.willing_memo.clear()
                state.open_at = fact.at
            case Swept():
                state.sweep_at = after(fact.at, FORGET_INTERVAL)
            case ImageAdopted(log, image, _):
                assert isinstance(image, RegionImage)
                self._adopt(state, region_of(log), image, fact.at)

    # Users.

    def _submit(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, SubmitWorkload)
        workloads = state.image.workloads
        if message.key:
            known = workloads.keys.get(key_of(message.submitter, message.key))
            if known is not None:
                return _answered(Submitted(known))
        problems = problems_of(message.spec)
        if problems:
            return _refused(Reason.INVALID, problems)
        refusal = self._never(state, message.spec)
        if refusal is not None:
            return _refused(*refusal)
        number = workloads.submitted + 1
        workload = WorkloadId(f"w-{number}")
        submitted = WorkloadSubmitted(workload, number, message.spec, message.submitter, message.key)
        return Decision((submitted,), (Submitted(workload),))

    def _never(self, state: QueueState, spec: WorkloadSpec) -> tuple[Reason, tuple[str, ...]] | None:
        """Refused for good only when every region that it may run in is known, has nodes, and could not hold it."""
        unknown = [region for region in spec.regions if region not in self.regions]
        if unknown:
            return Reason.UNKNOWN_REGION, tuple(
                f"regions: {region} is not in the fleet" for region in unknown
            )
        for region in spec.regions or self.regions:
            image = state.regions[region]
            if image is None or not image.hardware.rows or could_fit(spec, image.hardware):
                return None
        problems = tuple(
            f"jobs[{index}]: {job.tasks} tasks of {job.need.gpu_milli} GPU milli on {job.gpu_type}"
            for index, job in enumerate(spec.jobs)
        )
        return Reason.NEVER_FITS, problems

    def _cancel(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, CancelWorkload)
        row = state.image.workloads.rows.get(message.workload)
        if row is None:
            return _refused(Reason.UNKNOWN_WORKLOAD)
        if row.phase == Phase.CANCELLED or row.is_cancel_requested:
            return _answered(Acknowledged(message.workload))
        if row.phase.is_terminal:
            return _refused(Reason.ALREADY_ENDED, (f"it is {row.phase}",))
        event: Event = (
            CancelRequested(message.workload) if row.is_standing else WorkloadCancelled(message.workload)
        )
        return self._stop_auction(state, message.workload, (event,), Acknowledged(message.workload))

    def _hold(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, HoldWorkload)
        return self._set_hold(state, message.workload, message.revision, is_held=True)

    def _release(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, ReleaseWorkload)
        return self._set_hold(state, message.workload, message.revision, is_held=False)

    def _set_hold(self, state: QueueState, workload: WorkloadId, revision: int, *, is_held: bool) -> Decision:
        """A repeat finds what it asked for; what was said before a newer word is refused."""
        row = state.image.workloads.rows.get(workload)
        if row is None:
            return _refused(Reason.UNKNOWN_WORKLOAD)
        if row.phase.is_terminal:
            return _refused(Reason.ALREADY_ENDED, (f"it is {row.phase}",))
        if row.is_held == is_held and revision in (row.hold_revision, row.hold_revision - 1):
            return _answered(Acknowledged(workload, row.hold_revision))
        if revision != row.hold_revision:
            return _refused(Reason.SUPERSEDED, (f"revision: it is {row.hold_revision} now",))
        newer = revision + 1
        event: Event = WorkloadHeld(workload, newer) if is_held else WorkloadReleased(workload, newer)
        return self._stop_auction(state, workload, (event,), Acknowledged(workload, newer))

    def _stop_auction(
        self, state: QueueState, workload: WorkloadId, events: tuple[Event, ...], answer: Answer
    ) -> Decision:
        """What is no longer to be awarded has no auction."""
        auction = state.house.open.get(workload)
        if auction is None:
            return Decision(events, (answer,))
        told = tuple(_settled(bid, has_won=False) for bid in auction.ranked())
        return Decision((*events, AuctionClosed(workload, None)), (answer, *told))

    def _requeue(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, RequeueWorkload)
        row = state.image.workloads.rows.get(message.workload)
        if row is None:
            return _refused(Reason.UNKNOWN_WORKLOAD)
        if row.phase.is_terminal:
            return _refused(Reason.ALREADY_ENDED, (f"it is {row.phase}",))
        if message.epoch < row.epoch or not row.is_standing or row.requeued_epoch == row.epoch:
            return _answered(Acknowledged(message.workload))
        if message.epoch > row.epoch:
            return _refused(Reason.INVALID, (f"epoch: it is {row.epoch} now",))
        return Decision((RequeueRequested(message.workload, row.epoch),), (Acknowledged(message.workload),))

    def _show(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, ShowWorkload)
        row = state.image.workloads.rows.get(message.workload)
        if row is None:
            return _refused(Reason.UNKNOWN_WORKLOAD)
        reason = self._reason(state, message.workload, row)
        shown = WorkloadShown(
            workload=message.workload,
            name=row.spec.name,
            phase=row.phase,
            reason=reason or "",
            sentence=sentence(reason) if reason else "",
            epoch=row.epoch,
            region=row.region,
            hold_revision=row.hold_revision,
            is_held=row.is_held,
        )
        return _answered(shown)

    def _reason(self, state: QueueState, workload: WorkloadId, row: WorkloadRow) -> Reason | None:
        """Why it does not run, if it does not."""
        if row.is_standing:
            is_unreachable = row.phase == Phase.AWARDED and state.silent.get(row.region, True)
            return Reason.REGION_UNREACHABLE if is_unreachable else None
        if row.phase != Phase.PENDING:
            return None
        if row.is_held:
            return Reason.HELD
        eligible = self._eligible(state, row.spec)
        refused = state.house.refused_by(row.spec.shape)
        if eligible and any(region not in refused for region in eligible):
            return Reason.WAITING_TURN
        reasons = [refused[region] for region in eligible if region in refused]
        if not reasons:
            heard = any(state.regions[region] is not None for region in row.spec.regions or self.regions)
            return Reason.NO_SUCH_HARDWARE if heard else Reason.REGION_UNREACHABLE
        return Reason(Reason.NO_CAPACITY if Reason.NO_CAPACITY in reasons else reasons[0])

    # Regions.

    def _bid(self, state: QueueState, envelope: Envelope) -> Decision:
        bid = envelope.message
        assert isinstance(bid, Bid)
        auction = state.house.open.get(bid.workload)
        if auction is None or auction.auction != bid.auction or bid.region not in auction.asked:
            return Decision(messages=(_settled(bid, has_won=False),))  # Too late: its room is not needed.
        if bid.region in auction.bids:
            return NOTHING
        return Decision(events=(BidHeard(bid),))

    def _abstention(self, state: QueueState, envelope: Envelope) -> Decision:
        said = envelope.message
        assert isinstance(said, Abstention)
        auction = state.house.open.get(said.workload)
        if auction is None or auction.auction != said.auction or said.region in auction.abstained:
            return NOTHING
        return Decision(events=(AbstentionHeard(said),))

    def _log_silent(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, LogSilent)
        return Decision(events=(RegionSilent(region_of(message.log), is_silent=True),))

    def _log_heard(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, LogHeard)
        return Decision(events=(RegionSilent(region_of(message.log), is_silent=False),))

    # Time.

    def _woken(self, state: QueueState, envelope: Envelope) -> Decision:
        """One sort of work at a time; the host wakes it again while any is left."""
        now = envelope.at
        missing = [region for region in self.regions if region not in state.image.regions.sequences]
        if missing:
            return Decision(events=tuple(RegionAdded(region) for region in missing))
        for work in (self._settle_awards, self._close_auctions, self._pass_refusals, self._open_auctions):
            decision = work(state, now)
            if decision is not NOTHING:
                return decision
        return self._sweep(state, now)

    def _settle_awards(self, state: QueueState, now: Instant) -> Decision:
        workloads = state.awards_due.passed(now)
        if not workloads:
            return NOTHING
        events: list[Event | Note] = []
        messages: list[Message] = []
        for workload in workloads:
            step = self._settle(state, workload, now)
            events.append(Settled(workload, step.again_at))
            events.extend(step.events)
            messages.extend(step.messages)
        return Decision(tuple(events), tuple(messages))

    def _settle(self, state: QueueState, workload: WorkloadId, now: Instant) -> Step:
        row = state.image.workloads.rows[workload]
        image = state.regions.get(row.region)
        attempt = image.attempts.row(workload, row.epoch) if image is not None else None
        bid = state.won.get(workload)
        return settle(workload, row, attempt, bid, state.awarded_at.get(workload, now), now)

    def _close_auctions(self, state: QueueState, now: Instant) -> Decision:
        workloads = state.house.due.passed(now)
        if not workloads:
            return NOTHING
        events: list[Event | Note] = []
        messages: list[Message] = []
        for workload in workloads:
            bids = state.house.open[workload].ranked()
            best = bids[0] if bids else None
            events.append(AuctionClosed(workload, best))
            if best is not None:
                events.append(self._award(state, workload, best, bids))
            messages.extend(_settled(bid, has_won=bid is best) for bid in bids)
        return Decision(tuple(events), tuple(messages))

    def _award(self, state: QueueState, workload: WorkloadId, best: Bid, bids: list[Bid]) -> WorkloadAwarded:
        row = state.image.workloads.rows[workload]
        return WorkloadAwarded(
            workload=workload,
            epoch=row.epoch + 1,
            region=best.region,
            rank=state.order.rank(workload),
            bids=tuple(RankedBid(bid.region, bid.score) for bid in bids),
            resume_epoch=row.resume_epoch,
            resume_step=row.resume_step,
        )

    def _pass_refusals(self, state: QueueState, now: Instant) -> Decision:
        passed = state.house.refusals_due.passed(now)
        return (
            Decision(events=tuple(RefusalPassed(shape, region) for shape, region in passed))
            if passed
            else NOTHING
        )

    def _open_auctions(self, state: QueueState, now: Instant) -> Decision:
        """A bounded window from the head of the order: whoever every region refuses is passed over."""
        if state.open_at is None or state.open_at > now:
            return NOTHING
        house = state.house
        room = AUCTIONS_MAX - len(house.open)
        events: list[Event | Note] = [OpeningsSeen()]
        messages: list[Message] = []
        askable: dict[str, tuple[RegionName, ...]] = {}
        rows = state.image.workloads.rows

        def is_wanted(shape: str, example: WorkloadId) -> bool:
            askable[shape] = house.willing(shape, lambda: self._eligible(state, rows[example].spec))
            return bool(askable[shape])

        chosen: dict[str, None] = {}

        def is_free(workload: WorkloadId, shape: str) -> bool:
            may = house.may_ask(workload, shape) and not (shape in house.tight and shape in chosen)
            if may:
                chosen[shape] = None
            return may

        found = state.order.first(room, is_wanted, is_free) if room > 0 else []
        for count, workload in enumerate(found):
            spec, shape = rows[workload].spec, state.order.shape_of(workload)
            name = f"{state.image.regions.term}.{house.opened + count}"
            events.append(AuctionOpened(workload, Auction(name, shape, askable[shape])))
            messages.extend(
                SolicitBid(region, workload, name, spec.jobs, spec.priority, spec.kind)
                for region in askable[shape]
            )
        return Decision(tuple(events), tuple(messages))

    def _eligible(self, state: QueueState, spec: WorkloadSpec) -> tuple[RegionName, ...]:
        """Regions that are known, are heard, and have the hardware."""
        found = []
        for region in spec.regions or self.regions:
            image = state.regions[region]
            if image is not None and not state.silent.get(region, True) and could_fit(spec, image.hardware):
                found.append(region)
        return tuple(found)

    def _sweep(self, state: QueueState, now: Instant) -> Decision:
        """Ended workloads leave the image, but not before their regions forgot their attempts."""
        old = state.ended.passed(now, FORGOTTEN_AT_ONCE_MAX)
        gone = tuple(workload for workload in old if not self._is_remembered(state, workload))
        if not gone:
            return Decision(events=(Swept(),))
        return Decision(events=(WorkloadsForgotten(gone), Swept()))

    def _is_remembered(self, state: QueueState, workload: WorkloadId) -> bool:
        images = [state.regions[region] for region in self.regions]
        return any(image is None or workload in image.attempts.rows for image in images)


def _answered(answer: Answer) -> Decision:
    return Decision(messages=(answer,))


def _refused(reason: Reason, problems: tuple[str, ...] = ()) -> Decision:
    return Decision(messages=(Refused(reason, sentence(reason), problems),))


def _settled(bid: Bid, *, has_won: bool) -> BidSettled:
    return BidSettled(bid.region, bid.agent, bid.workload, bid.auction, has_won)
