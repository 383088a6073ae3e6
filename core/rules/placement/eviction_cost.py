"""Whose end costs least: the order in which victims are chosen among those of equal priority.

source    MAST §4.3 takes the longest-running first; here it is what would be lost that counts, for a checkpoint may have
          saved all but a little of a long run. The paper's order is a setting (core/nouns/preemption.py)
"""

from core.images.capacity import NOT_UP, Holding
from core.nouns.instant import SECOND, seconds
from core.nouns.limits import RESTART_SECONDS_MIN, RESTARTS_DEARER_MAX
from core.nouns.placement import gpu_milli_of
from core.nouns.preemption import VictimOrder
from core.nouns.quantities import MILLI

Cost = tuple[int, int, int]
"""A priority, what counts among those of one, and since when it is in its place."""


def destroyed(held: Holding, now: int) -> int:
    """GPU-seconds of work that would be lost: since its newest checkpoint, or since its start."""
    since = max(held.started_at, held.saved_at) or now
    return gpu_milli_of(held.claim.jobs) * max(0, now - since) // (MILLI * SECOND)


def destroyed_by_stop(held: Holding, until: int) -> int:
    """GPU-seconds that its end did destroy: what it had not saved when it was told to stop, unless it did so in its grace.

    until   when it was told, or when nothing of it ran any more
    """
    is_saved = held.saved_at >= until
    return 0 if is_saved else destroyed(held, until)


def restart_seconds(held: Holding) -> int:
    """What another start of it is likely to take: as long as this one took until all of it was up."""
    took = (held.started_at - held.granted_at) // SECOND if held.started_at else 0
    return max(RESTART_SECONDS_MIN, took)


def eviction_cost(held: Holding, now: int, order: VictimOrder = VictimOrder.COST) -> Cost:
    """Lower goes first: lower priority, then less work destroyed times the cost of a restart, then the longest in its place.

    What a start holds without working is lost work too, so it counts beside what was not saved: a checkpoint a moment ago does
    not make a wide gang cheaper than a narrow one. And each start so far doubles it. The newest attempt has least to lose; if
    that alone counted, whoever was pushed out would be the first to be pushed out again as soon as it is back, and would never
    end. So it is pushed out again only when all others have so much more to lose, and less and less often.
    """
    priority = held.claim.priority
    if order is VictimOrder.PAPER:
        return priority, held.started_at or NOT_UP, held.granted_at
    start = gpu_milli_of(held.claim.jobs) * restart_seconds(held) // MILLI
    dearer = min(max(0, held.claim.epoch - 1), RESTARTS_DEARER_MAX)
    return priority, (destroyed(held, now) + start) << dearer, held.granted_at


def told_until(held: Holding) -> int:
    """When the newest happened to it that the log tells of."""
    return max(held.granted_at, held.started_at, held.saved_at)


COUNTED_SPAN = seconds(60)
"""What would be lost is counted up to a whole one of these, so that an order of victims holds for a while."""


def counted_until(newest: int) -> int:
    """Up to when what attempts would lose is counted, where this is the newest that the log tells of one of them."""
    return -(-newest // COUNTED_SPAN) * COUNTED_SPAN
