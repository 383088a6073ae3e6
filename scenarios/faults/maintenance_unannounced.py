"""Somebody switches nodes off for a while without a word to anybody."""

from scenarios.fault import Stage, WorkerFault
from scenarios.schema.parts import Range


class MaintenanceUnannounced(WorkerFault, frozen=True):
    """One worker's nodes, with all that runs there."""

    window_seconds: Range = (60.0, 1800.0)

    async def strike(self, stage: Stage) -> None:
        """One of those that are meant."""
        worker = self.drawn(stage)
        await stage.world.power_off(worker)
        try:
            await stage.wait(self.window_seconds)
        finally:
            await stage.world.revive(worker)
