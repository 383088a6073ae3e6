"""A zone loses its power: half a region or more is gone at one instant."""

from scenarios.fault import RegionFault, Stage
from scenarios.play.topology import lose_power, workers_by_zone
from scenarios.schema.parts import Range


class ZoneLoss(RegionFault, frozen=True):
    """One zone of a region, drawn; where a region is one zone, half of its workers, drawn."""

    down_seconds: Range = (10.0, 600.0)

    async def strike(self, stage: Stage) -> None:
        """All of them, and all come back together."""
        zones = workers_by_zone(stage.world.plan, stage.world.units, self.drawn(stage))
        struck = stage.dice.choice(zones)
        if len(zones) == 1:
            struck = stage.dice.sample(struck, (len(struck) + 1) // 2)
        await lose_power(stage, struck, self.down_seconds)
