"""The whole control plane is dead for a while, and the bus with it: nobody lives but the workers and what they run."""

from runtime.wiring import Unit
from scenarios.fault import Fault, Stage
from scenarios.schema.parts import Range


class PlaneDies(Fault, frozen=True):
    """All at once, as in a power cut of the machines on which it runs."""

    down_seconds: Range = 600.0

    async def strike(self, stage: Stage) -> None:
        """Everything but the workers; whoever was dead already stays so as long as somebody wants that."""
        killed: list[Unit] = []
        world = stage.world
        async with stage.lasting(world.stop_bus()):
            try:
                for unit in world.units:
                    if unit.role != "worker":
                        await world.kill(unit)
                        killed.append(unit)
                await stage.wait(self.down_seconds)
            finally:
                for unit in killed:
                    await world.revive(unit)
