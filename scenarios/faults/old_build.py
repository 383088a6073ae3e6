"""An older build is started on a log that a newer one has written to."""

from scenarios.fault import KeeperFault, Stage
from scenarios.schema.parts import Range


class OldBuild(KeeperFault, frozen=True):
    """It must refuse to start, and say so; the newer one then goes on."""

    down_seconds: Range = (0.0, 10.0)

    async def strike(self, stage: Stage) -> None:
        """In place of one keeper."""
        keeper, log = self.drawn(stage)
        if await stage.world.verify(log):
            stage.has_struck = False
            return  # It has rotted just now, and no build could start on it.
        await stage.world.kill(keeper)
        try:
            refusal = await stage.world.start_old_build(keeper)
            if not refusal.startswith("LogFromNewerBuild"):
                died = f"died of {refusal}" if refusal else "came up"
                stage.problems.append(f"an older {keeper.name} on a log of a newer build {died}")
            await stage.wait(self.down_seconds)
        finally:
            await stage.world.revive(keeper)
