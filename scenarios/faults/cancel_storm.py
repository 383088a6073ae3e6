"""Many users cancel at once."""

from typing import ClassVar

from scenarios.fault import Fault, Stage
from scenarios.schema.parts import Share


class CancelStorm(Fault, frozen=True):
    """A share of all workloads that were accepted so far, drawn: pending, running or ended."""

    is_misfortune: ClassVar[bool] = False
    share: Share = 0.3

    async def strike(self, stage: Stage) -> None:
        """Each insists until it is answered, also when misfortune has ended."""
        for workload in stage.users.workloads():
            if stage.dice.random() < self.share:
                stage.users.begin(stage.users.cancel(workload), f"cancel-storm/{workload}")
