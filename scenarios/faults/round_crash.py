"""The queue dies while it begins a round of shared pools."""

from collections.abc import Sequence

from core.events.sharing import RoundBegun
from core.nouns.pool import SHARED_POOL
from runtime.wiring import Unit
from scenarios.fault import Fault, Stage
from scenarios.schema.fleet import FleetSpec, regions_of, units_meant
from scenarios.schema.parts import FieldError, Range, Steps


class RoundCrash(Fault, frozen=True):
    """As by kill -9, after it began to write the round's fact and before anybody is told: the fact is lost, torn, or durable."""

    down_seconds: Range = (0.1, 30.0)

    def problem(self, fleet: FleetSpec, units: Sequence[Unit], path: Steps) -> FieldError | None:
        """That no round ever begins."""
        if all(region.pool != SHARED_POOL for region in regions_of(fleet).values()):
            text = f"rounds are those of the pool `{SHARED_POOL}`, and no region of the fleet has nodes there"
            return FieldError(path, text)
        return super().problem(fleet, units, path)

    async def strike(self, stage: Stage) -> None:
        """At the next round, if one begins in time."""
        (queue,) = units_meant(stage.world.units, "job_queue")
        stage.has_struck = False
        try:
            stage.has_struck = await stage.world.kill_writing(queue, "", sort=RoundBegun)
            if stage.has_struck:
                await stage.wait(self.down_seconds)
        finally:
            if stage.has_struck:
                await stage.world.revive(queue)
