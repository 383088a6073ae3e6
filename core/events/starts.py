"""Events about starts that are promised: the queue's, which says them, and a region's, which keeps the room."""

from core.fact import Event
from core.nouns.ids import RegionName, TenantName, WorkloadId
from core.nouns.instant import Nanoseconds
from core.nouns.placement import Spread
from core.nouns.starts import StartOver
from core.nouns.workload import JobSpec


class StartPromised(Event, frozen=True, tag="start-promised"):
    """The queue wants this region to reserve a start, and promises it as soon as the region's log shows it reserved."""

    about_field = "workload"
    workload: WorkloadId
    revision: int
    """Of the workload's promises: it grows with each."""
    region: RegionName
    start_in: Nanoseconds
    """From this fact until the promised start: by then it holds its capacity."""
    reserve_in: Nanoseconds
    """From this fact until its nodes are surely free."""
    spreads: tuple[Spread, ...]
    level: int
    """Of the workload: only what is of a higher one may take the room."""
    why: str = ""
    """Why the promise before was not kept (`StartOver`); empty: there was none, or it was taken back by its user."""
    is_move: bool = False
    """Whether it runs elsewhere, and is to go on here: the end of that attempt does not end the promise."""


class StartPromiseEnded(Event, frozen=True, tag="start-promise-ended"):
    """A promise does not stand any more, though its workload still waits."""

    about_field = "workload"
    workload: WorkloadId
    revision: int
    reason: StartOver


class StartReserved(Event, frozen=True, tag="start-reserved"):
    """From here on nobody is put on these nodes who would not surely be gone by the start, but for work of a higher level."""

    about_field = "workload"
    workload: WorkloadId
    revision: int
    start_in: Nanoseconds
    """From this fact until the nodes are surely free."""
    level: int
    kind: str
    tenant: TenantName
    jobs: tuple[JobSpec, ...]
    spreads: tuple[Spread, ...]
    global_sequence: int
    """Of the queue's promise."""


class StartUnreserved(Event, frozen=True, tag="start-unreserved"):
    """A reserved start is over, or a promise of this revision will never be reserved here."""

    about_field = "workload"
    workload: WorkloadId
    revision: int
    reason: StartOver


OF_QUEUE: tuple[type[Event], ...] = (StartPromised, StartPromiseEnded)
OF_REGION: tuple[type[Event], ...] = (StartReserved, StartUnreserved)
EVENTS: tuple[type[Event], ...] = (*OF_QUEUE, *OF_REGION)
