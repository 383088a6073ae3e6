"""A region is cut off from everything outside; within it all is well."""

from runtime.wiring import bus_name_of
from scenarios.fault import RegionFault, Stage, outside
from scenarios.fleet import units_meant
from scenarios.parts import Range
from scenarios.worlds.misfortune import Link


class RegionCut(RegionFault, frozen=True):
    """As when its links to the others fail."""

    one_way: bool = False
    """Only one direction fails, which is drawn."""
    for_seconds: Range = (10.0, 300.0)

    async def strike(self, stage: Stage) -> None:
        """Cut, and heal."""
        units = stage.world.units
        inside = units_meant(units, region=self.drawn(stage))
        ones, others = tuple(bus_name_of(unit) for unit in inside), outside(units, inside)
        if stage.dice.random() < 0.5:
            ones, others = others, ones
        async with stage.lasting(stage.world.cut(Link(ones, others, self.one_way))):
            await stage.wait(self.for_seconds)
