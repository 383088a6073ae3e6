"""What an allocation agent remembers: its region's capacity and an index over it, its own bids and claims, and what it learnt."""

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
from core.nouns.ids import AttemptKey, WorkloadId
from core.nouns.instant import Instant, after
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
    """A bid was made: its room counts as taken, and its victims as gone for it."""

    auction: str
    workload: WorkloadId
    needs: tuple[tuple[int, Amount], ...]
    victims: tuple[AttemptKey, ...] = ()
    """Who would go for it."""


class BidWon(Note, frozen=True):
    """A bid is to be executed: its room counts as taken for as long as its award may still come."""

    auction: str


class BidClosed(Note, frozen=True):
    """A bid lost, or is too old to count."""

    auction: str


class ClaimMade(Note, frozen=True):
    """A claim was said to the store, the first time or after a conflict."""

    claim: Claim
    tries: int
    conflict: str = ""
    """Why the try before met a conflict."""
    nodes: tuple[int, ...] = ()
    """And on which nodes."""


class ClaimSaidAgain(Note, frozen=True):
    """The store did not answer yet."""

    key: AttemptKey


class ClaimClosed(Note, frozen=True):
    """The store answered for good, or the agent gave the award back."""

    key: AttemptKey
    is_granted: bool = False
    sequence: int = -1
    """Of the region's log, at which a grant or a promise was decided: until that is folded it counts as taken. -1: of nothing."""


class Conflicted(Note, frozen=True):
    """The claim's room was taken; the next try waits until the view is as new as what took it."""

    key: AttemptKey
    sequence: int
    """Of the region's log: how far to catch up."""
    conflict: str = ""
    nodes: tuple[int, ...] = ()
    """As in `ClaimMade`."""


class Learnt(Note, frozen=True):
    """Rows that the store says hold from this sequence on."""

    rows: tuple[NodeRow, ...]
    sequence: int


class Present(Note, frozen=True):
    """The broker was told that this agent is there."""


class OpenBid(Struct):
    """A bid that may still win, or that has."""

    workload: WorkloadId
    has_won: bool = False


class OpenClaim(Struct):
    """A claim that is not answered yet."""

    claim: Claim
    tries: int
    since: Instant
    """When the first try was made."""
    conflict: str = ""
    nodes: tuple[int, ...] = ()
    """What its newest conflict was about."""


class CatchUp(Struct, frozen=True):
    """What a claim that met a conflict waits for."""

    sequence: int
    since: Instant


class AgentState:
    """The region's capacity, an index over it, and what this agent has said."""

    def __init__(self, at: Instant) -> None:
        self.image = RegionImage.empty(SECTIONS)
        self.sequence = 0
        self.overlay = Overlay()
        self.placer = Placer.of(self.image, self.overlay)
        self.empty = EmptyRegion()
        """A memo: what could be there if nothing ran."""
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
        """This much counts as taken under this key, by these, and these as gone for it."""
        self.placer.touch(self.overlay.put(key, needs, victims))
        self.placer.touch(self.placer.owners.put(key, owners))

    def give_back(self, key: Hashable) -> None:
        """Nothing does any more."""
        self.placer.touch(self.overlay.drop(key))
        self.placer.touch(self.placer.owners.drop(key))

    def fold(self, fact: Fact) -> None:
        """One fact of the region."""
        touched = touched_by(self.image.capacity, fact)
        self.image.fold(fact)
        self.sequence = fact.sequence
        self.placer.touch(touched, joined=isinstance(fact.event, NodesJoined))
        if isinstance(fact.event, OF_OWNERS):
            self.placer.settle(fact.event.workload, fact.event.epoch)
        if isinstance(fact.event, OF_VICTIMS):
            self.placer.victims.settle(fact.event.workload, fact.event.epoch)
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

    def note(self, fact: Fact) -> None:
        """One note."""
        match fact.event:
            case BidMade(auction, workload, needs, victims):
                self.bids[auction] = OpenBid(workload)
                self.take(("bid", auction), needs, victims=victims)
                self.bids_due.put(auction, after(fact.at, OPEN_BID_SPAN))
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
                    takings = takings_of(claim.jobs, claim.spreads)
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
        """Whether the log has told what became of a claim."""
        capacity = self.image.capacity
        return capacity.holding(*key) is not None or capacity.promise(*key) is not None

    def adopt(self, image: RegionImage, sequence: int) -> None:
        """The region is known by this image from here on."""
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
        """What the log shows granted is in the image: it is not counted a second time."""
        if isinstance(event, (ClaimGranted, ClaimPromised, AwardDeclined)):
            # Another agent may have executed the award. A bid that has not won is for an auction that came after.
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
        """What it needs on its new nodes counts as taken, until the log shows it granted."""
        needs = tuple(self.revisions.taken(self.image.capacity, key))
        held = self.image.capacity.holding(*key)
        is_alone = held is not None and any(job.is_alone for job in held.claim.jobs)
        tenant = held.claim.tenant if held is not None else ""
        owners = tuple((node, code_of(tenant, is_alone=is_alone)) for node, _ in needs)
        self.take(("revision", key), needs, owners)

    def _close_bids_of(self, workload: WorkloadId, *, that_won: bool = False) -> None:
        """What became of its award counts from here on, and its bid no longer."""
        mine = [auction for auction, bid in self.bids.items() if bid.workload == workload]
        for auction in [auction for auction in mine if self.bids[auction].has_won or not that_won]:
            del self.bids[auction]
            self.bids_due.drop(auction)
            self.give_back(("bid", auction))

    def _unlearn(self) -> None:
        """What the log itself has told by now needs no learning."""
        learnt = self.overlay.learnt
        for node in [node for node, (_, sequence) in learnt.items() if sequence <= self.sequence]:
            del learnt[node]
            self.placer.touch((node,))
