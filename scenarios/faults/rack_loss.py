"""A rack loses its power: all its nodes are gone at one instant."""

from scenarios.fault import RegionFault, Stage
from scenarios.play.topology import lose_power, workers_by_rack
from scenarios.schema.parts import Range


class RackLoss(RegionFault, frozen=True):
    """One rack of a region, drawn, and with it all nodes of the workers that serve it."""

    down_seconds: Range = (10.0, 600.0)

    async def strike(self, stage: Stage) -> None:
        """All of them, and all come back together."""
        region = self.drawn(stage)
        workers = stage.dice.choice(workers_by_rack(stage.world.plan, stage.world.units, region))
        await lose_power(stage, workers, self.down_seconds)
