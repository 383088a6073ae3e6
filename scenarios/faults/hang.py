"""A process hangs: the process stands still, as by SIGSTOP, or decides without end; its supervisor ends it and starts it again."""

from scenarios.fault import Stage, UnitFault


class Hang(UnitFault, frozen=True):
    """The process neither says nor answers anything until its supervisor has noticed, which takes half a minute."""

    decides: bool = False
    """Decides without end, instead of standing still."""

    async def strike(self, stage: Stage) -> None:
        """Hang one of the processes that are meant, until it is ended."""
        unit = stage.one_of(self.meant(stage.world.units))
        await stage.world.hang(unit, decides=self.decides)
