"""The facts of regions' logs, as the queue folds them: which awards are due for a look, and which refusals no longer hold."""

from components.job_queue.measuring import follow_checkpoint
from components.job_queue.moves import Moving
from components.job_queue.ordering import refresh_fleet
from components.job_queue.quota.classification import index_holding
from components.job_queue.regions import note_silence
from components.job_queue.reservations import StartPromising
from components.job_queue.state.queue_state import QueueState
from components.job_queue.state.refusal_expiry import capacity_freed
from core.events import control
from core.events.control import AttemptChanged, ClaimRevised, NodesOpened
from core.events.pools import NodesPooled, PoolChanged
from core.events.region import (
    AttemptEnded,
    AttemptRanked,
    AwardDeclined,
    ClaimGranted,
    NodesJoined,
    NodesReturned,
)
from core.fact import Fact
from core.images import RegionImage
from core.nouns.ids import RegionName, region_of
from core.nouns.instant import Instant

ADDS_CAPACITY = (NodesJoined, NodesPooled, NodesReturned, NodesOpened, PoolChanged)
"""Facts of a region that end the region's refusals: nodes joined, returned, were uncordoned or changed pool."""
OF_HOLDINGS = (ClaimGranted, ClaimRevised, AttemptEnded)
OF_ITS_TASKS = tuple(kind for kind in control.EVENTS if kind is not AttemptChanged)
"""Facts about an attempt's tasks, which do not change the next step of the award."""


def fold_region(state: QueueState, fact: Fact, starts: StartPromising, moving: Moving) -> None:
    """Fold a fact of a region's log."""
    region = region_of(fact.log)
    image = state.regions[region]
    assert image is not None, region
    event = fact.event
    if isinstance(event, AwardDeclined):
        if image.attempts.row(event.workload, event.epoch) is None:
            state.auctions.forget_open_bids(region)  # The award held no capacity.
        else:
            # A promise was withdrawn.
            state.auctions.forget_region(region, fact.sequence, is_other_hardware=False)
        state.open_at = fact.heard_at
    starts.hear_region(state, region, fact)
    image.fold(fact)
    moving.hear_region(state, fact)
    follow_checkpoint(state, fact)
    workload = getattr(event, "workload", None)
    if isinstance(event, OF_HOLDINGS):
        index_holding(state, event.workload, fact.heard_at)
    if workload in state.awarded_at and not isinstance(event, OF_ITS_TASKS):
        state.awards_due.put(workload, fact.heard_at)
    if isinstance(event, AttemptEnded | AttemptRanked):
        row = state.image.workloads.rows.get(event.workload)
        if state.auctions.free(
            region, fact.sequence, capacity_freed(event, image, row.spec.jobs if row else ())
        ):
            state.open_at = fact.heard_at
    elif isinstance(event, ADDS_CAPACITY) or _frees_capacity(event):
        is_other = isinstance(event, NodesJoined | NodesPooled | PoolChanged)
        if isinstance(event, NodesJoined | NodesPooled):
            refresh_fleet(state)
        state.auctions.forget_region(region, fact.sequence, is_other_hardware=is_other)
        state.open_at = state.fill_at = fact.heard_at


def adopt_region(
    state: QueueState,
    region: RegionName,
    image: RegionImage,
    sequence: int,
    at: Instant,
    starts: StartPromising,
) -> None:
    """Go on from a region's image: after a start, or a gap."""
    state.regions[region] = image
    note_silence(state, region, at, is_silent=False)
    state.auctions.forget_region(region, sequence)
    state.open_at = state.fill_at = at
    starts.adopt(state, region, at)
    for workload in state.awarded_at:
        if state.image.workloads.rows[workload].region == region:
            state.awards_due.put(workload, at)
            index_holding(state, workload, at)
    refresh_fleet(state)


def _frees_capacity(event: object) -> bool:
    """Return whether tasks of a granted attempt left nodes."""
    return isinstance(event, ClaimRevised) and any(one.node_from != one.node_to for one in event.moves)
