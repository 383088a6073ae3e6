"""Nodes stand still with all that runs there, and go on long after everybody has given them up."""

from scenarios.fault import Stage, WorkerFault
from scenarios.schema.parts import Range


class NodeFreeze(WorkerFault, frozen=True):
    """One worker's nodes. Their tasks are zombies if they were given to others meanwhile."""

    for_seconds: Range = (1.0, 300.0)

    async def strike(self, stage: Stage) -> None:
        """One of those that are meant."""
        worker = self.drawn(stage)
        async with stage.lasting(stage.world.freeze(worker)):
            await stage.wait(self.for_seconds)
