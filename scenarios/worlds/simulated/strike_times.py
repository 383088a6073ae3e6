"""At which moment a process is struck. What is drawn from all nanoseconds finds nearly every process waiting for something to
do; a process that is struck after a few of its own callbacks is in the middle of something.
"""

import asyncio
import random
from collections.abc import Callable

from core.nouns.instant import Nanoseconds, seconds
from runtime.virtual_loop import VirtualLoop

CALLS_MAX = 30
"""Callbacks of its own after which a process is struck at the latest. A keeper takes four for a message that becomes a fact,
and about ten from its start to its first fact.
"""
AT_ONCE_SHARE = 0.2
"""Of the strikes, those that do not wait: for a process that has nothing to do is struck too."""
WAIT_MAX: Nanoseconds = seconds(2)
"""For those callbacks."""

Undo = Callable[[], object]
"""What takes back what was done."""


class Moments:
    """Draws them: for each process by dice of its own, so that what strikes one changes nothing for the others."""

    def __init__(self, loop: VirtualLoop, seed: int) -> None:
        self._loop = loop
        self._seed = seed
        self._dice: dict[str, random.Random] = {}

    def dice(self, owner: str) -> random.Random:
        """Of one process."""
        dice = self._dice.get(owner)
        if dice is None:
            dice = self._dice[owner] = random.Random(f"strike/{self._seed}/{owner}")
        return dice

    async def strike(self, owner: str, act: Callable[[], Undo]) -> Undo:
        """Do something to a process at a drawn moment. Whoever is cancelled while it waits for that has done nothing."""
        dice = self.dice(owner)
        is_at_once, share = dice.random() < AT_ONCE_SHARE, dice.random()
        if is_at_once:
            return act()
        struck: asyncio.Future[Undo] = self._loop.create_future()

        def now() -> None:
            counting.cancel()
            late.cancel()
            struck.set_result(act())

        # Rather few than many: most of what a process does takes a handful.
        counting = self._loop.call_after_calls(owner, 1 + int(CALLS_MAX * share * share), now)
        late = self._loop.call_after_ns(WAIT_MAX, now)
        try:
            return await struck
        except asyncio.CancelledError:
            counting.cancel()
            late.cancel()
            if not struck.cancelled():
                struck.result()()  # It was done, and nobody is there any more to undo it.
            raise
