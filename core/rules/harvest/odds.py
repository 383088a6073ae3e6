"""How often harvested capacity of a region is recalled, and how often a call of a function is lost by that.

Recalls of recent hours count most: the weight of an hour halves with each `HALF_LIFE`. A region without experience is expected to have
`PRIOR_RECALLS` recalls of a node in a day; that expectation weighs as much as `PRIOR_HOURS` hours of one node.
"""

from collections.abc import Iterable

from core.images.harvest_history import HOUR, WHOLE, PoolHistory
from core.nouns.instant import SECOND, Nanoseconds

MILLION = 1_000_000
HALF_LIFE = 6
"""Hours (chosen: a quarter of the day that is known, so that a change of the load shows within a shift)."""
PRIOR_RECALLS = 1
PRIOR_HOURS = 2
"""Hours of one node (chosen: two hours of ten nodes outweigh the expectation ten times)."""
MILLISECONDS_OF_AN_HOUR = HOUR // 1_000_000
_FADED = tuple(MILLION * 2 ** (-age / HALF_LIFE) for age in range(4 * HALF_LIFE + 1))


def recalls_per_node_hour(histories: Iterable[PoolHistory], now: int) -> int:
    """Return the expected recalls of one node in an hour, in millionths. A recall of some devices counts for that part."""
    recalls = PRIOR_RECALLS * PRIOR_HOURS / 24
    hours = float(PRIOR_HOURS)
    present = now // HOUR
    for history in histories:
        for number, hour in history.hours_until(now):
            weight = _FADED[min(max(present - number, 0), len(_FADED) - 1)] / MILLION
            recalls += weight * hour.weight / WHOLE
            hours += weight * hour.node_span / MILLISECONDS_OF_AN_HOUR
        hours += history.node_span_until(now) / MILLISECONDS_OF_AN_HOUR
    return round(MILLION * recalls / hours)


def loss_odds(recalls: int, run_times: Iterable[tuple[Nanoseconds, int]], grace: Nanoseconds) -> int:
    """Return the expected part of a function's calls that recalls end, in millionths: λ times the mean of max(0, run time − grace).

    A call is lost if a recall comes while more than the grace is left of the run.

    recalls     of one node in an hour, in millionths
    run_times   learned run times of the function, each with its weight
    """
    exposed = total = 0
    for run_time, weight in run_times:
        exposed += weight * max(0, run_time - grace)
        total += weight
    if not total:
        return 0
    return min(MILLION, round(recalls * exposed / (total * 3_600 * SECOND)))
