"""A GPU falls off its bus: what runs there dies, and what is started there dies at once until it is back.

Who looks at the node finds that, as with a driver that is asked; a `black_hole` looks well.
"""

from scenarios.fault import Stage, WorkerFault
from scenarios.schema.parts import Positive, Range

ILL = "a GPU has fallen off the bus"


class GpuGone(WorkerFault, frozen=True):
    """On all nodes of one worker."""

    exit_code: Positive = 1
    for_seconds: Range = (10.0, 120.0)

    async def strike(self, stage: Stage) -> None:
        """One of those that are meant."""
        worker = self.drawn(stage)
        world = stage.world
        async with (
            stage.lasting(world.break_nodes(worker, self.exit_code)),
            stage.lasting(world.ail_nodes(worker, ILL)),
        ):
            await world.fail_tasks(worker, self.exit_code)
            await stage.wait(self.for_seconds)
