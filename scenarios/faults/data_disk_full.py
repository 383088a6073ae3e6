"""The disk of a region's data service is full for a while."""

from collections.abc import Sequence

from core.nouns.ids import RegionName
from runtime.wiring import Unit
from scenarios.fault import Fault, Stage
from scenarios.faults.data_link import no_service, served_regions
from scenarios.schema.fleet import FleetSpec
from scenarios.schema.parts import FieldError, Range


class DataDiskFull(Fault, frozen=True):
    """Of one region, drawn if none is named."""

    region: str = ""
    for_seconds: Range = (30.0, 600.0)

    async def strike(self, stage: Stage) -> None:
        """Fill it, and make room."""
        regions = served_regions(stage)
        region = RegionName(self.region) if self.region else regions[stage.dice.randrange(len(regions))]
        async with stage.lasting(stage.world.fill_data_disk(region)):
            await stage.wait(self.for_seconds)

    def problem(
        self, fleet: FleetSpec, units: Sequence[Unit], path: tuple[str | int, ...]
    ) -> FieldError | None:
        """That the region has no data service."""
        return no_service(units, path, region=self.region)
