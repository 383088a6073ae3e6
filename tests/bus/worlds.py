"""The two worlds in which the bus keeps one promise: the simulated network in virtual time, and NATS on loopback."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Protocol

import pytest

from bus.nats import NatsConnection
from bus.port import Bus
from bus.server import NatsServer
from bus.simulated import SimulatedNetwork
from core.nouns.instant import MILLISECOND, Nanoseconds, seconds
from runtime.virtual_loop import VirtualLoop, run_virtual

FLEET = "fleet"
PATIENCE_SECONDS = 10.0
"""What must come comes at once; on a machine that is busy beyond measure it may take so long."""


class World(Protocol):
    """Where endpoints are, and what can happen to them."""

    is_simulated: bool

    async def endpoint(self, name: str) -> Bus:
        """An endpoint with a connection of its own."""

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds; fail when it does not in time."""

    async def settle(self) -> None:
        """Wait until all that was said has arrived or is lost."""

    async def breathe(self) -> None:
        """Let others run, and time pass."""

    async def say_twice(self, say: Callable[[], str]) -> None:
        """Have one message heard twice: said again, or repeated on the way."""

    async def deliver_raw(self, subject: str, data: bytes) -> None:
        """Bytes that may be no message."""

    async def server_down(self) -> None:
        """The server is killed."""

    async def server_up(self) -> None:
        """It is back where it was."""


Body = Callable[[World], Coroutine[Any, Any, None]]  # Any: as typeshed


def in_both_worlds(body: Body) -> Callable[[Callable[[Body], None]], None]:
    """One test of a body in each world."""

    @pytest.mark.parametrize("run", [_in_simulated_world, _in_nats_world], ids=["simulated", "nats"])
    def test(run: Callable[[Body], None]) -> None:
        run(body)

    test.__name__ = test.__qualname__ = getattr(body, "__name__", "test")
    test.__doc__ = body.__doc__
    test.__module__ = body.__module__
    return test


def in_simulated_world(body: Callable[["SimulatedWorld"], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """A test in the simulated world alone."""

    def test() -> None:
        run_virtual(_with_simulated_world(body))

    test.__doc__ = body.__doc__
    return test


def in_nats_world(body: Callable[["NatsWorld"], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """A test over NATS alone."""

    def test() -> None:
        asyncio.run(_with_nats_world(body))

    test.__doc__ = body.__doc__
    return test


class SimulatedWorld:
    """A simulated network in virtual time."""

    is_simulated = True

    def __init__(self, seed: int = 7) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        self.network = SimulatedNetwork(Random(seed), loop, FLEET)

    async def endpoint(self, name: str) -> Bus:
        return self.network.endpoint(name)

    async def until(self, holds: Callable[[], bool]) -> None:
        for _ in range(10_000):
            if holds():
                return
            await self.loop.sleep_ns(Nanoseconds(MILLISECOND))
        raise AssertionError("it does not come to hold")

    async def settle(self) -> None:
        await self.until(lambda: self.network.is_idle)

    async def breathe(self) -> None:
        await self.loop.sleep_ns(Nanoseconds(MILLISECOND))

    async def say_twice(self, say: Callable[[], str]) -> None:
        self.network.faults.repeat_probability = 1.0
        say()
        self.network.faults.repeat_probability = 0.0

    async def deliver_raw(self, subject: str, data: bytes) -> None:
        self.network.deliver_raw(subject, data)

    async def server_down(self) -> None:
        self.network.down()

    async def server_up(self) -> None:
        self.network.up()


class NatsWorld:
    """A server of its own, killed at the end."""

    is_simulated = False

    def __init__(self, options: dict[str, str | int] | None = None) -> None:
        self.server = NatsServer({}, options=options)
        self.url = ""
        self.connections: dict[str, NatsConnection] = {}

    async def open(self) -> None:
        """Start the server."""
        self.url = (await self.server.start()).url

    async def close(self) -> None:
        """End every connection, and the server."""
        await asyncio.gather(*(connection.close() for connection in self.connections.values()))
        await self.server.stop()

    def signal(self, number: signal.Signals) -> None:
        """Signal the server, which runs: the process id 0 would be this test's own process group."""
        assert self.server.pid
        os.kill(self.server.pid, number)

    async def endpoint(self, name: str) -> Bus:
        connection = await NatsConnection.connect(self.url, FLEET, name)
        self.connections[name] = connection
        return connection.endpoint(name)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not holds():
                await asyncio.sleep(0.001)

    async def until_true(self, ask: Callable[[], Awaitable[bool]]) -> None:
        """Wait until an answer is yes."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await ask():
                await asyncio.sleep(0)

    async def settle(self) -> None:
        # Each echo proves that the server has what was said before it, and the second that it has handed it out.
        for _ in range(2):
            for connection in self.connections.values():
                await connection.settle(seconds(PATIENCE_SECONDS))

    async def breathe(self) -> None:
        await asyncio.sleep(0)

    async def say_twice(self, say: Callable[[], str]) -> None:
        say()
        say()

    async def deliver_raw(self, subject: str, data: bytes) -> None:
        connection = await NatsConnection.connect(self.url, FLEET, "raw")
        connection.deliver_raw(subject, data)
        await connection.close()

    async def server_down(self) -> None:
        await self.server.kill()

    async def server_up(self) -> None:
        await self.server.start()


@asynccontextmanager
async def nats_world(options: dict[str, str | int] | None = None) -> AsyncIterator[NatsWorld]:
    """A NATS world with options of its own for the server, closed whatever happens in it."""
    world = NatsWorld(options)
    await world.open()
    try:
        yield world
    finally:
        await world.close()


def servers_left() -> list[int]:
    """Process ids of NATS servers that this process has started and that live."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue  # It ended meanwhile.
        name, _, rest = text.partition("(")[2].rpartition(")")
        state, parent = rest.split()[:2]
        if name == "nats-server" and int(parent) == os.getpid() and state != "Z":
            found.append(int(path.parent.name))
    return found


def _in_simulated_world(body: Body) -> None:
    run_virtual(_with_simulated_world(body))


def _in_nats_world(body: Body) -> None:
    asyncio.run(_with_nats_world(body))


async def _with_simulated_world(body: Callable[[SimulatedWorld], Coroutine[Any, Any, None]]) -> None:
    await body(SimulatedWorld())


async def _with_nats_world(body: Callable[[NatsWorld], Coroutine[Any, Any, None]]) -> None:
    async with nats_world() as world:
        await body(world)
