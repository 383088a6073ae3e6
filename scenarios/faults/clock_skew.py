"""The clock of a machine gains or loses."""

from scenarios.fault import Stage, UnitFault
from scenarios.schema.parts import Range, SkewRange


class ClockSkew(UnitFault, frozen=True):
    """From a restart of a process on, to another one."""

    share: SkewRange = (0.0001, 0.01)
    """0.01: a second in a hundred, gained or lost as the dice say."""
    for_seconds: Range = (30.0, 600.0)

    async def strike(self, stage: Stage) -> None:
        """One of those that are meant."""
        world, unit = stage.world, stage.one_of(self.meant(stage.world.units))
        share = stage.draw(self.share) * stage.dice.choice((-1, 1))
        try:
            async with stage.lasting(world.skew_clock(unit, share)):
                await world.kill(unit)
                await world.revive(unit)
                await stage.wait(self.for_seconds)
        finally:
            await world.kill(unit)
            await world.revive(unit)
