"""The allocation agent: searches its whole region on its own view, bids, and claims the capacity of its awards.

The agent keeps no log and cannot grant. The capacity of an open bid counts as taken until the auction is settled or the bid
is old, so that one agent does not offer the same capacity twice; granted capacity counts as taken until the log shows the
grant. A claim is repeated until the store answers. After a conflict the agent uses the rows of the answer for its bids,
catches up to the answer's sequence, and searches again, at most `CLAIM_TRIES_MAX` times in all and for `CLAIM_SPAN`; then
the agent declines the award and names the last conflict.

components/allocation_agent/relocations.py finds new nodes for independent tasks of running attempts.
"""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from components.allocation_agent.guests import abstention_beside
from components.allocation_agent.relocations import (
    TaskPlaces,
)
from components.allocation_agent.reservation_search import at_best, found_for, prospect_for
from components.allocation_agent.state import (
    AgentState,
    BidClosed,
    BidMade,
    BidWon,
    ClaimClosed,
    ClaimMade,
    ClaimSaidAgain,
    Conflicted,
    Learnt,
    OpenClaim,
    Present,
)
from core.component import NOTHING, Decision, Follow, Images
from core.fact import NO_LOG, Fact, Note
from core.images import RegionImage
from core.messages.agents import AgentPresent, BidSettled, ClaimAnswered, FindBid, PlaceAward, PresenceWanted
from core.messages.base import Envelope, Message, Woken
from core.messages.broker import ExecuteAward, SolicitBid
from core.messages.control import PlaceTasks, RevisionAnswered
from core.messages.queue import Abstention, Bid
from core.messages.store import DeclineAward, SubmitClaim
from core.nouns.ids import AgentName, AttemptKey, ClaimId, LogName, RegionName, WorkloadId, region_log
from core.nouns.instant import Instant, after, earliest
from core.nouns.limits import (
    CLAIM_SPAN,
    CLAIM_TRIES_MAX,
    CLASSES_FRESH,
    CONFLICT_NODES_MAX,
    PREEMPTION_RETRY,
    VIEW_ROWS_MAX,
)
from core.nouns.placement import SEARCH, Claim, Spread, View, takings_of
from core.nouns.reasons import Reason
from core.nouns.workload import JobSpec
from core.placing.answers.bids import score
from core.placing.answers.refusals import no_bid
from core.placing.answers.shortages import Scarce, scarce_for
from core.placing.diagnosis.infeasible import EmptyRegion
from core.placing.pick.nodes import Choice
from core.placing.placer import SECTIONS, Found
from core.placing.pool_set import Asker
from core.placing.preemption.victims import spared_for


class AllocationAgent:
    """One agent of one region."""

    keeps: LogName | None = None
    hears: tuple[type[Message], ...] = (
        FindBid,
        PlaceAward,
        BidSettled,
        ClaimAnswered,
        PlaceTasks,
        RevisionAnswered,
        PresenceWanted,
    )

    def __init__(self, region: RegionName, agent: AgentName) -> None:
        self.region = region
        self.agent = agent
        self.name = f"agent.{region}.{agent}"
        self.noun = "agent"
        self.scope = (region, agent)
        self.follows = (Follow(region_log(region), SECTIONS, with_rows=True),)
        self._deciders: dict[type[Message], Callable[[AgentState, Envelope], Decision]] = {
            Woken: self._woken,
            FindBid: self._find_bid,
            PlaceAward: self._place_award,
            BidSettled: self._bid_settled,
            PlaceTasks: self._place_tasks,
            RevisionAnswered: self._revision_answered,
            ClaimAnswered: self._claim_answered,
            PresenceWanted: self._presence_wanted,
        }

    def initial(self, images: Images) -> AgentState:
        """Return the state with the view of the region's image, without bids and claims."""
        state = AgentState(images.at)
        for image, sequence in images.followed.values():
            assert isinstance(image, RegionImage)
            state.adopt(image, sequence)
        return state

    def due(self, state: AgentState) -> Instant | None:
        """Return the earliest of the next beat, the end of the oldest bid or revision, and the next claim to repeat or retry."""
        caught_up = (since for _, since in _caught_up(state))
        revisions_due = state.revisions.due(state.sequence)
        return earliest(
            state.present_at, state.bids_due.due(), state.claims_due.due(), revisions_due, *caught_up
        )

    def decide(self, state: AgentState, envelope: Envelope) -> Decision:
        """Bid or abstain, claim, or apply an answer of the store."""
        decider = self._deciders.get(type(envelope.message))
        return decider(state, envelope) if decider else NOTHING

    def forget_memos(self, state: AgentState) -> None:
        """Drop all memos: arrays are copied from the image again, and classes are rebuilt."""
        state.placer.forget()
        state.empty = EmptyRegion()

    def evolve(self, state: AgentState, fact: Fact) -> AgentState:
        """Fold one fact of the region, or one note."""
        if fact.log != NO_LOG:
            state.fold(fact)
        else:
            state.note(fact)
        return state

    # Bidding.

    def _find_bid(self, state: AgentState, envelope: Envelope) -> Decision:
        asked = envelope.message
        assert isinstance(asked, FindBid)
        request = asked.request
        if request.auction in state.bids:
            return NOTHING
        choice = Choice(f"{request.auction}.{self.agent}", asked.stripe, asked.stripes, state.window.best)
        found, asker = found_for(state, request, choice, envelope.at)
        if found is Reason.NO_HOST:
            said = abstention_beside(
                self.region, self.agent, request.workload, request.auction, state.sequence
            )
            return Decision(messages=(said,))
        if isinstance(found, Reason):
            return self._abstain(state, request, asker, choice, found, envelope.at)
        view = self._view(state, request.jobs, choice, asker, found)
        bid = Bid(
            self.region,
            self.agent,
            request.workload,
            request.auction,
            score(state.placer.pools, found, envelope.at, state.image.preemption.settings.score),
            found.spreads,
            found.victim_keys,
            view,
        )
        needs = tuple(takings_of(request.jobs, found.spreads, request.beside))
        made = BidMade(request.auction, request.workload, needs, found.victim_keys, request.held_for)
        return Decision(events=(made,), messages=(bid,))

    def _abstain(
        self,
        state: AgentState,
        request: SolicitBid,
        asker: Asker,
        choice: Choice,
        reason: Reason,
        now: Instant,
    ) -> Decision:
        soonest, capacity = at_best(state, request, asker, now), state.image.capacity
        told = no_bid(state.placer, capacity, state.empty, request.jobs, asker, choice, reason, soonest)
        prospect = None
        lacks_capacity = (Reason.NO_CAPACITY, Reason.START_RESERVED, Reason.DESTROYS_TOO_MUCH)
        if request.wants_prospect and told.reason in lacks_capacity:
            prospect = prospect_for(state, request, asker, choice, now)
        again_in = spared_for(capacity, asker.priority, asker.at)
        if told.reason is Reason.DESTROYS_TOO_MUCH:
            again_in = min(again_in or PREEMPTION_RETRY, PREEMPTION_RETRY)
        scarce = scarce_for(request.jobs)
        said = Abstention(
            self.region,
            self.agent,
            request.workload,
            request.auction,
            told.reason,
            state.sequence,
            told.missing_milli if scarce is Scarce.GPU else 0,
            told.shortage,
            again_in=again_in,
            prospect=prospect,
            missing_cpu_milli=told.missing_milli if scarce is Scarce.CPU else 0,
        )
        return Decision(messages=(said,))

    # Claiming.

    def _place_award(self, state: AgentState, envelope: Envelope) -> Decision:
        asked = envelope.message
        assert isinstance(asked, PlaceAward)
        award = asked.award
        key = (award.workload, award.epoch)
        capacity = state.image.capacity
        if key in state.claims or capacity.holding(*key) is not None or capacity.promise(*key) is not None:
            return NOTHING
        spreads, victims = award.spreads, award.victims
        view = award.view
        if not spreads or max(max(spread.nodes) for spread in spreads) >= len(capacity.node_type):
            seed = f"{award.workload}.{award.epoch}.{self.agent}.1"
            choice = Choice(seed, asked.stripe, asked.stripes, state.window.best)
            found, asker = found_for(state, award, choice, envelope.at)
            if isinstance(found, Reason):
                return self._give_back(award.workload, award.epoch, award.award_sequence, found)
            spreads, victims = found.spreads, found.victim_keys
            view = self._view(state, award.jobs, choice, asker, found)
        claim = self._claim(award, spreads, victims, view)
        return Decision(events=(ClaimMade(claim, 1),), messages=(SubmitClaim(self.region, claim),))

    def _claim(
        self, award: ExecuteAward, spreads: tuple[Spread, ...], victims: tuple[AttemptKey, ...], view: View
    ) -> Claim:
        return Claim(
            claim=ClaimId(f"{award.workload}.{award.epoch}.{self.agent}.1"),
            region=self.region,
            agent=self.agent,
            workload=award.workload,
            epoch=award.epoch,
            award_sequence=award.award_sequence,
            priority=award.priority,
            kind=award.kind,
            jobs=award.jobs,
            spreads=spreads,
            view=view,
            victims=victims,
            resume_epoch=award.resume_epoch,
            resume_step=award.resume_step,
            grace=award.grace,
            max_duration=award.max_duration,
            tenant=award.tenant,
            control=award.control,
            spec_revision=award.spec_revision,
            failures_max=award.failures_max,
            is_healing=award.is_healing,
            is_incremental=award.is_incremental,
            standing_revision=award.standing_revision,
            run_min=award.run_min,
            beside=award.beside,
        )

    def _view(
        self,
        state: AgentState,
        jobs: tuple[JobSpec, ...],
        choice: Choice,
        asker: Asker,
        found: Found,
        without: Iterable[object] = (),
    ) -> View:
        """Return the view from which a choice was made: the log's sequence, and all knowledge beside the log."""
        open_bids = tuple(bid.workload for bid in state.bids.values())
        rows = state.overlay.rows(state.image.capacity, without)
        owners = state.placer.owners_beside(jobs, without)
        spared = sorted(state.overlay.victims(without))
        return View(
            state.sequence,
            open_bids,
            tuple(state.claims),
            rows[:VIEW_ROWS_MAX],
            choice.seed,
            choice.stripe,
            choice.stripes,
            choice.best,
            is_whole=max(len(rows), len(owners), len(spared)) <= VIEW_ROWS_MAX,
            settings_revision=state.image.pools.revision,
            search=SEARCH,
            owners=owners[:VIEW_ROWS_MAX],
            prices_revision=state.image.prices.revision,
            barred=asker.barred,
            at=asker.at,
            is_as_reserved=found.is_as_reserved,
            spared=tuple(spared[:VIEW_ROWS_MAX]),
        )

    def _claim_answered(self, state: AgentState, envelope: Envelope) -> Decision:
        answer = envelope.message
        assert isinstance(answer, ClaimAnswered)
        key = (answer.workload, answer.epoch)
        open_claim = state.claims.get(key)
        if open_claim is None or answer.claim != open_claim.claim.claim:
            return NOTHING  # Late or repeated: that claim is settled.
        learnt = Learnt(answer.rows, answer.sequence)
        if answer.verdict == "refused" and answer.reason not in (
            Reason.AWARD_NOT_STANDING,
            Reason.SUPERSEDED,
        ):
            return self._give_up(open_claim, Reason(answer.reason), learnt)
        if answer.verdict != "conflict":
            is_granted = answer.verdict in ("granted", "promised")
            closed = ClaimClosed(key, is_granted, answer.sequence if is_granted else -1)
            # After a partial grant the rows are of nodes without capacity for the rest: the next search must know.
            return Decision(events=(learnt, closed) if answer.rows else (closed,))
        nodes = tuple(row.node for row in answer.rows)
        met = replace(open_claim, conflict=answer.reason, nodes=nodes)
        is_late = after(open_claim.since, CLAIM_SPAN) <= envelope.at
        if open_claim.tries >= CLAIM_TRIES_MAX or is_late:
            return self._give_up(met, Reason.CONFLICTS_EXHAUSTED, learnt)
        if key in state.conflicted:
            # The claim already waits for its view. If each repeated answer deferred that, a lagging view would never catch up.
            return Decision(events=(learnt,))
        if answer.sequence > state.sequence:
            return Decision(events=(learnt, Conflicted(key, answer.sequence, answer.reason, nodes)))
        return self._try_again(state, met, envelope.at)

    def _try_again(self, state: AgentState, open_claim: OpenClaim, now: Instant) -> Decision:
        """Search again on a view that includes the conflict, and claim; without a place, decline the award."""
        claim = open_claim.claim
        key = (claim.workload, claim.epoch)
        tries = open_claim.tries + 1
        seed = f"{claim.workload}.{claim.epoch}.{self.agent}.{tries}"
        choice = Choice(seed, claim.view.stripe, claim.view.stripes, state.window.best)
        own = (("claim", key), ("revision", key))
        found, asker = found_for(state, claim, choice, now, own)
        if isinstance(found, Reason):
            return self._give_up(open_claim, found)
        again = replace(
            claim,
            claim=ClaimId(f"{claim.workload}.{claim.epoch}.{self.agent}.{tries}"),
            spreads=found.spreads,
            victims=found.victim_keys,
            view=self._view(state, claim.jobs, choice, asker, found, own),
        )
        made = ClaimMade(again, tries, open_claim.conflict, open_claim.nodes)
        return Decision(events=(made,), messages=(SubmitClaim(self.region, again),))

    def _give_up(self, open_claim: OpenClaim, reason: Reason, *learnt: Learnt) -> Decision:
        claim = open_claim.claim
        key = (claim.workload, claim.epoch)
        nodes = open_claim.nodes[:CONFLICT_NODES_MAX]
        back = DeclineAward(
            self.region, *key, claim.award_sequence, reason, open_claim.tries, open_claim.conflict, nodes
        )
        return Decision((*learnt, ClaimClosed(key)), (back,))

    def _give_back(self, workload: WorkloadId, epoch: int, award_sequence: int, reason: Reason) -> Decision:
        """Decline an award that has no claim. If the message is lost, the queue's repeated award causes another."""
        return Decision(messages=(DeclineAward(self.region, workload, epoch, award_sequence, reason),))

    def _bid_settled(self, state: AgentState, envelope: Envelope) -> Decision:
        settled = envelope.message
        assert isinstance(settled, BidSettled)
        if settled.auction not in state.bids:
            return NOTHING
        return Decision(events=((BidWon if settled.has_won else BidClosed)(settled.auction),))

    # Tasks of running attempts.

    def _place_tasks(self, state: AgentState, envelope: Envelope) -> Decision:
        asked = envelope.message
        assert isinstance(asked, PlaceTasks)
        return self._places(state, envelope.at).place(asked)

    def _revision_answered(self, state: AgentState, envelope: Envelope) -> Decision:
        answer = envelope.message
        assert isinstance(answer, RevisionAnswered)
        decision = self._places(state, envelope.at).answered(answer)
        if not decision.events or not answer.rows:
            return decision
        return Decision((Learnt(answer.rows, answer.sequence), *decision.events), decision.messages)

    def _places(self, state: AgentState, now: Instant) -> TaskPlaces:
        return TaskPlaces(
            self.region, self.agent, state.revisions, state.placer, state.image.capacity, state.sequence, now
        )

    # Time.

    def _presence_wanted(self, state: AgentState, envelope: Envelope) -> Decision:
        return Decision(events=(Present(),), messages=(AgentPresent(self.region, self.agent),))

    def _woken(self, state: AgentState, envelope: Envelope) -> Decision:
        for key, _ in _caught_up(state):
            # One at a time: the next search must see this claim.
            return self._try_again(state, state.claims[key], envelope.at)
        now = envelope.at
        placed = self._places(state, now).woken(now)
        if placed is not None:
            return placed
        events: list[Note] = [BidClosed(auction) for auction in state.bids_due.passed(now)]
        messages: list[Message] = []
        for key in state.claims_due.passed(now):
            claim = state.claims[key].claim
            if (
                state.image.capacity.holding(*key) is not None
                or state.image.capacity.promise(*key) is not None
            ):
                events.append(ClaimClosed(key))  # The answer was lost, and the log shows the outcome.
            else:
                events.append(ClaimSaidAgain(key))
                messages.append(SubmitClaim(self.region, claim))
        if state.present_at <= now:
            state.placer.refresh_classes(CLASSES_FRESH)
            events.append(Present())
            messages.append(AgentPresent(self.region, self.agent))
        return Decision(tuple(events), tuple(messages))


def _caught_up(state: AgentState) -> list[tuple[AttemptKey, Instant]]:
    """Return the claims that can be tried again, each with the time since which it waits."""
    return [(key, wait.since) for key, wait in state.conflicted.items() if wait.sequence <= state.sequence]
