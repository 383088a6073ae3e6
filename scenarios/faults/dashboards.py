"""Dashboards that look at the queue all the time."""

import asyncio
from typing import ClassVar

from bus.errors import BusError
from bus.port import Bus
from core.messages.starts import ListStarts
from core.nouns.instant import seconds
from scenarios.fault import Fault, Stage
from scenarios.schema.parts import Positive, PositiveFloat, Range

ASK = seconds(10)
ASKED_MAX = 1_000
"""Questions of one dashboard that are not answered yet; beyond, it waits."""


class Dashboards(Fault, frozen=True):
    """So many dashboards list when what waits will start, each so often, whether or not it was answered."""

    is_misfortune: ClassVar[bool] = False
    dashboards: Positive = 4
    lists_per_second: PositiveFloat = 1.0
    """Of each dashboard, at random times."""
    for_seconds: Range | None = None
    """None: until misfortune ends."""

    async def strike(self, stage: Stage) -> None:
        """Each from an endpoint of its own."""
        loop = asyncio.get_running_loop()
        looks = [loop.create_task(self._look(stage, number)) for number in range(self.dashboards)]
        try:
            await stage.last(self.for_seconds)
        finally:
            for look in looks:
                look.cancel()

    async def _look(self, stage: Stage, number: int) -> None:
        bus = stage.world.user(f"client.dashboard.{number}")
        asked: set[asyncio.Task[None]] = set()
        try:
            while True:
                await stage.world.sleep(stage.dice.expovariate(self.lists_per_second))
                if len(asked) < ASKED_MAX:
                    task = asyncio.get_running_loop().create_task(_ask(bus))
                    asked.add(task)
                    task.add_done_callback(asked.discard)
        finally:
            for task in list(asked):
                task.cancel()


async def _ask(bus: Bus) -> None:
    """A list that does not come is of no interest: the next one is asked for soon."""
    try:
        await bus.ask(ListStarts(), ASK)
    except BusError:
        return
