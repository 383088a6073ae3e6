"""What a placement store remembers: the region's image, the queue's awards, and claims that are ahead of them."""

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
from core.rules.headroom import Headroom

FOLLOWED = ("awards", "regions", "start_promises")
"""Sections of the queue's image."""


class ClaimWaits(Note, frozen=True):
    """A claim names an award that was not read yet."""

    claim: Claim


class ClaimJudged(Note, frozen=True):
    """A waiting claim was judged, or is too old to wait on."""

    key: AttemptKey


class Swept(Note, frozen=True):
    """Superseded attempts were looked for."""


class StartsLookedAt(Note, frozen=True):
    """Reserved starts were looked at."""


class WaitingClaim(Struct):
    """A claim and until when it may wait."""

    claim: Claim
    until: Instant


class StoreState:
    """The region's image, the queue's awards, and claims that are ahead of them."""

    def __init__(self, at: Instant) -> None:
        self.image = RegionImage.empty()
        self.owners = Owners()
        """Who is on each node: an index of the image."""
        self.sequence = 0
        self.awards = GlobalImage.empty(FOLLOWED)
        self.global_sequence = 0
        self.waiting: dict[AttemptKey, WaitingClaim] = {}
        self.ready_at: Instant | None = None
        """When a waiting claim can be judged or dropped."""
        self.superseded: dict[AttemptKey, None] = {}
        """Ended or declined attempts that the queue's log shows superseded: to be forgotten."""
        self.abandoned: dict[AttemptKey, None] = {}
        """Attempts that go on here, and of which that log shows that they were given up."""
        self.sweep_at = at
        self.touched: deque[tuple[int, Sequence[int]]] = deque(maxlen=TOUCHED_MAX)
        """The nodes that each of the newest facts changed, by sequence."""
        self.disputes = Disputes()
        """Nodes over which agents and the store disagree."""
        self.headroom: Headroom | None = None
        """A memo: what is free in each zone of each pool (components/placement_store/pools.py)."""
        self.stops_due: Agenda[AttemptKey] = Agenda()
        """When attempts that may not last longer are ordered to stop here, if nobody else has."""
        self.starts_due: Instant | None = None
        """When reserved starts are looked at next."""
