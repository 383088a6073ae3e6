"""adaptive: quality-first while requests are served soon, latency-first from the time at which one has waited for long.

Latency-first lasts until a request has waited for less than half of that, so that one slow request does not change the strategy
back and forth.

source    ParSync (ATC'21): 1.5 s; the return is ours, half of it
"""

from core.nouns.instant import MILLISECOND, Nanoseconds
from core.placing.strategies.latency_first import latency_first
from core.placing.strategies.quality_first import quality_first
from core.placing.strategies.strategy import Candidates, Flags

LATE = Nanoseconds(1_500 * MILLISECOND)
IN_TIME = Nanoseconds(LATE // 2)


def adaptive(candidates: Candidates) -> Flags:
    """Return the first partitions by latency if requests have waited for long, else by quality."""
    return latency_first(candidates) if candidates.is_late else quality_first(candidates)


def is_late_after(waited: Nanoseconds, *, was_late: bool) -> bool:
    """Return whether an agent counts as late after a request that waited so long."""
    return waited >= IN_TIME if was_late else waited >= LATE
