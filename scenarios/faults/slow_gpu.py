"""GPUs are slow: what a gang has there takes longer, and the gang ends with the slowest of its parts."""

from scenarios.fault import Stage, WorkerFault
from scenarios.schema.parts import Range


class SlowGpu(WorkerFault, frozen=True):
    """What is started on any node of one worker takes so many times as long. What runs already keeps its pace."""

    factor: Range = (1.2, 3.0)
    for_seconds: Range | None = None
    """Until misfortune ends, if this is not said."""

    async def strike(self, stage: Stage) -> None:
        """One of those that are meant."""
        worker = self.drawn(stage)
        async with stage.lasting(stage.world.slow_tasks(worker, stage.draw(self.factor))):
            await stage.last(self.for_seconds)
