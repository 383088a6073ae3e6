"""Somebody floods a region's task control with words that nobody asked for: of others' work, of nobody's, of long ago."""

from core.messages.control import TaskControlResponse
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.operation import Ack, Answer
from scenarios.fault import RegionFault, Stage
from scenarios.schema.parts import Times
from scenarios.workload import CONTROLLED

AT_ONCE = 20
EVERY_SECONDS = 0.2


class ControllerLies(RegionFault, frozen=True):
    """In the name of a controller of the same tenant, or of none that there is."""

    words: Times = 500

    async def strike(self, stage: Stage) -> None:
        """All of them, some at a time."""
        region, dice = self.drawn(stage), stage.dice
        names = [part.called for part in stage.controllers.parts]
        bus = stage.world.user("client.liar")
        try:
            for number in range(self.words):
                workloads = stage.users.workloads() or [WorkloadId("w-1")]
                tenant = CONTROLLED if dice.random() < 0.5 else TenantName("others")
                # Not in the name of whoever may answer: that is a true controller's, whatever it says.
                name = dice.choice([*(f"{name}-2" for name in names), "nobody"])
                acks = tuple(
                    Ack(dice.randrange(8), dice.choice(list(Answer))) for _ in range(dice.randrange(5))
                )
                bus.say(
                    TaskControlResponse(
                        region,
                        tenant,
                        name,
                        dice.choice(workloads),
                        dice.randrange(4),
                        dice.randrange(10_000),
                        acks,
                    )
                )
                if number % AT_ONCE == AT_ONCE - 1:
                    await stage.world.sleep(EVERY_SECONDS)
        finally:
            await bus.close()
