"""Many running workloads are moved to other regions at once."""

from typing import ClassVar

from scenarios.fault import Fault, Stage
from scenarios.schema.parts import Share


class MoveStorm(Fault, frozen=True):
    """Of a share of all workloads that were accepted so far, drawn, each to a region that is drawn; who cannot go there is refused."""

    is_misfortune: ClassVar[bool] = False
    share: Share = 0.5

    async def strike(self, stage: Stage) -> None:
        """Each insists until it is answered, also when misfortune has ended."""
        names = stage.world.plan.region_names()
        for workload in stage.users.workloads():
            if stage.dice.random() < self.share:
                region = names[stage.dice.randrange(len(names))]
                stage.users.begin(stage.users.move(workload, region), f"move-storm/{workload}")
