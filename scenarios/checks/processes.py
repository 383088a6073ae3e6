"""No process dies by itself of what must never happen, and none stays dead."""

from scenarios.check import Check, Run


class Processes(Check, frozen=True):
    """A process may die of its bus, its disk or another keeper, and is then started again; of a mistake it may not."""

    async def at_end(self, run: Run) -> list[str]:
        """Who died of a mistake, and who is dead."""
        world = run.world
        return world.mistakes() + [f"{name} is dead at the end" for name in await world.dead()]
