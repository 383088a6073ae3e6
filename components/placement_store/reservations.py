"""The placement store's records of reservations, and the stops that it orders itself so that reservations can rely on ends in time.

A region keeps a reservation while the queue's log shows it active, its nodes can be relied on, and its start, `START_ALLOWANCE`
after the nodes are free, has not passed by more than `START_PATIENCE`. A reservation is no award: all regions are still asked for
the workload.
"""

from collections.abc import Callable, Iterable

from components.placement_store.state import StartsLookedAt, StoreState
from core.claims.reservations import displaced_by, why_not_reserved
from core.codec import encode
from core.component import NOTHING, Decision
from core.events.control import DomainLost, NodesClosed, ScopeJoined
from core.events.region import AttemptEnded, ClaimGranted, GangStarted, NodesLost, StopOrdered
from core.events.starts import StartPromised, StartReserved, StartUnreserved
from core.fact import Event, Fact, Note
from core.images.capacity import Capacity
from core.images.queue_reservations import ENDS_A_PROMISE
from core.images.region import AttemptPhase
from core.images.reservations import ReservedStart
from core.messages.base import Envelope, Message
from core.messages.reserved_starts import ReserveStart
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds, after, earliest
from core.nouns.limits import FACT_BYTES_MAX, START_ALLOWANCE, START_PATIENCE
from core.nouns.maintenance import ClosureKind
from core.nouns.placement import Claim
from core.nouns.starts import StartOver
from core.nouns.workload import EndCause
from core.rules.guaranteed_ends import stops_by

HEARD_OF_STARTS: tuple[type[Message], ...] = (ReserveStart,)
LAPSES_AFTER: Nanoseconds = Nanoseconds(START_ALLOWANCE + START_PATIENCE)
CLOSES_NODES: tuple[type[Event], ...] = (NodesLost, DomainLost, NodesClosed, ScopeJoined)


class StartRecords:
    """The store's decider for reservations, with the stops and checks that become due."""

    def __init__(self, region: RegionName) -> None:
        self.region = region
        self.deciders: dict[type[Message], Callable[[StoreState, Envelope], Decision]] = {
            ReserveStart: self._reserve
        }

    def _reserve(self, state: StoreState, envelope: Envelope) -> Decision:
        message, now = envelope.message, envelope.at
        assert isinstance(message, ReserveStart)
        owner, starts = message.workload, state.image.starts
        promises = state.awards.start_promises
        if state.global_sequence < message.global_sequence or message.start_in < 0:
            return NOTHING  # The queue repeats the request.
        if not promises.stands(owner, message.revision, self.region):
            return NOTHING
        known = (starts.rows.get(owner), starts.over.get(owner))
        if any(row is not None and row.revision >= message.revision for row in known):
            return NOTHING
        if self._has_begun(state, owner):
            return NOTHING
        row = ReservedStart(
            message.revision,
            0,
            after(now, message.start_in),
            message.level,
            message.kind,
            message.tenant,
            message.jobs,
            message.spreads,
            message.global_sequence,
        )
        reserved = StartReserved(
            owner,
            message.revision,
            message.start_in,
            message.level,
            message.kind,
            message.tenant,
            message.jobs,
            message.spreads,
            message.global_sequence,
        )
        why = why_not_reserved(owner, row, starts, state.image.capacity, state.owners, now)
        if why is not None or len(encode(reserved)) > FACT_BYTES_MAX - 1024:
            return Decision(events=(StartUnreserved(owner, message.revision, why or StartOver.NO_ROOM),))
        nodes = set(row.nodes())
        lower = [
            other
            for other, kept in starts.rows.items()
            if other != owner and not nodes.isdisjoint(kept.nodes())
        ]
        return Decision(events=(*self._over(state, lower, StartOver.DISPLACED), reserved))

    def _has_begun(self, state: StoreState, owner: WorkloadId) -> bool:
        epochs = state.image.attempts.rows.get(owner, {})
        return any(row.phase.is_live or row.phase is AttemptPhase.PROMISED for row in epochs.values())

    def displaced(self, state: StoreState, claim: Claim, nodes: Iterable[int], now: Instant) -> list[Event]:
        """Return the ends of the reservations that a claim displaces when granted or promised on these nodes."""
        return self._over(state, displaced_by(state.image.starts, claim, nodes, now), StartOver.DISPLACED)

    def _over(self, state: StoreState, owners: Iterable[WorkloadId], why: StartOver) -> list[Event]:
        rows = state.image.starts.rows
        return [StartUnreserved(owner, rows[owner].revision, why) for owner in owners]

    # Time.

    def index_all(self, state: StoreState) -> None:
        """Compute all due times from an image that this store has not folded itself."""
        for workload, epoch, _ in state.image.capacity.live():
            self._index_stop(state, workload, epoch)
        state.starts_due = _next_look(state)

    def index(self, state: StoreState, fact: Fact) -> None:
        """Update the due times after a fact of the region that the image has folded."""
        match fact.event:
            case ClaimGranted(workload=workload, epoch=epoch) | GangStarted(workload=workload, epoch=epoch):
                self._index_stop(state, workload, epoch)
            case AttemptEnded(workload=workload, epoch=epoch) | StopOrdered(workload=workload, epoch=epoch):
                state.stops_due.drop((workload, epoch))
        if state.image.starts.rows and isinstance(fact.event, CLOSES_NODES):
            state.starts_due = fact.at
        elif isinstance(fact.event, StartReserved):
            state.starts_due = earliest(state.starts_due, _next_look(state))

    def _index_stop(self, state: StoreState, workload: WorkloadId, epoch: int) -> None:
        held = state.image.capacity.holding(workload, epoch)
        assert held is not None, (workload, epoch)
        at = None if held.is_ending else stops_by(held.claim, held.granted_at, held.started_at)
        if at is not None:
            state.stops_due.put((workload, epoch), at)

    def index_global(self, state: StoreState, event: Event | Note, now: Instant) -> None:
        """Make a check of the reservations due after a fact of the queue that makes or ends one: an ended one is not kept."""
        if state.image.starts.rows and isinstance(event, (StartPromised, *ENDS_A_PROMISE)):
            state.starts_due = now

    def note(self, state: StoreState) -> None:
        """Record that all reservations were checked."""
        state.starts_due = _next_look(state)

    def due(self, state: StoreState) -> Instant | None:
        """Return the time of the next stop of an attempt, or check of the reservations."""
        return earliest(state.stops_due.due(), state.starts_due)

    def woken(self, state: StoreState, now: Instant) -> Decision | None:
        """Return the stops of attempts past their longest duration that the broker missed; else the ends of failed reservations."""
        overdue = state.stops_due.passed(now)
        if overdue:
            return Decision(events=tuple(_stop(state.image.capacity, *key) for key in overdue))
        if state.starts_due is None or state.starts_due > now:
            return None
        ended = [
            StartUnreserved(owner, row.revision, why)
            for owner, row in state.image.starts.rows.items()
            if (why := self._why_over(state, owner, row, now)) is not None
        ]
        return Decision(events=(*ended, StartsLookedAt()))

    def _why_over(
        self, state: StoreState, owner: WorkloadId, row: ReservedStart, now: Instant
    ) -> StartOver | None:
        promises = state.awards.start_promises
        is_read = state.global_sequence >= row.global_sequence
        if is_read and not promises.stands(owner, row.revision, self.region):
            award = state.awards.awards.rows.get(owner)
            has_it = award is not None and award.is_active and award.is_bound
            # An award older than the reservation: the workload was to move here, and stays where it runs.
            is_old = award is not None and award.sequence < row.global_sequence
            return StartOver.USED if has_it and not is_old else StartOver.GIVEN_UP
        if not all(is_there(state.image.capacity, node) for node in row.nodes()):
            return StartOver.NODE_CLOSED
        return StartOver.LAPSED if after(Instant(row.starts_at), LAPSES_AFTER) <= now else None


def is_there(capacity: Capacity, node: int) -> bool:
    """Return whether a node can be relied on: not lost, and not closed but for suspicion, as missed beats mostly pass."""
    suspected = sum(
        closure.kind is ClosureKind.SUSPECT and node in closure.each for closure in capacity.closures.values()
    )
    return not capacity.is_lost[node] and capacity.closed[node] <= suspected


def _next_look(state: StoreState) -> Instant | None:
    """Return the time at which the first reservation lapses, if there are reservations."""
    first = min((row.starts_at for row in state.image.starts.rows.values()), default=None)
    return None if first is None else after(Instant(first), LAPSES_AFTER)


def _stop(capacity: Capacity, workload: WorkloadId, epoch: int) -> StopOrdered:
    held = capacity.holding(workload, epoch)
    assert held is not None, (workload, epoch)
    return StopOrdered(workload, epoch, EndCause.TIMEOUT if held.started_at else EndCause.START_FAILED)
