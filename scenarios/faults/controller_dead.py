"""An application's controller dies, and comes back after a while knowing nothing, or never."""

from scenarios.fault import Fault, Stage
from scenarios.schema.parts import Range


class ControllerDead(Fault, frozen=True):
    """One of the scenario's controllers, drawn if none is named."""

    called: str = ""
    """As the scenario names it."""
    down_seconds: Range | None = (30.0, 300.0)
    """Until misfortune ends, if this is null."""

    @property
    def controller(self) -> str:
        """The one that it names."""
        return self.called

    async def strike(self, stage: Stage) -> None:
        """One that is alive."""
        controllers = stage.controllers
        stage.has_struck = False
        meant = [
            part
            for part in controllers.parts
            if self.called in ("", part.called) and controllers.is_alive(part)
        ]
        if not meant:
            return
        part = meant[stage.dice.randrange(len(meant))]
        if not await controllers.kill(part):
            return
        stage.has_struck = True
        try:
            await stage.last(self.down_seconds)
        finally:
            await controllers.start(part, stage.world.user(f"client.controller.{part.called}"))
