"""Every process of the plane dies, each at a time of its own."""

import asyncio

from runtime.wiring import Unit
from scenarios.fault import Stage, UnitFault
from scenarios.schema.parts import Range


class CrashEach(UnitFault, frozen=True):
    """All that are meant, one by one, in any order, over the rest of the load."""

    down_seconds: Range = (0.1, 30.0)
    over_seconds: Range | None = None
    """The time in which all are killed; as long as the load, if this is not said."""

    def when(self, span: float) -> Range:
        """From the first arrival on, if nothing else is said."""
        return 0.0 if self.after_seconds is None else self.after_seconds

    async def strike(self, stage: Stage) -> None:
        """Together: each waits for its own time."""
        span = stage.span if self.over_seconds is None else stage.draw(self.over_seconds)
        times = [(stage.dice.uniform(0.0, span), unit) for unit in self.meant(stage.world.units)]
        downs = [stage.draw(self.down_seconds) for _ in times]
        async with asyncio.TaskGroup() as group:
            for (after, unit), down in zip(times, downs, strict=True):
                group.create_task(_kill(stage, unit, after, down))


async def _kill(stage: Stage, unit: Unit, after: float, down: float) -> None:
    await stage.world.sleep(after)
    await stage.world.kill(unit)
    try:
        await stage.world.sleep(down)
    finally:
        await stage.world.revive(unit)
