"""Eviction cost: the order of victims, by priority, then by the cost of their end.

source    MAST §4.3 takes the longest-running first; here lost work counts instead, because a checkpoint may have saved nearly
          all of a long run. The paper's order is a setting (core/nouns/preemption.py)
"""

from core.images.capacity import NOT_UP, Holding
from core.nouns.instant import SECOND, seconds
from core.nouns.limits import RESTART_SECONDS_MIN, RESTARTS_DEARER_MAX
from core.nouns.placement import gpu_milli_of
from core.nouns.preemption import VictimOrder
from core.nouns.quantities import MILLI

Cost = tuple[int, int, int]
"""Priority; GPU-seconds of lost work and restart, or by the paper's order the start time; the time of the grant."""


def destroyed(held: Holding, now: int) -> int:
    """Return the GPU-seconds that an end now would lose: work since the newest checkpoint or start; 0 before the start."""
    since = max(held.started_at, held.saved_at) or now
    return gpu_milli_of(held.claim.jobs) * max(0, now - since) // (MILLI * SECOND)


def destroyed_by_stop(held: Holding, until: int) -> int:
    """Return the GPU-seconds that a stop lost: work not saved at `until`, or 0 if a checkpoint was written in the grace.

    until   the time of the order to stop, or an earlier time at which no task ran any more
    """
    is_saved = held.saved_at >= until
    return 0 if is_saved else destroyed(held, until)


def restart_seconds(held: Holding) -> int:
    """Return the seconds that another start is likely to take: as this one, from the grant until all tasks were up."""
    took = (held.started_at - held.granted_at) // SECOND if held.started_at else 0
    return max(RESTART_SECONDS_MIN, took)


def eviction_cost(held: Holding, now: int, order: VictimOrder = VictimOrder.COST) -> Cost:
    """Return the sort key of a victim, lowest first: lower priority, then lower cost, then the earlier grant.

    The cost is the lost work plus the capacity that another start holds without working, so that a fresh checkpoint does not
    make a wide gang cheaper than a narrow one. Each earlier attempt doubles the cost, up to `RESTARTS_DEARER_MAX` times. The
    newest attempt has least to lose: without the doubling, a preempted workload would be preempted again as soon as the
    workload is back, and would never end. With the doubling, the workload is preempted again less and less often.
    """
    priority = held.claim.priority
    if order is VictimOrder.PAPER:
        return priority, held.started_at or NOT_UP, held.granted_at
    start = gpu_milli_of(held.claim.jobs) * restart_seconds(held) // MILLI
    dearer = min(max(0, held.claim.epoch - 1), RESTARTS_DEARER_MAX)
    return priority, (destroyed(held, now) + start) << dearer, held.granted_at


def told_until(held: Holding) -> int:
    """Return the time of the newest recorded grant, start or checkpoint of an attempt."""
    return max(held.granted_at, held.started_at, held.saved_at)


COUNTED_SPAN = seconds(60)
"""Lost work is counted up to a multiple of this span, so that an order of victims holds for a while."""


def counted_until(newest: int) -> int:
    """Return the time up to which lost work is counted: `newest`, the newest `told_until` of all attempts, rounded up."""
    return -(-newest // COUNTED_SPAN) * COUNTED_SPAN
