"""The whole control plane is dead for a while, and the bus with it: nothing lives but the workers, what they run, and roles that are spared."""

from collections.abc import Sequence
from contextlib import AsyncExitStack

from runtime.wiring import Unit
from scenarios.fault import Fault, Stage, nobody
from scenarios.faults.recall_unheeded import until_in_the_way
from scenarios.schema.fleet import FleetSpec
from scenarios.schema.parts import FieldError, Range


class PlaneDies(Fault, frozen=True):
    """All at once, as in a power cut of the machines on which it runs."""

    down_seconds: Range = 600.0
    spared: tuple[str, ...] = ()
    """Roles that live on beside the workers."""
    paused: tuple[str, ...] = ()
    """Roles that stand still meanwhile and do not die, as by SIGSTOP: their process is there, and does nothing."""
    mid_recall: bool = False
    """Only once calls of functions stand in the way of tasks."""

    def problem(
        self, fleet: FleetSpec, units: Sequence[Unit], path: tuple[str | int, ...]
    ) -> FieldError | None:
        """That a role is nobody's."""
        roles = {unit.role for unit in units}
        for field, names in (("spared", self.spared), ("paused", self.paused)):
            for number, role in enumerate(names):
                if role not in roles:
                    return FieldError((*path, field, number), nobody(units, role, "", ""))
        return None

    async def strike(self, stage: Stage) -> None:
        """Everything but the workers; a process that was dead already stays so as long as any fault wants that."""
        killed: list[Unit] = []
        world = stage.world
        if self.mid_recall:
            await until_in_the_way(stage)
        async with AsyncExitStack() as lasting:
            for unit in world.units:
                if unit.role in self.paused:
                    await lasting.enter_async_context(stage.lasting(world.pause(unit, is_at_once=True)))
            await lasting.enter_async_context(stage.lasting(world.stop_bus()))
            try:
                for unit in world.units:
                    if unit.role not in ("worker", *self.spared, *self.paused):
                        await world.kill(unit)
                        killed.append(unit)
                await stage.wait(self.down_seconds)
            finally:
                for unit in killed:
                    await world.revive(unit)
