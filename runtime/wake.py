"""A bell for one sleeper: rung by callbacks, or by the clock."""

import asyncio

from core.nouns.instant import Instant
from runtime.clock import Clock


class Wake:
    """Waits until it is rung or an instant has come, whichever is first.

    It may wake early for nothing: a timer that is already set for an earlier instant is left alone, which costs less than
    setting another at every wait.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_rung = False
        self._sleeper: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = Instant(0)

    def ring(self) -> None:
        """Wake the sleeper, or keep it from falling asleep."""
        self._is_rung = True
        sleeper = self._sleeper
        if sleeper is not None and not sleeper.done():
            sleeper.set_result(None)

    async def wait(self, until: Instant | None = None) -> None:
        """Sleep until rung, or until then, or a moment if then has passed. Only one may sleep at a time."""
        if not self._is_rung:
            if until is not None and (self._timer is None or self._timer_at > until):
                self._set_timer(until)
            self._sleeper = asyncio.get_running_loop().create_future()
            try:
                await self._sleeper
            finally:
                self._sleeper = None
        self._is_rung = False

    def close(self) -> None:
        """Let go of the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, until: Instant) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = until
        self._timer = self._clock.call_at(until, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        self.ring()
