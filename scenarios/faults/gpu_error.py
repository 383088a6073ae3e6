"""A GPU reports an error (an XID), and whatever runs beside it dies."""

from scenarios.fault import Stage, WorkerFault
from scenarios.parts import Positive

EXIT_CODES = (1, 134, 139)
"""An exception of CUDA, an abort by NCCL's watchdog (128 + SIGABRT), a fault of the driver's library (128 + SIGSEGV)."""


class GpuError(WorkerFault, frozen=True):
    """All tasks on all nodes of one worker fail at once, and what is started next runs as ever."""

    exit_code: Positive | None = None
    """Drawn, if it is not said."""

    async def strike(self, stage: Stage) -> None:
        """One of those that are meant."""
        await stage.world.fail_tasks(self.drawn(stage), self.exit_code or stage.dice.choice(EXIT_CODES))
