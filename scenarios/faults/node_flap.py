"""Nodes come and go, many times in a row."""

from runtime.wiring import Unit, bus_name_of
from scenarios.fault import Stage, WorkerFault
from scenarios.schema.parts import Positive, Range
from scenarios.worlds.interface import Link


class NodeFlap(WorkerFault, frozen=True):
    """One worker's nodes lose their link to the bus, or their power, as the dice say for all turns."""

    turns: Positive = 8
    down_seconds: Range = (0.1, 20.0)
    up_seconds: Range = (0.1, 20.0)

    async def strike(self, stage: Stage) -> None:
        """One of those that are meant."""
        worker = self.drawn(stage)
        once = self._without_power if stage.dice.random() < 0.5 else self._without_link
        for _ in range(self.turns):
            await once(stage, worker)
            await stage.wait(self.up_seconds)

    async def _without_power(self, stage: Stage, worker: Unit) -> None:
        await stage.world.power_off(worker)
        try:
            await stage.wait(self.down_seconds)
        finally:
            await stage.world.revive(worker)

    async def _without_link(self, stage: Stage, worker: Unit) -> None:
        async with stage.lasting(stage.world.cut(Link((bus_name_of(worker),), ("*",)))):
            await stage.wait(self.down_seconds)
