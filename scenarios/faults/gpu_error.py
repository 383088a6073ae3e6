"""A GPU reports an error (an XID), and whatever runs beside it dies."""

from scenarios.fault import Stage, WorkerFault
from scenarios.schema.parts import Positive

EXIT_CODES = (1, 134, 139)
"""An exception of CUDA, an abort by NCCL's watchdog (128 + SIGABRT), a fault of the driver's library (128 + SIGSEGV)."""


class GpuError(WorkerFault, frozen=True):
    """All tasks on all nodes of one worker, or on one of them, fail at once, and what is started next runs as ever."""

    one_node: bool = False
    """Whether it strikes one node, drawn, and whoever has a task there."""

    exit_code: Positive | None = None
    """Drawn, if it is not said."""

    async def strike(self, stage: Stage) -> None:
        """One of those that are meant."""
        worker = self.drawn(stage)
        exit_code = self.exit_code or stage.dice.choice(EXIT_CODES)
        node = None
        if self.one_node:
            groups = stage.world.plan.inventory(worker.region, worker.member).groups
            node = stage.dice.choice(
                [number for group in groups if group.total.gpu_milli for number in group.numbers()]
            )
        await stage.world.fail_tasks(worker, exit_code, node)
