"""Reservations: the queue promises starts to blocked workloads, so that narrow work never starves a wide gang.

    a workload is among the first blocked    after `RESERVE_AFTER`, abstaining regions report its earliest start
    a region can promise a start             the earliest one is recorded: StartPromised
    the region's log lacks the start         the request to the region is repeated; after `RESERVE_SPAN` the promise ends
    the region's log shows the reservation   users see the promise; when the nodes are free, regions are asked again
    the region's log shows its end           the promise ends with the reason, which the next promise names

A promise is not an award: the workload is still auctioned in every region, and may start sooner there or elsewhere.
"""

from collections import Counter
from typing import ClassVar

from msgspec import Struct

from components.job_queue.ordering import asked_now, bring_up
from components.job_queue.quota.drain import excluded_why
from components.job_queue.state.asked_shape import AskedShape
from components.job_queue.state.auctions import LACKS_CAPACITY
from components.job_queue.state.queue_state import QueueState, RefusalPassed
from components.job_queue.state.reservation_candidates import (
    NOTES,
    EarliestStartsWanted,
    FoundBlocked,
    NoEarliestStart,
    PromiseSeen,
)
from core.claims.reservations import waits_for_its_start
from core.component import NOTHING, Decision
from core.events.queue import WorkloadAwarded, WorkloadsForgotten
from core.events.region import ClaimGranted
from core.events.starts import StartPromised, StartPromiseEnded, StartUnreserved
from core.fact import Event, Fact, Note
from core.images.queue import WorkloadRow
from core.images.queue_reservations import ENDS_A_PROMISE, PromisedStart
from core.images.region import Hardware
from core.messages.base import Message
from core.messages.queue import Abstention, ShownStart
from core.messages.reserved_starts import ReserveStart
from core.nouns.fleet import ANY_TYPE, gpu_type_of
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds, after
from core.nouns.limits import (
    AWARD_SAY_AGAIN,
    PROMISED_PART,
    PROSPECT_LOOK,
    RESERVATIONS_MAX,
    RESERVE_AFTER,
    RESERVE_SPAN,
    START_ALLOWANCE,
    START_PATIENCE,
)
from core.nouns.placement import Spread
from core.nouns.reasons import Reason
from core.nouns.starts import SENTENCES, StartOver
from core.nouns.workload import Phase
from core.ranking.scan import Group, PendingWork, QuotaClass, Ranked
from core.rules.quota import narrowed


class Step(Struct, frozen=True):
    """Events and messages of one promise, and the time of the next look; None: at the next change."""

    events: tuple[Event | Note, ...] = ()
    messages: tuple[Message, ...] = ()
    again_at: Instant | None = None


class StartPromising:
    """The queue's deciders and folds for reservations."""

    most: ClassVar[int] = RESERVATIONS_MAX
    """The most workloads with a reservation at a time, not counting moves."""

    # Folding.

    def index_all(self, state: QueueState, at: Instant) -> None:
        """Schedule a look at every promise."""
        for workload in state.image.start_promises.rows:
            state.starts.due.put(workload, at)

    def adopt(self, state: QueueState, region: RegionName, at: Instant) -> None:
        """Schedule a look at the promises in a region after its image was adopted."""
        for workload, row in state.image.start_promises.rows.items():
            if row.region == region:
                state.starts.due.put(workload, at)

    def hear(self, state: QueueState, fact: Fact) -> None:
        """Follow a fact of the queue after the image has folded the fact."""
        match fact.event:
            case StartPromised(workload=workload):
                state.starts.forget(workload)
                state.starts.due.put(workload, fact.at)
                state.open_at = fact.at  # Its promise gives the workload a shape of its own, not refused yet.
            case StartPromiseEnded(workload=workload, revision=revision):
                state.starts.due.drop(workload)
                state.open_at = fact.at
                if state.image.workloads.rows[workload].phase == Phase.PENDING:
                    state.starts.blocked_again(workload, revision, fact.at)
            case WorkloadAwarded(workload=workload):
                state.starts.forget(workload)
            case WorkloadsForgotten(workloads=workloads):
                for workload in workloads:
                    state.starts.forget(workload)
            case event if isinstance(event, ENDS_A_PROMISE):
                workload = getattr(event, "workload")  # noqa: B009  # each of these events has one
                state.starts.forget(workload)
                if workload in state.image.start_promises.rows:
                    state.starts.due.put(workload, fact.at)  # A move: the capacity stays reserved.
                else:
                    state.starts.due.drop(workload)

    def hear_region(self, state: QueueState, region: RegionName, fact: Fact) -> None:
        """Follow a fact of a region, before its image folds it."""
        event = fact.event
        image = state.regions[region]
        assert image is not None, region
        workload: WorkloadId | None = getattr(event, "workload", None)
        if workload in state.image.start_promises.rows:
            state.starts.due.put(workload, fact.heard_at)
        is_over = isinstance(event, StartUnreserved | ClaimGranted) and workload in image.starts.rows
        if is_over:
            # The reserved capacity is available to others.
            state.auctions.forget_region(region, fact.sequence, is_other_hardware=False)
            state.open_at = fact.heard_at

    def note(self, state: QueueState, fact: Fact) -> None:
        """Fold a note about reservations; ignore others."""
        if isinstance(fact.event, NOTES):
            state.starts.note(fact.event, fact.at)

    # Candidates for a promise.

    def woken(self, state: QueueState, now: Instant) -> Decision:
        """Return the next steps of promises that are due, else the search for further candidates."""
        passed = state.starts.due.passed(now)
        if passed:
            steps = [(workload, self._step(state, workload, now)) for workload in passed]
            events: list[Event | Note] = []
            for workload, step in steps:
                events.extend((PromiseSeen(workload, step.again_at), *step.events))
            return Decision(tuple(events), tuple(said for _, step in steps for said in step.messages))
        if state.starts.look_at is None or state.starts.look_at > now:
            return NOTHING
        wanted = self._wanted_now(state, now)
        again = [note for workload in wanted for note in _ask_again(state, workload, now)]
        return Decision(events=(EarliestStartsWanted(tuple(wanted)), *again))

    def _wanted_now(self, state: QueueState, now: Instant) -> list[WorkloadId]:
        """Return the blocked workloads for which regions are to report an earliest start, in queue order.

        Workloads that want the same hardware are tried one after the other. A workload that only other reservations
        prevent from a promise keeps later workloads from its hardware, or narrow work would take the nodes of a wide
        gang again and again. A workload that unbounded work prevents from a promise delays no other.
        """
        candidates = state.starts
        room = self.most - _kept_count(state)
        if room <= 0 or not any(
            self._may_be_asked_for(state, workload, now) for workload in candidates.blocked
        ):
            return []
        bring_up(state, now)
        rows, promises = state.image.workloads.rows, state.image.start_promises.rows
        names = [name for name in candidates.blocked if name in state.order and name not in promises]
        left = Counter(state.order.work(name).shape for name in names)
        """Blocked workloads by shape that were not visited yet; at 0 the rest of the shape is skipped."""
        ahead: set[str] = set()
        types_of: dict[Group, set[str]] = {}
        done: set[Group] = set()

        def has_blocked(group: Group, example: PendingWork) -> bool:
            if group[0][1] is QuotaClass.BLOCKED or not left[group[1]]:
                return False
            jobs = rows[example.workload].spec.jobs
            types_of[group] = {kind for job in jobs for kind in job.node_types}
            return not _overlap(types_of[group], ahead)

        def is_next(one: Ranked) -> bool:
            """Return whether to try a promise now. Either way a candidate keeps later workloads from its hardware."""
            group, workload, types = one.group, one.work.workload, types_of[one.group]
            if not left[group[1]] or _overlap(types, ahead):
                done.add(group)
                return False
            if workload not in candidates.blocked or workload in promises:
                return False
            left[group[1]] -= 1
            is_tried = candidates.tried.get(workload, now) > now
            if not _may_be_promised(state, one) or (is_tried and workload not in candidates.barred):
                return False
            ahead.update(types)
            return self._may_be_asked_for(state, workload, now)

        return [one.work.workload for one in state.order.first(room, has_blocked, is_next, done)]

    def _may_be_asked_for(self, state: QueueState, workload: WorkloadId, now: Instant) -> bool:
        """Return whether a blocked workload has waited for `RESERVE_AFTER`, and has no recent try or open auction."""
        is_ripe = after(state.starts.blocked[workload], RESERVE_AFTER) <= now
        is_tried = state.starts.tried.get(workload, now) > now
        return is_ripe and not is_tried and workload not in state.auctions.open

    def how_asked(self, state: QueueState, workload: WorkloadId, now: Instant) -> tuple[bool, bool]:
        """Return whether abstaining regions report an earliest start, and whether bids must do without victims."""
        promise = state.image.start_promises.rows.get(workload)
        spares_all = promise is not None and (promise.is_move or waits_for_its_start(promise.starts_at, now))
        return workload in state.starts.wanted, spares_all

    def closed(self, state: QueueState, workload: WorkloadId, now: Instant) -> list[Event | Note]:
        """Return the events that follow from an auction without bids."""
        row, auction = state.image.workloads.rows[workload], state.auctions.open[workload]
        said = [auction.abstained[region] for region in sorted(auction.abstained)]
        if row.is_start_promised or workload not in state.order:
            return []
        is_wanted = workload in state.starts.wanted
        if not any(one.reason in LACKS_CAPACITY for one in said):
            return [NoEarliestStart(workload)] if is_wanted else []
        if not is_wanted:
            return [] if workload in state.starts.blocked else [FoundBlocked(workload)]
        if _kept_count(state) >= self.most:
            return [NoEarliestStart(workload, is_barred=True)]
        promised = _best(state, workload, row, said, now)
        if promised is not None:
            return [promised]
        prospects = [one.prospect for one in said if one.prospect is not None]
        return [NoEarliestStart(workload, is_barred=any(not one.unbounded_gpu_milli for one in prospects))]

    def worth_asking(
        self, state: QueueState, workload: WorkloadId, shape: AskedShape, willing: tuple[RegionName, ...]
    ) -> tuple[RegionName, ...]:
        """Return the willing regions that have not refused a smaller or equal request either.

        For a workload that needs an earliest start, all willing regions are asked.
        """
        if workload in state.starts.wanted:
            return willing
        refused = state.auctions.dominance.of_smaller(shape)
        return tuple(region for region in willing if region not in refused) if refused else willing

    def is_newly_blocked(self, state: QueueState, workload: WorkloadId, shape: AskedShape) -> bool:
        """Return whether refusals of the shape show a workload to be blocked, without an auction for this workload."""
        is_known = workload in state.starts.blocked or state.image.workloads.rows[workload].is_start_promised
        said = state.auctions.refused_by(shape).values()
        return not is_known and any(one.reason in LACKS_CAPACITY for one in said)

    # One promise.

    def _step(self, state: QueueState, workload: WorkloadId, now: Instant) -> Step:
        promise = state.image.start_promises.rows.get(workload)
        if promise is None:
            return Step()
        row, image = state.image.workloads.rows[workload], state.regions.get(promise.region)
        is_awarded = row.is_active and not (promise.is_move and row.region != promise.region)
        if row.phase == Phase.PENDING and workload not in state.order:
            return _end(workload, promise, StartOver.GIVEN_UP)  # Out of the order: held, or being cancelled.
        if row.phase == Phase.PENDING and _stands_lower(state, workload, promise, now):
            return _end(workload, promise, StartOver.NO_TURN)
        if promise.region in state.image.regions.abandoned:
            return _end(workload, promise, StartOver.UNREACHABLE)
        if row.spec.regions and promise.region not in row.spec.regions:
            return _end(
                workload, promise, StartOver.GIVEN_UP
            )  # A stage whose pipeline is held elsewhere since.
        again = after(now, AWARD_SAY_AGAIN)
        if image is None or state.silent.get(promise.region, True):
            return self._wait_for_region(workload, promise, now, is_awarded=is_awarded)
        kept, over = image.starts.rows.get(workload), image.starts.over.get(workload)
        if kept is not None and kept.revision == promise.revision:
            return self._wait(state, workload, promise, now, is_awarded=is_awarded)
        if over is not None and over.revision >= promise.revision:
            if over.reason is StartOver.USED or is_awarded:
                return Step(again_at=after(now, START_PATIENCE))  # The workload is about to start.
            return _end(workload, promise, over.reason)
        if is_awarded:
            return Step(again_at=again)
        if after(Instant(promise.promised_at), RESERVE_SPAN) <= now:
            return _end(workload, promise, StartOver.UNREACHABLE)
        return Step(messages=(_reserve(workload, row, promise, now),), again_at=again)

    def _wait_for_region(
        self, workload: WorkloadId, promise: PromisedStart, now: Instant, *, is_awarded: bool
    ) -> Step:
        """Return the step while the region is silent: the promise counts as kept until the promised time is past."""
        if _is_past(promise, now) and not is_awarded:
            return _end(workload, promise, StartOver.UNREACHABLE)
        return Step(again_at=after(now, AWARD_SAY_AGAIN))

    def _wait(
        self,
        state: QueueState,
        workload: WorkloadId,
        promise: PromisedStart,
        now: Instant,
        *,
        is_awarded: bool,
    ) -> Step:
        """Return the step of a reservation in the region's log. Once the nodes are free, earlier refusals no longer count."""
        if now < promise.free_at:
            return Step(again_at=min(Instant(promise.free_at), after(now, PROSPECT_LOOK)))
        if is_awarded:
            return Step(again_at=after(now, AWARD_SAY_AGAIN))
        if _is_past(promise, now):
            return _end(workload, promise, StartOver.UNREACHABLE)  # The region would have reported the end.
        return Step(events=tuple(_ask_again(state, workload, now)), again_at=after(now, AWARD_SAY_AGAIN))


def _stands_lower(state: QueueState, workload: WorkloadId, promise: PromisedStart, now: Instant) -> bool:
    """Return whether the workload may start only at a lower level than promised, or may not start at all."""
    one, asked = asked_now(state, workload, now)
    return asked.level < promise.level or not _may_be_promised(state, one)


def _may_be_promised(state: QueueState, one: Ranked) -> bool:
    """Return whether a workload may start: nominal, or borrowing and not held back by its tenant's lag. A round promises its jobs no starts."""
    if state.image.workloads.rows[one.work.workload].pick is not None:
        return False
    return one.quota_class is QuotaClass.NOMINAL or (
        one.quota_class is QuotaClass.BORROWING and excluded_why(state, one.work) is not Reason.AHEAD_OF_DUE
    )


def shown_start(state: QueueState, workload: WorkloadId, now: Instant) -> ShownStart | None:
    """Return a promise as users see it; None before its region has reserved it, and once its workload is awarded."""
    promise = state.image.start_promises.rows.get(workload)
    if promise is None or state.image.workloads.rows[workload].phase != Phase.PENDING:
        return None
    image = state.regions.get(promise.region)
    kept = image.starts.rows.get(workload) if image is not None else None
    if kept is None or kept.revision != promise.revision:
        return None
    why = SENTENCES[StartOver(promise.why)] if promise.why else ""
    starts_in, ago = max(0, promise.starts_at - now), max(0, now - promise.promised_at)
    return ShownStart(promise.region, Nanoseconds(starts_in), Nanoseconds(ago), promise.why, why)


def promised_in(state: QueueState, workload: WorkloadId, now: Instant) -> Nanoseconds | None:
    """Return the nanoseconds until the start of a workload's reservation, if users are shown one."""
    shown = shown_start(state, workload, now) if workload in state.image.start_promises.rows else None
    return shown.starts_in if shown is not None else None


def _kept_count(state: QueueState) -> int:
    """Return the number of promises to waiting workloads. Moves have a bound of their own."""
    return sum(not row.is_move for row in state.image.start_promises.rows.values())


def _best(
    state: QueueState, workload: WorkloadId, row: WorkloadRow, said: list[Abstention], now: Instant
) -> StartPromised | None:
    """Return the promise of the earliest start offered; ties go to the first region by name."""
    level = asked_now(state, workload, now)[1].level
    offers = [
        (one.prospect.start_in, one.region, one.prospect)
        for one in said
        if one.prospect is not None
        and one.prospect.is_promisable
        and _may_be_kept(state, one.region, one.prospect.spreads, level)
    ]
    if not offers:
        return None
    _, region, prospect = min(offers, key=lambda offer: offer[:2])
    why = state.image.start_promises.broken.get(workload)
    return StartPromised(
        workload,
        row.start_revision + 1,
        region,
        Nanoseconds(prospect.start_in + START_ALLOWANCE),
        prospect.start_in,
        prospect.spreads,
        level,
        why or "",
    )


def _may_be_kept(state: QueueState, region: RegionName, spreads: tuple[Spread, ...], level: int) -> bool:
    """Return whether a region may reserve these nodes beside those reserved at this level or a higher one.

    Per node type, several promises together may reserve 1 / `PROMISED_PART` of the region's nodes; a single promise
    may reserve more. Otherwise nodes reserved for narrow work would leave a gang only the others, however late
    these come free.
    """
    image = state.regions[region]
    assert image is not None, region
    hardware = image.hardware
    mine = _nodes_by_type(hardware, spreads)
    kept: Counter[str] = Counter()
    for row in state.image.start_promises.rows.values():
        if row.region == region and row.level >= level:
            kept.update(_nodes_by_type(hardware, row.spreads))
    return all(
        not kept[kind]
        or (kind in hardware.rows and (kept[kind] + count) * PROMISED_PART <= hardware.rows[kind].nodes)
        for kind, count in mine.items()
    )


def _nodes_by_type(hardware: Hardware, spreads: tuple[Spread, ...]) -> Counter[str]:
    nodes = sorted({node for spread in spreads for node in spread.nodes})
    return Counter(hardware.type_of(node) for node in nodes)


def _reserve(workload: WorkloadId, row: WorkloadRow, promise: PromisedStart, now: Instant) -> ReserveStart:
    spec = row.spec
    jobs = narrowed(spec.jobs, row.types) if promise.is_move else spec.jobs
    return ReserveStart(
        promise.region,
        workload,
        promise.revision,
        Nanoseconds(max(0, promise.free_at - now)),
        promise.level,
        spec.kind,
        spec.tenant,
        jobs,
        promise.spreads,
        promise.sequence,
    )


def _is_past(promise: PromisedStart, now: Instant) -> bool:
    """Return whether the region would have ended the reservation by now."""
    return after(Instant(promise.starts_at), Nanoseconds(2 * START_PATIENCE)) <= now


def _end(workload: WorkloadId, promise: PromisedStart, why: StartOver) -> Step:
    return Step(events=(StartPromiseEnded(workload, promise.revision, why),))


def _overlap(mine: set[str], others: set[str]) -> bool:
    """Return whether a node may be of a type that both name."""
    is_any = any(gpu_type_of(kind)[0] == ANY_TYPE for kind in (*mine, *others))
    return bool(mine and others) if is_any else not mine.isdisjoint(others)


def _ask_again(state: QueueState, workload: WorkloadId, now: Instant) -> list[RefusalPassed]:
    """Return notes that drop all refusals of the workload's shape, so that those regions are asked again."""
    if workload not in state.order:
        return []
    _, asked = asked_now(state, workload, now)
    return [RefusalPassed(asked, region) for region in sorted(state.auctions.refused_by(asked))]
