"""A caller of functions beside a plane: an endpoint of the bus, and the memory of `core/calls/caller.py`."""

import asyncio
from collections.abc import Callable

import msgspec

from bus.catalogue import FUNCTION_CALLER, FUNCTIONS
from bus.port import Address, Bus
from core.calls.caller import Caller
from core.codec import Parcel
from core.nouns.function import CallAnswer, FunctionSpec
from core.nouns.ids import TenantName
from core.nouns.instant import Nanoseconds
from core.nouns.workload import NEVER
from runtime.clock import Clock
from runtime.wake import Wake


class FunctionCaller:
    """One caller, alive while `run` runs."""

    def __init__(
        self,
        bus: Bus,
        clock: Clock,
        tenant: TenantName,
        name: str,
        answered: Callable[[CallAnswer], None] | None = None,
    ) -> None:
        """`answered` is called with each answer, once a call."""
        self.caller = Caller(tenant, name)
        self.answers: dict[int, CallAnswer] = {}
        """By number, unless `answered` takes them."""
        self._bus = bus
        self._clock = clock
        self._wake = Wake(clock)
        self._answered = answered or self._keep

    def call(
        self,
        function: FunctionSpec,
        run_time: Nanoseconds,
        *,
        within: Nanoseconds = NEVER,
        once: bool = False,
    ) -> int:
        """Call an emulated function that runs for so long. Return the number of the call."""
        arguments = msgspec.msgpack.encode(run_time)
        number = self.caller.add(function, arguments, self._clock.now(), within=within, is_once=once)
        self._wake.ring()
        return number

    async def run(self) -> None:
        """Listen, and say what is to be said, for ever."""
        for address in (
            Address(FUNCTIONS.noun),
            Address(FUNCTION_CALLER.noun, (self.caller.tenant, self.caller.name)),
        ):
            await self._bus.listen(address, self._hear)
        while True:
            for message in self.caller.take(self._clock.now()):
                self._bus.say(message)
            await self._wake.wait(self.caller.due())

    async def all_answered(self, count: int) -> None:
        """Wait until so many calls have answers."""
        while len(self.answers) < count:
            await asyncio.sleep(0.05)

    def close(self) -> None:
        """Let go of timers."""
        self._wake.close()

    def _hear(self, parcel: Parcel, _: str) -> None:
        self.caller.hear(parcel.message, self._clock.now())
        for answer in self.caller.ended():
            self._answered(answer)
        self._wake.ring()

    def _keep(self, answer: CallAnswer) -> None:
        self.answers[answer.number] = answer
