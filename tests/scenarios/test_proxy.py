"""The way to the bus that can be cut: what is cut waits and comes in order, and whoever is not cut notices nothing."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from runtime.loop import run
from scenarios.worlds.processes.proxy import BusProxy, Delay

PATIENCE_SECONDS = 20.0

Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Echo:
    """A server that says everything again; what it heard is kept."""

    def __init__(self) -> None:
        self.heard = b""
        self.ends = 0
        self.writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def start(self) -> int:
        """Its port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def stop(self) -> None:
        """With all its connections."""
        assert self._server is not None
        self._server.close()
        for writer in self.writers:
            writer.transport.abort()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        with suppress(ConnectionResetError):  # By who has not waited for an answer.
            while data := await reader.read(65_536):
                self.heard += data
                writer.write(data)
        self.ends += 1
        writer.close()


class Place:
    """An echo, and two ways to it."""

    def __init__(self) -> None:
        self.echo = Echo()
        self.proxy = BusProxy(random.Random(1))
        self.other = BusProxy(random.Random(2))
        self.writers: list[asyncio.StreamWriter] = []

    async def line(self, proxy: BusProxy | None = None) -> Line:
        """A connection through one of them."""
        reader, writer = await asyncio.open_connection("127.0.0.1", (proxy or self.proxy).port)
        self.writers.append(writer)
        return reader, writer

    async def say_elsewhere(self) -> None:
        """There and back on the other way: meanwhile whatever can arrive on the first one does."""
        reader, writer = await self.line(self.other)
        for _ in range(20):
            writer.write(b".")
            assert b"." == await reader.readexactly(1)
        ended = self.echo.ends
        writer.close()
        while self.echo.ends == ended:
            await asyncio.sleep(0)


@asynccontextmanager
async def a_place() -> AsyncIterator[Place]:
    """One that is taken down, whatever happens in it."""
    place = Place()
    port = await place.echo.start()
    for proxy in (place.proxy, place.other):
        await proxy.start()
        proxy.lead_to("127.0.0.1", port)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            yield place
    finally:
        for writer in place.writers:
            writer.transport.abort()
        await place.proxy.stop()
        await place.other.stop()
        await place.echo.stop()


async def test_everything_passes_in_order() -> None:
    """Also more than any buffer holds, for whoever sends too fast is made to wait."""
    async with a_place() as place:
        reader, writer = await place.line()
        data = random.Random(3).randbytes(8 << 20)
        async with asyncio.TaskGroup() as group:
            group.create_task(_send(writer, data))
            assert data == await reader.readexactly(len(data))


async def test_messages_sent_into_a_cut_come_when_it_is_healed() -> None:
    """Once, and in order; if two faults cut it, both must heal it."""
    async with a_place() as place:
        reader, writer = await place.line()
        writer.write(b"a")
        assert b"a" == await reader.readexactly(1)
        place.proxy.said.cut()
        place.proxy.said.cut()
        writer.write(b"b")
        await place.say_elsewhere()
        place.proxy.said.heal()
        writer.write(b"c")
        await place.say_elsewhere()
        assert b"bc" not in place.echo.heard
        place.proxy.said.heal()
        assert b"bc" == await reader.readexactly(2)


async def test_messages_lost_with_their_machine_never_come() -> None:
    """Sent into a cut by a process that is gone before it is healed; the bus hears that it is gone, and the next process is heard."""
    async with a_place() as place:
        reader, writer = await place.line()
        writer.write(b"a")
        assert b"a" == await reader.readexactly(1)
        place.proxy.said.cut()
        writer.write(b"b")
        await place.say_elsewhere()
        ended = place.echo.ends
        place.proxy.said.lose()
        place.proxy.said.heal()
        while place.echo.ends == ended:
            await asyncio.sleep(0)
        assert b"b" not in place.echo.heard
        reader, writer = await place.line()
        writer.write(b"c")
        assert b"c" == await reader.readexactly(1)


@pytest.mark.parametrize(
    "play", [test_everything_passes_in_order, test_messages_sent_into_a_cut_come_when_it_is_healed]
)
def test_the_same_in_the_loop_of_a_plane(play: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Which is uvloop's, where that is installed."""
    run(play())


async def test_cut_one_way_lets_the_other_pass() -> None:
    """The bus hears what is said, and its answer waits."""
    async with a_place() as place:
        reader, writer = await place.line()
        place.proxy.heard.cut()
        writer.write(b"a")
        while b"a" not in place.echo.heard:
            await asyncio.sleep(0)
        await place.say_elsewhere()
        async with asyncio.TaskGroup() as group:
            answer = group.create_task(reader.readexactly(1))
            await place.say_elsewhere()
            assert not answer.done()
            place.proxy.heard.heal()
        assert b"a" == answer.result()


async def test_connection_during_a_cut_waits() -> None:
    """As in a network that lets nothing through; and an end that could not be told is told when it is healed."""
    async with a_place() as place:
        place.proxy.said.cut()
        first_reader, first = await place.line()
        first.write(b"a")
        _, second = await place.line()
        second.close()
        await place.say_elsewhere()
        assert (False, 1) == (b"a" in place.echo.heard, place.echo.ends)
        place.proxy.said.heal()
        assert b"a" == await first_reader.readexactly(1)
        while place.echo.ends < 2:
            await asyncio.sleep(0)


async def test_late_bytes_stay_in_order() -> None:
    """Each is late by its own time, and none comes before what was said before it."""
    async with a_place() as place:
        reader, writer = await place.line()
        delay = Delay(0.5, 0.02)
        place.proxy.said.delays.append(delay)
        said = bytes(range(50))
        loop = asyncio.get_running_loop()
        begun = loop.time()
        for number in said:
            writer.write(bytes([number]))
            await asyncio.sleep(0.001)  # So that each is a packet of its own.
        assert said == await reader.readexactly(50)
        assert loop.time() - begun > 0.02
        place.proxy.said.delays.remove(delay)
        writer.write(b"!")
        assert b"!" == await reader.readexactly(1)


async def test_end_of_one_side_is_the_end_of_the_other() -> None:
    """What was said before it arrives first."""
    async with a_place() as place:
        reader, writer = await place.line()
        writer.write(b"last words")
        writer.close()
        while place.echo.ends < 1:
            await asyncio.sleep(0)
        assert b"last words" == place.echo.heard
        reader, writer = await place.line()
        writer.write(b"a")
        assert b"a" == await reader.readexactly(1)
        place.echo.writers[-1].close()
        assert b"" == await reader.read()


async def test_no_server_behind_it() -> None:
    """Whoever connects is let go at once, as it would be without us."""
    async with a_place() as place:
        await place.echo.stop()
        reader, _ = await place.line()
        assert b"" == await reader.read()
        await place.echo.start()


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()
