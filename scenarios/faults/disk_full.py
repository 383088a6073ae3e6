"""The disk of a keeper is full."""

from scenarios.fault import KeeperFault, Stage
from scenarios.schema.parts import Range


class DiskFull(KeeperFault, frozen=True):
    """Nothing more can be kept, and so nothing is promised; what is known can still be read."""

    for_seconds: Range = (1.0, 120.0)

    async def strike(self, stage: Stage) -> None:
        """Fill it, and make room again."""
        _, log = self.drawn(stage)
        async with stage.lasting(stage.world.fill_disk(log)):
            await stage.wait(self.for_seconds)
