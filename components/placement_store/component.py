"""The placement store: keeps one region's log, and alone writes the facts of the region's capacity.

A claim is judged against the present state, regardless of the age of its view. A claim that still fits is granted (*merged* if the
view was old); otherwise the answer has the current rows of the nodes that lack capacity. One grant is made for each (workload,
epoch, revision), under any claim id, and only while the queue's log, which the store follows, shows the award active. A claim for
an award that the store has not read yet waits until then.

Changes of nodes and attempts are recorded at the broker's command. A command that no longer applies by the log is refused silently,
so a repeated or late command has no effect.
"""

from collections.abc import Callable, Sequence
from itertools import islice

from msgspec.structs import replace

from components.placement_store.abandoned import end_abandoned, index_abandoned, note_abandoned
from components.placement_store.agents import HEARD_OF_AGENTS, AgentRecords
from components.placement_store.attempts import HEARD_OF_ATTEMPTS, AttemptRecords
from components.placement_store.disputed_nodes import NodesDisputed, Refused
from components.placement_store.functions import HEARD_OF_FUNCTIONS, FunctionRecords
from components.placement_store.harvest import HEARD_OF_HARVEST, HarvestRecords, spares_of
from components.placement_store.nodes import HEARD_OF_NODES, NodeRecords
from components.placement_store.pools import HEARD_OF_POOLS, PoolRecords, broken_setting
from components.placement_store.preemption import HEARD_OF_PREEMPTION, PreemptionRecords, promise_of
from components.placement_store.prices import HEARD_OF_PRICES, PriceRecords
from components.placement_store.reservations import HEARD_OF_STARTS, StartRecords
from components.placement_store.state import (
    FOLLOWED,
    ClaimJudged,
    ClaimWaits,
    StartsLookedAt,
    StoreState,
    Swept,
    WaitingClaim,
)
from components.placement_store.task_runs import HEARD_OF_RUNS, RunRecords
from components.placement_store.tasks import HEARD_OF_TASKS, TaskRecords
from core.claims.checks import (
    check_guest,
    check_nodes,
    check_now,
    check_victims,
    is_beyond,
    is_well_formed,
    nodes_without_capacity,
    victims_needed,
)
from core.claims.partial import may_be_partial, part_that_fits
from core.claims.reservations import barred_nodes
from core.claims.spreading import left_out
from core.codec import encode
from core.component import NOTHING, Decision, Follow, ImageAdopted, Images
from core.events.control import NodesClosed, NodesOpened
from core.events.pools import NodesPooled
from core.events.queue import AttemptClosed, AwardReturned, WorkloadAwarded, WorkloadsForgotten
from core.events.region import (
    AttemptEnded,
    AttemptsForgotten,
    AwardDeclined,
    ClaimGranted,
    NodesJoined,
)
from core.fact import NO_LOG, Event, Fact, Note
from core.images import GlobalImage, RegionImage
from core.images.region import AttemptPhase, AttemptRow
from core.messages.agents import ClaimAnswered
from core.messages.base import Envelope, Message, Woken
from core.messages.store import SubmitClaim
from core.nouns.ids import GLOBAL_LOG, RegionName, WorkloadId, region_log
from core.nouns.instant import Instant, after, earliest
from core.nouns.limits import (
    FACT_BYTES_MAX,
    FORGET_AGAIN,
    FORGET_INTERVAL,
    FORGOTTEN_AT_ONCE_MAX,
    HEAD_SILENCE_MAX,
    TOUCHED_MAX,
)
from core.nouns.maintenance import ClosureKind
from core.nouns.placement import Claim, nodes_of
from core.nouns.reasons import Reason
from core.placing.index.kept import Kept
from core.placing.index.owners import OF_OWNERS, Now, Owners
from core.rows import pack_rows
from core.touched import kept_by, touched_by


class PlacementStore:
    """The keeper of one region's log."""

    hears: tuple[type[Message], ...] = (
        SubmitClaim,
        *HEARD_OF_AGENTS,
        *HEARD_OF_ATTEMPTS,
        *HEARD_OF_FUNCTIONS,
        *HEARD_OF_HARVEST,
        *HEARD_OF_NODES,
        *HEARD_OF_POOLS,
        *HEARD_OF_PREEMPTION,
        *HEARD_OF_PRICES,
        *HEARD_OF_TASKS,
        *HEARD_OF_RUNS,
        *HEARD_OF_STARTS,
    )

    def __init__(self, region: RegionName) -> None:
        self.region = region
        self.name = f"store.{region}"
        self.noun = "store"
        self.scope = (region,)
        self.keeps = region_log(region)
        self.follows = (Follow(GLOBAL_LOG, FOLLOWED, is_required=False),)
        self._starts = StartRecords(region)
        self._harvest = HarvestRecords()
        self._deciders: dict[type[Message], Callable[[StoreState, Envelope], Decision]] = {
            Woken: self._woken,
            SubmitClaim: self._submit_claim,
            **AgentRecords().deciders,
            **AttemptRecords(region).deciders,
            **FunctionRecords(region).deciders,
            **self._harvest.deciders,
            **NodeRecords().deciders,
            **PoolRecords().deciders,
            **PreemptionRecords().deciders,
            **PriceRecords().deciders,
            **TaskRecords().deciders,
            **RunRecords(region).deciders,
            **self._starts.deciders,
        }

    def initial(self, images: Images) -> StoreState:
        """Return the state from the region's image in the log, and from the queue's image if available."""
        state = StoreState(images.at)
        if images.own is not None:
            assert isinstance(images.own, RegionImage)
            state.image = images.own
            state.owners = Owners.of(images.own.capacity)
            state.disputes.index(images.own.capacity)
            self._starts.index_all(state)
            self._harvest.index_all(state)
        for image, sequence in images.followed.values():
            assert isinstance(image, GlobalImage)
            self._adopt(state, image, sequence)
        return state

    def due(self, state: StoreState) -> Instant | None:
        """Return when to act next: on a waiting claim, a sweep, abandoned attempts, disputed nodes, stops, reservations or recalls."""
        sweep_at = state.sweep_at if state.superseded else None
        abandoned_at = Instant(0) if state.abandoned else None
        return earliest(
            state.ready_at,
            sweep_at,
            abandoned_at,
            state.disputes.opens_at,
            self._starts.due(state),
            self._harvest.due(state),
        )

    def decide(self, state: StoreState, envelope: Envelope) -> Decision:
        """Return the decision on a message: a claim judged, a report recorded, or a request answered."""
        decider = self._deciders.get(type(envelope.message))
        return decider(state, envelope) if decider else NOTHING

    def forget_memos(self, state: StoreState) -> None:
        """Drop the memos of capacity by zone; the next use counts again."""
        state.headroom = state.harvest_zones = None

    # Folding.

    def evolve(self, state: StoreState, fact: Fact) -> StoreState:
        """Fold a fact of the region or of the queue, or a note."""
        if fact.log == self.keeps:
            nodes = (*touched_by(state.image.capacity, fact), *kept_by(state.image.starts, fact))
            harvested = state.image.harvest.touched_by(fact)
            if nodes:
                state.touched.append((fact.sequence, nodes))
            state.image.fold(fact)
            self._update_memos(state, fact.event, nodes)
            state.sequence = fact.sequence
            self._index(state, fact.event)
            self._starts.index(state, fact)
            self._harvest.index(state, fact, harvested)
        elif fact.log == GLOBAL_LOG:
            state.awards.fold(fact)
            state.global_sequence = fact.sequence
            self._index_global(state, fact)
        else:
            self._evolve_note(state, fact)
        return state

    def _update_memos(self, state: StoreState, event: Event | Note, nodes: Sequence[int]) -> None:
        """Bring the figures by zone up to date with the nodes that a fact has touched."""
        if isinstance(event, NodesJoined):
            state.headroom = state.harvest_zones = None
        for memo in (state.headroom, state.harvest_zones):
            if memo is not None:
                if isinstance(event, NodesPooled):
                    memo.pool(nodes)
                memo.update(nodes)

    def packed_rows(self, state: StoreState, first: int) -> bytes | None:
        """Return the packed rows of all nodes changed by facts from sequence `first` on; None if the nodes are not all known."""
        nodes: list[int] = []
        if len(state.touched) == TOUCHED_MAX and state.touched[0][0] > first:
            return None  # The oldest of these facts are forgotten: followers compute the rows from the facts.
        for sequence, touched in reversed(state.touched):
            if sequence < first:
                break
            nodes.extend(touched)
        return pack_rows(state.image.capacity, nodes, self._kept(state)) if nodes else b""

    def _kept(self, state: StoreState) -> Kept:
        return Kept(state.image.starts, state.owners)

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
            case NodesDisputed() as disputed:
                state.disputes.hear(disputed, fact.at)
            case StartsLookedAt():
                self._starts.note(state)
            case Swept(has_more):
                state.sweep_at = after(fact.at, FORGET_AGAIN if has_more else FORGET_INTERVAL)
            case ImageAdopted(_, image, sequence):
                assert isinstance(image, GlobalImage)
                self._adopt(state, image, sequence)
                self._find_ready(state, fact.at)

    def _adopt(self, state: StoreState, image: GlobalImage, sequence: int) -> None:
        state.awards = image
        state.global_sequence = sequence
        state.superseded, state.abandoned = {}, {}
        if state.image.starts.rows:
            state.starts_due = Instant(0)
        for workload, epochs in state.image.attempts.rows.items():
            for epoch, row in epochs.items():
                self._note_superseded(state, workload, epoch, row)

    def _index(self, state: StoreState, event: Event | Note) -> None:
        if isinstance(event, OF_OWNERS):
            state.owners.settle(state.image.capacity, event.workload, event.epoch)
        index_abandoned(state, event)
        match event:
            case AttemptEnded(workload=workload, epoch=epoch) | AwardDeclined(workload=workload, epoch=epoch):
                row = state.image.attempts.row(workload, epoch)
                assert row is not None, (workload, epoch)
                self._note_superseded(state, workload, epoch, row)
            case AttemptsForgotten(attempts=attempts):
                for key in attempts:
                    state.superseded.pop(key, None)
            case NodesClosed(kind=ClosureKind.DISPUTED) | NodesOpened(kind=ClosureKind.DISPUTED):
                state.disputes.index(state.image.capacity)

    def _index_global(self, state: StoreState, fact: Fact) -> None:
        event = fact.event
        self._starts.index_global(state, event, fact.heard_at)
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
        """Record an attempt as superseded or abandoned if the queue's log, read past its award, shows that; never by age alone."""
        note_abandoned(state, workload, epoch, row)
        is_over = row.phase in (AttemptPhase.ENDED, AttemptPhase.DECLINED)
        if not is_over or state.global_sequence < row.award_sequence:
            return
        if state.awards.awards.has_superseded(workload, epoch):
            state.superseded[workload, epoch] = None

    def _find_ready(self, state: StoreState, now: Instant) -> None:
        """Compute the time at which the first waiting claim can be judged or dropped."""
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
        return self._judge(state, message.claim, envelope.at)

    def _woken(self, state: StoreState, envelope: Envelope) -> Decision:
        now = envelope.at
        for key, waiting in state.waiting.items():
            if waiting.claim.award_sequence <= state.global_sequence:
                judged = self._judge(state, waiting.claim, now)
                return Decision((ClaimJudged(key), *judged.events), judged.messages)
            if waiting.until <= now:
                return Decision(events=(ClaimJudged(key),))  # The agent repeats the claim.
        reopened = state.disputes.reopened(state.image.capacity, now)
        if reopened is not None:
            return reopened
        other = end_abandoned(state) or self._starts.woken(state, now) or self._harvest.woken(state, now)
        if other is not None:
            return other
        keys = tuple(sorted(islice(state.superseded, FORGOTTEN_AT_ONCE_MAX)))
        if keys and state.sweep_at <= now:
            has_more = len(state.superseded) > len(keys)
            return Decision(events=(AttemptsForgotten(keys, state.global_sequence), Swept(has_more)))
        return Decision(events=(Swept(),))

    def _judge(self, state: StoreState, claim: Claim, now: Instant) -> Decision:
        row = state.image.attempts.row(claim.workload, claim.epoch)
        if row is not None:
            return self._judge_again(state, claim, row)
        if state.global_sequence < claim.award_sequence:
            return Decision(events=(ClaimWaits(claim),))
        if not state.awards.awards.stands(claim.workload, claim.epoch, self.region):
            return self._refuse(state, claim, Reason.AWARD_NOT_STANDING)
        refusal = self._check(state, claim, now)
        if refusal == Reason.CONFLICT:
            return self._answer(state, claim, "conflict", refusal)
        if refusal is not None:
            return self._refuse(state, claim, refusal)
        capacity = state.image.capacity
        short = nodes_without_capacity(claim, capacity)
        barred = barred_nodes(state.image.starts, claim, now)
        forbidden = check_now(claim, Now(capacity, state.owners, claim.victims, barred))
        if short or forbidden:
            if short and is_beyond(claim, capacity):
                return self._refuse(state, claim, Reason.NODE_TOO_SMALL)
            nodes = tuple(sorted({*short, *forbidden}))
            part = part_that_fits(claim, capacity, set(short), forbidden) if may_be_partial(claim) else None
            if part is not None and broken_setting(state, part[0]) is None:
                judged = self._grant_part(state, *part, nodes, now)
            else:
                reason = forbidden.get(nodes[0], Reason.CONFLICT)
                judged = self._answer(state, claim, "conflict", reason, nodes)
            refused = Refused.of(claim, tuple(node for node in nodes if node not in barred))
            return state.disputes.with_them(judged, refused, state.image, state.sequence, now)
        broken = broken_setting(state, claim)
        if broken is not None:
            return self._answer(state, claim, "conflict", broken)
        node = left_out(claim, Now(capacity, state.owners, claim.victims), state.image.pools, state.sequence)
        if node is not None:
            return self._answer(state, claim, "conflict", Reason.CROWDED, (node,))
        return self._grant(state, claim, now)

    def _judge_again(self, state: StoreState, claim: Claim, row: AttemptRow) -> Decision:
        """Return the answer for a known attempt, by the attempt's phase and regardless of the claim's agent and id."""
        if row.phase.is_live:
            return self._answer(state, claim, "granted")
        if row.phase == AttemptPhase.PROMISED:
            return self._answer(state, claim, "promised")
        return self._refuse(state, claim, Reason.SUPERSEDED)

    def _check(self, state: StoreState, claim: Claim, now: Instant) -> Reason | None:
        if claim.region != self.region or claim.revision != 0 or not is_well_formed(claim):
            return Reason.BAD_CLAIM
        if len(encode(claim)) > FACT_BYTES_MAX - 1024:
            return Reason.TOO_LARGE
        capacity = state.image.capacity
        found = check_nodes(claim, capacity) or check_guest(claim, capacity)
        return found or check_victims(claim, capacity, now)

    def _grant(self, state: StoreState, claim: Claim, now: Instant) -> Decision:
        """Return the grant of a claim that fits, or a promise while a victim still holds capacity that the claim needs."""
        capacity = state.image.capacity
        order = state.image.preemption.settings.order
        victims = victims_needed(claim, capacity, state.owners, order)
        displaced = self._starts.displaced(state, claim, nodes_of(claim), now)
        if victims:
            promised = promise_of(state.image, replace(claim, victims=victims), now)
            if isinstance(promised, Reason):
                return self._refuse(state, claim, promised)
            return self._also(self._answer(state, claim, "promised"), promised, *displaced)
        is_merged = any(
            capacity.changed[node] > claim.view.sequence for spread in claim.spreads for node in spread.nodes
        )
        spares = spares_of(state, claim)
        granted = ClaimGranted(
            claim.workload, claim.epoch, replace(claim, victims=()), is_merged, spares=spares
        )
        return self._also(self._answer(state, claim, "granted"), granted, *displaced)

    def _grant_part(
        self,
        state: StoreState,
        part: Claim,
        unplaced: tuple[int, ...],
        short: tuple[int, ...],
        now: Instant,
    ) -> Decision:
        """Return one grant of the tasks that fit; for the other tasks the answer has a conflict's reason and rows."""
        spares = spares_of(state, part)
        granted = ClaimGranted(
            part.workload, part.epoch, part, is_merged=True, unplaced=unplaced, spares=spares
        )
        answer = self._answer(state, part, "granted", Reason.CONFLICT, short, unplaced)
        return self._also(answer, granted, *self._starts.displaced(state, part, nodes_of(part), now))

    def _also(self, answer: Decision, *events: Event) -> Decision:
        return Decision(events, answer.messages)

    def _refuse(self, state: StoreState, claim: Claim, reason: Reason) -> Decision:
        return self._answer(state, claim, "refused", reason)

    def _answer(
        self,
        state: StoreState,
        claim: Claim,
        verdict: str,
        reason: str = "",
        nodes: tuple[int, ...] = (),
        unplaced: tuple[int, ...] = (),
    ) -> Decision:
        kept = self._kept(state) if nodes else ()
        rows = tuple(
            replace(row, is_kept=True) if row.node in kept else row
            for row in map(state.image.capacity.node_row, nodes)
        )
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
            unplaced,
        )
        return Decision(messages=(answer,))
