"""A process dies, as by kill -9, at whatever await it is, and is started again."""

from scenarios.fault import Stage, UnitFault
from scenarios.parts import Range


class Crash(UnitFault, frozen=True):
    """Its memory is lost. A keeper may lose what it had written and not synced, too."""

    down_seconds: Range = (0.1, 30.0)

    async def strike(self, stage: Stage) -> None:
        """One of those that are meant."""
        unit = stage.one_of(self.meant(stage.world.units))
        await stage.world.kill(unit)
        try:
            await stage.wait(self.down_seconds)
        finally:
            await stage.world.revive(unit)
