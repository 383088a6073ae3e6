"""The placement store's records of attempts: awards that the region declines, and granted attempts until their end.

A command is dropped if the log shows that its subject is over, or that its effect is recorded already: a repeated or late command
changes no state.
"""

from collections.abc import Callable

from msgspec.structs import replace

from components.placement_store.harvest import freed_by, spares_of
from components.placement_store.state import StoreState
from components.placement_store.task_runs import healed
from core.claims.checks import fits_promised
from core.component import NOTHING, Decision
from core.events.control import DestructionHalted
from core.events.region import (
    AttemptEnded,
    AttemptRanked,
    AwardDeclined,
    CheckpointCommitted,
    ClaimGranted,
    GangStarted,
    StopOrdered,
)
from core.fact import Event
from core.images.capacity import Capacity, Holding
from core.images.control import TaskPhase
from core.images.region import AttemptPhase, AttemptRow
from core.messages.base import Envelope, Message
from core.messages.broker import RankAttempt
from core.messages.store import DeclineAward, OrderStop, RecordCheckpoint, RecordEnd, RecordStarted
from core.nouns.fleet import CPU_TYPE, gpu_type_of
from core.nouns.ids import AttemptKey, RegionName, WorkloadId
from core.nouns.limits import CONFLICT_NODES_MAX
from core.nouns.operation import WHOLE
from core.nouns.placement import Claim, gpu_milli_of, needs_of
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause
from core.rules.attempt_ends import may_end
from core.rules.disruption_budget import budget_of, is_free, may_order
from core.rules.placement.eviction_cost import destroyed_by_stop

HEARD_OF_ATTEMPTS: tuple[type[Message], ...] = (
    DeclineAward,
    OrderStop,
    RecordStarted,
    RecordCheckpoint,
    RecordEnd,
    RankAttempt,
)


class AttemptRecords:
    """The store's deciders for declined awards, and for attempts."""

    def __init__(self, region: RegionName) -> None:
        self.region = region
        self.deciders: dict[type[Message], Callable[[StoreState, Envelope], Decision]] = {
            DeclineAward: self._decline,
            OrderStop: self._order_stop,
            RecordStarted: self._started,
            RecordCheckpoint: self._checkpoint,
            RecordEnd: self._end,
            RankAttempt: self._rank,
        }

    def _decline(self, state: StoreState, envelope: Envelope) -> Decision:
        """Record a declined award, unless the attempt was granted. A promise ends only if it is withdrawn or broken."""
        message = envelope.message
        assert isinstance(message, DeclineAward)
        row = state.image.attempts.row(message.workload, message.epoch)
        if row is not None and row.phase != AttemptPhase.PROMISED:
            return NOTHING
        if row is not None and message.reason not in (Reason.WITHDRAWN, Reason.PROMISE_BROKEN):
            return NOTHING  # An agent found no capacity, but another agent's claim was promised.
        is_read = state.global_sequence >= message.award_sequence
        if is_read and not state.awards.awards.stands(message.workload, message.epoch, self.region):
            return NOTHING  # Declined and forgotten long ago: the queue awaits no reply.
        declined = AwardDeclined(
            message.workload,
            message.epoch,
            message.reason,
            message.award_sequence,
            message.tries,
            message.conflict,
            message.nodes[:CONFLICT_NODES_MAX],
        )
        return Decision(events=(declined,))

    def _order_stop(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, OrderStop)
        row = _live(state, message.workload, message.epoch)
        image, sender, now = state.image, envelope.sender, envelope.at
        if row is None or row.stop_cause or not may_order(image, message, now):
            return NOTHING
        requester = "" if is_free(image.capacity, state.awards.awards, message) else sender
        budget = budget_of(image.hardware)
        if requester and image.destruction.spent(sender, now) >= budget:
            is_told = image.destruction.is_told(sender, now)
            return NOTHING if is_told else Decision(events=(DestructionHalted(sender, 1, budget),))
        stop = StopOrdered(message.workload, message.epoch, message.cause, message.by, requester)
        return Decision(events=(stop,))

    def _started(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, RecordStarted)
        row = _live(state, message.workload, message.epoch)
        if row is None or row.phase == AttemptPhase.STARTED:
            return NOTHING
        about = (message.workload, message.epoch)
        control = state.image.control.row(*about)
        tasks = control.tasks.items() if control is not None else ()
        starting = [task for task, one in tasks if one.phase is TaskPhase.STARTING]
        done = healed(control, *about, starting) if control is not None else []
        return Decision(events=(GangStarted(*about), *done))

    def _checkpoint(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, RecordCheckpoint)
        row = _live(state, message.workload, message.epoch)
        if row is None or message.step <= row.saved_step or row.stop_cause == EndCause.ABANDONED:
            return NOTHING
        return Decision(events=(CheckpointCommitted(message.workload, message.epoch, message.step),))

    def _rank(self, state: StoreState, envelope: Envelope) -> Decision:
        """Record the new level of a live attempt that is no victim of a promise.

        A promise was made by the levels of its time, so a victim and a promised attempt keep theirs until the promise is over.
        """
        message = envelope.message
        assert isinstance(message, RankAttempt)
        row = _live(state, message.workload, message.epoch)
        if row is None or message.revision <= row.standing_revision:
            return NOTHING
        key = (message.workload, message.epoch)
        promises = state.image.capacity.promises.values()
        if any(key in claim.victims for epochs in promises for claim in epochs.values()):
            return NOTHING
        return Decision(events=(AttemptRanked(*key, message.revision, message.level),))

    def _end(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, RecordEnd)
        held = state.image.capacity.holding(message.workload, message.epoch)
        if held is None or not may_end(state.image, message):
            return NOTHING
        freed = 0 if held.is_paired else gpu_milli_of(held.claim.jobs)
        about = (message.workload, message.epoch)
        lost = _destroyed(state, held, about) if message.cause is EndCause.PREEMPTED else 0
        ended = AttemptEnded(
            *about,
            message.cause,
            message.exit_code,
            freed,
            message.failed_nodes,
            lost,
            *_cpus(state.image.capacity, held.claim),
        )
        return Decision(events=(ended, *_grants_after(state, about)))


def _cpus(capacity: Capacity, claim: Claim) -> tuple[int, int]:
    """Return the CPU milli that a claim holds, and the part of these on nodes without GPUs."""
    by_node = {node: need.cpu_milli for node, need in needs_of(claim).items()}
    bare = (count for node, count in by_node.items() if gpu_type_of(capacity.node_type[node])[0] == CPU_TYPE)
    return sum(by_node.values()), sum(bare)


def _destroyed(state: StoreState, held: Holding, key: AttemptKey) -> int:
    """Return the GPU-seconds that a preemption lost, counted to the order to stop, or to the time the gang was gone if earlier."""
    control = state.image.control.row(*key)
    whole = control.tasks.get(WHOLE) if control is not None else None
    is_down = whole is not None and whole.phase is TaskPhase.GONE
    return destroyed_by_stop(
        held, min(held.stopped_at, whole.since) if whole and is_down else held.stopped_at
    )


def _live(state: StoreState, workload: WorkloadId, epoch: int) -> AttemptRow | None:
    row = state.image.attempts.row(workload, epoch)
    return row if row is not None and row.phase.is_live else None


def _grants_after(state: StoreState, ended: AttemptKey) -> list[Event]:
    """Return the events for promises that waited for this attempt last, for the same batch as its end.

    A promise is granted, or broken if one of its nodes is no longer open or its claim no longer fits on devices.
    """
    capacity, grants = state.image.capacity, list[Event]()
    held = capacity.holding(*ended)
    freed = freed_by(held.claim) if held is not None else {}
    for workload, epochs in capacity.promises.items():
        for epoch, claim in epochs.items():
            alive = [key for key in claim.victims if key != ended and capacity.holding(*key) is not None]
            if ended not in claim.victims or alive:
                continue
            is_open = all(capacity.is_open(node) for spread in claim.spreads for node in spread.nodes)
            if is_open and fits_promised(claim, capacity):
                spares = spares_of(state, claim, freed)
                granted = replace(claim, victims=())
                grants.append(ClaimGranted(workload, epoch, granted, is_merged=True, spares=spares))
            else:
                grants.append(AwardDeclined(workload, epoch, Reason.PROMISE_BROKEN, claim.award_sequence))
    return grants
