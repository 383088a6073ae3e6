"""The allocation agent: searches its whole region on its own view, bids, and claims the capacity of its awards.

The agent keeps no log and cannot grant. The capacity of an open bid counts as taken until the auction is settled or the bid
is old, so that one agent does not offer the same capacity twice; granted capacity counts as taken until the log shows the
grant. A claim is repeated until the store answers. After a conflict the agent uses the rows of the answer for its bids,
catches up to the answer's sequence, and searches again, at most `CLAIM_TRIES_MAX` times in all and for `CLAIM_SPAN`; then
the agent declines the award and names the last conflict.

components/allocation_agent/relocations.py finds new nodes for independent tasks of running attempts.
"""

from collections.abc import Callable

from msgspec.structs import replace

from components.allocation_agent.guests import abstention_beside
from components.allocation_agent.partitions import (
    NOTHING_FOUND,
    before_search,
    can_serve,
    choice_again,
    choice_for,
    counted,
    figures_of,
    handed_back,
    search,
    take_in_all,
    with_whole_wait,
)
from components.allocation_agent.relocations import TaskPlaces
from components.allocation_agent.reservation_search import at_best, found_for, prospect_for
from components.allocation_agent.state import (
    AgentState,
    BidClosed,
    BidWon,
    ClaimClosed,
    ClaimMade,
    ClaimSaidAgain,
    Conflicted,
    Counted,
    Learnt,
    OpenClaim,
    Present,
    PutAside,
    Served,
)
from components.allocation_agent.views import bid_for, claim_again, claim_for, view_by_rows, view_of
from core.component import NOTHING, Decision, Follow, Images
from core.fact import NO_LOG, Fact, Note
from core.images import RegionImage
from core.messages.agents import (
    AgentPresent,
    AwardHandedBack,
    BidSettled,
    ClaimAnswered,
    FindBid,
    PlaceAward,
    PresenceWanted,
    RequestHandedBack,
)
from core.messages.base import Envelope, Message, Woken
from core.messages.broker import SolicitBid
from core.messages.control import PlaceTasks, RevisionAnswered
from core.messages.queue import Abstention
from core.messages.store import DeclineAward, SubmitClaim
from core.nouns.agents import Turn
from core.nouns.ids import AgentName, AttemptKey, LogName, RegionName, region_log
from core.nouns.instant import Instant, Nanoseconds, after, earliest
from core.nouns.limits import (
    CLAIM_SPAN,
    CLASSES_FRESH,
    CONFLICT_NODES_MAX,
    PREEMPTION_RETRY,
)
from core.nouns.placement import Spread, View
from core.nouns.reasons import Reason
from core.placing.answers.refusals import no_bid
from core.placing.answers.shortages import Scarce, scarce_for
from core.placing.believed import WANTED, Believed
from core.placing.diagnosis.infeasible import EmptyRegion
from core.placing.pick.nodes import Choice
from core.placing.placer import SECTIONS, Found
from core.placing.pool_set import Asker, asker_of
from core.placing.preemption.victims import spared_for
from core.rules.agents.full import needs_full


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
        self._follows_rows = (Follow(region_log(region), SECTIONS, with_rows=True, facts=WANTED),)
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

    def follows_now(self, state: AgentState) -> tuple[Follow, ...]:
        """Return how the region's log is to be followed: all facts, or few facts and the rows."""
        return self._follows_rows if state.has_rows_alone else self.follows

    def initial(self, images: Images) -> AgentState:
        """Return the state with the view of the region's image, without bids and claims."""
        state = AgentState(images.at)
        for image, sequence in images.followed.values():
            assert isinstance(image, RegionImage)
            state.adopt(image, sequence)
        return state

    def due(self, state: AgentState) -> Instant | None:
        """Return the earliest of the next beat, the end of the oldest bid or revision, and the next claim to repeat or retry."""
        if can_serve(state):
            return state.waiting[0].since
        caught_up = (since for _, since in _caught_up(state))
        revisions_due = state.revisions.due(state.sequence)
        return earliest(
            state.present_at, state.bids_due.due(), state.claims_due.due(), revisions_due, *caught_up
        )

    def decide(self, state: AgentState, envelope: Envelope) -> Decision:
        """Bid or abstain, claim, or apply an answer of the store."""
        decider, envelope = self._deciders.get(type(envelope.message)), with_whole_wait(envelope)
        return counted(decider(state, envelope), envelope) if decider else NOTHING

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
        first = before_search(state, asked, asked.turn, envelope)
        if first is not None:
            return first
        choice = choice_for(state, f"{request.auction}.{self.agent}", asked.turn)
        if state.believed is not None:
            return self._bid_by_rows(state, state.believed, asked, choice, envelope)
        found, asker = found_for(state, request, choice, envelope.at)
        if found is Reason.NO_HOST:
            said = abstention_beside(
                self.region, self.agent, request.workload, request.auction, state.sequence
            )
            return Decision(messages=(said,))
        if isinstance(found, Reason):
            return self._abstain(state, request, asker, choice, found, envelope.at)
        view = view_of(state, request.jobs, choice, asker, found)
        return self._bid(state, request, found, view, envelope.at)

    def _bid(
        self, state: AgentState, request: SolicitBid, found: Found, view: View, now: Instant, *notes: Note
    ) -> Decision:
        bid, made = bid_for(self.region, self.agent, state, request, found, view, now)
        return Decision(events=(made, *notes), messages=(bid,))

    def _bid_by_rows(
        self, state: AgentState, believed: Believed, asked: FindBid, choice: Choice, envelope: Envelope
    ) -> Decision:
        """Bid for a place that rows alone show, or hand the request back."""
        request, back = asked.request, RequestHandedBack(self.region, self.agent, asked.request)
        if needs_full(request) or request.wants_prospect or request.spares_all:
            return Decision((Counted(envelope.waited, is_handed_back=True),), (back,))
        asker = asker_of(request, envelope.at)
        searched = search(state, believed, request.jobs, asker, choice, envelope.waited)
        if searched.wants_all:
            since = Instant(envelope.at - envelope.waited)
            return Decision((take_in_all(believed), PutAside(asked, since)))
        if searched.found is None:
            return Decision((Counted(envelope.waited, is_handed_back=True),), (back,))
        view = view_by_rows(state, believed, choice, asker, searched)
        count = Counted(envelope.waited, quality_permille=searched.quality_permille)
        return self._bid(state, request, searched.found, view, envelope.at, count)

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
        is_settled = capacity.holding(*key) is not None or capacity.promise(*key) is not None
        if key in state.claims or key in state.granted or is_settled:
            return NOTHING
        first = before_search(state, asked, asked.turn, envelope)
        if first is not None:
            return first
        if award.spreads and max(max(spread.nodes) for spread in award.spreads) < len(capacity.node_type):
            return self._claimed(asked, envelope, award.spreads, award.victims, award.view)
        seed = f"{award.workload}.{award.epoch}.{self.agent}.{asked.tries + 1}"
        choice = choice_for(state, seed, asked.turn)
        if state.believed is not None:
            return self._place_by_rows(state, state.believed, asked, choice, envelope)
        found, asker = found_for(state, award, choice, envelope.at)
        if isinstance(found, Reason):
            # If the message is lost, the queue's repeated award causes another.
            key_and_award = (award.workload, award.epoch, award.award_sequence)
            return Decision(messages=(DeclineAward(self.region, *key_and_award, found),))
        view = view_of(state, award.jobs, choice, asker, found)
        return self._claimed(asked, envelope, found.spreads, found.victim_keys, view)

    def _place_by_rows(
        self, state: AgentState, believed: Believed, asked: PlaceAward, choice: Choice, envelope: Envelope
    ) -> Decision:
        """Claim a place that rows alone show, or hand the award back."""
        award, asker = asked.award, asker_of(asked.award, envelope.at)
        searched = NOTHING_FOUND
        if not needs_full(award, award.victims):
            searched = search(state, believed, award.jobs, asker, choice, envelope.waited)
        if searched.wants_all:
            since = Instant(envelope.at - envelope.waited)
            return Decision((take_in_all(believed), PutAside(asked, since)))
        count = Counted(envelope.waited, searched.found is None, searched.quality_permille)
        if searched.found is None:
            return Decision((count,), (AwardHandedBack(self.region, self.agent, award, asked.tries),))
        view = view_by_rows(state, believed, choice, asker, searched)
        return self._claimed(asked, envelope, searched.found.spreads, (), view, count)

    def _claimed(
        self,
        asked: PlaceAward,
        envelope: Envelope,
        spreads: tuple[Spread, ...],
        victims: tuple[AttemptKey, ...],
        view: View,
        *notes: Note,
    ) -> Decision:
        tries = asked.tries + 1
        claim = claim_for(self.region, self.agent, asked.award, spreads, victims, view, tries)
        made = ClaimMade(claim, tries, award=asked.award, waited=envelope.waited)
        return Decision((made, *notes), (SubmitClaim(self.region, claim),))

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
            return self._give_up(open_claim, Reason(answer.reason), learnt, is_conflict=False)
        if answer.verdict != "conflict":
            is_granted = answer.verdict in ("granted", "promised")
            closed = ClaimClosed(key, is_granted, answer.sequence if is_granted else -1)
            # After a partial grant the rows are of nodes without capacity for the rest: the next search must know.
            return Decision(events=(learnt, closed) if answer.rows else (closed,))
        nodes = tuple(row.node for row in answer.rows)
        met = replace(open_claim, conflict=answer.reason, nodes=nodes)
        is_late = after(open_claim.since, CLAIM_SPAN) <= envelope.at
        if open_claim.tries >= state.image.agents.settings.tries or is_late:
            return self._give_up(met, Reason.CONFLICTS_EXHAUSTED, learnt)
        if key in state.conflicted:
            # The claim already waits for its view. If each repeated answer deferred that, a lagging view would never catch up.
            return Decision(events=(learnt,))
        if state.believed is not None:
            # The answer has the rows, and newer ones of their partition may be long in coming.
            again = Conflicted(key, state.sequence, answer.reason, nodes)
            return Decision(events=(learnt, again)) if nodes else self._hand_back(met)
        if answer.sequence > state.sequence:
            return Decision(events=(learnt, Conflicted(key, answer.sequence, answer.reason, nodes)))
        return self._try_again(state, met, envelope.at)

    def _try_again(self, state: AgentState, open_claim: OpenClaim, now: Instant) -> Decision:
        """Search again on a view that includes the conflict, and claim; without a place, decline the award."""
        claim = open_claim.claim
        key = (claim.workload, claim.epoch)
        tries = open_claim.tries + 1
        choice = choice_again(state, f"{claim.workload}.{claim.epoch}.{self.agent}.{tries}", claim.view)
        own = (("claim", key), ("revision", key))
        if state.believed is not None:
            return self._try_by_rows(state, state.believed, open_claim, choice, now, own)
        found, asker = found_for(state, claim, choice, now, own)
        if isinstance(found, Reason):
            return self._give_up(open_claim, found)
        return self._claim_again(open_claim, found, view_of(state, claim.jobs, choice, asker, found, own))

    def _try_by_rows(
        self,
        state: AgentState,
        believed: Believed,
        open_claim: OpenClaim,
        choice: Choice,
        now: Instant,
        own: tuple[object, ...],
    ) -> Decision:
        """Search again by rows alone, and claim; without a place, hand the award back to the broker."""
        claim = open_claim.claim
        asker = asker_of(claim, now)
        waited = Nanoseconds(open_claim.waited + now - open_claim.since)
        searched = search(state, believed, claim.jobs, asker, choice, waited, own)
        if searched.wants_all:
            return Decision(events=(take_in_all(believed),))
        if searched.found is None or needs_full(claim, claim.victims):
            return self._hand_back(open_claim)
        view = view_by_rows(state, believed, choice, asker, searched, own)
        count = Counted(waited, quality_permille=searched.quality_permille, is_again=True)
        return self._claim_again(open_claim, searched.found, view, count)

    def _hand_back(self, open_claim: OpenClaim) -> Decision:
        """Return the award of a claim to the broker, which gives the award to a full agent."""
        if open_claim.award is None:
            return self._give_up(open_claim, Reason.CONFLICTS_EXHAUSTED)
        return handed_back(self.region, self.agent, open_claim, open_claim.award)

    def _claim_again(self, open_claim: OpenClaim, found: Found, view: View, *notes: Note) -> Decision:
        tries = open_claim.tries + 1
        again = claim_again(open_claim.claim, tries, found, view)
        made = ClaimMade(again, tries, open_claim.conflict, open_claim.nodes)
        return Decision(events=(made, *notes), messages=(SubmitClaim(self.region, again),))

    def _give_up(
        self, open_claim: OpenClaim, reason: Reason, *learnt: Learnt, is_conflict: bool = True
    ) -> Decision:
        claim = open_claim.claim
        key = (claim.workload, claim.epoch)
        nodes = open_claim.nodes[:CONFLICT_NODES_MAX]
        back = DeclineAward(
            self.region, *key, claim.award_sequence, reason, open_claim.tries, open_claim.conflict, nodes
        )
        return Decision((*learnt, ClaimClosed(key, is_conflict=is_conflict)), (back,))

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
        first = before_search(state, asked, Turn(), envelope)
        return first if first is not None else self._places(state, envelope.at).place(asked)

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
        said = AgentPresent(self.region, self.agent, figures_of(state, envelope.at))
        return Decision(events=(Present(),), messages=(said,))

    def _serve(self, state: AgentState, now: Instant) -> Decision:
        """Decide the first request that waited for rows or an image."""
        first = state.waiting[0]
        waited = Nanoseconds(max(0, now - first.since))
        envelope = Envelope(first.request, self.name, f"{self.name}.waited", now, waited=waited)
        decision = counted(self._deciders[type(first.request)](state, envelope), envelope)
        return Decision((Served(), *decision.events), decision.messages)

    def _woken(self, state: AgentState, envelope: Envelope) -> Decision:
        if can_serve(state):
            return self._serve(state, envelope.at)
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
            messages.append(AgentPresent(self.region, self.agent, figures_of(state, now)))
        return Decision(tuple(events), tuple(messages))


def _caught_up(state: AgentState) -> list[tuple[AttemptKey, Instant]]:
    """Return the claims that can be tried again, each with the time since which it waits."""
    return [(key, wait.since) for key, wait in state.conflicted.items() if wait.sequence <= state.sequence]
