"""Starts that the queue promises, so that a wide gang is never starved by narrow ones.

    blocked for a while, and among the first that are    whoever abstains says from when on it could start
    some region could promise a start                    the earliest is recorded: StartPromised
    the region's log shows nothing of it                 it is told again; after `RESERVE_SPAN` the promise ends
    the region's log shows it reserved                   it stands, and is shown; when its time comes it is asked for once more
    the region's log shows it over                       the promise ends, and why; another one follows, which says so

A promise is no award: its workload is asked for everywhere as before, and may start sooner, there or elsewhere.
"""

from collections import Counter
from typing import ClassVar

from msgspec import Struct

from components.job_queue.ordering import asked_now, bring_up
from components.job_queue.quota.fair_share import is_held_back
from components.job_queue.state.auctions import LACKS_ROOM
from components.job_queue.state.queue_state import QueueState, RefusalPassed
from components.job_queue.state.reservation_candidates import (
    NOTES,
    FoundBlocked,
    NoProspect,
    PromiseSeen,
    ProspectsWanted,
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
from core.nouns.starts import SENTENCES, StartOver
from core.nouns.workload import Phase
from core.ranking.scan import Group, PendingWork, QuotaClass, Ranked
from core.rules.quota import narrowed


class Step(Struct, frozen=True):
    """What to record and say now of one promise, and when to look again; None: when something changes."""

    events: tuple[Event | Note, ...] = ()
    messages: tuple[Message, ...] = ()
    again_at: Instant | None = None


class StartPromising:
    """The queue's part that promises starts."""

    most: ClassVar[int] = RESERVATIONS_MAX
    """To so many workloads at a time."""

    # Folding.

    def index_all(self, state: QueueState, at: Instant) -> None:
        """Every standing promise is looked at."""
        for workload in state.image.start_promises.rows:
            state.starts.due.put(workload, at)

    def adopt(self, state: QueueState, region: RegionName, at: Instant) -> None:
        """A region is known anew."""
        for workload, row in state.image.start_promises.rows.items():
            if row.region == region:
                state.starts.due.put(workload, at)

    def hear(self, state: QueueState, fact: Fact) -> None:
        """Follow a fact of the queue that the image has folded."""
        match fact.event:
            case StartPromised(workload=workload):
                state.starts.forget(workload)
                state.starts.due.put(workload, fact.at)
                state.open_at = fact.at  # It has a shape of its own now, which nobody refuses.
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
                    state.starts.due.put(workload, fact.at)  # It moves, and its room is kept all the same.
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
            # What was kept for it is there for others.
            state.auctions.forget_region(region, fact.sequence, is_other_hardware=False)
            state.open_at = fact.heard_at

    def note(self, state: QueueState, fact: Fact) -> None:
        """One of its own notes, or another's."""
        if isinstance(fact.event, NOTES):
            state.starts.note(fact.event, fact.at)

    # Who is to be promised a start.

    def woken(self, state: QueueState, now: Instant) -> Decision:
        """Promises first; then whom else a start could be promised."""
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
        return Decision(events=(ProspectsWanted(tuple(wanted)), *again))

    def _wanted_now(self, state: QueueState, now: Instant) -> list[WorkloadId]:
        """The first that are blocked, as many as may be promised one, and of these who were blocked for long enough.

        One after the other where they want the same hardware, and nobody before somebody ahead of it for whom only what is
        reserved for others is in the way: narrow work behind a wide gang would take its nodes again and again. Who cannot be
        promised anything, because work without an end is in the way, keeps nobody waiting.
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
        """How many of each shape are blocked and have not been looked at. Nobody behind the last of them is."""
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
            """Whether it is to be promised a start. Whoever comes before that keeps those behind it from its hardware."""
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
        """Whether somebody who is blocked may be asked for to be promised a start, as far as others have nothing to do with it."""
        is_ripe = after(state.starts.blocked[workload], RESERVE_AFTER) <= now
        is_tried = state.starts.tried.get(workload, now) > now
        return is_ripe and not is_tried and workload not in state.auctions.open

    def how_asked(self, state: QueueState, workload: WorkloadId, now: Instant) -> tuple[bool, bool]:
        """Whether whoever abstains from bidding for it is to say from when on it could start; and whether it pushes nobody out."""
        promise = state.image.start_promises.rows.get(workload)
        spares_all = promise is not None and (promise.is_move or waits_for_its_start(promise.starts_at, now))
        return workload in state.starts.wanted, spares_all

    def closed(self, state: QueueState, workload: WorkloadId, now: Instant) -> list[Event | Note]:
        """What follows from an auction in which nobody bid."""
        row, auction = state.image.workloads.rows[workload], state.auctions.open[workload]
        said = [auction.abstained[region] for region in sorted(auction.abstained)]
        if row.is_start_promised or workload not in state.order:
            return []
        is_wanted = workload in state.starts.wanted
        if not any(one.reason in LACKS_ROOM for one in said):
            return [NoProspect(workload)] if is_wanted else []
        if not is_wanted:
            return [] if workload in state.starts.blocked else [FoundBlocked(workload)]
        if _kept_count(state) >= self.most:
            return [NoProspect(workload, is_barred=True)]
        promised = _best(state, workload, row, said, now)
        if promised is not None:
            return [promised]
        prospects = [one.prospect for one in said if one.prospect is not None]
        return [NoProspect(workload, is_barred=any(not one.unbounded_gpu_milli for one in prospects))]

    def worth_asking(
        self, state: QueueState, workload: WorkloadId, shape: str, willing: tuple[RegionName, ...]
    ) -> tuple[RegionName, ...]:
        """Of regions that do not refuse its shape, those that refuse no less of it either. Whoever is to say from when on it could
        start is asked in any case.
        """
        if workload in state.starts.wanted:
            return willing
        refused = state.auctions.dominance.of_smaller(shape)
        return tuple(region for region in willing if region not in refused) if refused else willing

    def is_newly_blocked(self, state: QueueState, workload: WorkloadId, shape: str) -> bool:
        """Whether every region lacks the room for it, and it counts as blocked from now on, though nobody asked for it."""
        is_known = workload in state.starts.blocked or state.image.workloads.rows[workload].is_start_promised
        said = state.auctions.refused_by(shape).values()
        return not is_known and any(one.reason in LACKS_ROOM for one in said)

    # One promise.

    def _step(self, state: QueueState, workload: WorkloadId, now: Instant) -> Step:
        promise = state.image.start_promises.rows.get(workload)
        if promise is None:
            return Step()
        row, image = state.image.workloads.rows[workload], state.regions.get(promise.region)
        is_awarded = row.is_active and not (promise.is_move and row.region != promise.region)
        if row.phase == Phase.PENDING and workload not in state.order:
            return _end(workload, promise, StartOver.GIVEN_UP)  # Its turn will not come as things stand.
        if row.phase == Phase.PENDING and _stands_lower(state, workload, promise, now):
            return _end(workload, promise, StartOver.NO_TURN)
        if promise.region in state.image.regions.abandoned:
            return _end(workload, promise, StartOver.UNREACHABLE)
        again = after(now, AWARD_SAY_AGAIN)
        if image is None or state.silent.get(promise.region, True):
            return self._wait_for_region(workload, promise, now, is_awarded=is_awarded)
        kept, over = image.starts.rows.get(workload), image.starts.over.get(workload)
        if kept is not None and kept.revision == promise.revision:
            return self._wait(state, workload, promise, now, is_awarded=is_awarded)
        if over is not None and over.revision >= promise.revision:
            if over.reason is StartOver.USED or is_awarded:
                return Step(again_at=after(now, START_PATIENCE))  # It is about to start.
            return _end(workload, promise, over.reason)
        if is_awarded:
            return Step(again_at=again)
        if after(Instant(promise.promised_at), RESERVE_SPAN) <= now:
            return _end(workload, promise, StartOver.UNREACHABLE)
        return Step(messages=(_reserve(workload, row, promise, now),), again_at=again)

    def _wait_for_region(
        self, workload: WorkloadId, promise: PromisedStart, now: Instant, *, is_awarded: bool
    ) -> Step:
        """Nobody knows whether it is reserved. As long as the region may say so in time, it is believed to keep it."""
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
        """It is reserved. When its nodes are free, no refusal said before counts any more."""
        if now < promise.free_at:
            return Step(again_at=min(Instant(promise.free_at), after(now, PROSPECT_LOOK)))
        if is_awarded:
            return Step(again_at=after(now, AWARD_SAY_AGAIN))
        if _is_past(promise, now):
            return _end(workload, promise, StartOver.UNREACHABLE)  # Its region would have said so.
        return Step(events=tuple(_ask_again(state, workload, now)), again_at=after(now, AWARD_SAY_AGAIN))


def _stands_lower(state: QueueState, workload: WorkloadId, promise: PromisedStart, now: Instant) -> bool:
    """Whether it is over its tenant's quota by now, held, held back or of a lower level: what others may have is kept for it no longer."""
    one, asked = asked_now(state, workload, now)
    return asked.level < promise.level or not _may_be_promised(state, one)


def _may_be_promised(state: QueueState, one: Ranked) -> bool:
    """Whether it is asked for as things stand."""
    return one.quota_class is QuotaClass.NOMINAL or (
        one.quota_class is QuotaClass.BORROWING and not is_held_back(state, one.work)
    )


def shown_start(state: QueueState, workload: WorkloadId, now: Instant) -> ShownStart | None:
    """What people are told of a promise: nothing before its region has reserved it, nor once its workload is awarded."""
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
    """Of it, how long until then."""
    shown = shown_start(state, workload, now) if workload in state.image.start_promises.rows else None
    return shown.starts_in if shown is not None else None


def _kept_count(state: QueueState) -> int:
    """Starts that are promised to who waits; room for moves has a bound of its own."""
    return sum(not row.is_move for row in state.image.start_promises.rows.values())


def _best(
    state: QueueState, workload: WorkloadId, row: WorkloadRow, said: list[Abstention], now: Instant
) -> StartPromised | None:
    """The earliest start that is offered; of equals the first region's."""
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
    """Whether nodes may be kept beside those that are for other starts of this level or a higher one: always where there are none of
    the same types, else if all of them together are a small part of the region's. Where most nodes are kept for narrow work a
    gang could be promised the others alone, however late these are free.
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
        not kept[kind] or (kept[kind] + count) * PROMISED_PART <= hardware.rows[kind].nodes
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
    """Whether its region would have let go of it by now."""
    return after(Instant(promise.starts_at), Nanoseconds(2 * START_PATIENCE)) <= now


def _end(workload: WorkloadId, promise: PromisedStart, why: StartOver) -> Step:
    return Step(events=(StartPromiseEnded(workload, promise.revision, why),))


def _overlap(mine: set[str], others: set[str]) -> bool:
    """Whether there may be a node that is of a type of both."""
    is_any = any(gpu_type_of(kind)[0] == ANY_TYPE for kind in (*mine, *others))
    return bool(mine and others) if is_any else not mine.isdisjoint(others)


def _ask_again(state: QueueState, workload: WorkloadId, now: Instant) -> list[RefusalPassed]:
    """Whoever refused what is of its shape is asked for it once more."""
    if workload not in state.order:
        return []
    _, asked = asked_now(state, workload, now)
    return [RefusalPassed(asked.shape, region) for region in sorted(state.auctions.refused_by(asked.shape))]
