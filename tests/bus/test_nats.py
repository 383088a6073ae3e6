"""The traps of nats-py, each sprung on purpose: whatever it does, the connection stays or says why it cannot be made."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bus import nats
from bus.errors import BusError, ServerTooOld
from bus.nats import NatsConnection
from bus.port import Address
from core.codec import Parcel
from core.messages.agents import AgentPresent
from core.messages.base import Message
from core.messages.queue import CancelWorkload
from core.nouns.ids import AgentName, RegionName, WorkloadId
from core.nouns.instant import MILLISECOND, Nanoseconds, seconds
from core.nouns.limits import INBOX_MAX
from tests.bus.worlds import FLEET, PATIENCE_SECONDS, NatsWorld, in_nats_world, nats_world

HOUSE = Path(__file__).resolve().parents[2]
QUEUE = Address("queue")
PATIENCE = seconds(PATIENCE_SECONDS)
SOON = Nanoseconds(100 * MILLISECOND)
pytestmark = pytest.mark.processes


def cancel(number: int) -> CancelWorkload:
    """A small message with a number in it."""
    return CancelWorkload(WorkloadId(f"w-{number}"))


@in_nats_world
async def test_late_pong_kills_nothing(world: NatsWorld) -> None:
    """A server that stalls makes round trips fail; when it goes on they work again, over the same connection.

    `Client.rtt` in its place would end the client's read loop with the pong that comes late.
    """
    bus = await world.endpoint("bus")
    world.signal(signal.SIGSTOP)
    await world.until(lambda: has_stopped(world.server.pid))
    assert not await bus.round_trip(SOON)
    assert not await bus.round_trip(SOON)
    world.signal(signal.SIGCONT)
    await world.until_true(lambda: bus.round_trip(SOON))
    assert 0 == bus.counts.reconnects


@in_nats_world
async def test_stalled_server_is_left_in_seconds(world: NatsWorld) -> None:
    """A peer that holds the connection and says nothing is noticed by unanswered pings, not after six minutes."""
    bus = await world.endpoint("bus")
    heard: list[Message] = []
    await bus.listen(QUEUE, lambda parcel, _: heard.append(parcel.message))
    world.signal(signal.SIGSTOP)
    await world.until(lambda: bus.counts.lost == 1)
    world.signal(signal.SIGCONT)
    await world.until(lambda: bus.counts.reconnects == 1)
    bus.say(cancel(1))
    await world.until(lambda: heard == [cancel(1)])


@in_nats_world
async def test_client_that_closed_for_good_is_replaced(world: NatsWorld) -> None:
    """An expired credential or any `-ERR` closes nats-py's client for ever; a new one takes its place, ears and all."""
    bus = await world.endpoint("bus")
    heard: list[Message] = []
    closed = await bus.listen(QUEUE, lambda parcel, _: heard.append(parcel.message))
    await bus.listen(QUEUE, lambda parcel, _: heard.append(parcel.message))
    await world.connections["bus"]._client.close()
    bus.say(cancel(1))  # waits in the outbox
    await closed.close()
    await world.until(lambda: bus.counts.reconnects == 1)
    assert await bus.round_trip(PATIENCE)
    await world.until(lambda: heard == [cancel(1)])


def test_client_beyond_help_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose read loop is dead and that says it is connected, and one that has stopped trying to reconnect."""
    monkeypatch.setattr(nats, "REBUILD_AFTER", seconds(0.2))
    monkeypatch.setattr(nats, "WATCH_SPAN", seconds(0.1))

    async def body() -> None:
        async with nats_world() as world:
            bus = await world.endpoint("bus")
            client: Any = world.connections["bus"]._client  # Any: what is done to it is not in its interface
            client._reading_task.cancel()
            client._ping_interval_task.cancel()
            await world.until(lambda: bus.counts.reconnects == 1)
            assert await bus.round_trip(PATIENCE)

    asyncio.run(body())


def test_rebuild_waits_for_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no server there is nobody to connect to, over and over, until there is."""
    monkeypatch.setattr(nats, "CONNECT_SPAN", seconds(0.2))

    async def body() -> None:
        async with nats_world() as world:
            bus = await world.endpoint("bus")
            await world.server_down()
            await world.connections["bus"]._client.close()
            for _ in range(3):
                assert not await bus.round_trip(seconds(0.2))
            await world.server_up()
            await world.until_true(lambda: bus.round_trip(SOON))

    asyncio.run(body())


@in_nats_world
async def test_hearer_that_raises_hurts_only_itself(world: NatsWorld) -> None:
    """Its exception goes to the loop's handler; the read loop lives, and the next message is heard."""
    bus = await world.endpoint("bus")
    heard: list[Message] = []
    seen: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context["exception"]))

    def hear(parcel: Parcel, _: str) -> None:
        heard.append(parcel.message)
        if len(heard) == 1:
            raise ZeroDivisionError
        if len(heard) == 2:
            raise asyncio.CancelledError

    await bus.listen(QUEUE, hear)
    for number in range(3):
        bus.say(cancel(number))
    await world.until(lambda: len(heard) == 3)
    assert [ZeroDivisionError, asyncio.CancelledError] == [type(error) for error in seen]


@in_nats_world
async def test_outbox_keeps_order_and_its_bound(world: NatsWorld) -> None:
    """While the server is away what is said waits, as much as fits, and arrives in order; the rest is counted exactly."""
    sender = await world.endpoint("sender")
    hearer = world.connections["sender"].endpoint(
        "hearer"
    )  # over one connection, so that it is back when the sender is
    heard: list[Message] = []
    await hearer.listen(QUEUE, lambda parcel, _: heard.append(parcel.message))
    await world.server_down()
    await world.until(lambda: sender.counts.lost == 1)
    for number in range(INBOX_MAX + 10):
        sender.say(cancel(number))
    assert 1 + 10 == sender.counts.lost
    await world.server_up()
    await world.until(lambda: len(heard) == INBOX_MAX)
    assert [cancel(number) for number in range(INBOX_MAX)] == heard


@in_nats_world
async def test_endpoints_share_a_connection(world: NatsWorld) -> None:
    """Each hears, asks and counts for itself; one may close, and the other goes on."""
    one = await world.endpoint("one")
    two = world.connections["one"].endpoint("two")
    heard: list[str] = []
    await one.listen(QUEUE, lambda _, __: heard.append("one"))
    await two.listen(QUEUE, lambda _, __: heard.append("two"))
    one.say(cancel(1))
    await world.until(lambda: sorted(heard) == ["one", "two"])
    await one.close()
    two.say(cancel(2))
    await world.until(lambda: sorted(heard) == ["one", "two", "two"])
    assert (1, 2) == (one.counts.heard, two.counts.heard)
    assert await two.round_trip(PATIENCE)


async def test_no_server_is_an_error_in_time() -> None:
    """The first connection fails with one sentence, and does not show the password."""
    with pytest.raises(BusError, match=r"cannot connect to the NATS server at 127\.0\.0\.1:1:") as refused:
        await NatsConnection.connect("nats://user:secret@127.0.0.1:1", FLEET, "bus", timeout=SOON)
    assert "secret" not in str(refused.value)


async def test_server_must_be_new_and_take_our_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """An old server ignores options without a word; one with a small limit would cut us off at the first large message."""
    async with nats_world({"max_payload": 100_000}) as world:
        with pytest.raises(BusError, match="set its max_payload to 786432 or more"):
            await world.endpoint("bus")
        monkeypatch.setattr(nats, "SERVER_VERSION_MIN", (99, 0))
        with pytest.raises(ServerTooOld, match=r"is version 2\.\d+\.\d+; Mizzen needs 99\.0 or newer"):
            await world.endpoint("bus")


HEARER = """
import asyncio, os, sys
from bus.nats import NatsConnection
from bus.port import Address

async def main():
    connection = await NatsConnection.connect(os.environ["MIZZEN_NATS_URL"], "fleet", "hearer")
    bus = connection.endpoint("hearer")
    done = asyncio.Event()
    await bus.listen(Address("broker", ("eu",)), lambda *_: None)
    await bus.listen(Address("queue"), lambda *_: done.set())
    print("listening", file=sys.stderr, flush=True)
    await done.wait()
    while not bus.counts.reconnects:
        await asyncio.sleep(0.01)
    print(bus.counts.heard, bus.counts.lost, bus.counts.reconnects, file=sys.stderr, flush=True)
    await connection.close()

asyncio.run(main())
"""


async def test_slow_consumer_is_cut_and_comes_back() -> None:
    """A hearer that stands still while megabytes are said to it loses some, counts the break, and hears what comes later."""
    async with nats_world({"max_pending": 2_000_000, "write_deadline": "1s"}) as world:
        sender = await world.endpoint("sender")
        environment = {**os.environ, "MIZZEN_NATS_URL": world.url, "PYTHONPATH": str(HOUSE)}
        command = [sys.executable, "-c", HEARER]
        hearer = await asyncio.create_subprocess_exec(*command, stderr=subprocess.PIPE, env=environment)
        try:
            assert hearer.stderr is not None
            assert b"listening\n" == await hearer.stderr.readline()
            hearer.send_signal(signal.SIGSTOP)
            message = AgentPresent(RegionName("eu"), AgentName("a" * 500_000))
            for _ in range(60):
                sender.say(message)
                await sender.round_trip(PATIENCE)
            hearer.send_signal(signal.SIGCONT)
            line = asyncio.get_running_loop().create_task(hearer.stderr.readline())
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not line.done():
                    sender.say(cancel(1))
                    await sender.round_trip(PATIENCE)
        finally:
            hearer.kill()
            await hearer.wait()
        heard, lost, reconnects = map(int, line.result().split())
        assert 0 < heard
        assert (1, 1) == (lost, reconnects)


def has_stopped(pid: int) -> bool:
    """Whether a process that was told to stop has; where it cannot be seen, it is taken to have."""
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "T"
