"""The job queue: keeper of the log `global` (users' requests, the order of pending workloads, and the region that may run each).

The order is by level, nominal before borrowing, and credit (core/ranking/, components/job_queue/ordering.py). Workloads from the
head of the order are put up for auction. The award of the best bid is a durable fact before any region receives a message, and
is active until the region's own log shows a decline or the attempt's end, or until recorded consent to a second attempt
(components/job_queue/awards.py). Running work counts against quotas too, and may change quota class
(components/job_queue/quota/classification.py).
"""

from collections.abc import Callable

from components.job_queue.auction.bids import RegionAnswers
from components.job_queue.auction.cycle import (
    begin_cycle,
    close_cycle,
    expire_refusals,
    retry_slow_regions,
)
from components.job_queue.auction.noting import follow_walk, note_refusals
from components.job_queue.awards_due import settle_awards
from components.job_queue.copies.orders import order_copies
from components.job_queue.copies.records import HEARD_OF_COPIES, CopyRecords
from components.job_queue.copies.waiting import note_waiting_reads
from components.job_queue.moves import HEARD_OF_MOVES, Moving
from components.job_queue.ordering import (
    begin_pass,
    place,
    rebuild_order,
    refresh_tenant,
)
from components.job_queue.pipelines.looks import (
    index_all_pipelines,
    index_pipelines,
    look_at_pipelines,
    note_pipelines,
    turn_windows,
)
from components.job_queue.pipelines.requests import HEARD_OF_PIPELINES, PipelineRequests
from components.job_queue.quota.classification import (
    begun_pass,
    index_quota_classes,
    reclassify,
    turned_budgets,
)
from components.job_queue.quota.fair_share import index_shares, note_shares, record_shares, watch_shares
from components.job_queue.region_facts import adopt_region, fold_region
from components.job_queue.regions import (
    HEARD_OF_REGIONS,
    RegionRecords,
    index_regions,
    note_bus,
    note_silence,
)
from components.job_queue.requests import dispatch
from components.job_queue.requests.datasets import HEARD_OF_DATA, DataRecords
from components.job_queue.requests.sharing import HEARD_OF_SHARING, SharingRecords
from components.job_queue.requests.start_queries import HEARD_OF_STARTS
from components.job_queue.requests.tenants import HEARD_OF_TENANTS, TenantRecords
from components.job_queue.requests.workloads import HEARD_OF_USERS, UserRequests
from components.job_queue.reservations import StartPromising
from components.job_queue.retention import note_swept, sweep_due, swept
from components.job_queue.rounds import begin_round, index_rounds, note_round, round_due
from components.job_queue.state.queue_state import (
    AbstentionHeard,
    AuctionClosed,
    AuctionOpened,
    BidHeard,
    BudgetTurned,
    BusHeard,
    LateAnswerHeard,
    OpeningsSeen,
    PassBegun,
    QueueState,
    Reclassified,
    RefusalPassed,
    RegionSilent,
    Settled,
    SharesSeen,
    SlowRegionRetried,
    Swept,
)
from components.replies import refused
from core.component import NOTHING, Decision, Follow, ImageAdopted, Images
from core.events.copies import CopyMade, DropOrdered, HomeMoved
from core.events.data import DatasetSet
from core.events.queue import (
    AttemptClosed,
    AwardReturned,
    CancelRequested,
    PrioritySet,
    RegionAdded,
    RequeueRequested,
    StandingChanged,
    WorkloadAwarded,
    WorkloadCancelled,
    WorkloadChanged,
    WorkloadReleased,
    WorkloadsForgotten,
    WorkloadSubmitted,
)
from core.fact import NO_LOG, Fact
from core.images import GlobalImage, RegionImage
from core.messages.base import BusBack, BusLost, Envelope, Message, Woken
from core.messages.queue import Abstention, Bid
from core.nouns.ids import GLOBAL_LOG, RegionName, WorkloadId, region_log, region_of
from core.nouns.instant import Instant, earliest
from core.nouns.workload import Phase
from core.rules.ownership import against


class JobQueue:
    """The keeper of the log `global`."""

    name = noun = "queue"
    scope: tuple[str, ...] = ()
    keeps = GLOBAL_LOG
    hears: tuple[type[Message], ...] = (
        *HEARD_OF_USERS,
        *HEARD_OF_STARTS,
        *HEARD_OF_PIPELINES,
        *HEARD_OF_TENANTS,
        *HEARD_OF_DATA,
        *HEARD_OF_COPIES,
        *HEARD_OF_REGIONS,
        *HEARD_OF_MOVES,
        *HEARD_OF_SHARING,
        *dispatch.HEARD_OF_DISPATCH,
        BusLost,
        BusBack,
        Bid,
        Abstention,
    )

    def __init__(self, regions: tuple[RegionName, ...], data_services: tuple[RegionName, ...] = ()) -> None:
        """`data_services` are the regions that have one."""
        self.regions, self._data_services = tuple(sorted(regions)), tuple(sorted(data_services))
        self.follows = tuple(
            Follow(region_log(region), ("attempts", "hardware", "starts"), is_required=False)
            for region in self.regions
        )
        self._starts = StartPromising()
        self._moving = Moving()
        self._deciders: dict[type[Message], Callable[[QueueState, Envelope], Decision]] = {
            Woken: self._woken,
            **UserRequests(self.regions).deciders,
            **PipelineRequests(self.regions).deciders,
            **TenantRecords().deciders,
            **DataRecords().deciders,
            **CopyRecords().deciders,
            **RegionAnswers(self._moving).deciders,
            **RegionRecords().deciders,
            **SharingRecords().deciders,
            **dispatch.DispatchRecords().deciders,
            **self._moving.deciders,
        }

    def initial(self, images: Images) -> QueueState:
        """Return the state at a start: the order is rebuilt, and every active award is due for a look."""
        state = QueueState(images.at, self.regions, self._data_services)
        if images.own is not None:
            assert isinstance(images.own, GlobalImage)
            state.image = images.own
        for workload, row in state.image.workloads.rows.items():
            if row.is_active:
                state.awarded_at[workload] = images.at
            if row.is_active or (row.is_cancel_requested and row.phase == Phase.PENDING):
                state.awards_due.put(workload, images.at)
        state.remembered.rebuild(state.image.workloads.rows.items())
        state.data.rebuild(state.image)
        self._starts.index_all(state, images.at)
        self._moving.index_all(state, images.at)
        for log, (image, sequence) in images.followed.items():
            assert isinstance(image, RegionImage)
            adopt_region(state, region_of(log), image, sequence, images.at, self._starts)
        rebuild_order(state, images.at)
        watch_shares(state, images.at)
        index_all_pipelines(state, images.at)
        return state

    def due(self, state: QueueState) -> Instant | None:
        """Return the earliest deadline of any kind of work in `_woken`."""
        return earliest(
            None if state.auctions.open else state.open_at,
            state.passes_at,
            state.shares_at,
            state.reclassify_at,
            state.budgets_due.due(),
            state.auctions.closes_at,
            state.auctions.slow.due(),
            state.auctions.refusals_due.due(),
            state.refusal_walk.at,
            state.awards_due.due(),
            state.starts.look_at,
            state.starts.due.due(),
            state.moves_due.due(),
            round_due(state),
            state.data.look_at,
            state.data.reads_at,
            sweep_due(state),
            state.dispatch_at,
            state.pipeline_looks.next_at(),
        )

    def decide(self, state: QueueState, envelope: Envelope) -> Decision:
        """Return the decision on a message; requests that the sender's credentials do not allow are refused."""
        decider = self._deciders.get(type(envelope.message))
        if decider is None:
            return NOTHING
        no = against(envelope.tenant, envelope.sender, envelope.message, state.image.tenant_of)
        return decider(state, envelope) if no is None else refused(*no)

    def forget_memos(self, state: QueueState) -> None:
        """Drop cached results: willing regions, tenants' use in the order, and GPUs ahead of others."""
        state.auctions.forget_memos()
        state.waits.forget_memos()
        state.ranked_at = Instant(-1)

    # Folding.

    def evolve(self, state: QueueState, fact: Fact) -> QueueState:
        """Fold a fact of the queue or of a region, or a note."""
        if fact.log == GLOBAL_LOG:
            rows = state.image.workloads.rows
            workload: WorkloadId = getattr(fact.event, "workload", WorkloadId(""))
            was_live = state.remembered.leave(rows.get(workload))
            reads = state.data.leave(state.image, fact)
            state.image.fold(fact)
            state.data.enter(state.image, fact, reads=reads)
            state.sequence = fact.sequence
            if workload:
                state.remembered.enter(workload, rows[workload], was_live=was_live)
            self._index(state, fact)
            index_quota_classes(state, fact)
            self._starts.hear(state, fact)
            index_shares(state, fact)
            index_regions(state, fact)
            index_rounds(state, fact)
            index_pipelines(state, fact)
            self._moving.hear(state, fact)
        elif fact.log != NO_LOG:
            fold_region(state, fact, self._starts, self._moving)
        else:
            self._evolve_note(state, fact)
            state.data.note(fact)
        follow_walk(state, fact)
        dispatch.index_dispatch(state, fact)
        return state

    def _index(self, state: QueueState, fact: Fact) -> None:
        event = fact.event
        workload = getattr(event, "workload", None)
        if workload is None:
            if isinstance(event, WorkloadsForgotten):
                for gone in event.workloads:
                    state.remembered.blocked.drop(gone)
            elif isinstance(event, RegionAdded | DatasetSet | CopyMade | HomeMoved | DropOrdered):
                state.auctions.forget_memos()
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
            case StandingChanged():
                state.awards_due.put(workload, fact.at)
            case WorkloadChanged():
                # The bid was for other tasks: unless the claim is granted already, the agent searches again.
                state.won.pop(workload, None)
                if row.is_active:
                    state.awards_due.put(workload, fact.at)
            case WorkloadCancelled():
                state.awards_due.drop(workload)
        place(state, workload, row)
        if isinstance(
            event,
            WorkloadSubmitted
            | WorkloadChanged
            | WorkloadReleased
            | AwardReturned
            | AttemptClosed
            | PrioritySet,
        ):
            state.open_at = fact.at

    def _evolve_note(self, state: QueueState, fact: Fact) -> None:
        auctions = state.auctions
        match fact.event:
            case AuctionOpened(workload, auction):
                auctions.begin(workload, auction, fact.at)
            case OpeningsSeen():
                state.open_at = None
            case BidHeard(bid):
                auctions.hear_bid(bid, fact.at)
            case AbstentionHeard(said):
                auctions.hear_abstention(said, fact.at)
            case LateAnswerHeard(region, took):
                auctions.hear_late(region, took, fact.at)
            case AuctionClosed(workload, won, is_void):
                if is_void:
                    state.order.pass_over(workload)
                auctions.end(workload, won, fact.at)
                state.open_at = fact.at
                if won is not None:
                    state.won[workload] = won
            case SlowRegionRetried(region):
                auctions.slow.drop(region)
                state.open_at = fact.at
            case RefusalPassed(shape, region):
                auctions.forget_refusal(shape, region)
                state.open_at = fact.at
            case Settled(workload, again_at):
                if again_at is None:
                    state.awards_due.drop(workload)
                else:
                    state.awards_due.put(workload, again_at)
            case RegionSilent(region, is_silent):
                note_silence(state, region, fact.at, is_silent=is_silent)
                auctions.forget_memos()
                state.open_at = fact.at
            case BusHeard(is_back):
                note_bus(state, fact.at, is_back=is_back)
                auctions.forget_slow()
                state.open_at = fact.at
            case PassBegun():
                begin_pass(state, fact.at)
            case SharesSeen():
                note_shares(state, fact.event, fact.at)
            case BudgetTurned(tenant):
                refresh_tenant(state, tenant, fact.at)
                state.to_reclassify[tenant] = True
                state.reclassify_at = state.open_at = fact.at
            case Reclassified(tenants):
                for name in tenants:
                    state.to_reclassify.pop(name, None)
                state.recharge.clear()
                state.reclassify_at = fact.at if state.to_reclassify else None
            case Swept() as note:
                note_swept(state, note, fact.at)
            case ImageAdopted(log, image, sequence):
                assert isinstance(image, RegionImage)
                adopt_region(state, region_of(log), image, sequence, fact.at, self._starts)
            case _:
                self._evolve_other_note(state, fact)

    def _evolve_other_note(self, state: QueueState, fact: Fact) -> None:
        """Fold a note of moves, rounds, pipelines or promised starts."""
        if not (self._moving.note(state, fact) or note_round(state, fact) or note_pipelines(state, fact)):
            self._starts.note(state, fact)

    # Time.

    def _woken(self, state: QueueState, envelope: Envelope) -> Decision:
        """Return one kind of due work; the host wakes the queue again while more is due."""
        now = envelope.at
        missing = [region for region in self.regions if region not in state.image.regions.sequences]
        if missing:
            return Decision(events=tuple(RegionAdded(region) for region in missing))
        for work in (
            begun_pass,
            turned_budgets,
            settle_awards,
            look_at_pipelines,
            turn_windows,
            reclassify,
            record_shares,
            close_cycle,
            expire_refusals,
            retry_slow_regions,
            self._starts.woken,
            self._moving.woken,
            begin_round,
            begin_cycle,
            note_refusals,
            order_copies,
            note_waiting_reads,
            dispatch.tell_dispatch,
        ):
            decision = work(state, now)
            if decision is not NOTHING:
                return decision
        return swept(state, now)
