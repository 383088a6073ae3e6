"""An fsync fails: its batch may be durable or not, and its keeper cannot know before it has read its log again."""

from scenarios.fault import KeeperFault, Stage


class FailedSync(KeeperFault, frozen=True):
    """Of the next batch of one keeper, which dies of it."""

    async def strike(self, stage: Stage) -> None:
        """The batch is lost or kept, as the dice say; where nothing is written for three minutes, nothing is struck."""
        _, log = self.drawn(stage)
        stage.has_struck = False
        stage.has_struck = await stage.world.fail_sync(log, stage.dice.choice(("lost", "kept")))
