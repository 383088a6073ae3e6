"""The placement store's memory: the region's image, the queue's awards, and claims for awards that the store has not read yet."""

from collections import deque
from collections.abc import Sequence

from msgspec import Struct

from components.placement_store.disputed_nodes import Disputes
from core.agenda import Agenda
from core.fact import Note
from core.images import GlobalImage, RegionImage
from core.nouns.ids import AttemptKey
from core.nouns.instant import Instant
from core.nouns.limits import TOUCHED_MAX
from core.nouns.placement import Claim
from core.placing.index.owners import Owners
from core.rules.harvest.zones import HarvestZones
from core.rules.headroom import Headroom

FOLLOWED = ("awards", "regions", "start_promises")
"""Sections of the queue's image that the store folds."""


class ClaimWaits(Note, frozen=True):
    """Note: a claim names an award that the store has not read yet."""

    claim: Claim


class ClaimJudged(Note, frozen=True):
    """Note: a waiting claim was judged, or is too old to wait on."""

    key: AttemptKey


class Swept(Note, frozen=True):
    """Note: the store looked for superseded attempts to forget."""

    has_more: bool = False
    """Whether more of them are due than one fact holds."""


class StartsLookedAt(Note, frozen=True):
    """Note: the store checked all reservations."""


class WaitingClaim(Struct):
    """A claim, and the time until which the claim may wait."""

    claim: Claim
    until: Instant


class StoreState:
    """The region's image, the queue's awards, and claims for awards that the store has not read yet."""

    def __init__(self, at: Instant) -> None:
        self.image = RegionImage.empty()
        self.owners = Owners()
        """The owners of each node: an index of the image."""
        self.sequence = 0
        self.awards = GlobalImage.empty(FOLLOWED)
        self.global_sequence = 0
        self.waiting: dict[AttemptKey, WaitingClaim] = {}
        self.ready_at: Instant | None = None
        """Time at which the first waiting claim can be judged or dropped."""
        self.superseded: dict[AttemptKey, None] = {}
        """Ended or declined attempts that the queue's log shows superseded, to be forgotten."""
        self.abandoned: dict[AttemptKey, None] = {}
        """Live or promised attempts here that the queue's log shows abandoned."""
        self.sweep_at = at
        self.touched: deque[tuple[int, Sequence[int]]] = deque(maxlen=TOUCHED_MAX)
        """Sequence of each of the newest facts, with the nodes that the fact changed."""
        self.disputes = Disputes()
        """Nodes over which agents and the store disagree."""
        self.headroom: Headroom | None = None
        """Free capacity in each zone of each pool: a memo, counted when first needed (components/placement_store/pools.py)."""
        self.harvest_zones: HarvestZones | None = None
        """Harvested and available capacity in each zone of each pool: a memo (components/placement_store/harvest.py)."""
        self.harvest_due: Agenda[int] = Agenda()
        """Time at which the first recall of each node has to be released, by node."""
        self.stops_due: Agenda[AttemptKey] = Agenda()
        """Time at which the store itself orders each attempt with a longest duration to stop, by attempt; dropped once stopped."""
        self.starts_due: Instant | None = None
        """Time of the next check of reservations."""
