"""Time for hosts: the wall clock read once at the start, and the monotonic clock from then on."""

import asyncio
import time
from collections.abc import Callable

from core.nouns.instant import SECOND, Instant

EPOCH = Instant(0)


class Clock:
    """One host's time, which never goes back.

    The loop's own clock carries it, so that a deadline can be a timer of the loop, and a loop in virtual time makes it
    virtual. A loop that counts whole nanoseconds itself (`now_ns`, `call_at_ns`) is read without rounding.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, start: Instant, not_before: Instant = EPOCH) -> None:
        self._read: Callable[[], int] = getattr(loop, "now_ns", time.monotonic_ns)
        self._offset = max(start, not_before) - self._read()
        call_at_ns = getattr(loop, "call_at_ns", None)
        self._call_at: Callable[[int, Callable[[], None]], asyncio.TimerHandle] = call_at_ns or (
            lambda when, callback: loop.call_at(when / SECOND, callback)
        )

    def now(self) -> Instant:
        """The instant it is."""
        return Instant(self._offset + self._read())

    def call_at(self, instant: Instant, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Call back when an instant has come."""
        return self._call_at(instant - self._offset, callback)


def elapsed() -> int:
    """Return nanoseconds from any start. Time in which the machine was suspended is included, where the system knows it."""
    return (
        time.clock_gettime_ns(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic_ns()
    )


def wall_now() -> Instant:
    """The system's wall clock, in whole nanoseconds."""
    return Instant(time.time_ns())
