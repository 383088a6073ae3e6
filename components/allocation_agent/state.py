"""The memory of an allocation agent: the region's image and an index of it, open bids and claims, and learnt rows."""

from collections import deque
from collections.abc import Hashable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from components.allocation_agent.relocations import (
    OpenRevisions,
    RevisionClosed,
    RevisionConflicted,
    RevisionMade,
)
from components.allocation_agent.tally import Tally
from core.agenda import Agenda
from core.component import ImageAdopted, RowsAlone, RowsTold
from core.events.agents import AgentsSet
from core.events.control import ClaimRevised, MaintenanceMoved, MaintenancePlanned, ScopeJoined
from core.events.pools import PoolChanged
from core.events.prices import PricesSet
from core.events.region import AttemptEnded, AwardDeclined, ClaimGranted, ClaimPromised
from core.events.starts import StartReserved, StartUnreserved
from core.fact import Event, Fact, Note
from core.images import RegionImage
from core.images.pairs import partner_of
from core.messages.agents import FindBid, PlaceAward
from core.messages.broker import ExecuteAward
from core.messages.control import PlaceTasks
from core.nouns.agents import Turn
from core.nouns.ids import AttemptKey, WorkloadId
from core.nouns.instant import Instant, Nanoseconds, after
from core.nouns.limits import AWARD_SPAN, CLAIM_SAY_AGAIN, OPEN_BID_SPAN, PRESENCE_INTERVAL
from core.nouns.placement import Claim, NodeRow, takings_of
from core.nouns.quantities import Amount
from core.placing.believed import Believed, reduced
from core.placing.diagnosis.infeasible import EmptyRegion
from core.placing.index.overlay import Overlay
from core.placing.index.owners import OF_OWNERS, Entries, entries_of
from core.placing.pick.conflict_window import ConflictWindow
from core.placing.placer import SECTIONS, Placer
from core.placing.preemption.victim_index import OF_VICTIMS
from core.placing.strategies.adaptive import is_late_after
from core.rows import Row, unpack_rows
from core.rules.placement.tenant_isolation import code_of
from core.touched import LAYS_OUT, touched_by

Waiting = FindBid | PlaceAward | PlaceTasks
"""Requests that an agent may put aside for a moment."""


class BidMade(Note, frozen=True):
    """A bid was made: the capacity counts as taken, and other searches leave the victims out."""

    auction: str
    workload: WorkloadId
    needs: tuple[tuple[int, Amount], ...]
    victims: tuple[AttemptKey, ...] = ()
    """Attempts to preempt."""
    held_for: Nanoseconds = OPEN_BID_SPAN
    """How long the bid counts without word of its auction."""


class BidWon(Note, frozen=True):
    """A bid won: the capacity counts as taken for `AWARD_SPAN`, while the award may still come."""

    auction: str


class BidClosed(Note, frozen=True):
    """A bid lost, or is too old to count."""

    auction: str


class ClaimMade(Note, frozen=True):
    """A claim was sent to the store, for the first time or after a conflict."""

    claim: Claim
    tries: int
    conflict: str = ""
    """Reason of the previous try's conflict; empty on the first try."""
    nodes: tuple[int, ...] = ()
    """Nodes of that conflict."""
    award: ExecuteAward | None = None
    """The award, of the agent's first try."""
    waited: Nanoseconds = Nanoseconds(0)
    """The award's wait until then."""


class ClaimSaidAgain(Note, frozen=True):
    """A claim without an answer was sent again."""

    key: AttemptKey


class ClaimClosed(Note, frozen=True):
    """The store gave its final answer, the log shows the outcome, or the agent declined the award."""

    key: AttemptKey
    is_granted: bool = False
    sequence: int = -1
    """Sequence of the region's log at the grant or promise: the capacity counts as taken until it is folded; -1: no grant."""
    is_conflict: bool = False
    """True if the last try met a conflict."""


class Conflicted(Note, frozen=True):
    """The claim's capacity was taken; the next try waits until the view includes the fact that took it."""

    key: AttemptKey
    sequence: int
    """Sequence of the region's log that the view must reach."""
    conflict: str = ""
    nodes: tuple[int, ...] = ()
    """Nodes of the conflict, as in `ClaimMade`."""


class Learnt(Note, frozen=True):
    """Rows that hold from this sequence on, as the store answered."""

    rows: tuple[NodeRow, ...]
    sequence: int


class Present(Note, frozen=True):
    """The agent reported its presence to the broker."""


class TakenIn(Note, frozen=True):
    """Rows of these partitions that were held back are taken in."""

    partitions: tuple[int, ...]
    turn: Turn | None = None
    """The turn for which they were wanted; None: for a search of the whole region."""


class PutAside(Note, frozen=True):
    """A request waits until rows are taken in, or an image is adopted."""

    request: Waiting
    since: Instant
    """When it arrived."""


class Served(Note, frozen=True):
    """The first request that waited was decided."""


class ViewWanted(Note, frozen=True):
    """From now on the agent is to fold every fact, or to take in rows alone."""

    has_rows_alone: bool


class Counted(Note, frozen=True):
    """A request was decided, for the figures of a beat."""

    waited: Nanoseconds = Nanoseconds(0)
    is_handed_back: bool = False
    quality_permille: int = -1
    """Of the node that was found in a partition; -1: none was."""
    is_again: bool = False
    """True for another try after a conflict: the request was counted."""


class OpenBid(Struct):
    """A bid that may still win, or that has won."""

    workload: WorkloadId
    has_won: bool = False


class OpenClaim(Struct):
    """A claim without a final answer."""

    claim: Claim
    tries: int
    since: Instant
    """When the agent's first try was made."""
    conflict: str = ""
    nodes: tuple[int, ...] = ()
    """Nodes of the newest conflict."""
    award: ExecuteAward | None = None
    """To be handed back if no partition has a place."""
    waited: Nanoseconds = Nanoseconds(0)
    """The award's wait until `since`."""


class CatchUp(Struct, frozen=True):
    """The wait of a claim after a conflict, until the view reaches a sequence."""

    sequence: int
    since: Instant


class AgentState:
    """The region's image, an index of it, and the agent's open bids, claims and revisions.

    An agent that takes in rows alone has a reduced image (core/placing/believed.py).
    """

    def __init__(self, at: Instant) -> None:
        self.image = RegionImage.empty(SECTIONS)
        self.believed: Believed | None = None
        """The rows that were taken in and those that are held back; None: the agent folds every fact."""
        self.has_rows_alone = False
        """Whether the agent wants to take in rows alone, which it does once `believed` is there."""
        self.waiting: deque[PutAside] = deque()
        """Requests that wait for rows or an image, the first to come first."""
        self.granted: dict[AttemptKey, int] = {}
        """Claims whose capacity counts as taken until rows of a later sequence are taken in, each with the sequence of its grant."""
        self.tally = Tally()
        self.is_late = False
        """Whether requests have waited for long (core/placing/strategies/adaptive.py)."""
        self.sequence = 0
        self.overlay = Overlay()
        self.placer = Placer.of(self.image, self.overlay)
        self.empty = EmptyRegion()
        """Memo: the region's capacity if no attempt ran."""
        self.bids: dict[str, OpenBid] = {}
        self.bids_due: Agenda[str] = Agenda()
        self.claims: dict[AttemptKey, OpenClaim] = {}
        self.claims_due: Agenda[AttemptKey] = Agenda()
        self.conflicted: dict[AttemptKey, CatchUp] = {}
        self.window = ConflictWindow()
        self.is_weighted = False
        """Whether nodes of a partition are drawn by score (`Choice`): in experiments alone."""
        self.revisions = OpenRevisions()
        self.present_at = at

    def take(
        self,
        key: Hashable,
        needs: Iterable[tuple[int, Amount]],
        owners: Entries = (),
        victims: Sequence[AttemptKey] = (),
    ) -> None:
        """Count needs as taken under a key, with the owners of that capacity, and leave the victims out of other searches."""
        self.placer.touch(self.overlay.put(key, needs, victims))
        self.placer.touch(self.placer.owners.put(key, owners))

    def give_back(self, key: Hashable) -> None:
        """Undo `take` for a key."""
        self.placer.touch(self.overlay.drop(key))
        self.placer.touch(self.placer.owners.drop(key))

    def fold(self, fact: Fact) -> None:
        """Fold one fact of the region."""
        if self.believed is not None:
            self.believed.fold(fact)
            if isinstance(fact.event, LAYS_OUT):
                self.placer.touch((), joined=True)
            self._touch_settings(fact.event)
            return
        touched = touched_by(self.image.capacity, fact)
        partner = self._partner(fact.event)
        self.image.fold(fact)
        self.sequence = fact.sequence
        self.placer.touch(touched, joined=isinstance(fact.event, LAYS_OUT))
        if isinstance(fact.event, OF_OWNERS):
            self.placer.settle(fact.event.workload, fact.event.epoch)
        if isinstance(fact.event, OF_VICTIMS):
            self.placer.victims.settle(fact.event.workload, fact.event.epoch)
            if partner is not None:
                self.placer.victims.settle(*partner)
        self._touch_settings(fact.event)
        if isinstance(fact.event, (StartReserved, StartUnreserved, ClaimGranted)):
            self.placer.touch_starts()
        self._settle(fact.event)
        self._unlearn()

    def _touch_settings(self, event: Event | Note) -> None:
        if isinstance(event, (MaintenancePlanned, MaintenanceMoved, ScopeJoined)):
            self.placer.touch_plans()
        elif isinstance(event, PoolChanged):
            self.placer.touch_pool(event.pool)
        elif isinstance(event, PricesSet):
            self.placer.touch_prices()
        elif isinstance(event, AgentsSet):
            self.placer.touch_agents()

    def _partner(self, event: Event | Note) -> AttemptKey | None:
        """Return the attempt of which an event makes or dissolves a pair, beside the one that the event names; ask before it is folded."""
        if isinstance(event, ClaimGranted):
            return event.claim.beside
        if isinstance(event, AttemptEnded):
            return partner_of(self.image.capacity, event.workload, event.epoch)
        return None

    def note(self, fact: Fact) -> None:
        """Fold one note."""
        match fact.event:
            case BidMade(auction, workload, needs, victims, held_for):
                self.bids[auction] = OpenBid(workload)
                self.take(("bid", auction), needs, victims=victims)
                self.bids_due.put(auction, after(fact.at, held_for))
            case BidWon(auction):
                self.bids[auction].has_won = True
                self.bids_due.put(auction, after(fact.at, AWARD_SPAN))
            case BidClosed(auction):
                self.bids.pop(auction, None)
                self.bids_due.drop(auction)
                self.give_back(("bid", auction))
            case ClaimMade():
                self._claim_made(fact.event, fact.at)
            case ClaimSaidAgain(key):
                self.claims_due.put(key, after(fact.at, CLAIM_SAY_AGAIN))
            case ClaimClosed(key, is_granted, sequence, is_conflict):
                if is_conflict:
                    self._count_conflict(key)
                if is_granted:
                    self.window.heard(is_conflict=False)
                self.claims.pop(key, None)
                self.claims_due.drop(key)
                if self.believed is not None and is_granted:
                    self.granted[key] = sequence
                    self._count_granted((key,))
                elif self.sequence > sequence or self._shows(key):
                    self.give_back(("claim", key))
                self.conflicted.pop(key, None)
            case Conflicted(key, sequence, conflict, nodes):
                self._count_conflict(key)
                self.conflicted[key] = CatchUp(sequence, fact.at)
                self.claims[key].conflict, self.claims[key].nodes = conflict, nodes
            case RevisionMade() | RevisionConflicted() | RevisionClosed():
                self.revisions.note(fact.event, fact.at)
                self._count_revision(fact.event)
            case Learnt(rows, sequence):
                learnt = self.overlay.learnt
                for row in rows:
                    is_news = sequence > self._sequence_of(row.node)
                    if is_news and sequence >= learnt.get(row.node, (row, 0))[1]:
                        learnt[row.node] = (self._as_seen(row), sequence)
                        self.placer.touch((row.node,))
            case Present():
                self.present_at = after(fact.at, PRESENCE_INTERVAL)
                self.tally.begin_beat()
            case _:
                self._note_of_rows(fact)

    def _claim_made(self, made: ClaimMade, at: Instant) -> None:
        """Note an open claim, whose nodes count as taken from here on."""
        claim, award, waited = made.claim, made.award, made.waited
        key = (claim.workload, claim.epoch)
        self._close_bids_of(claim.workload)
        known, since = self.claims.get(key), at
        if known is not None:
            since, award, waited = known.since, known.award, known.waited
            self._count_conflict(key)
            self.window.heard(is_conflict=True)
        self.claims[key] = OpenClaim(claim, made.tries, since, made.conflict, made.nodes, award, waited)
        self.granted.pop(key, None)
        self.tally.claimed(is_again=known is not None)
        if self.image.capacity.holding(*key) is None:
            takings = takings_of(claim.jobs, claim.spreads, claim.beside)
            self.take(("claim", key), takings, entries_of(claim), claim.victims)
        self.claims_due.put(key, after(at, CLAIM_SAY_AGAIN))
        self.conflicted.pop(key, None)

    def _count_conflict(self, key: AttemptKey) -> None:
        """Count the newest conflict of a claim once: with the wait for its view, the next claim, or the end of the award here."""
        self.tally.conflicts += key not in self.conflicted

    def _note_of_rows(self, fact: Fact) -> None:
        """Fold one note about rows, the image, or requests that wait."""
        match fact.event:
            case PutAside():
                self.waiting.append(fact.event)
            case Served():
                self.waiting.popleft()
            case Counted(waited, is_handed_back, quality, is_again):
                self.tally.decided(waited, quality, is_handed_back=is_handed_back, is_again=is_again)
                self.is_late = is_late_after(waited, was_late=self.is_late)
            case ViewWanted(has_rows_alone):
                self.has_rows_alone = has_rows_alone
            case TakenIn(partitions, turn):
                self._take_in(partitions, turn, fact.at)
            case RowsAlone():
                self._reduce(self.image, fact.at)
            case RowsTold(_, sequence, rows):
                if self.believed is not None:
                    taken = self.believed.tell(sequence, map(tuple, unpack_rows(rows).tolist()), fact.at)
                    self.sequence = sequence
                    self._put_taken(taken)
                elif sequence == self.sequence:
                    self.placer.put_rows(unpack_rows(rows).tolist())
            case ImageAdopted(_, image, sequence, has_rows_alone):
                assert isinstance(image, RegionImage)
                self.believed = None
                self.adopt(image, sequence)
                if has_rows_alone:
                    self._reduce(image, fact.at)

    # Rows alone (core/placing/believed.py).

    def _reduce(self, image: RegionImage, at: Instant) -> None:
        """Take in rows alone from here on, beginning with those of an image."""
        image = reduced(image)
        self.believed = Believed(image, self.sequence, at)
        self.image = image
        self.placer = Placer.of(image, self.overlay)
        self.granted = {key: sequence for key, sequence in self.granted.items() if sequence >= self.sequence}
        taken = self.overlay.keys()
        for key in taken:
            match key:
                case ("claim", (str() as workload, int() as epoch)):
                    known = WorkloadId(workload), epoch
                    if known not in self.claims and known not in self.granted:
                        self.granted[known] = self.sequence

    def _take_in(self, partitions: Sequence[int], turn: Turn | None, at: Instant) -> None:
        assert self.believed is not None
        was_stale = self.believed.is_stale
        rows = self.believed.take_in(partitions, turn, at)
        if was_stale:
            self.placer.touch_agents()
        self._put_taken(rows)

    def _put_taken(self, rows: Sequence[Row]) -> None:
        """Bring the tables up to date with rows that were taken in, and forget what they make old."""
        if rows:
            self.placer.touch([row[0] for row in rows])
            self.placer.put_rows(rows)
        if self.granted:
            self._count_granted(tuple(self.granted))
        if self.overlay.learnt:
            self._unlearn()

    def _sequence_of(self, node: int) -> int:
        """Return the sequence of the log at which the agent knows a node's row."""
        if self.believed is None:
            return self.sequence
        return self.believed.sequence_of(node)

    def _as_seen(self, row: NodeRow) -> NodeRow:
        """Return a learnt row as searches are to see it: without holdings, a kept node takes no tasks."""
        is_barred = self.believed is not None and row.is_kept
        return replace(row, is_open=row.is_open and not is_barred, is_kept=False)

    def _count_granted(self, keys: Iterable[AttemptKey]) -> None:
        """Stop counting granted capacity of these claims on nodes of which newer rows were taken in."""
        for key in keys:
            sequence, needs = self.granted[key], self.overlay.taken_by(("claim", key))
            left = [(node, amount) for node, amount in needs if self._sequence_of(node) <= sequence]
            if len(left) < len(needs):
                self.take(("claim", key), left)
            if not left:
                self.give_back(("claim", key))
                del self.granted[key]

    def _shows(self, key: AttemptKey) -> bool:
        """Return whether the log shows a grant or promise for the claim."""
        capacity = self.image.capacity
        return capacity.holding(*key) is not None or capacity.promise(*key) is not None

    def adopt(self, image: RegionImage, sequence: int) -> None:
        """Adopt an image of the region."""
        self.image = image
        self.sequence = sequence
        self.placer = Placer.of(image, self.overlay)
        for key, open_claim in self.claims.items():
            self.placer.owners.put(("claim", key), entries_of(open_claim.claim))
        takers = self.overlay.keys()
        for taken in takers:
            match taken:
                case ("claim", (str() as workload, int() as epoch)):
                    key = WorkloadId(workload), epoch
                    is_over = key not in self.claims and self.granted.get(key, -1) < sequence
                    if is_over or image.capacity.holding(*key) is not None:
                        self.give_back(taken)
        for key in self.revisions.rows:
            self._count_revision_of(key)
        self._unlearn()

    def _settle(self, event: Event | Note) -> None:
        """Stop counting capacity that the image now counts itself."""
        if isinstance(event, (ClaimGranted, ClaimPromised, AwardDeclined)):
            # Another agent may have executed the award. A bid that has not won belongs to a later auction.
            self._close_bids_of(event.workload, that_won=True)
        if isinstance(event, (ClaimGranted, ClaimPromised)):
            self.granted.pop((event.workload, event.epoch), None)
            self.give_back(("claim", (event.workload, event.epoch)))
        elif isinstance(event, (ClaimRevised, AttemptEnded)):
            key = (event.workload, event.epoch)
            if key in self.revisions.rows:
                self._count_revision_of(key)

    def _count_revision(self, note: RevisionMade | RevisionConflicted | RevisionClosed) -> None:
        match note:
            case RevisionMade(revision):
                self._count_revision_of((revision.workload, revision.epoch))
            case RevisionClosed(key):
                self.give_back(("revision", key))

    def _count_revision_of(self, key: AttemptKey) -> None:
        """Count an attempt's revision as taken on its new nodes, until the log shows the revision granted."""
        needs = tuple(self.revisions.taken(self.image.capacity, key))
        held = self.image.capacity.holding(*key)
        is_alone = held is not None and any(job.is_alone for job in held.claim.jobs)
        tenant = held.claim.tenant if held is not None else ""
        owners = tuple((node, code_of(tenant, is_alone=is_alone)) for node, _ in needs)
        self.take(("revision", key), needs, owners)

    def _close_bids_of(self, workload: WorkloadId, *, that_won: bool = False) -> None:
        """Close a workload's bids, or only those that won: from now on the award is counted instead."""
        mine = [auction for auction, bid in self.bids.items() if bid.workload == workload]
        for auction in [auction for auction in mine if self.bids[auction].has_won or not that_won]:
            del self.bids[auction]
            self.bids_due.drop(auction)
            self.give_back(("bid", auction))

    def _unlearn(self) -> None:
        """Forget learnt rows that the log has caught up with."""
        learnt = self.overlay.learnt
        for node in [node for node, (_, sequence) in learnt.items() if sequence <= self._sequence_of(node)]:
            del learnt[node]
            self.placer.touch((node,))
