"""The disk of a keeper is slow to make anything durable."""

from scenarios.fault import KeeperFault, Stage
from scenarios.schema.parts import Range


class SlowDisk(KeeperFault, frozen=True):
    """Each batch waits for its fsync."""

    seconds: Range = (0.02, 2.0)
    """Of each fsync."""
    for_seconds: Range = (5.0, 120.0)

    async def strike(self, stage: Stage) -> None:
        """Slow it down, and let it be as fast as ever."""
        _, log = self.drawn(stage)
        async with stage.lasting(stage.world.slow_disk(log, stage.draw(self.seconds))):
            await stage.wait(self.for_seconds)
