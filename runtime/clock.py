"""Time for hosts: the wall clock read once at the start, and the monotonic clock from then on."""

import asyncio
import time

from core.nouns.instant import SECOND, Instant

EPOCH = Instant(0)


class Clock:
    """One host's time, which never goes back.

    `asyncio`'s own clock carries it, so that a deadline can be turned into a timer of the loop, and a loop in virtual time
    makes it virtual.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, start: Instant, not_before: Instant = EPOCH) -> None:
        self._loop = loop
        self._offset = max(start, not_before) - round(loop.time() * SECOND)

    def now(self) -> Instant:
        """The instant it is."""
        return Instant(self._offset + round(self._loop.time() * SECOND))

    def loop_time(self, instant: Instant) -> float:
        """When that is on the loop's clock."""
        return (instant - self._offset) / SECOND


def wall_now() -> Instant:
    """The system's wall clock, in whole nanoseconds."""
    return Instant(time.time_ns())
