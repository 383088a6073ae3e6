"""The guard of a keeper's clock: a log's time follows the machine's clock only while that clock is believable.

A log's time never goes back: a keeper starts at the machine's time or at its newest fact's, if that is later, and then counts by the
monotonic clock. Where these and the machine's clock are more than `CLOCK_APART_MAX` apart, the machine's clock was wrong then or is wrong now, and only an
operator can tell which. The keeper waits until the clock is right again, or until the operator's word, which is a fact of the log.
"""

from collections.abc import Callable

import structlog

from core.events.log import ClockAccepted
from core.nouns.ids import LogName
from core.nouns.instant import SECOND, Instant, Nanoseconds, after, seconds
from core.nouns.limits import CLOCK_APART_MAX, CLOCK_LOOK
from runtime.clock import Clock
from runtime.wake import Wake

logger = structlog.get_logger()


class ClockGuard:
    """Compares the time of one log with the machine's clock."""

    def __init__(
        self,
        log: LogName,
        clock: Clock,
        wall: Callable[[], Instant],
        elapsed: Callable[[], int],
        newest: tuple[int, Instant],
        accepted: Nanoseconds,
    ) -> None:
        """Begin to compare.

        elapsed    nanoseconds from any start, time in which the machine was suspended included
        newest     sequence and time of the log's newest fact
        accepted   by how much an operator has let the log be ahead of the machine's clock
        """
        self._log = log
        self._clock = clock
        self._wall = wall
        self._elapsed = elapsed
        self._newest = newest
        self._accepted = accepted
        self._apart = elapsed() - wall()
        """By how much time elapsed and the machine's clock were apart when the clock was believed last."""
        self.waits_for = ""
        """The operator's word for which the keeper waits, as a sentence; empty: none."""
        self._has_word = False
        self._word: ClockAccepted | None = None
        self._look_at = clock.now()

    async def believe(self, wake: Wake, refuse: Callable[[], None]) -> None:
        """Compare the log's time with the machine's clock, now and then; wait while the clock is not to be believed.

        `refuse` is called again and again meanwhile.
        """
        now = self._clock.now()
        if now < self._look_at:
            return
        self._look_at = after(now, CLOCK_LOOK)
        while problem := self._problem():
            if not self.waits_for:
                logger.error("clock_uncertain", log=self._log, problem=problem)
            self.waits_for = problem
            if self._has_word:
                self._has_word = False
                self._word = self._accept()
                continue
            refuse()
            await wake.wait(after(self._clock.now(), seconds(1)))
        self.waits_for = ""

    def take_word(self) -> ClockAccepted | None:
        """Return the fact of an operator's word that was heard and is not recorded yet."""
        word, self._word = self._word, None
        return word

    def hear_word(self) -> bool:
        """An operator lets the log go on. Returns whether the keeper waits for that."""
        self._has_word = bool(self.waits_for)
        return self._has_word

    def _problem(self) -> str:
        """Return what is wrong with the machine's clock, as a sentence; empty: the clock is believable."""
        (sequence, at), wall = self._newest, self._wall()
        jumped = 0 if sequence else self._elapsed() - wall - self._apart
        if sequence and at - wall - self._accepted > CLOCK_APART_MAX:
            ahead = _span(at - wall)
            what = f"the newest fact of {self._log}, {sequence}, is {ahead} ahead of this machine's clock"
        elif abs(jumped) > CLOCK_APART_MAX:
            what = f"this machine's clock has jumped {'back' if jumped > 0 else 'forward'} by {_span(jumped)}"
        else:
            if sequence:  # The start is in order; from here on the log's time does not rest on that fact.
                self._newest, self._apart = (0, at), self._elapsed() - wall
            return ""
        remedy = f"let the log go on with `mizzen plane accept-clock {self._log}`"
        return f"{what}; set the clock right, or {remedy}"

    def _accept(self) -> ClockAccepted:
        """Return the fact that an operator lets the log go on as it is: its time is ahead of the machine's clock by so much."""
        wall = self._wall()
        ahead = Nanoseconds(self._clock.now() - wall)
        self._accepted, self._apart = ahead, self._elapsed() - wall
        return ClockAccepted(machine_at=wall, ahead=ahead)


def _span(nanoseconds: int) -> str:
    return f"{abs(nanoseconds) / SECOND / 3600:.1f} h"
