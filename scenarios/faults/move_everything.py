"""A rebalancer with a bug proposes to move everything that runs in a region, all at once, and insists."""

from core.nouns.operation import OperationKind
from scenarios.fault import RegionFault, Stage
from scenarios.play.operators import Operators
from scenarios.schema.parts import Times

AGAIN_SECONDS = 5.0
REQUESTER = "rebalancer"


class MoveEverything(RegionFault, frozen=True):
    """Each proposal goes through task control and the region's budget of destruction, as a good one would."""

    rounds: Times = 3

    async def strike(self, stage: Stage) -> None:
        """As often as it insists."""
        region, operators = self.drawn(stage), Operators(stage.users)
        for _ in range(self.rounds):
            image = await operators.image(region, "capacity")
            for workload, epoch, _ in image.capacity.live():
                await operators.operate(
                    region, (workload, epoch), OperationKind.MOVE, "it looks better elsewhere", REQUESTER
                )
            await stage.world.sleep(AGAIN_SECONDS)
