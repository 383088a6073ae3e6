"""Nodes crash: the worker that serves them, and all that runs there."""

from scenarios.fault import Stage, WorkerFault
from scenarios.schema.parts import Range


class NodeCrash(WorkerFault, frozen=True):
    """One worker's nodes lose their power and get it back."""

    down_seconds: Range = (1.0, 300.0)

    async def strike(self, stage: Stage) -> None:
        """One of those that are meant."""
        worker = self.drawn(stage)
        await stage.world.power_off(worker)
        try:
            await stage.wait(self.down_seconds)
        finally:
            await stage.world.revive(worker)
