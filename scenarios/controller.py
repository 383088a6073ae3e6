"""Controllers of a scenario: who answers for the work of the tenant `apps`. The sorts are in `scenarios/controllers/`.

Each is a `TaskController` as a user would write one, served by what serves users' own, over the world's bus.
"""

import random
from collections.abc import Sequence

from bus.port import Bus
from runtime.control.controller import TaskController
from runtime.control.serving import ControllerServer
from runtime.fleet_file import Name
from scenarios.schema.parts import Part
from scenarios.workload import CONTROLLED


class Controller(Part, frozen=True):
    """One sort of controller."""

    called: Name = "control"
    """As workloads name it in their `controller`."""

    def made(self, dice: random.Random) -> TaskController:
        """A controller that knows nothing yet."""
        raise NotImplementedError


class Controllers:
    """All controllers of one run, alive or dead."""

    def __init__(self, parts: Sequence[Controller], seed: int) -> None:
        self.parts = tuple(parts)
        self._seed = seed
        self._lives = 0
        self._alive: dict[str, tuple[Bus, ControllerServer]] = {}

    async def start(self, part: Controller, bus: Bus) -> None:
        """Let it live; what it knew in a life before is gone."""
        self._lives += 1
        dice = random.Random(f"controller/{self._seed}/{part.called}/{self._lives}")
        server = ControllerServer(part.made(dice), bus, CONTROLLED, part.called)
        await server.start()
        self._alive[part.called] = (bus, server)

    def is_alive(self, part: Controller) -> bool:
        """Whether it would answer."""
        return part.called in self._alive

    async def kill(self, part: Controller) -> bool:
        """Let it be silent from now on. False if it is already."""
        alive = self._alive.pop(part.called, None)
        if alive is None:
            return False
        bus, server = alive
        await server.close()
        await bus.close()
        return True

    async def close(self) -> None:
        """End all of them."""
        for part in self.parts:
            await self.kill(part)
