"""When something that is submitted now would start: in no more steps than there are GPU types and levels.

What it waits for is counted in GPUs: those that others are to have before it, and its own, less those that are free. They come
free at a rate, and the wait is the quotient. The rate is that of late. What runs, and how long such work runs
(core/estimating/prediction.py), would say another; but what runs at a moment is mostly what lasts, so that rate is four to ten times
too high, and where it was taken into account starts were off by more (docs/decisions/0025-when-it-will-start.md). It stands in as long as nothing
has come free at all, and it is a floor in quiet hours, in which all goes on: up to the rate at which everything would come free in a day.
How far off the quotient still is, bands tell.
"""

import math

from msgspec import Struct, field

from core.estimating.run_times import RunTimes
from core.nouns.instant import SECOND, Instant, Nanoseconds, seconds

HALF_LIFE: Nanoseconds = seconds(4_800)
"""Of what came free: with it, it is as if the last two hours counted."""
KNOWN_MIN = 1 / 16
"""Of what counts, the least over which a rate is told: a few minutes."""
LN2 = math.log(2)
HOUR = 3_600 * SECOND
MILLIONTHS = 1_000
"""Of a GPU, in a thousandth: rates are whole millionths of a GPU an hour."""
LONGEST: Nanoseconds = seconds(30 * 86_400)
"""No wait is estimated longer: a month."""
SHORTEST_RUN: Nanoseconds = seconds(1)
SLOWEST = 24
"""Hours in which every GPU comes free once at the least: only what nothing else is known of is as slow."""


class Flow(Struct):
    """GPUs of one type, or of several that do as well, that come free."""

    freed: int = 0
    """Millionths that came free, fading, up to `at`."""
    at: Instant = Instant(0)
    expected: int = 0
    """Millionths an hour that what runs is expected to free."""
    since: Instant = Instant(0)
    """When the first of it began to run; 0: nothing has."""
    waited: RunTimes = field(default_factory=RunTimes)
    """How long work waited for them, from when it could have started until its gang was up."""

    def begin(self, rate: int, now: Instant) -> None:
        """Something runs that is expected to free so many millionths an hour."""
        self.expected += rate
        self.since = self.since or now

    def free(self, gpu_milli: int, now: Instant) -> None:
        """So many came free."""
        self.freed, self.at = max(1, self._faded(now) + gpu_milli * MILLIONTHS), now

    def lately(self, now: Instant) -> int:
        """Millionths of a GPU an hour that came free: of a flow that is younger than what counts, over its age. 0: nothing ever did."""
        if not self.freed:
            return 0
        age = max(0, now - self.since)
        known = max(KNOWN_MIN, 1 - math.exp(-LN2 * (age / HALF_LIFE)))
        return max(1, round(self._faded(now) * LN2 * HOUR / HALF_LIFE / known))

    def _faded(self, now: Instant) -> int:
        return round(self.freed * math.exp(-LN2 * (max(0, now - self.at) / HALF_LIFE)))


def expected_rate(gpu_milli: int, duration: Nanoseconds) -> int:
    """At which something that runs so long frees its GPUs, on average over all such: millionths of a GPU an hour."""
    return gpu_milli * MILLIONTHS * HOUR // max(duration, SHORTEST_RUN)


def rate_of(lately: int, expected: int, capacity_milli: int) -> int:
    """At which GPUs come free: all in millionths of a GPU an hour.

    lately          as `Flow.lately` has it
    expected        as `Flow.expected`; 0: nothing is known of what runs
    capacity_milli  all GPUs that there are
    returns         1 at least
    """
    slowest = max(1, capacity_milli * MILLIONTHS // SLOWEST)
    if not lately:
        return expected or slowest
    return max(lately, min(expected or slowest, slowest))


def span_until(missing_milli: int, rate: int) -> Nanoseconds:
    """How long it takes until so many more GPUs came free.

    missing_milli   0 or less: they are free already
    rate            millionths of a GPU an hour, > 0
    """
    if missing_milli <= 0:
        return Nanoseconds(0)
    return Nanoseconds(min(LONGEST, missing_milli * MILLIONTHS * HOUR // rate))
