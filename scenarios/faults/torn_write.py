"""A machine stops while a batch is being written, and only a part of it is on the disk."""

from scenarios.fault import KeeperFault, Stage
from scenarios.play.keeper_crashes import crash_between_write_and_sync
from scenarios.schema.parts import Range


class TornWrite(KeeperFault, frozen=True):
    """The part has no mark that says that all of it is there, and the next opening drops it. Simulated alone."""

    sync_seconds: Range = (0.05, 1.0)
    """How long an fsync takes meanwhile, so that the batch that follows is a large one."""
    down_seconds: Range = (0.1, 30.0)

    async def strike(self, stage: Stage) -> None:
        """One keeper; where nothing is written for three minutes, nothing is struck."""
        keeper, log = self.drawn(stage)
        await crash_between_write_and_sync(stage, keeper, log, "torn", self.sync_seconds, self.down_seconds)
