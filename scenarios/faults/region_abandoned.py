"""A region is cut off, its operators give it up, and it comes back."""

from runtime.wiring import bus_name_of
from scenarios.fault import RegionFault, Stage, outside
from scenarios.play.operators import Operators
from scenarios.schema.fleet import units_meant
from scenarios.schema.parts import Range
from scenarios.worlds.interface import Link


class RegionAbandoned(RegionFault, frozen=True):
    """What runs there goes on elsewhere, and here too, until it is healed; then it is readmitted."""

    after_silence_seconds: Range = (10.0, 60.0)
    """From the cut until it is given up."""
    for_seconds: Range = (30.0, 300.0)
    """From then until it is healed."""
    readmitted_after_seconds: Range = (0.0, 60.0)
    """From then until work is placed there again."""

    async def strike(self, stage: Stage) -> None:
        """Cut, give up, heal, take back."""
        region = self.drawn(stage)
        units, operators = stage.world.units, Operators(stage.users)
        inside = units_meant(units, region=region)
        ones, others = tuple(bus_name_of(unit) for unit in inside), outside(units, inside)
        try:
            async with stage.lasting(stage.world.cut(Link(ones, others))):
                await stage.wait(self.after_silence_seconds)
                stage.problems += await operators.abandon(region)
                await stage.wait(self.for_seconds)
            await stage.wait(self.readmitted_after_seconds)
        finally:
            await stage.undo(lambda: operators.readmit(region))
