"""What the queue says to a region's store about starts that it promised."""

from core.messages.base import Message
from core.nouns.ids import RegionName, TenantName, WorkloadId
from core.nouns.instant import Nanoseconds
from core.nouns.placement import Spread
from core.nouns.workload import JobSpec


class ReserveStart(Message, frozen=True, tag="reserve-start"):
    """Keep these nodes for this start. Said again until the region's log shows it reserved, or over."""

    region: RegionName
    workload: WorkloadId
    revision: int
    start_in: Nanoseconds
    """Until the nodes are surely free; less each time that it is said again."""
    level: int
    kind: str
    tenant: TenantName
    jobs: tuple[JobSpec, ...]
    spreads: tuple[Spread, ...]
    global_sequence: int
    """Of the promise in the queue's log: the store reads up to it before it judges."""


MESSAGES: tuple[type[Message], ...] = (ReserveStart,)
