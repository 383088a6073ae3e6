"""The server of the bus is started again."""

from scenarios.fault import Fault, Stage
from scenarios.schema.parts import Range


class BusRestart(Fault, frozen=True):
    """It is gone for a moment, with all that was on its way."""

    down_seconds: Range = (0.2, 5.0)

    async def strike(self, stage: Stage) -> None:
        """Down, and up."""
        async with stage.lasting(stage.world.stop_bus()):
            await stage.wait(self.down_seconds)
