"""Turns: how much a host decides before it reads the bus again, and, in simulated worlds, how long decisions take."""

from collections.abc import Callable

from msgspec import Struct

from core.messages.base import Message
from core.nouns.instant import Nanoseconds, after
from core.nouns.limits import TURN_ENVELOPES_MAX, TURN_SPAN
from runtime.clock import Clock
from runtime.wake import Wake


class Turn(Struct, frozen=True):
    """How much is decided before the bus is read again, and what is due is looked at."""

    envelopes: int = TURN_ENVELOPES_MAX
    span: Nanoseconds = TURN_SPAN


Pace = Callable[[Message], Nanoseconds]
"""Returns how long the decision on a message takes, which only a simulated world says: there, decisions take no time of themselves."""


class Pacing:
    """Lets decisions take time on a host's clock. What arrives meanwhile is not read before the turn is over, as from a socket."""

    def __init__(self, pace: Pace | None, clock: Clock) -> None:
        """Without `pace` no time is spent beside what decisions take of themselves."""
        self._pace = pace
        self._clock = clock
        self._wake = Wake(clock)
        self._unread: list[Callable[[], None]] | None = None
        """None: no turn has begun in which time was spent."""

    def puts_off(self, read: Callable[[], None]) -> bool:
        """Return whether what has arrived is read later, because a turn is not over."""
        if self._unread is None:
            return False
        self._unread.append(read)
        return True

    async def spend(self, message: Message) -> None:
        """Let the decision on a message take its time."""
        cost = self._pace(message) if self._pace is not None else 0
        if cost > 0:
            if self._unread is None:
                self._unread = []
            await self._wake.wait(after(self._clock.now(), Nanoseconds(cost)))

    def end_turn(self) -> None:
        """Read what has arrived."""
        if self._unread is not None:
            unread, self._unread = self._unread, None
            for read in unread:
                read()

    def close(self) -> None:
        """Let go of the timer."""
        self._wake.close()
