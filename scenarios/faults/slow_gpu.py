"""A GPU is slow, and a whole gang waits for it at every step."""

from scenarios.fault import Stage, WorkerFault
from scenarios.parts import Range


class SlowGpu(WorkerFault, frozen=True):
    """What is started on one worker's nodes takes so many times as long."""

    factor: Range = (1.2, 3.0)
    for_seconds: Range | None = None
    """Until misfortune ends, if this is not said."""

    async def strike(self, stage: Stage) -> None:
        """One of those that are meant."""
        worker = self.drawn(stage)
        await stage.world.slow_tasks(worker, stage.draw(self.factor))
        try:
            await stage.last(self.for_seconds)
        finally:
            await stage.world.slow_tasks(worker, 1.0)
