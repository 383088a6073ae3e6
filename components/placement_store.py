"""The placement store: keeps one region's log and is the only writer of its capacity's truth.

A claim is judged against now, never by whether its view is the newest: if it still fits it is granted (*merged* when the
view was old), otherwise it is answered with the current rows of the nodes that had no room. One grant is made for each
(workload, epoch, revision), under whatever claim id, and only while the queue's log, which the store follows, shows the
award standing; a claim that names an award the store has not read yet waits until it has.

What happens to nodes and attempts is recorded here at the broker's word, and each such command is refused silently when
the log shows that it no longer applies: hearing it twice or late changes nothing.
"""

from collections.abc import Callable

from msgspec.structs import replace

from components.node_records import HEARD_OF_NODES, NodeRecords
from components.pool_records import HEARD_OF_POOLS, PoolRecords, broken_setting
from components.price_records import HEARD_OF_PRICES, PriceRecords
from components.run_records import HEARD_OF_RUNS, RunRecords, healed
from components.store_state import ClaimJudged, ClaimWaits, StoreState, Swept, WaitingClaim
from components.task_records import HEARD_OF_TASKS, TaskRecords
from core.codec import encode
from core.component import NOTHING, Decision, Follow, ImageAdopted, Images
from core.events.control import DestructionHalted
from core.events.queue import AttemptClosed, AwardReturned, WorkloadAwarded, WorkloadsForgotten
from core.events.region import (
    AttemptEnded,
    AttemptsForgotten,
    AwardDeclined,
    CheckpointCommitted,
    ClaimGranted,
    ClaimPromised,
    GangStarted,
    NodesJoined,
    StopOrdered,
)
from core.fact import NO_LOG, Event, Fact, Note
from core.images import GlobalImage, RegionImage
from core.images.control import TaskPhase
from core.images.region import AttemptPhase, AttemptRow
from core.messages.agents import ClaimAnswered
from core.messages.base import Envelope, Message, Woken
from core.messages.store import (
    DeclineAward,
    OrderStop,
    RecordCheckpoint,
    RecordEnd,
    RecordStarted,
    SubmitClaim,
)
from core.nouns.ids import GLOBAL_LOG, AttemptKey, RegionName, WorkloadId, region_log
from core.nouns.instant import Instant, after, earliest
from core.nouns.limits import (
    FACT_BYTES_MAX,
    FORGET_INTERVAL,
    FORGOTTEN_AT_ONCE_MAX,
    HEAD_SILENCE_MAX,
    TOUCHED_MAX,
)
from core.nouns.placement import Claim, gpu_milli_of
from core.nouns.reasons import Reason
from core.placing.owners import OF_OWNERS, Now, Owners
from core.rows import pack_rows
from core.rules.claim import (
    check_nodes,
    check_now,
    check_victims,
    fits_promised,
    is_well_formed,
    nodes_without_room,
    victims_needed,
)
from core.rules.destruction import budget_of, is_free, may_order
from core.rules.ends import may_end
from core.touched import touched_by


class PlacementStore:
    """The keeper of one region's log."""

    hears: tuple[type[Message], ...] = (
        SubmitClaim,
        DeclineAward,
        OrderStop,
        RecordStarted,
        RecordCheckpoint,
        RecordEnd,
        *HEARD_OF_NODES,
        *HEARD_OF_POOLS,
        *HEARD_OF_PRICES,
        *HEARD_OF_TASKS,
        *HEARD_OF_RUNS,
    )

    def __init__(self, region: RegionName) -> None:
        self.region = region
        self.name = f"store.{region}"
        self.noun = "store"
        self.scope = (region,)
        self.keeps = region_log(region)
        self.follows = (Follow(GLOBAL_LOG, ("awards", "regions"), is_required=False),)
        self._deciders: dict[type[Message], Callable[[StoreState, Envelope], Decision]] = {
            Woken: self._woken,
            SubmitClaim: self._submit_claim,
            DeclineAward: self._decline,
            OrderStop: self._order_stop,
            RecordStarted: self._started,
            RecordCheckpoint: self._checkpoint,
            RecordEnd: self._end,
            **NodeRecords().deciders,
            **PoolRecords().deciders,
            **PriceRecords().deciders,
            **TaskRecords().deciders,
            **RunRecords(region).deciders,
        }

    def initial(self, images: Images) -> StoreState:
        """The region's image as the log has it, and the queue's if it could be had."""
        state = StoreState(images.at)
        if images.own is not None:
            assert isinstance(images.own, RegionImage)
            state.image = images.own
            state.owners = Owners.of(images.own.capacity)
        for image, sequence in images.followed.values():
            assert isinstance(image, GlobalImage)
            self._adopt(state, image, sequence)
        return state

    def due(self, state: StoreState) -> Instant | None:
        """Claims that can be judged now, and the next sweep."""
        return earliest(state.ready_at, state.sweep_at if state.superseded else None)

    def decide(self, state: StoreState, envelope: Envelope) -> Decision:
        """Judge a claim, or record what the broker reports."""
        decider = self._deciders.get(type(envelope.message))
        return decider(state, envelope) if decider else NOTHING

    def forget_memos(self, state: StoreState) -> None:
        """What is free in each zone is counted anew."""
        state.headroom = None

    # Folding.

    def evolve(self, state: StoreState, fact: Fact) -> StoreState:
        """Fold a fact of the region or of the queue, or a note."""
        if fact.log == self.keeps:
            nodes = touched_by(state.image.capacity, fact)
            if nodes:
                state.touched.append((fact.sequence, nodes))
            state.image.fold(fact)
            if isinstance(fact.event, NodesJoined):
                state.headroom = None
            elif state.headroom is not None:
                state.headroom.update(nodes)
            state.sequence = fact.sequence
            self._index(state, fact.event)
        elif fact.log == GLOBAL_LOG:
            state.awards.fold(fact)
            state.global_sequence = fact.sequence
            self._index_global(state, fact)
        else:
            self._evolve_note(state, fact)
        return state

    def packed_rows(self, state: StoreState, first: int) -> bytes:
        """The rows of all nodes that facts from this sequence on have changed."""
        nodes: list[int] = []
        if len(state.touched) == TOUCHED_MAX and state.touched[0][0] > first:
            return b""  # Not all of them are known: hearers work the rows out from the facts.
        for sequence, touched in reversed(state.touched):
            if sequence < first:
                break
            nodes.extend(touched)
        return pack_rows(state.image.capacity, nodes) if nodes else b""

    def _evolve_note(self, state: StoreState, fact: Fact) -> None:
        assert fact.log == NO_LOG, fact
        match fact.event:
            case ClaimWaits(claim):
                until = after(fact.at, HEAD_SILENCE_MAX)
                state.waiting[claim.workload, claim.epoch] = WaitingClaim(claim, until)
                self._find_ready(state, fact.at)
            case ClaimJudged(key):
                state.waiting.pop(key, None)
                self._find_ready(state, fact.at)
            case Swept():
                state.sweep_at = after(fact.at, FORGET_INTERVAL)
            case ImageAdopted(_, image, sequence):
                assert isinstance(image, GlobalImage)
                self._adopt(state, image, sequence)
                self._find_ready(state, fact.at)

    def _adopt(self, state: StoreState, image: GlobalImage, sequence: int) -> None:
        state.awards = image
        state.global_sequence = sequence
        state.superseded = {}
        for workload, epochs in state.image.attempts.rows.items():
            for epoch, row in epochs.items():
                self._note_superseded(state, workload, epoch, row)

    def _index(self, state: StoreState, event: Event | Note) -> None:
        if isinstance(event, OF_OWNERS):
            state.owners.settle(state.image.capacity, event.workload, event.epoch)
        match event:
            case AttemptEnded(workload=workload, epoch=epoch) | AwardDeclined(workload=workload, epoch=epoch):
                row = state.image.attempts.row(workload, epoch)
                assert row is not None, (workload, epoch)
                self._note_superseded(state, workload, epoch, row)
            case AttemptsForgotten(attempts=attempts):
                for key in attempts:
                    state.superseded.pop(key, None)

    def _index_global(self, state: StoreState, fact: Fact) -> None:
        event = fact.event
        if state.waiting:
            self._find_ready(state, fact.heard_at)
        match event:
            case (
                AwardReturned(workload=workload)
                | AttemptClosed(workload=workload)
                | WorkloadAwarded(workload=workload)
            ):
                self._look_at(state, workload)
            case WorkloadsForgotten(workloads=workloads):
                for workload in workloads:
                    self._look_at(state, workload)

    def _look_at(self, state: StoreState, workload: WorkloadId) -> None:
        for epoch, row in state.image.attempts.rows.get(workload, {}).items():
            self._note_superseded(state, workload, epoch, row)

    def _note_superseded(self, state: StoreState, workload: WorkloadId, epoch: int, row: AttemptRow) -> None:
        """Never by age alone: only when the queue's log, read past the award, shows that nothing can come of it."""
        is_over = row.phase in (AttemptPhase.ENDED, AttemptPhase.DECLINED)
        if not is_over or state.global_sequence < row.award_sequence:
            return
        if state.awards.awards.has_superseded(workload, epoch):
            state.superseded[workload, epoch] = None

    def _find_ready(self, state: StoreState, now: Instant) -> None:
        """When the first waiting claim can be judged or dropped."""
        state.ready_at = earliest(
            *(
                now if waiting.claim.award_sequence <= state.global_sequence else waiting.until
                for waiting in state.waiting.values()
            )
        )

    # Claims.

    def _submit_claim(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, SubmitClaim)
        return self._judge(state, message.claim)

    def _woken(self, state: StoreState, envelope: Envelope) -> Decision:
        now = envelope.at
        for key, waiting in state.waiting.items():
            if waiting.claim.award_sequence <= state.global_sequence:
                judged = self._judge(state, waiting.claim)
                return Decision((ClaimJudged(key), *judged.events), judged.messages)
            if waiting.until <= now:
                return Decision(events=(ClaimJudged(key),))  # The agent says it again.
        keys = tuple(sorted(state.superseded))[:FORGOTTEN_AT_ONCE_MAX]
        if keys and state.sweep_at <= now:
            return Decision(events=(AttemptsForgotten(keys, state.global_sequence), Swept()))
        return Decision(events=(Swept(),))

    def _judge(self, state: StoreState, claim: Claim) -> Decision:
        row = state.image.attempts.row(claim.workload, claim.epoch)
        if row is not None:
            return self._judge_again(state, claim, row)
        if state.global_sequence < claim.award_sequence:
            return Decision(events=(ClaimWaits(claim),))
        if not state.awards.awards.stands(claim.workload, claim.epoch, self.region):
            return self._refuse(state, claim, Reason.AWARD_NOT_STANDING)
        refusal = self._check(state, claim)
        if refusal == Reason.CONFLICT:
            return self._answer(state, claim, "conflict", refusal)
        if refusal is not None:
            return self._refuse(state, claim, refusal)
        capacity = state.image.capacity
        short = nodes_without_room(claim, capacity)
        forbidden = check_now(claim, Now(capacity, state.owners, claim.victims))
        if short or forbidden:
            reason = Reason.CONFLICT if short else next(iter(forbidden.values()))
            return self._answer(state, claim, "conflict", reason, tuple(sorted({*short, *forbidden})))
        broken = broken_setting(state, claim)
        if broken is not None:
            return self._answer(state, claim, "conflict", broken)
        return self._grant(state, claim)

    def _judge_again(self, state: StoreState, claim: Claim, row: AttemptRow) -> Decision:
        """The attempt is known: the same answer as before, whoever claims and under whatever id."""
        if row.phase.is_live:
            return self._answer(state, claim, "granted")
        if row.phase == AttemptPhase.PROMISED:
            return self._answer(state, claim, "promised")
        return self._refuse(state, claim, Reason.SUPERSEDED)

    def _check(self, state: StoreState, claim: Claim) -> Reason | None:
        if claim.region != self.region or claim.revision != 0 or not is_well_formed(claim):
            return Reason.BAD_CLAIM
        if len(encode(claim)) > FACT_BYTES_MAX - 1024:
            return Reason.TOO_LARGE
        capacity = state.image.capacity
        return check_nodes(claim, capacity) or check_victims(claim, capacity)

    def _grant(self, state: StoreState, claim: Claim) -> Decision:
        """At once, or promised while a victim still holds what it needs."""
        capacity = state.image.capacity
        victims = victims_needed(claim, capacity, state.owners)
        if victims:
            promised = ClaimPromised(claim.workload, claim.epoch, replace(claim, victims=victims))
            return self._also(self._answer(state, claim, "promised"), promised)
        is_merged = any(
            capacity.changed[node] > claim.view.sequence for spread in claim.spreads for node in spread.nodes
        )
        granted = ClaimGranted(claim.workload, claim.epoch, replace(claim, victims=()), is_merged)
        return self._also(self._answer(state, claim, "granted"), granted)

    def _also(self, answer: Decision, event: Event) -> Decision:
        return Decision((event,), answer.messages)

    def _refuse(self, state: StoreState, claim: Claim, reason: Reason) -> Decision:
        return self._answer(state, claim, "refused", reason)

    def _answer(
        self, state: StoreState, claim: Claim, verdict: str, reason: str = "", nodes: tuple[int, ...] = ()
    ) -> Decision:
        rows = tuple(state.image.capacity.node_row(node) for node in nodes)
        answer = ClaimAnswered(
            self.region,
            claim.agent,
            claim.workload,
            claim.epoch,
            claim.claim,
            verdict,
            reason,
            rows,
            state.sequence,
        )
        return Decision(messages=(answer,))

    def _decline(self, state: StoreState, envelope: Envelope) -> Decision:
        """Too late once it is granted; a promise whose victims still run is withdrawn."""
        message = envelope.message
        assert isinstance(message, DeclineAward)
        row = state.image.attempts.row(message.workload, message.epoch)
        if row is not None and row.phase != AttemptPhase.PROMISED:
            return NOTHING
        if row is not None and message.reason not in (Reason.WITHDRAWN, Reason.PROMISE_BROKEN):
            return NOTHING  # An agent found no room for what another has been promised.
        is_read = state.global_sequence >= message.award_sequence
        if is_read and not state.awards.awards.stands(message.workload, message.epoch, self.region):
            return NOTHING  # Declined and forgotten long ago: the queue waits for no word about it.
        return Decision(
            events=(AwardDeclined(message.workload, message.epoch, message.reason, message.award_sequence),)
        )

    # Attempts.

    def _live(self, state: StoreState, workload: WorkloadId, epoch: int) -> AttemptRow | None:
        row = state.image.attempts.row(workload, epoch)
        return row if row is not None and row.phase.is_live else None

    def _order_stop(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, OrderStop)
        row = self._live(state, message.workload, message.epoch)
        image, sender, now = state.image, envelope.sender, envelope.at
        if row is None or row.stop_cause or not may_order(image.capacity, message, now):
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
        row = self._live(state, message.workload, message.epoch)
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
        row = self._live(state, message.workload, message.epoch)
        if row is None or message.step <= row.saved_step:
            return NOTHING
        return Decision(events=(CheckpointCommitted(message.workload, message.epoch, message.step),))

    def _end(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, RecordEnd)
        held = state.image.capacity.holding(message.workload, message.epoch)
        if held is None or not may_end(state.image, message):
            return NOTHING
        freed = gpu_milli_of(held.claim.jobs)
        about = (message.workload, message.epoch)
        ended = AttemptEnded(*about, message.cause, message.exit_code, freed, message.failed_nodes)
        return Decision(events=(ended, *self._grants_after(state, about)))

    def _grants_after(self, state: StoreState, ended: AttemptKey) -> list[Event]:
        """Promises of which this was the last victim: granted in the same batch, or never, if a node was lost meanwhile."""
        capacity = state.image.capacity
        grants: list[Event] = []
        for workload, epochs in capacity.promises.items():
            for epoch, claim in epochs.items():
                alive = [key for key in claim.victims if key != ended and capacity.holding(*key) is not None]
                if ended not in claim.victims or alive:
                    continue
                is_open = all(capacity.is_open(node) for spread in claim.spreads for node in spread.nodes)
                if is_open and fits_promised(claim, capacity):
                    grants.append(ClaimGranted(workload, epoch, replace(claim, victims=()), is_merged=True))
                else:
                    grants.append(AwardDeclined(workload, epoch, Reason.PROMISE_BROKEN, claim.award_sequence))
        return grants
