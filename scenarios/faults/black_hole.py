"""Nodes that look empty and well, accept whatever comes and fail it at once: more and more is sent to them."""

from scenarios.fault import Stage, WorkerFault
from scenarios.schema.parts import Positive, Range


class BlackHole(WorkerFault, frozen=True):
    """All nodes of one worker. What runs there already goes on."""

    exit_code: Positive = 1
    for_seconds: Range | None = None
    """Until misfortune ends, if this is not said."""

    async def strike(self, stage: Stage) -> None:
        """One of those that are meant."""
        worker = self.drawn(stage)
        async with stage.lasting(stage.world.break_nodes(worker, self.exit_code)):
            await stage.last(self.for_seconds)
