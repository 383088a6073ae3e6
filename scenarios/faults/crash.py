"""A process dies, as by kill -9, at whatever await it is, and is started again."""

from collections.abc import Sequence

from core.events.queue import WorkloadAwarded
from core.fact import Event
from runtime.wiring import Unit, log_kept_by
from scenarios.fault import Stage, UnitFault
from scenarios.schema.fleet import FleetSpec
from scenarios.schema.parts import FieldError, Range, Share, Steps

DEATHS_MAX = 5
"""In a row, however likely another one is."""


class Crash(UnitFault, frozen=True):
    """Its memory is lost. A keeper may lose what it had written and not synced, too."""

    down_seconds: Range = (0.1, 30.0)
    again_share: Share = 0.0
    """Of those who died, those who die again while they start; and again, with the same likelihood."""
    while_writing: bool = False
    """Of keepers alone: each dies after it began to write a batch, and before anybody is told what is in it."""
    mid_award: bool = False
    """Of the queue alone, and with `while_writing`: there is an award in that batch. Simulated alone."""

    def problem(self, fleet: FleetSpec, units: Sequence[Unit], path: Steps) -> FieldError | None:
        """That it means nobody, or waits for what somebody writes who writes nothing."""
        others = [unit.name for unit in self.meant(units) if log_kept_by(unit) is None]
        if self.while_writing and others:
            text = f"only keepers write, and {others[0]} is none: say `role: job_queue` or `role: placement_store`"
            return FieldError((*path, "while_writing"), text)
        if self.mid_award and not (self.while_writing and self.role == "job_queue"):
            text = "the queue alone writes awards: say `role: job_queue` and `while_writing: true` too"
            return FieldError((*path, "mid_award"), text)
        return super().problem(fleet, units, path)

    async def strike(self, stage: Stage) -> None:
        """One of those that are meant."""
        unit = stage.one_of(self.meant(stage.world.units))
        stage.has_struck = not self.while_writing
        for _ in range(DEATHS_MAX):
            if not await self._kill(stage, unit):
                return
            try:
                await stage.wait(self.down_seconds)
            finally:
                await stage.world.revive(unit)
            if stage.dice.random() >= self.again_share:
                return

    async def _kill(self, stage: Stage, unit: Unit) -> bool:
        """At its moment; False, if that never came."""
        if not self.while_writing:
            await stage.world.kill(unit)
            return True
        has_died = await stage.world.kill_writing(unit, "", sort=WorkloadAwarded if self.mid_award else Event)
        stage.has_struck |= has_died
        return has_died
