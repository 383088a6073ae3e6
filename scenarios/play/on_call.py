"""The operator on call, who looks at the status of units, and gives the word for which one waits."""

import asyncio

from bus.catalogue import STATUS
from bus.errors import BusError
from bus.port import Address, Bus
from core.codec import Parcel
from core.messages.logs import AcceptClock
from core.messages.units import UnitStatus
from core.nouns.ids import LogName
from core.nouns.instant import Nanoseconds, seconds
from runtime.wiring import log_kept_by
from scenarios.worlds.interface import World

NAME = "client.oncall"
THINKS_SECONDS = 30.0
"""From a status that waits for a word until the operator has looked at the machine's clock and gives the word."""
ASK: Nanoseconds = seconds(2)


class OnCall:
    """One operator, for one run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._logs = {unit.name: log for unit in world.units if (log := log_kept_by(unit)) is not None}
        self._bus: Bus | None = None
        self._looking: dict[LogName, asyncio.Task[None]] = {}
        self.words = 0
        """Words given."""

    async def begin(self) -> None:
        """Look from now on."""
        self._bus = self._world.user(NAME)
        await self._bus.listen(Address(STATUS.noun), self._hear)

    def stop(self) -> None:
        """Look no more."""
        for task in self._looking.values():
            task.cancel()

    def _hear(self, parcel: Parcel, _: str) -> None:
        status = parcel.message
        if not isinstance(status, UnitStatus) or not status.waits_for:
            return
        log = self._logs[status.unit]
        if log not in self._looking:
            task = asyncio.get_running_loop().create_task(self._look(log), name=f"oncall/{log}")
            self._looking[log] = task

    async def _look(self, log: LogName) -> None:
        """Give the word once; a keeper that still waits says so in its next status."""
        assert self._bus is not None, "it hears through that"
        await self._world.sleep(THINKS_SECONDS)
        try:
            await self._bus.ask(AcceptClock(log), ASK)
            self.words += 1
        except BusError:
            pass  # The keeper is dead, or cut off; its next status says whether it waits.
        finally:
            del self._looking[log]
