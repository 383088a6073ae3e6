"""A process gets only a share of the time, as on a machine that is busy with something else."""

from scenarios.fault import Stage, UnitFault
from scenarios.schema.parts import PositiveFloat, Range, Share


class SlowProcess(UnitFault, frozen=True):
    """It stands still for a moment, again and again."""

    share: Share = 0.2
    """Of the time, in which it runs."""
    turn_seconds: PositiveFloat = 0.5
    """From one halt to the next; drawn between none and twice as long."""
    for_seconds: Range = (5.0, 60.0)

    async def strike(self, stage: Stage) -> None:
        """One of those that are meant."""
        unit = stage.one_of(self.meant(stage.world.units))
        until = stage.world.now() + stage.draw(self.for_seconds)
        while stage.world.now() < until:
            turn = stage.draw((0.01 * self.turn_seconds, 2 * self.turn_seconds))
            async with stage.lasting(stage.world.pause(unit, is_at_once=True)):
                await stage.world.sleep((1.0 - self.share) * turn)
            await stage.world.sleep(self.share * turn)
