"""What no log can hide: tasks that run twice, on devices that are not there, or after everything has ended."""

from typing import ClassVar

from scenarios.check import Check, Run


class Spools(Check, frozen=True):
    """Watched at every start of a task, on the nodes themselves (scenarios/worlds/simulated/physics.py)."""

    sees_through: ClassVar[bool] = True

    async def at_end(self, run: Run) -> list[str]:
        """What was seen on the way, and what still runs."""
        return run.world.spool_problems()
