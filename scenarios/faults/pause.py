"""A process stands still, as by SIGSTOP, and goes on as if nothing had been."""

from scenarios.fault import Stage, UnitFault
from scenarios.schema.parts import Range


class Pause(UnitFault, frozen=True):
    """It says nothing, and hears afterwards all that was said to it meanwhile."""

    for_seconds: Range = (1.0, 60.0)

    async def strike(self, stage: Stage) -> None:
        """One of those that are meant."""
        unit = stage.one_of(self.meant(stage.world.units))
        async with stage.lasting(stage.world.pause(unit)):
            await stage.wait(self.for_seconds)
