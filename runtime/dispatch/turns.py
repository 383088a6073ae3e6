"""Turns: how much a host decides before it reads the bus again, and, in simulated worlds, how long decisions take."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import Struct

from core.messages.base import Message
from core.nouns.instant import Instant, Nanoseconds, after
from core.nouns.limits import (
    DURABLE_WAIT,
    DURABLE_WAIT_EVERY,
    TURN_ENVELOPES_MAX,
    TURN_SPAN,
    TURN_SPAN_MAX,
    TURN_YIELDS,
)
from runtime.clock import Clock
from runtime.dispatch.mailbox import Mailbox
from runtime.wake import Wake


class Turn(Struct, frozen=True):
    """How much is decided before the bus is read again, and what is due is looked at."""

    envelopes: int = TURN_ENVELOPES_MAX
    span: Nanoseconds = TURN_SPAN
    span_max: Nanoseconds = TURN_SPAN_MAX
    """While what is next has as short a target as any message that may arrive, but `system`."""

    def is_over(self, now: Instant, span: Nanoseconds, mailbox: Mailbox) -> bool:
        """Return whether a turn that has taken so long ends."""
        return span >= self.span and (span >= self.span_max or mailbox.may_be_preceded(now))


Pace = Callable[[Message], Nanoseconds]
"""Returns how long the decision on a message takes, which only a simulated world says: there, decisions take no time of themselves."""


class Turns:
    """The turns of one host. With a pace, decisions take time on the host's clock, and what arrives in a turn is read when it is over, as
    from a socket.
    """

    def __init__(self, turn: Turn | None, pace: Pace | None, clock: Clock) -> None:
        """Without `pace` no time is spent beside what decisions take of themselves."""
        self.turn = turn or Turn()
        self._durable = Wake(clock)
        self._may_wait_at = clock.now()
        self._pace = pace
        self._clock = clock
        self._wake = Wake(clock)
        self._unread: list[Callable[[], None]] | None = None
        """None: no turn has begun in which time was spent."""

    def puts_off(self, read: Callable[..., None], *arguments: Any) -> bool:  # Any: those of `read`
        """Return whether what has arrived is read later, because a turn is not over."""
        if self._unread is None:
            return False
        self._unread.append(partial(read, *arguments))
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

    def tell_durable(self) -> None:
        """A batch is durable, and told."""
        self._durable.ring()

    async def rest(self, is_unsaid: Callable[[], bool], *, is_long_next: bool) -> None:
        """Between two turns, let the bus hand over what has come meanwhile.

        is_unsaid   returns whether something that was decided is not told yet
        is_long_next    whether the next decision takes longer than a turn: what was decided is told first, if that takes no longer
                        than `DURABLE_WAIT`, and no more than a twentieth of the time was waited for that
        """
        begun = self._clock.now()
        if is_long_next and begun >= self._may_wait_at:
            until = after(begun, DURABLE_WAIT)
            while is_unsaid() and self._clock.now() < until:
                await self._durable.wait(until)
            waited = self._clock.now() - begun
            self._may_wait_at = after(begun, Nanoseconds(waited * DURABLE_WAIT_EVERY))
        for _ in range(TURN_YIELDS):
            await asyncio.sleep(0)

    def close(self) -> None:
        """Let go of timers."""
        self._wake.close()
        self._durable.close()
