"""A process dies, as by kill -9, at whatever await it is, and is started again."""

from scenarios.fault import Stage, UnitFault
from scenarios.parts import Range, Share

DEATHS_MAX = 5
"""In a row, however likely another one is."""


class Crash(UnitFault, frozen=True):
    """Its memory is lost. A keeper may lose what it had written and not synced, too."""

    down_seconds: Range = (0.1, 30.0)
    again_share: Share = 0.0
    """Of those who died, those who die again while they start; and again, with the same likelihood."""

    async def strike(self, stage: Stage) -> None:
        """One of those that are meant."""
        unit = stage.one_of(self.meant(stage.world.units))
        for _ in range(DEATHS_MAX):
            await stage.world.kill(unit)
            try:
                await stage.wait(self.down_seconds)
            finally:
                await stage.world.revive(unit)
            if stage.dice.random() >= self.again_share:
                return
