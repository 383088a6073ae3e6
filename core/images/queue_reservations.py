"""A section of the queue's image: the starts that it promised and that still stand."""

from msgspec import Struct, field

from core.events.queue import (
    AttemptClosed,
    CancelRequested,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadChanged,
    WorkloadHeld,
)
from core.events.starts import StartPromised, StartPromiseEnded
from core.fact import Event, Fact
from core.images.base import Section
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.placement import Spread
from core.nouns.starts import StartOver

ENDS_A_PROMISE: tuple[type[Event], ...] = (
    WorkloadBound,
    AttemptClosed,
    WorkloadCancelled,
    CancelRequested,
    WorkloadHeld,
    WorkloadChanged,
    StartPromiseEnded,
)
"""It has started, or will not, or is another than was promised; an award that comes back changes nothing."""


class PromisedStart(Struct):
    """What one workload was promised."""

    revision: int
    region: RegionName
    sequence: int
    """Of the fact that promised it."""
    promised_at: int
    starts_at: int
    """By when it is to hold its capacity."""
    free_at: int
    """By when its nodes are surely free."""
    level: int
    spreads: tuple[Spread, ...]
    why: str = ""
    """Why the promise before was not kept."""
    is_move: bool = False
    """Whether its workload runs elsewhere, and is to go on there."""


class StartPromises(Section):
    """At most one a workload, in the order in which they were promised."""

    FOLDS = {StartPromised: "_promised", **dict.fromkeys(ENDS_A_PROMISE, "_ended")}

    rows: dict[WorkloadId, PromisedStart] = field(default_factory=dict)
    broken: dict[WorkloadId, StartOver] = field(default_factory=dict)
    """Of those that still wait and were promised no other start yet: why theirs was not kept."""

    def stands(self, workload: WorkloadId, revision: int, region: RegionName) -> bool:
        """Whether this region is to keep this start, as far as the fold has come."""
        row = self.rows.get(workload)
        return row is not None and row.revision == revision and row.region == region

    def _promised(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, StartPromised)
        self.rows.pop(event.workload, None)
        self.broken.pop(event.workload, None)
        self.rows[event.workload] = PromisedStart(
            event.revision,
            event.region,
            fact.sequence,
            fact.at,
            fact.at + event.start_in,
            fact.at + event.reserve_in,
            event.level,
            event.spreads,
            event.why,
            event.is_move,
        )

    def _ended(self, fact: Fact) -> None:
        event = fact.event
        workload: WorkloadId = getattr(event, "workload")  # noqa: B009  # each of these events has one
        row = self.rows.get(workload)
        if row is not None and row.is_move and _goes_on(event, row.region):
            return
        self.rows.pop(workload, None)
        self.broken.pop(workload, None)
        if isinstance(event, StartPromiseEnded):
            self.broken[workload] = event.reason


def _goes_on(event: object, region: RegionName) -> bool:
    """Whether an attempt elsewhere has made way for the one that is to start in this region."""
    is_elsewhere = isinstance(event, AttemptClosed | WorkloadBound) and event.region != region
    return is_elsewhere and not (isinstance(event, AttemptClosed) and event.phase.is_terminal)
