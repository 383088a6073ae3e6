"""A host's watch over its own connection: a component that counts others' silence must know whether its own words come back."""

import asyncio
from collections.abc import Callable

from bus.port import Bus
from core.messages.base import BusBack, BusLost, Message
from core.nouns.instant import SECOND
from core.nouns.limits import HEAD_INTERVAL, READ_TIMEOUT


async def watch_bus(bus: Bus, notice: Callable[[Message], None]) -> None:
    """Give notice when a round trip fails, and when one succeeds again, for ever."""
    is_well = True
    while True:
        was_well, is_well = is_well, await bus.round_trip(READ_TIMEOUT)
        if is_well != was_well:
            notice(BusBack() if is_well else BusLost())
        await asyncio.sleep(HEAD_INTERVAL / SECOND)
