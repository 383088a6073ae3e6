"""A GPU falls off its bus: what runs there dies, and what is started there dies at once until it is back."""

from scenarios.fault import Stage, WorkerFault
from scenarios.parts import Positive, Range


class GpuGone(WorkerFault, frozen=True):
    """On all nodes of one worker."""

    exit_code: Positive = 1
    for_seconds: Range = (10.0, 120.0)

    async def strike(self, stage: Stage) -> None:
        """One of those that are meant."""
        worker = self.drawn(stage)
        async with stage.lasting(stage.world.break_nodes(worker, self.exit_code)):
            await stage.world.fail_tasks(worker, self.exit_code)
            await stage.wait(self.for_seconds)
