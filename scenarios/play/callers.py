"""The callers of functions of a scenario: they call at the times that were drawn, and wait for every answer, or leave."""

import asyncio
import random
from collections.abc import Callable, Iterable

from core.nouns.function import CallAnswer
from core.nouns.ids import TenantName
from core.nouns.instant import MILLISECOND, Instant, Nanoseconds, seconds
from runtime.clock import Clock
from scenarios.accounting.calls import CallsKept
from scenarios.play.function_caller import FunctionCaller
from scenarios.users import Users
from scenarios.workload import Workload
from scenarios.workloads.functions import CallersCalls, Functions, MadeCall
from scenarios.worlds.interface import World

START = Instant(seconds(3_600))
"""When clocks of callers begin: instants of different machines are never compared."""


class Callers:
    """All callers of one run."""

    def __init__(self, users: Users) -> None:
        self.kept = CallsKept()
        self._users = users
        self._callers: list[_Caller] = []
        self._calling = 0
        """Callers that will make more calls, or leave."""
        self._count = 0
        """Calls that were made."""

    def play(self, loads: Iterable[Workload], dice: random.Random) -> None:
        """Have the calls of these loads made from now on."""
        for number, load in enumerate(loads):
            if not isinstance(load, Functions):
                continue
            for place, calls in enumerate(load.callers_calls(dice)):
                self._calling += 1
                self._users.begin(self._play(f"c{number}-{place}", calls), f"caller/{number}-{place}")
        self._look()

    def close(self) -> None:
        """Let go of everything."""
        for one in self._callers:
            one.close()

    async def _play(self, name: str, calls: CallersCalls) -> None:
        """Be one caller."""
        world = self._users.world
        begun = world.now()
        one = _Caller(world, name, calls.tenant, self._answered)
        self._callers.append(one)
        for made in calls.made:
            await world.sleep(max(0.0, begun + made.at - world.now()))
            self._count += 1
            arguments = one.call(made, self._count)
            self.kept.called(arguments, made, world.now())
        if calls.leave_at is not None:
            await world.sleep(max(0.0, begun + calls.leave_at - world.now()))
            for arguments in one.leave():
                self.kept.left(arguments)
        self._calling -= 1
        self._look()

    def _answered(self, arguments: bytes, answer: CallAnswer) -> None:
        self.kept.answered(arguments, answer, self._users.world.now())
        self._look()

    def _look(self) -> None:
        """Tell users when nobody waits for a call any more."""
        if not self._calling and not any(one.open for one in self._callers):
            self._users.calls_ended.set()


class _Caller:
    """One caller."""

    def __init__(
        self, world: World, name: str, tenant: TenantName, answered: Callable[[bytes, CallAnswer], None]
    ) -> None:
        loop = asyncio.get_running_loop()
        self.open: dict[int, bytes] = {}
        """Arguments of calls without an answer, by number."""
        self._answered = answered
        self._caller = FunctionCaller(
            world.user(f"client.caller.{name}"), Clock(loop, START), tenant, name, self._take
        )
        self._task = loop.create_task(self._caller.run(), name=f"caller/{name}")

    def call(self, made: MadeCall, count: int) -> bytes:
        """Make a call. Return its arguments: no other call of the run has the same."""
        assert count < MILLISECOND, count
        run_time = Nanoseconds(made.run_time + count)
        number = self._caller.call(made.function, run_time, within=made.within, once=made.is_once)
        self.open[number] = self._caller.caller.calls[number].call.arguments
        return self.open[number]

    def leave(self) -> list[bytes]:
        """Wait for no call any more. Return the arguments of those that have no answer."""
        left = list(self.open.values())
        self.open.clear()
        self.close()
        return left

    def close(self) -> None:
        """Say nothing any more."""
        self._task.cancel()
        self._caller.close()

    def _take(self, answer: CallAnswer) -> None:
        arguments = self.open.pop(answer.number, None)
        if arguments is not None:
            self._answered(arguments, answer)
