"""A machine stops, and what its keeper had written and not synced is gone."""

from scenarios.fault import KeeperFault, Stage
from scenarios.play.keeper_crashes import crash_between_write_and_sync
from scenarios.schema.parts import Range


class LostTail(KeeperFault, frozen=True):
    """Nothing of it may have been told to anybody. Simulated alone: what a kill -9 leaves of a batch is nobody's choice."""

    sync_seconds: Range = (0.05, 1.0)
    """How long an fsync takes meanwhile, so that the batch that follows is a large one."""
    down_seconds: Range = (0.1, 30.0)

    async def strike(self, stage: Stage) -> None:
        """One keeper; where nothing is written for three minutes, nothing is struck."""
        keeper, log = self.drawn(stage)
        await crash_between_write_and_sync(stage, keeper, log, "lost", self.sync_seconds, self.down_seconds)
