"""The memory of an allocation agent: the region's image and an index of it, open bids and claims, and learnt rows."""

from collections.abc import Hashable, Iterable, Sequence

from msgspec import Struct

from components.allocation_agent.relocations import (
    OpenRevisions,
    RevisionClosed,
    RevisionConflicted,
    RevisionMade,
)
from core.agenda import Agenda
from core.component import ImageAdopted, RowsTold
from core.events.control import ClaimRevised, MaintenanceMoved, MaintenancePlanned, ScopeJoined
from core.events.pools import PoolChanged
from core.events.prices import PricesSet
from core.events.region import AttemptEnded, AwardDeclined, ClaimGranted, ClaimPromised, NodesJoined
from core.events.starts import StartReserved, StartUnreserved
from core.fact import Event, Fact, Note
from core.images import RegionImage
from core.images.pairs import partner_of
from core.nouns.ids import AttemptKey, WorkloadId
from core.nouns.instant import Instant, Nanoseconds, after
from core.nouns.limits import AWARD_SPAN, CLAIM_SAY_AGAIN, OPEN_BID_SPAN, PRESENCE_INTERVAL
from core.nouns.placement import Claim, NodeRow, takings_of
from core.nouns.quantities import Amount
from core.placing.diagnosis.infeasible import EmptyRegion
from core.placing.index.overlay import Overlay
from core.placing.index.owners import OF_OWNERS, Entries, entries_of
from core.placing.pick.conflict_window import ConflictWindow
from core.placing.placer import SECTIONS, Placer
from core.placing.preemption.victim_index import OF_VICTIMS
from core.rows import unpack_rows
from core.rules.placement.tenant_isolation import code_of
from core.touched import touched_by


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


class ClaimSaidAgain(Note, frozen=True):
    """A claim without an answer was sent again."""

    key: AttemptKey


class ClaimClosed(Note, frozen=True):
    """The store gave its final answer, the log shows the outcome, or the agent declined the award."""

    key: AttemptKey
    is_granted: bool = False
    sequence: int = -1
    """Sequence of the region's log at the grant or promise: the capacity counts as taken until it is folded; -1: no grant."""


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


class OpenBid(Struct):
    """A bid that may still win, or that has won."""

    workload: WorkloadId
    has_won: bool = False


class OpenClaim(Struct):
    """A claim without a final answer."""

    claim: Claim
    tries: int
    since: Instant
    """When the first try was made."""
    conflict: str = ""
    nodes: tuple[int, ...] = ()
    """Nodes of the newest conflict."""


class CatchUp(Struct, frozen=True):
    """The wait of a claim after a conflict, until the view reaches a sequence."""

    sequence: int
    since: Instant


class AgentState:
    """The region's image, an index of it, and the agent's open bids, claims and revisions."""

    def __init__(self, at: Instant) -> None:
        self.image = RegionImage.empty(SECTIONS)
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
        touched = touched_by(self.image.capacity, fact)
        partner = self._partner(fact.event)
        self.image.fold(fact)
        self.sequence = fact.sequence
        self.placer.touch(touched, joined=isinstance(fact.event, NodesJoined))
        if isinstance(fact.event, OF_OWNERS):
            self.placer.settle(fact.event.workload, fact.event.epoch)
        if isinstance(fact.event, OF_VICTIMS):
            self.placer.victims.settle(fact.event.workload, fact.event.epoch)
            if partner is not None:
                self.placer.victims.settle(*partner)
        if isinstance(fact.event, (MaintenancePlanned, MaintenanceMoved, ScopeJoined)):
            self.placer.touch_plans()
        elif isinstance(fact.event, PoolChanged):
            self.placer.touch_pool(fact.event.pool)
        elif isinstance(fact.event, PricesSet):
            self.placer.touch_prices()
        elif isinstance(fact.event, (StartReserved, StartUnreserved, ClaimGranted)):
            self.placer.touch_starts()
        self._settle(fact.event)
        self._unlearn()

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
            case ClaimMade(claim, tries, conflict, nodes):
                key = (claim.workload, claim.epoch)
                self._close_bids_of(claim.workload)
                known = self.claims.get(key)
                since = known.since if known is not None else fact.at
                self.claims[key] = OpenClaim(claim, tries, since, conflict, nodes)
                if tries > 1:
                    self.window.heard(is_conflict=True)
                if self.image.capacity.holding(*key) is None:
                    takings = takings_of(claim.jobs, claim.spreads, claim.beside)
                    self.take(("claim", key), takings, entries_of(claim), claim.victims)
                self.claims_due.put(key, after(fact.at, CLAIM_SAY_AGAIN))
                self.conflicted.pop(key, None)
            case ClaimSaidAgain(key):
                self.claims_due.put(key, after(fact.at, CLAIM_SAY_AGAIN))
            case ClaimClosed(key, is_granted, sequence):
                if is_granted:
                    self.window.heard(is_conflict=False)
                self.claims.pop(key, None)
                self.claims_due.drop(key)
                if self.sequence > sequence or self._shows(key):
                    self.give_back(("claim", key))
                self.conflicted.pop(key, None)
            case Conflicted(key, sequence, conflict, nodes):
                self.conflicted[key] = CatchUp(sequence, fact.at)
                self.claims[key].conflict, self.claims[key].nodes = conflict, nodes
            case RevisionMade() | RevisionConflicted() | RevisionClosed():
                self.revisions.note(fact.event, fact.at)
                self._count_revision(fact.event)
            case Learnt(rows, sequence):
                learnt = self.overlay.learnt
                for row in rows:
                    if sequence > self.sequence and sequence >= learnt.get(row.node, (row, 0))[1]:
                        learnt[row.node] = (row, sequence)
                        self.placer.touch((row.node,))
            case Present():
                self.present_at = after(fact.at, PRESENCE_INTERVAL)
            case RowsTold(_, sequence, rows):
                if sequence == self.sequence:
                    self.placer.put_rows(unpack_rows(rows))
            case ImageAdopted(_, image, sequence):
                assert isinstance(image, RegionImage)
                self.adopt(image, sequence)

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
                    if key not in self.claims or image.capacity.holding(*key) is not None:
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
        for node in [node for node, (_, sequence) in learnt.items() if sequence <= self.sequence]:
            del learnt[node]
            self.placer.touch((node,))
