"""An operator takes back at once all that a region's pools lend to functions, and lends it again later."""

from functools import partial
from typing import ClassVar

from msgspec.structs import replace

from core.images import RegionImage
from core.nouns.pool import harvest_of
from scenarios.fault import RegionFault, Stage
from scenarios.play.operators import Operators
from scenarios.play.pool_needs import set_pool
from scenarios.schema.parts import Range


class RecallStorm(RegionFault, frozen=True):
    """In one region that runs functions, drawn if none is named: every node that is harvested there is recalled in one fact."""

    is_misfortune: ClassVar[bool] = False
    for_seconds: Range = (20.0, 90.0)

    async def strike(self, stage: Stage) -> None:
        """Nothing is lent meanwhile."""
        region = self.drawn(stage)
        image: RegionImage = await Operators(stage.users).image(region, "pools")
        lending = {
            pool: settings
            for pool, settings in image.pools.settings.items()
            if harvest_of(pool, settings).is_on
        }
        stage.has_struck = bool(lending)
        for pool, settings in lending.items():
            off = replace(settings, harvest=replace(harvest_of(pool, settings), is_on=False))
            stage.problems += await set_pool(stage.users, region, pool, off)
        try:
            await stage.wait(self.for_seconds)
        finally:
            for pool, settings in lending.items():
                await stage.undo(partial(set_pool, stage.users, region, pool, settings))
