"""Function servers stand still, as by SIGSTOP, while tasks wait for nodes on which calls of functions run: their workers have to kill these."""

from collections.abc import Iterable
from contextlib import AsyncExitStack

from core.nouns.harvest import Why
from core.nouns.ids import RegionName
from scenarios.fault import RegionFault, Stage
from scenarios.play.operators import Operators
from scenarios.schema.parts import Range

LOOK_SECONDS = 0.25
"""Between looks. Workers hear of a grant sooner than that."""


class RecallUnheeded(RegionFault, frozen=True):
    """All function servers of a region at once, as soon as calls stand in the way of tasks there; of the region drawn if none is named."""

    for_seconds: Range = (20.0, 60.0)

    async def strike(self, stage: Stage) -> None:
        """Calls under way stand still too, and none of them ends by itself."""
        region = self.drawn(stage)
        await until_in_the_way(stage, region)
        async with AsyncExitStack() as lasting:
            for unit in stage.world.units:
                if unit.role == "function_server" and unit.region == region:
                    pause = stage.world.pause(unit, is_at_once=True)
                    await lasting.enter_async_context(stage.lasting(pause))
            await stage.wait(self.for_seconds)


async def until_in_the_way(stage: Stage, region: RegionName | None = None) -> None:
    """Wait until two looks in turn have found a node that was granted to tasks and that functions have not left, in one region or in any."""
    stage.has_struck = False
    regions = stage.world.plan.region_names() if region is None else (region,)
    before: set[tuple[RegionName, int]] = set()
    while not (before & (found := await _recalled(stage, regions))):
        before = found
        await stage.world.sleep(LOOK_SECONDS)
    stage.has_struck = True


async def _recalled(stage: Stage, regions: Iterable[str]) -> set[tuple[RegionName, int]]:
    operators = Operators(stage.users)
    found = set()
    for region in map(RegionName, regions):
        harvest = (await operators.image(region, "harvest")).harvest
        for node in harvest.recalling:
            if any(one.why is Why.GRANTED for one in harvest.nodes[node].recalls):
                found.add((region, node))
    return found
