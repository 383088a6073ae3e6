"""A tenant's words: under its own signature, answered into its own inbox, and kept to them by the server itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from bus.catalogue import (
    ROUTES,
    answers_to,
    inbox_of,
    inbox_of_controller,
    inbox_of_tenant,
    is_forged,
    is_signed,
    pattern_of,
    subject_of,
    subjects_of_tenant,
)
from bus.errors import AskTimedOut, BadSubject, NotForTenants
from bus.nats import NatsConnection
from bus.port import Address, Bus
from bus.server import NatsServer
from bus.server_users import put_user, reload_users
from core.codec import Parcel, encode
from core.messages import MESSAGES
from core.messages.base import Answer, Message
from core.messages.control import TaskControlResponse
from core.messages.logs import ReadLog
from core.messages.output import ReadOutput
from core.messages.queue import Acknowledged, CancelWorkload, ShowWorkload
from core.messages.tenants import SetTenant
from core.nouns.ids import GLOBAL_LOG, RegionName, TenantName, WorkerName, WorkloadId
from core.nouns.instant import MILLISECOND, Nanoseconds, seconds
from core.nouns.limits import SENDER_LENGTH_MAX
from core.nouns.tenant import TenantSettings
from core.rules.ownership import TENANTS_MAY
from mizzen.connect.tenant import stranger_of
from tests.bus.test_server_users import until, until_known
from tests.bus.worlds import FLEET, PATIENCE_SECONDS, SimulatedWorld, in_simulated_world, servers_left
from tests.core.reflection import example

W1 = WorkloadId("w-1")
EU = RegionName("eu")
QUEUE = Address("queue")
CANCEL = CancelWorkload(W1)
OUTPUT = ReadOutput(EU, WorkerName("w0"), W1, 1, "job", 0, 0, 10)
SHORT = Nanoseconds(300 * MILLISECOND)


def said_by(message: Message, tenant: str = "ml", sender: str = "ml/ada@desk") -> Parcel:
    """As it is on its way."""
    return Parcel("ml/ada@desk.1", sender, message, tenant)


def test_signature_stands_in_the_verb() -> None:
    """One pattern hears all that is said to the queue, and a server's permissions can allow one tenant alone."""
    subject = subject_of(FLEET, CANCEL, "ml")
    assert f"{FLEET}.queue.cancel_workload/ml" == subject
    assert subject.rpartition(".")[0] + ".*" == pattern_of(FLEET, QUEUE)
    assert is_signed(subject)
    may = subjects_of_tenant(FLEET, "ml")
    assert subject in may
    assert f"{FLEET}.output.*.*.read_output/ml" in may
    assert len(TENANTS_MAY) == len(may)
    assert all(one.endswith("/ml") for one in may)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a.b", "*", ">", "a\n", "é"])
def test_bad_names_have_no_signature(name: str) -> None:
    """A slash could be a controller's signature; a dot or a wildcard could be heard by others."""
    with pytest.raises(BadSubject):
        subjects_of_tenant(FLEET, name)


def test_messages_that_tenants_may_not_send_are_refused() -> None:
    """The sender is told at once, in a sentence that names the operators and the tenant."""
    for kind in (kind for kind in ROUTES if kind not in TENANTS_MAY):
        with pytest.raises(
            NotForTenants, match=r"only the plane's operators .*, and these are the credentials of tenant ml"
        ):
            subject_of(FLEET, example(kind, is_full=True), "ml")


def test_forgeries_are_told() -> None:
    """Another's name, in the parcel or as its sender, none at all, what no tenant may say, and what would not fit a fact."""
    mine = subject_of(FLEET, CANCEL, "ml")
    assert not is_forged(FLEET, mine, said_by(CANCEL))
    plain = subject_of(FLEET, CANCEL)
    assert not is_forged(FLEET, plain, said_by(CANCEL, "", "queue"))
    long = "ml/" + "x" * SENDER_LENGTH_MAX
    for subject, parcel in (
        (mine, said_by(CANCEL, "bio", "bio/eve@desk")),
        (mine, said_by(CANCEL, "")),
        (mine, said_by(CANCEL, sender="queue")),
        (mine, said_by(CANCEL, sender="mlx/ada@desk")),
        (mine, said_by(CANCEL, sender=long)),
        (mine, replace(said_by(CANCEL), id=long)),
        (mine, said_by(CANCEL, sender="ml/\x1b[2J")),
        (mine, replace(said_by(CANCEL), id="ml\n")),
        (mine, said_by(ShowWorkload(W1))),
        (mine, said_by(Acknowledged(W1))),
        (plain, said_by(CANCEL)),
        (f"{FLEET}.output.eu.w1.read_output/ml", said_by(OUTPUT)),
        (f"{FLEET}.queue.set_tenant/ml", said_by(SetTenant(TenantName("ml"), TenantSettings(), 0))),
    ):
        assert is_forged(FLEET, subject, parcel), (subject, parcel)


def test_no_message_passes_as_a_tenants_that_is_not_listed() -> None:
    """Under whatever verb."""
    for kind in MESSAGES:
        if kind not in TENANTS_MAY and not issubclass(kind, Answer):
            message = example(kind, is_full=True)
            plain = subject_of(FLEET, message)
            signed = f"{plain.partition('/')[0]}/ml"
            assert is_forged(FLEET, signed, said_by(message)), kind.__name__
            assert is_forged(FLEET, plain, said_by(message)), kind.__name__


def test_answers_go_into_ones_own_inbox() -> None:
    """Where an answer goes is for the speaker to name: anywhere else it would be a word of ours that a stranger chose."""
    mine, plain = subject_of(FLEET, CANCEL, "ml"), subject_of(FLEET, CANCEL)
    inbox = f"{inbox_of_tenant('ml')}.af0c.7"
    assert inbox == answers_to(mine, inbox)
    for reply_to in (
        "",
        f"{FLEET}.store.eu.operate_tasks",
        f"{inbox_of_tenant('bio')}.af0c.7",
        f"{inbox_of_tenant('mlx')}.7",
        f"{inbox_of_tenant('ml')}.",
        f"{inbox_of_tenant('ml')}.*",
        f"{inbox_of_tenant('ml')}.a..b",
        f"{inbox_of_tenant('ml')}.a b",
        f"x.{inbox}",
        f"{inbox_of('af0c')}.7",
        f"{inbox_of_controller('ml', 'web')}.7",
        inbox + "7" * SENDER_LENGTH_MAX,
    ):
        assert "" == answers_to(mine, reply_to), reply_to
        assert reply_to == answers_to(plain, reply_to)
    word = TaskControlResponse(EU, TenantName("ml"), "web", W1, 1, 7, ())
    assert "" == answers_to(subject_of(FLEET, word), inbox)


@in_simulated_world
async def test_simulated_bus_keeps_the_same_promise(world: SimulatedWorld) -> None:
    """A tenant's question is answered, and heard as its own."""
    heard: list[Parcel] = []
    queue, mine = world.network.endpoint("queue"), world.network.endpoint("ml/ada@desk", "ml")

    def hear(parcel: Parcel, reply_to: str) -> None:
        heard.append(parcel)
        queue.say(Acknowledged(W1), reply_to)

    await queue.listen(QUEUE, hear)
    assert Acknowledged(W1) == await mine.ask(CANCEL, seconds(1))
    assert [("ml", "ml/ada@desk")] == [(parcel.tenant, parcel.sender) for parcel in heard]
    world.network.deliver_raw(subject_of(FLEET, CANCEL, "bio"), encode(said_by(CANCEL)))
    await world.settle()
    assert (1, 1) == (len(heard), queue.counts.dead_letters)
    with pytest.raises(NotForTenants):
        mine.say(ReadLog(GLOBAL_LOG, 1, 10))


class Plane:
    """A server of a plane, with a queue that does whatever it is told, and two tenants who are let in."""

    def __init__(self, address: str, connection: NatsConnection) -> None:
        self.address = address
        self.bus = connection.endpoint("queue")
        self.connection = connection
        self.heard: list[tuple[Parcel, str]] = []
        self.clients: list[NatsConnection] = []

    def hear(self, parcel: Parcel, reply_to: str) -> None:
        self.heard.append((parcel, reply_to))
        self.bus.say(Acknowledged(W1), reply_to)

    async def client(self, tenant: str, *, inbox: str = "") -> NatsConnection:
        """With the credentials of a tenant."""
        url = f"nats://tenant.{tenant}:secret@{self.address}"
        connection = await NatsConnection.connect(
            url, FLEET, "client", inbox=inbox, tenant=tenant, timeout=seconds(5)
        )
        self.clients.append(connection)
        return connection

    async def settle(self) -> None:
        """Until all that was said has been heard."""
        for _ in range(2):
            for connection in (*self.clients, self.connection):
                assert await connection.echo(seconds(PATIENCE_SECONDS))


@asynccontextmanager
async def a_plane(directory: Path) -> AsyncIterator[Plane]:
    """It ends with the block, and leaves no server."""
    server = NatsServer({}, directory)
    access = await server.start()
    connection = await NatsConnection.connect(access.url, FLEET, "plane")
    plane = Plane(access.address, connection)
    for tenant in ("ml", "bio"):
        put_user(directory, replace(stranger_of(FLEET, tenant).user, password="secret"))
    assert reload_users(directory)
    await until_known(access.address, "tenant.ml", is_known=True)
    for address in {Address(route.noun, route.scope): None for route in ROUTES.values()}:
        await plane.bus.listen(address, plane.hear)
    try:
        yield plane
    finally:
        await asyncio.gather(*(one.close() for one in (*plane.clients, connection)))
        await server.stop()
    assert [] == servers_left()


def client_of(connection: NatsConnection, tenant: str = "ml") -> Bus:
    """Somebody with these credentials."""
    return connection.endpoint(f"{tenant}/ada@desk")


async def test_server_lets_a_tenant_ask_and_be_answered(tmp_path: Path) -> None:
    """Over NATS as it is; whoever is asked knows with whose credentials."""
    async with a_plane(tmp_path / "nats") as plane:
        mine = client_of(await plane.client("ml"))
        assert Acknowledged(W1) == await mine.ask(CANCEL, seconds(PATIENCE_SECONDS))
        ((parcel, reply_to),) = plane.heard
        assert ("ml", "ml/ada@desk", CANCEL) == (parcel.tenant, parcel.sender, parcel.message)
        assert reply_to.startswith("_INBOX.tenant.ml.")


async def test_server_lets_a_tenant_say_nothing_else(tmp_path: Path) -> None:
    """Not as the plane, nor as another tenant, nor to a keeper, a reader or a worker, nor in another inbox; all that came is its own."""
    async with a_plane(tmp_path / "nats") as plane:
        connection = await plane.client("ml")
        for kind in ROUTES:
            message = example(kind, is_full=True)
            plain = subject_of(FLEET, message)
            for tenant in ("", "ml", "bio"):
                data = encode(said_by(message, tenant))
                connection.deliver_raw(plain, data)
                if kind not in TENANTS_MAY:
                    connection.deliver_raw(f"{plain.partition('/')[0]}/ml", data)
        for tenant in ("ml", "bio"):
            connection.deliver_raw(subject_of(FLEET, CANCEL, "bio"), encode(said_by(CANCEL, tenant)))
            connection.deliver_raw(subject_of(FLEET, CANCEL, "ml"), encode(said_by(CANCEL, "bio", "bio/eve")))
        connection.deliver_raw(f"{inbox_of_tenant('bio')}.x", b"")
        connection.deliver_raw(f"{inbox_of('af0c')}.1", b"")
        assert Acknowledged(W1) == await client_of(connection).ask(CANCEL, seconds(PATIENCE_SECONDS))
        await plane.settle()
        assert [CANCEL] == [parcel.message for parcel, _ in plane.heard]
        assert (0, 0) == (plane.bus.counts.reconnects, plane.bus.counts.lost)


async def test_answers_reach_no_other_component_through_a_tenant(tmp_path: Path) -> None:
    """The tenant names another subject for its answer: its request is received, and answered nowhere."""
    async with a_plane(tmp_path / "nats") as plane:
        connection = await plane.client("ml")
        mine = client_of(connection)
        connection.send(
            subject_of(FLEET, CANCEL, "ml"),
            encode(said_by(CANCEL)),
            f"{FLEET}.store.eu.operate_tasks",
            mine.counts,
        )
        await until(lambda: bool(plane.heard))
        await plane.settle()
        assert [(CANCEL, "")] == [(parcel.message, reply_to) for parcel, reply_to in plane.heard]


async def test_tenants_receive_no_messages_of_others(tmp_path: Path) -> None:
    """Neither messages to the plane, nor its facts, nor answers to another tenant; silence alone tells them so."""
    async with a_plane(tmp_path / "nats") as plane:
        eve, ada = await plane.client("bio"), await plane.client("ml")
        overheard: list[str] = []
        for pattern in (
            ">",
            f"{FLEET}.>",
            "_INBOX.>",
            f"{inbox_of_tenant('ml')}.>",
            pattern_of(FLEET, QUEUE),
        ):
            eve.close_ear(await eve.open_ear(pattern, "", lambda subject, *_: overheard.append(subject)))
            await eve.open_ear(pattern, "", lambda subject, *_: overheard.append(subject))
        await client_of(ada).ask(CANCEL, seconds(PATIENCE_SECONDS))
        plane.bus.say(CANCEL)
        await plane.settle()
        assert [] == overheard


async def test_tenants_have_no_inbox_elsewhere(tmp_path: Path) -> None:
    """Who asks for another's answers is not answered at all."""
    async with a_plane(tmp_path / "nats") as plane:
        stray = await plane.client("bio", inbox=inbox_of_tenant("ml"))
        with pytest.raises(AskTimedOut):
            await client_of(stray, "bio").ask(CANCEL, SHORT)
        plane.clients.remove(stray)  # Not even its own echo comes back.
        await stray.close()
        assert [""] == [reply_to for _, reply_to in plane.heard]
