"""The allocation agent: searches its whole region on its own view, bids, and claims what it was awarded.

It owns nothing and grants nothing. An open bid is counted as taken until the auction is settled or the bid is old, so that
one agent does not offer the same room twice. A claim is said again until the store answers; after a conflict the agent
believes the rows in the answer for what it bids meanwhile, catches up to its sequence, and tries elsewhere, at most
`CLAIM_TRIES_MAX` times. Tasks of attempts that run already it finds new nodes in components/task_places.py.
"""

from collections.abc import Callable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from components.task_places import (
    OpenRevisions,
    RevisionClosed,
    RevisionConflicted,
    RevisionMade,
    TaskPlaces,
)
from core.agenda import Agenda
from core.component import NOTHING, Decision, Follow, ImageAdopted, Images, RowsTold
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
from core.nouns.limits import CLAIM_SAY_AGAIN, CLAIM_TRIES_MAX, OPEN_BID_SPAN, PRESENCE_INTERVAL
from core.nouns.placement import Claim, NodeRow, Spread, View, needs_of
from core.nouns.quantities import Amount
from core.nouns.reasons import Reason
from core.nouns.workload import JobSpec
from core.rows import unpack_rows
from core.search import (
    Victim,
    find_spreads,
    find_with_victims,
    missing_gpu_milli,
    room_over_all,
    score,
    shortage_of,
)
from core.touched import touched_by
from core.view import NodeView, Room


class BidMade(Note, frozen=True):
    """A bid was made: its room counts as taken."""

    auction: str
    workload: WorkloadId
    needs: tuple[tuple[int, Amount], ...]


class BidClosed(Note, frozen=True):
    """A bid is settled, or too old to count."""

    auction: str


class ClaimMade(Note, frozen=True):
    """A claim was said to the store, the first time or after a conflict."""

    claim: Claim
    tries: int


class ClaimSaidAgain(Note, frozen=True):
    """The store did not answer yet."""

    key: AttemptKey


class ClaimClosed(Note, frozen=True):
    """The store answered for good, or the agent gave the award back."""

    key: AttemptKey


class Conflicted(Note, frozen=True):
    """The claim's room was taken; the next try waits until the view is as new as what took it."""

    key: AttemptKey
    sequence: int
    """Of the region's log: how far to catch up."""


class Learnt(Note, frozen=True):
    """Rows that the store says hold from this sequence on."""

    rows: tuple[NodeRow, ...]
    sequence: int


class Present(Note, frozen=True):
    """The broker was told that this agent is there."""


class OpenBid(Struct):
    """A bid that may still win."""

    workload: WorkloadId
    needs: tuple[tuple[int, Amount], ...]


class OpenClaim(Struct):
    """A claim that is not answered yet."""

    claim: Claim
    tries: int


class CatchUp(Struct, frozen=True):
    """What a claim that met a conflict waits for."""

    sequence: int
    since: Instant


class AgentState:
    """The region's capacity, an index over it, and what this agent has said."""

    def __init__(self, at: Instant) -> None:
        self.image = RegionImage.empty(("capacity",))
        self.sequence = 0
        self.view = NodeView(self.image.capacity)
        self.bids: dict[str, OpenBid] = {}
        self.bids_due: Agenda[str] = Agenda()
        self.claims: dict[AttemptKey, OpenClaim] = {}
        self.claims_due: Agenda[AttemptKey] = Agenda()
        self.conflicted: dict[AttemptKey, CatchUp] = {}
        self.revisions = OpenRevisions()
        self.learnt: dict[int, tuple[NodeRow, int]] = {}
        self.present_at = at


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
        self.follows = (Follow(region_log(region), ("capacity",), with_rows=True),)
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
        """The view that the region's image gives; no bids, no claims."""
        state = AgentState(images.at)
        for image, sequence in images.followed.values():
            assert isinstance(image, RegionImage)
            self._adopt(state, image, sequence)
        return state

    def due(self, state: AgentState) -> Instant | None:
        """The next beat, the oldest bid's end, the next claim to say again, the next to try again."""
        caught_up = (since for _, since in _caught_up(state))
        revisions_due = state.revisions.due(state.sequence)
        return earliest(
            state.present_at, state.bids_due.due(), state.claims_due.due(), revisions_due, *caught_up
        )

    def decide(self, state: AgentState, envelope: Envelope) -> Decision:
        """Bid or abstain; claim; believe the store."""
        decider = self._deciders.get(type(envelope.message))
        return decider(state, envelope) if decider else NOTHING

    def forget_memos(self, state: AgentState) -> None:
        """The arrays are copied from the image anew."""
        state.view.forget()

    # Folding.

    def evolve(self, state: AgentState, fact: Fact) -> AgentState:
        """Fold one fact of the region, or one note."""
        if fact.log != NO_LOG:
            touched = touched_by(state.image.capacity, fact)
            state.image.fold(fact)
            state.sequence = fact.sequence
            state.view.touch(touched)
            self._unlearn(state)
            return state
        match fact.event:
            case BidMade(auction, workload, needs):
                state.bids[auction] = OpenBid(workload, needs)
                state.bids_due.put(auction, after(fact.at, OPEN_BID_SPAN))
            case BidClosed(auction):
                state.bids.pop(auction, None)
                state.bids_due.drop(auction)
            case ClaimMade(claim, tries):
                key = (claim.workload, claim.epoch)
                self._close_bids_of(state, claim.workload)
                state.claims[key] = OpenClaim(claim, tries)
                state.claims_due.put(key, after(fact.at, CLAIM_SAY_AGAIN))
                state.conflicted.pop(key, None)
            case ClaimSaidAgain(key):
                state.claims_due.put(key, after(fact.at, CLAIM_SAY_AGAIN))
            case ClaimClosed(key):
                state.claims.pop(key, None)
                state.claims_due.drop(key)
                state.conflicted.pop(key, None)
            case Conflicted(key, sequence):
                state.conflicted[key] = CatchUp(sequence, fact.at)
            case RevisionMade() | RevisionConflicted() | RevisionClosed():
                state.revisions.note(fact.event, fact.at)
            case Learnt(rows, sequence):
                for row in rows:
                    if sequence > state.sequence and sequence >= state.learnt.get(row.node, (row, 0))[1]:
                        state.learnt[row.node] = (row, sequence)
            case Present():
                state.present_at = after(fact.at, PRESENCE_INTERVAL)
            case RowsTold(_, sequence, rows):
                if sequence == state.sequence:
                    state.view.put_rows(unpack_rows(rows))
            case ImageAdopted(_, image, sequence):
                assert isinstance(image, RegionImage)
                self._adopt(state, image, sequence)
        return state

    def _adopt(self, state: AgentState, image: RegionImage, sequence: int) -> None:
        state.image = image
        state.sequence = sequence
        state.view = NodeView(image.capacity)
        self._unlearn(state)

    def _close_bids_of(self, state: AgentState, workload: WorkloadId) -> None:
        """From here on the claim counts as taken, and its bid no longer."""
        for auction in [auction for auction, bid in state.bids.items() if bid.workload == workload]:
            del state.bids[auction]
            state.bids_due.drop(auction)

    def _unlearn(self, state: AgentState) -> None:
        """What the log itself has told by now needs no learning."""
        for node in [node for node, (_, sequence) in state.learnt.items() if sequence <= state.sequence]:
            del state.learnt[node]

    # Bidding.

    def _find_bid(self, state: AgentState, envelope: Envelope) -> Decision:
        asked = envelope.message
        assert isinstance(asked, FindBid)
        request = asked.request
        if request.auction in state.bids:
            return NOTHING
        room = self._room(state)
        found = self._search(state, room, request.jobs, request.priority)
        if isinstance(found, Reason):
            return self._abstain(state, request, found)
        spreads, victims = found
        vector = score(state.view, room, spreads, victims, envelope.at)
        keys = tuple((workload, epoch) for workload, epoch, _ in victims)
        bid = Bid(
            self.region, self.agent, request.workload, request.auction, vector, spreads, keys, state.sequence
        )
        needs = tuple(_needs(request.jobs, spreads).items())
        return Decision(events=(BidMade(request.auction, request.workload, needs),), messages=(bid,))

    def _abstain(self, state: AgentState, request: SolicitBid, reason: Reason) -> Decision:
        """With `open_bids` if the room is there but offered to others.

        What is missing is counted beyond all that could be had without anything being freed: offers that come to nothing,
        and who could be pushed out. Otherwise the refusal could hold after it would fit.
        """
        missing = 0
        shortage = shortage_of(state.view, self._room(state), request.jobs)
        if reason == Reason.NO_CAPACITY:
            if (state.bids or state.claims or state.revisions.rows) and self._would_fit(state, request):
                reason = Reason.OPEN_BIDS
            else:
                room = room_over_all(self._free_room(state), state.image.capacity, request.priority)
                missing = missing_gpu_milli(state.view, room, request.jobs)
        said = Abstention(
            self.region,
            self.agent,
            request.workload,
            request.auction,
            reason,
            state.sequence,
            missing,
            shortage,
        )
        return Decision(messages=(said,))

    def _would_fit(self, state: AgentState, request: SolicitBid) -> bool:
        """If all that is offered and claimed came to nothing."""
        return not isinstance(
            self._search(state, self._free_room(state), request.jobs, request.priority), Reason
        )

    def _search(
        self, state: AgentState, room: Room, jobs: tuple[JobSpec, ...], priority: int
    ) -> tuple[tuple[Spread, ...], list[Victim]] | Reason:
        """Free room first; only then whom it could push out. Leaves `room` as it was."""
        spreads = find_spreads(state.view, room.copy(), jobs)
        if not isinstance(spreads, Reason):
            return spreads, []
        if spreads == Reason.NO_SUCH_HARDWARE:
            return spreads
        return find_with_victims(state.view, room, state.image.capacity, jobs, priority)

    def _free_room(self, state: AgentState) -> Room:
        room = state.view.room()
        for row, _ in state.learnt.values():
            if row.node < len(room.gpu):
                room.set(row)
        return room

    def _room(self, state: AgentState, but_for: AttemptKey | None = None) -> Room:
        """What is available to a new bid: neither offered in an open one nor claimed already, but for this attempt."""
        room = self._free_room(state)
        for bid in state.bids.values():
            room.take(bid.needs)
        for key, claim in state.claims.items():
            if key != but_for and state.image.capacity.holding(*key) is None:
                room.take(needs_of(claim.claim).items())
        room.take(state.revisions.taken(state.image.capacity, but_for))
        return room

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
        if not spreads or max(max(spread.nodes) for spread in spreads) >= len(capacity.node_type):
            found = self._search(state, self._room(state), award.jobs, award.priority)
            if isinstance(found, Reason):
                return self._give_back(award.workload, award.epoch, award.award_sequence, found)
            spreads, victims = found[0], tuple((workload, epoch) for workload, epoch, _ in found[1])
        # As bid, it is compared with what was known then.
        is_as_bid = spreads is award.spreads
        known = award.view_sequence if is_as_bid else state.sequence
        claim = self._claim(state, award, spreads, victims, known)
        return Decision(events=(ClaimMade(claim, 1),), messages=(SubmitClaim(self.region, claim),))

    def _claim(
        self,
        state: AgentState,
        award: ExecuteAward,
        spreads: tuple[Spread, ...],
        victims: tuple[AttemptKey, ...],
        view_sequence: int,
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
            view=self._view(state, view_sequence),
            victims=victims,
            resume_epoch=award.resume_epoch,
            resume_step=award.resume_step,
            grace=award.grace,
            max_duration=award.max_duration,
            tenant=award.tenant,
            control=award.control,
            spec_revision=award.spec_revision,
            failures_max=award.failures_max,
        )

    def _view(self, state: AgentState, sequence: int) -> View:
        open_bids = tuple(bid.workload for bid in state.bids.values())
        learnt = tuple(row for row, _ in state.learnt.values())
        return View(sequence, open_bids, tuple(state.claims), learnt, seed=self.name)

    def _claim_answered(self, state: AgentState, envelope: Envelope) -> Decision:
        answer = envelope.message
        assert isinstance(answer, ClaimAnswered)
        key = (answer.workload, answer.epoch)
        open_claim = state.claims.get(key)
        if open_claim is None or answer.claim != open_claim.claim.claim:
            return NOTHING  # Late, or repeated: the claim it answers is settled.
        learnt = Learnt(answer.rows, answer.sequence)
        if answer.verdict == "refused" and answer.reason not in (
            Reason.AWARD_NOT_STANDING,
            Reason.SUPERSEDED,
        ):
            return self._give_up(open_claim, Reason(answer.reason), learnt)
        if answer.verdict != "conflict":
            return Decision(events=(ClaimClosed(key),))
        if open_claim.tries >= CLAIM_TRIES_MAX:
            return self._give_up(open_claim, Reason.CONFLICTS_EXHAUSTED, learnt)
        if answer.sequence > state.sequence:
            return Decision(events=(learnt, Conflicted(key, answer.sequence)))
        return self._try_again(state, open_claim)

    def _try_again(self, state: AgentState, open_claim: OpenClaim) -> Decision:
        """Search anew, on a view that knows what the claim conflicted with."""
        claim = open_claim.claim
        key = (claim.workload, claim.epoch)
        found = self._search(state, self._room(state, but_for=key), claim.jobs, claim.priority)
        if isinstance(found, Reason):
            return self._give_up(open_claim, found)
        tries = open_claim.tries + 1
        again = replace(
            claim,
            claim=ClaimId(f"{claim.workload}.{claim.epoch}.{self.agent}.{tries}"),
            spreads=found[0],
            victims=tuple((workload, epoch) for workload, epoch, _ in found[1]),
            view=self._view(state, state.sequence),
        )
        return Decision(events=(ClaimMade(again, tries),), messages=(SubmitClaim(self.region, again),))

    def _give_up(self, open_claim: OpenClaim, reason: Reason, *learnt: Learnt) -> Decision:
        claim = open_claim.claim
        back = self._give_back(claim.workload, claim.epoch, claim.award_sequence, reason)
        return Decision((*learnt, ClaimClosed((claim.workload, claim.epoch))), back.messages)

    def _give_back(self, workload: WorkloadId, epoch: int, award_sequence: int, reason: Reason) -> Decision:
        """Lost, it is said again when the queue says its award again."""
        return Decision(messages=(DeclineAward(self.region, workload, epoch, award_sequence, reason),))

    def _bid_settled(self, state: AgentState, envelope: Envelope) -> Decision:
        settled = envelope.message
        assert isinstance(settled, BidSettled)
        if settled.auction not in state.bids or settled.has_won:
            return NOTHING  # A bid that won stays counted until its claim is made, or it grows old.
        return Decision(events=(BidClosed(settled.auction),))

    # Tasks of what runs.

    def _place_tasks(self, state: AgentState, envelope: Envelope) -> Decision:
        asked = envelope.message
        assert isinstance(asked, PlaceTasks)
        return self._places(state).place(asked)

    def _revision_answered(self, state: AgentState, envelope: Envelope) -> Decision:
        answer = envelope.message
        assert isinstance(answer, RevisionAnswered)
        decision = self._places(state).answered(answer)
        if not decision.events or not answer.rows:
            return decision
        return Decision((Learnt(answer.rows, answer.sequence), *decision.events), decision.messages)

    def _places(self, state: AgentState) -> TaskPlaces:
        capacity, sequence = state.image.capacity, state.sequence
        room = partial(self._room, state)
        return TaskPlaces(self.region, self.agent, state.revisions, state.view, capacity, sequence, room)

    # Time.

    def _presence_wanted(self, state: AgentState, envelope: Envelope) -> Decision:
        return Decision(events=(Present(),), messages=(AgentPresent(self.region, self.agent),))

    def _woken(self, state: AgentState, envelope: Envelope) -> Decision:
        for key, _ in _caught_up(state):
            # One at a time: the next search must see where this claim goes.
            return self._try_again(state, state.claims[key])
        now = envelope.at
        placed = self._places(state).woken(now)
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
                events.append(ClaimClosed(key))  # The answer was lost; the log has told.
            else:
                events.append(ClaimSaidAgain(key))
                messages.append(SubmitClaim(self.region, claim))
        if state.present_at <= now:
            events.append(Present())
            messages.append(AgentPresent(self.region, self.agent))
        return Decision(tuple(events), tuple(messages))


def _caught_up(state: AgentState) -> list[tuple[AttemptKey, Instant]]:
    """The claims that can be tried again, and since when they wait."""
    return [(key, wait.since) for key, wait in state.conflicted.items() if wait.sequence <= state.sequence]


def _needs(jobs: tuple[JobSpec, ...], spreads: tuple[Spread, ...]) -> dict[int, Amount]:
    needs: dict[int, Amount] = {}
    for job, spread in zip(jobs, spreads, strict=True):
        for node, tasks in zip(spread.nodes, spread.tasks, strict=True):
            amount = job.need.times(tasks)
            needs[node] = needs[node].plus(amount) if node in needs else amount
    return needs
