"""Many running attempts are requeued at once."""

from typing import ClassVar

from scenarios.fault import Fault, Stage
from scenarios.schema.parts import Share


class RequeueStorm(Fault, frozen=True):
    """Of a share of all workloads that were accepted so far, drawn; those that do not run are left alone."""

    is_misfortune: ClassVar[bool] = False
    share: Share = 0.5

    async def strike(self, stage: Stage) -> None:
        """Each insists until it is answered, also when misfortune has ended."""
        for workload in stage.users.workloads():
            if stage.dice.random() < self.share:
                stage.users.begin(stage.users.requeue(workload), f"requeue-storm/{workload}")
