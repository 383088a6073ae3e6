"""Harvested capacity: free or lent capacity that functions may use, and that its owner gets back within a grace.

Harvested capacity is in no claim: capacity is free or held whether functions use it or not. A machine gives it back by itself
(docs/decisions/0056-harvested-capacity.md); the region's log only tells what was offered, recalled and released.
"""

from enum import StrEnum

from msgspec import Struct

from core.nouns.ids import AttemptKey
from core.nouns.instant import Instant, Nanoseconds, seconds
from core.nouns.quantities import MILLI, NOTHING, Amount

GRACE_MAX: Nanoseconds = seconds(45)
"""The longest grace of a recall: well below the time in which all tasks of a granted attempt have to start."""
RELEASE_SPAN: Nanoseconds = seconds(5)
"""After the grace of a recall, until the log has to show the release."""
LEND_INTERVAL: Nanoseconds = seconds(0.25)
"""Between two times at which a share begins to lend more: tasks may say another number a hundred times a second."""
IDLE_SPANS_MAX = 2048
"""Spans in the cycle in which the devices of an emulated task are idle."""


class HarvestSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Whether functions may use free capacity of a pool, and how soon they give it back."""

    is_on: bool = False
    grace: Nanoseconds = seconds(30)
    """How long calls may run on after a recall, on devices that are needed."""
    keep: int = 0
    """GPUs in each zone of the pool that are not offered; cores where nodes have no GPUs."""
    after: Nanoseconds = seconds(10)
    """How long capacity has to be available before it is offered."""
    takes_reserve: bool = False
    """Whether the nodes that the pool keeps empty are offered too."""
    price: int = 0
    """Of a GPU-hour that functions use, in millionths of the operator's unit; of a core-hour where nodes have no GPUs."""


RISK_MAX = 1_000_000
"""A tenant's bound of risk that is none, in millionths."""


class HarvestUse(Struct, frozen=True, forbid_unknown_fields=True):
    """How far functions of a tenant may use harvested capacity."""

    is_on: bool = True
    risk_max: int = RISK_MAX
    """In millionths: a function whose calls are expected to be lost more often than this uses no harvested capacity."""


USES_ALL = HarvestUse()

LENDS = HarvestSettings(is_on=True)
KEEPS = HarvestSettings()


class Why(StrEnum):
    """Why harvested capacity is recalled."""

    GRANTED = "granted"
    """An attempt was granted capacity there."""
    CLOSED = "closed"
    """The node takes no new work."""
    LOST = "lost"
    POOLED = "pooled"
    """The node went to another pool."""
    ENDED = "ended"
    """The task that lent it stops, has moved or has ended."""
    WANTED = "wanted"
    """The task that lent it wants it back."""
    SET = "set"
    """By the pool's settings less may be harvested."""


class LentPart(Struct, frozen=True):
    """Capacity of one node that tasks which hold it let functions use for now."""

    node: int
    size: Amount


class HarvestPart(Struct, frozen=True):
    """The same for each of some nodes."""

    nodes: tuple[tuple[int, int], ...]
    """As runs."""
    size: Amount
    """Capacity that functions may use of each of them."""
    primary: AttemptKey | None = None
    """The attempt whose tasks lend it; None: it is free."""
    pool: str = ""
    """Of these nodes, as the store records it."""
    number: int = 0
    """The number of the lending tasks' word; 0 for free capacity."""


class ReleasedPart(Struct, frozen=True):
    """The end of recalls of one node."""

    node: int
    revision: int
    """Recalls of the node up to this revision are over."""
    after: Nanoseconds
    """Since the oldest of these recalls."""
    lost: int = 0
    """Calls that were ended before they were done."""
    lost_span: Nanoseconds = Nanoseconds(0)
    """Run time of these."""
    is_confirmed: bool = True
    """Whether the node's function server has said so; otherwise the time for that was over."""


def release_due(recalled_at: int, opened_at: int, within: Nanoseconds) -> Instant:
    """Return when a recall's release has to be in the log. A store that was down counts from when it opened its log again."""
    return Instant(max(recalled_at, opened_at) + within + RELEASE_SPAN)


def lent_of(need: Amount, idle: int, keeps_bytes: int = 0) -> Amount:
    """Return what a task lends: idle devices, and with each of them its part of the task's cores and memory.

    need         of the task; a part of a device is not lent
    idle         whole devices
    keeps_bytes  memory that the task uses meanwhile
    """
    devices = min(idle, need.gpu_milli // MILLI)
    if devices <= 0:
        return NOTHING
    milli, free = devices * MILLI, max(0, need.memory_bytes - keeps_bytes)
    memory = min(free, need.memory_bytes * milli // need.gpu_milli)
    return Amount(milli, need.cpu_milli * milli // need.gpu_milli, memory)
