"""An operator has nodes emptied, as their applications agree, and gives them back after a while."""

from core.nouns.ids import RegionName
from core.nouns.maintenance import Scope, ScopeKind
from scenarios.fault import Stage, WorkerFault
from scenarios.play.operators import Operators
from scenarios.schema.parts import Range


class Drain(WorkerFault, frozen=True):
    """All nodes of one worker."""

    deadline_seconds: Range | None = None
    """After which the rest is stopped; never, if this is not said."""
    for_seconds: Range = (120.0, 600.0)

    async def strike(self, stage: Stage) -> None:
        """One of those that are meant."""
        worker = self.drawn(stage)
        operators, scope = Operators(stage.users), Scope(ScopeKind.WORKER, (worker.member,))
        deadline = 0.0 if self.deadline_seconds is None else max(1.0, stage.draw(self.deadline_seconds))
        try:
            # Whoever is cut short while asking may have been heard, and lifts it all the same.
            stage.has_struck = bool(await operators.drain(worker.region, scope, "to be looked at", deadline))
            await stage.wait(self.for_seconds)
        finally:
            # In a task of the users': it is lifted also when misfortune has ended, as whoever drained it would.
            stage.users.begin(_lift(operators, worker.region, scope), f"undrain/{worker.name}")


async def _lift(operators: Operators, region: RegionName, scope: Scope) -> None:
    await operators.undrain(region, scope)
