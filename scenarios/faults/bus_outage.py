"""There is no bus for a while: nobody hears anybody, and everybody can tell."""

from scenarios.fault import Fault, Stage
from scenarios.schema.parts import Range


class BusOutage(Fault, frozen=True):
    """So long that silence would mean something, if the bus were there."""

    for_seconds: Range = (10.0, 120.0)

    async def strike(self, stage: Stage) -> None:
        """Down, and up."""
        async with stage.lasting(stage.world.stop_bus()):
            await stage.wait(self.for_seconds)
