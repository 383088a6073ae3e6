"""A region is cut off from everything outside; within it all is well."""

import asyncio

from bus.port import Address
from core.codec import Parcel, decode_event
from core.events.queue import WorkloadAwarded
from core.messages.logs import FactsTold
from core.nouns.ids import GLOBAL_LOG, RegionName
from runtime.wiring import bus_name_of
from scenarios.fault import RegionFault, Stage, outside
from scenarios.schema.fleet import units_meant
from scenarios.schema.parts import Range
from scenarios.worlds.interface import Link


class RegionCut(RegionFault, frozen=True):
    """As when its links to the others fail."""

    one_way: bool = False
    """Only one direction fails, which is drawn."""
    when_awarded: bool = False
    """Not before a region is awarded something, and then at once: the next that is, if none is named."""
    for_seconds: Range = (10.0, 300.0)

    async def strike(self, stage: Stage) -> None:
        """Cut, and heal."""
        region = await self._awarded(stage) if self.when_awarded else self.drawn(stage)
        units = stage.world.units
        inside = units_meant(units, region=region)
        ones, others = tuple(bus_name_of(unit) for unit in inside), outside(units, inside)
        if stage.dice.random() < 0.5:
            ones, others = others, ones
        async with stage.lasting(stage.world.cut(Link(ones, others, self.one_way))):
            await stage.wait(self.for_seconds)

    async def _awarded(self, stage: Stage) -> RegionName:
        """The one that the queue's log shows awarded next."""
        stage.has_struck = False
        found: asyncio.Future[RegionName] = asyncio.get_running_loop().create_future()

        def hear(parcel: Parcel, _: str) -> None:
            told = parcel.message
            for fact in told.facts if isinstance(told, FactsTold) else ():
                match decode_event(fact.event):
                    case WorkloadAwarded(region=region) if self.region in ("", region) and not found.done():
                        found.set_result(region)

        listening = await stage.users.bus.listen(Address("log", (GLOBAL_LOG,)), hear)
        try:
            region = await found
        finally:
            await listening.close()
        stage.has_struck = True
        return region
