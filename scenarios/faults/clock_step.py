"""The wall clock of a machine jumps."""

from scenarios.fault import Stage, UnitFault
from scenarios.schema.parts import Range


class ClockStep(UnitFault, frozen=True):
    """Forward or back, as the dice say. A process reads it when it starts, so it is started again."""

    seconds: Range = (1.0, 3600.0)
    down_seconds: Range = (0.1, 10.0)
    for_seconds: Range = (10.0, 300.0)
    """Until the clock is right again; whoever reads it after that sees it jump back."""

    async def strike(self, stage: Stage) -> None:
        """One of those that are meant."""
        world, unit = stage.world, stage.one_of(self.meant(stage.world.units))
        step = stage.draw(self.seconds) * stage.dice.choice((-1, 1))
        await world.step_clock(unit, step)
        try:
            await world.kill(unit)
            try:
                await stage.wait(self.down_seconds)
            finally:
                await world.revive(unit)
            await stage.wait(self.for_seconds)
        finally:
            await world.step_clock(unit, -step)
