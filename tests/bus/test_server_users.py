"""Who may connect to a server of ours, and what a controller may say and hear there: its own, and nothing else."""

import asyncio
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bus.catalogue import ROUTES, inbox_of_controller, subject_of, subjects_of_controller
from bus.errors import BusError
from bus.nats import NatsConnection
from bus.port import Address, Bus
from bus.server import NatsServer
from bus.server_users import (
    USERS_FILE,
    Allowed,
    Permissions,
    ServerUser,
    config_of,
    put_user,
    reload_users,
    remove_user,
    user_called,
    users_in,
)
from core.codec import Parcel, encode
from core.messages.base import Message
from core.messages.control import (
    JobHandle,
    OperateTasks,
    RecordAnswer,
    TaskControlRequest,
    TaskControlResponse,
)
from core.messages.queue import CancelWorkload
from core.nouns.ids import RegionName, TenantName, WorkloadId
from core.nouns.instant import seconds
from core.nouns.operation import OperationKind
from tests.bus.worlds import FLEET, PATIENCE_SECONDS, servers_left

pytestmark = pytest.mark.processes

EU = RegionName("eu")
STORE, QUEUE, CONTROL = Address("store", (EU,)), Address("queue"), Address("control", (EU,))
Said = list[Message]


def a_controller(tenant: str, name: str) -> ServerUser:
    """A user who may be this controller and nobody else."""
    heard, said = subjects_of_controller(FLEET, tenant, name)
    inbox = f"{inbox_of_controller(tenant, name)}.>"
    may = Permissions(publish=Allowed((said, inbox)), subscribe=Allowed((heard, inbox)))
    return ServerUser(f"controller.{tenant}.{name}", "secret", may)


def request(tenant: str, name: str) -> TaskControlRequest:
    """One that a region says to a controller."""
    return TaskControlRequest(
        TenantName(tenant), name, JobHandle(EU, WorkloadId("w-1"), 1), (), (), (), (), 7
    )


def word(tenant: str, name: str) -> TaskControlResponse:
    """One that a controller says to a region."""
    return TaskControlResponse(EU, TenantName(tenant), name, WorkloadId("w-1"), 1, 7, ())


class Place:
    """A server in a directory, and connections to it."""

    def __init__(self, directory: Path, address: str, plane: NatsConnection, bus: Bus) -> None:
        self.directory = directory
        self.address = address
        self.plane = plane
        self.bus = bus
        self.connections: list[NatsConnection] = []

    async def grant(self, user: ServerUser) -> None:
        """Let somebody in, while the server runs."""
        put_user(self.directory, user)
        assert reload_users(self.directory)
        await until_known(self.address, user.user, is_known=True)

    async def connect(self, tenant: str, name: str) -> NatsConnection:
        """As a controller."""
        url = f"nats://controller.{tenant}.{name}:secret@{self.address}"
        inbox = inbox_of_controller(tenant, name)
        connection = await NatsConnection.connect(url, FLEET, name, inbox=inbox, timeout=seconds(5))
        self.connections.append(connection)
        return connection

    async def hears(self, address: Address, bus: Bus | None = None) -> Said:
        """What is said there from now on."""
        said: Said = []
        await (bus or self.bus).listen(address, lambda parcel, _: said.append(parcel.message))
        return said

    async def settle(self) -> None:
        """Until all that was said has been heard: through the server, and back out of it."""
        for _ in range(2):
            for connection in (*self.connections, self.plane):
                assert await connection.echo(seconds(PATIENCE_SECONDS))


async def until_known(address: str, user: str, *, is_known: bool) -> None:
    """The server reads its users soon after it is told to."""

    async def is_let_in() -> bool:
        try:
            url = f"nats://{user}:secret@{address}"
            inbox = f"_INBOX.{user}"
            await (await NatsConnection.connect(url, FLEET, "probe", inbox=inbox, timeout=seconds(5))).close()
        except BusError:
            return False
        return True

    async with asyncio.timeout(PATIENCE_SECONDS):
        while await is_let_in() != is_known:
            await asyncio.sleep(0.01)


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def a_place(directory: Path) -> AsyncIterator[Place]:
    """It ends with the block, and leaves no server."""
    server = NatsServer({}, directory)
    access = await server.start()
    plane = await NatsConnection.connect(access.url, FLEET, "plane")
    place = Place(directory, access.address, plane, plane.endpoint("plane"))
    try:
        yield place
    finally:
        await asyncio.gather(*(one.close() for one in (*place.connections, plane)))
        await server.stop()
    assert [] == servers_left()


async def test_granted_controller_hears_and_says_its_own(tmp_path: Path) -> None:
    """Also with a slash in the subject; those who are connected stay connected while the server reads its users anew."""
    async with a_place(tmp_path / "nats") as place:
        answers = await place.hears(CONTROL)
        await place.grant(a_controller("ml", "web"))
        mine = (await place.connect("ml", "web")).endpoint("controller")
        requests = await place.hears(Address("controller", ("ml", "web")), mine)
        place.bus.say(request("ml", "web"))
        mine.say(word("ml", "web"))
        await until(lambda: bool(requests) and bool(answers))
        assert ([request("ml", "web")], [word("ml", "web")]) == (requests, answers)
        assert (0, 0) == (place.bus.counts.reconnects, place.bus.counts.lost)


async def test_controller_can_say_nothing_else(tmp_path: Path) -> None:
    """Not another's answer, nor anything to the store, the queue, any other address, or through whoever answers it."""
    async with a_place(tmp_path / "nats") as place:
        await place.grant(a_controller("ml", "web"))
        said: Said = []
        for address in {
            Address(route.noun, tuple("eu" for _ in route.scope)): None for route in ROUTES.values()
        }:
            await place.bus.listen(address, lambda parcel, _: said.append(parcel.message))
        connection = await place.connect("ml", "web")
        mine = connection.endpoint("controller")
        operate = OperateTasks(EU, WorkloadId("w-1"), 1, OperationKind.STOP, (), "")
        others: tuple[Message, ...] = (
            word("ml", "db"),
            word("other", "web"),
            operate,
            RecordAnswer(EU, WorkloadId("w-1"), 1, 7, ()),
            CancelWorkload(WorkloadId("w-1")),
            request("eu", "eu"),
        )
        for message in others:
            mine.say(message)
        own = subject_of(FLEET, word("ml", "web"))
        for message in (*others, operate):
            connection.deliver_raw(own, encode(Parcel("x.1", "queue", message)))
        connection.send(own, b"garbage", subject_of(FLEET, operate), mine.counts)
        mine.say(word("ml", "web"))
        await until(lambda: bool(said))
        await place.settle()
        assert [word("ml", "web")] == said
        assert len(others) + 2 == place.bus.counts.dead_letters, "all that came under its own signature"


async def test_controller_can_hear_nothing_else(tmp_path: Path) -> None:
    """Not what another is asked, nor what the plane says to itself, nor anybody's answers, whatever it subscribes to."""
    async with a_place(tmp_path / "nats") as place:
        await place.grant(a_controller("ml", "web"))
        await place.grant(a_controller("ml", "db"))
        connection = await place.connect("ml", "web")
        heard: list[str] = []

        def hear(subject: str, _: bytes, __: str) -> None:
            heard.append(subject)

        for pattern in (
            ">", f"{FLEET}.>", f"{FLEET}.controller.>", f"{FLEET}.controller.ml.*.*", f"{FLEET}.controller.ml.db.*",
            f"{FLEET}.store.*.*", f"{FLEET}.control.eu.*", "_INBOX.>", "_INBOX.controller.ml.db.>", "$SYS.>",
        ):  # fmt: skip
            await connection.open_ear(pattern, "", hear)
        other = (await place.connect("ml", "db")).endpoint("db")
        requests = await place.hears(Address("controller", ("ml", "db")), other)
        operations = await place.hears(STORE)
        place.bus.say(request("ml", "db"))
        place.bus.say(OperateTasks(EU, WorkloadId("w-1"), 1, OperationKind.STOP, (), ""))
        other.say(word("ml", "db"))
        await until(lambda: bool(requests) and bool(operations))
        await place.settle()
        assert [] == heard


async def test_revoked_controller_is_cut_off(tmp_path: Path) -> None:
    """At once, and nobody else is."""
    async with a_place(tmp_path / "nats") as place:
        await place.grant(a_controller("ml", "web"))
        await place.grant(a_controller("ml", "db"))
        gone, kept = await place.connect("ml", "web"), await place.connect("ml", "db")
        bus = kept.endpoint("kept")
        assert remove_user(place.directory, "controller.ml.web")
        assert not remove_user(place.directory, "controller.ml.web")
        assert reload_users(place.directory)
        await until_known(place.address, "controller.ml.web", is_known=False)
        answers = await place.hears(CONTROL)
        gone.endpoint("gone").say(word("ml", "web"))
        bus.say(word("ml", "db"))
        await until(lambda: bool(answers))
        assert [word("ml", "db")] == answers
        assert (0, 0) == (bus.counts.reconnects, place.bus.counts.reconnects)
        place.connections.remove(gone)
        await gone.close()


async def test_users_outlive_the_server(tmp_path: Path) -> None:
    """Killed and started again, by the same keeper or by the next one, it lets in whom it let in; others cannot read who."""
    directory = tmp_path / "nats"
    server = NatsServer({}, directory)
    access = await server.start()
    user = a_controller("ml", "web")
    put_user(directory, user)
    assert reload_users(directory)
    await server.kill()
    assert not reload_users(directory), "what is left of a dead server is told nothing"
    assert access == await server.start()
    await server.stop()
    successor = NatsServer({}, directory, password="another")
    access = await successor.start()
    await until_known(access.address, user.user, is_known=True)
    await successor.stop()
    assert user == user_called(directory, user.user)
    assert {"mizzen": "another", user.user: "secret"} == {
        one.user: one.password for one in users_in(directory)
    }
    assert 0o600 == stat.S_IMODE((directory / USERS_FILE).stat().st_mode)


def test_users_are_those_that_were_put_last(tmp_path: Path) -> None:
    """A user of the same name takes the place of the one before; nothing is written when nothing changes."""
    assert () == users_in(tmp_path)
    put_user(tmp_path, ServerUser("mizzen", "one"))
    put_user(tmp_path, a_controller("ml", "web"))
    written = (tmp_path / USERS_FILE).stat().st_ino
    put_user(tmp_path, a_controller("ml", "web"))
    assert written == (tmp_path / USERS_FILE).stat().st_ino
    put_user(tmp_path, ServerUser("mizzen", "two"))
    assert {a_controller("ml", "web"), ServerUser("mizzen", "two")} == set(users_in(tmp_path))
    (tmp_path / USERS_FILE).write_text("users: {")
    with pytest.raises(BusError, match="cannot be read"):
        users_in(tmp_path)


async def test_other_servers_take_the_same_words(tmp_path: Path) -> None:
    """What is told to whoever keeps a server of their own is in the language of its configuration."""
    server = NatsServer({}, tmp_path / "nats")
    access = await server.start()
    user = a_controller("ml", "web")
    (tmp_path / "nats" / USERS_FILE).write_text(config_of((user,)))
    assert reload_users(tmp_path / "nats")
    await until_known(access.address, user.user, is_known=True)
    await server.stop()
