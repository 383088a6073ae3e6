"""The capacity of a region: the highest rate at which 99 of 100 calls have their answer in time, found by bisection."""

from collections.abc import Callable

from bench.support.functions.region import Measured


def capacity_of(play: Callable[[float], Measured], rate_max: float, steps: int) -> float:
    """Return the highest rate that was found to be within capacity, in calls a second; 0 if none was.

    rate_max   the rate that keeps every core busy, beyond which no run is tried
    """
    within, over = 0.0, rate_max
    for _ in range(steps):
        rate = (within + over) / 2
        if play(rate).is_within:
            within = rate
        else:
            over = rate
    return within
