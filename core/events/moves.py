"""Events of the log `global` about workloads that move from one region to another."""

from core.fact import Event
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.instant import Nanoseconds
from core.nouns.moving import MoveCost
from core.nouns.starts import StartOver


class MovePlanned(Event, frozen=True, tag="move-planned"):
    """A workload that runs is to go on in another region, which has room for it; a start there is promised with it."""

    about_field = "workload"
    workload: WorkloadId
    revision: int
    """Of the workload's moves: it grows with each."""
    epoch: int
    """The attempt that is to stop for it."""
    region: RegionName
    cost: MoveCost
    by: str = ""


class MoveBegun(Event, frozen=True, tag="move-begun"):
    """The other region keeps the room: the attempt is to stop now, as its controller agrees, or when the deadline comes."""

    about_field = "workload"
    workload: WorkloadId
    revision: int
    epoch: int
    deadline: Nanoseconds
    region: RegionName
    region_sequence: int
    """Of the fact there that keeps the room."""


class MoveEnded(Event, frozen=True, tag="move-ended"):
    """It came to nothing. What runs goes on where it is; what has stopped is placed anywhere."""

    about_field = "workload"
    workload: WorkloadId
    revision: int
    reason: StartOver


EVENTS: tuple[type[Event], ...] = (MovePlanned, MoveBegun, MoveEnded)
