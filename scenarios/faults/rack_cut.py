"""The switch of a rack fails: whoever serves its nodes hears nobody and is heard by nobody. Its tasks go on."""

from runtime.wiring import bus_name_of
from scenarios.fault import RegionFault, Stage
from scenarios.play.topology import workers_by_rack
from scenarios.schema.parts import Range
from scenarios.worlds.interface import Link


class RackCut(RegionFault, frozen=True):
    """One rack of a region, drawn."""

    for_seconds: Range = (10.0, 300.0)

    async def strike(self, stage: Stage) -> None:
        """Cut all its workers from everybody, each other and themselves, and heal."""
        region = self.drawn(stage)
        workers = stage.dice.choice(workers_by_rack(stage.world.plan, stage.world.units, region))
        link = Link(tuple(bus_name_of(worker) for worker in workers), ("*",))
        async with stage.lasting(stage.world.cut(link)):
            await stage.wait(self.for_seconds)
