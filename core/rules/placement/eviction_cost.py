"""Whose end costs least: the order in which victims are chosen among those of equal priority.

source    MAST §4.3 takes the longest-running first; here it is what would be lost that counts, for a checkpoint may have
          saved all but a little of a long run
"""

from core.images.capacity import Holding
from core.nouns.instant import SECOND, seconds
from core.nouns.placement import gpu_milli_of
from core.nouns.quantities import MILLI


def destroyed(held: Holding, now: int) -> int:
    """GPU-seconds of work that would be lost: since its newest checkpoint, or since its start."""
    since = max(held.started_at, held.saved_at) or now
    return gpu_milli_of(held.claim.jobs) * max(0, now - since) // (MILLI * SECOND)


def eviction_cost(held: Holding, now: int) -> tuple[int, int, int, int]:
    """Lower goes first: lower priority, then fewer starts so far, then less work destroyed, then the longest in its place.

    The newest attempt has least to lose. If that alone counted, whoever was pushed out would be the first to be pushed out
    again as soon as it is back, and would never end; so who was started most often is spared.
    """
    return held.claim.priority, held.claim.epoch, destroyed(held, now), held.granted_at


def told_until(held: Holding) -> int:
    """When the newest happened to it that the log tells of."""
    return max(held.granted_at, held.started_at, held.saved_at)


COUNTED_SPAN = seconds(60)
"""What would be lost is counted up to a whole one of these, so that an order of victims holds for a while."""


def counted_until(newest: int) -> int:
    """Up to when what attempts would lose is counted, where this is the newest that the log tells of one of them."""
    return -(-newest // COUNTED_SPAN) * COUNTED_SPAN
