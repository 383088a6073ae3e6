"""`mizzen controller`: credentials that are one controller's alone, and the process that uses them."""

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bus.errors import BusError
from bus.nats import NatsConnection
from bus.port import Address, Bus
from bus.server import NatsServer
from bus.server_users import USERS_FILE, users_in
from core.messages.base import Message
from core.messages.control import JobHandle, OperationAsked, TaskControlRequest, TaskControlResponse
from core.nouns.ids import RegionName, TenantName, WorkloadId
from core.nouns.instant import seconds
from core.nouns.operation import Ack, OperationKind
from mizzen.cli import main
from mizzen.commands.controller import find_controller
from mizzen.control.access import access_to
from mizzen.control.serving import serving
from mizzen.terminal.output import CommandError
from runtime.control.controller import TaskController
from tests.bus.worlds import servers_left
from tests.mizzen.processes import PATIENCE_SECONDS, until

Captured = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch
HOUSE = Path(__file__).resolve().parents[2]
EU = RegionName("eu")
FLEET = "mizzen"
CONTROLLER = """
from mizzen import Ack, TaskController

class Agrees(TaskController):
    async def process(self, request):
        return [Ack(asked.operation) for asked in request.requests]

agrees = Agrees()
nothing = 7
broken = lambda: 1 / 0
"""


def asked(name: str, sequence: int) -> TaskControlRequest:
    """One operation."""
    return TaskControlRequest(
        TenantName("ml"),
        name,
        JobHandle(EU, WorkloadId("w-1"), 1),
        (OperationAsked(1, OperationKind.RESTART, 0, ""),),
        (),
        (),
        (),
        sequence,
    )


class Agrees(TaskController):
    """With everything."""

    async def process(self, request: TaskControlRequest) -> list[Ack]:
        return [Ack(one.operation) for one in request.requests]


class Place:
    """A plane's server in a folder, as `mizzen up` keeps it; and a region that asks."""

    def __init__(self, folder: Path, server: NatsServer, url: str, bus: Bus) -> None:
        self.folder = folder
        self.server = server
        self.url = url
        self.bus = bus
        self.heard: list[Message] = []

    async def ask_until_answered(self, name: str, sequence: int) -> None:
        """As a region asks: again, until there is an answer."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not any(
                isinstance(one, TaskControlResponse) and (one.controller, one.sequence) == (name, sequence)
                for one in self.heard
            ):
                self.bus.say(asked(name, sequence))
                await asyncio.sleep(0.02)

    async def command(self, *words: str) -> int:
        """`mizzen` with these words, beside the plane."""
        return await asyncio.to_thread(main, words)


@asynccontextmanager
async def a_place(folder: Path, patch: Patch) -> AsyncIterator[Place]:
    """Commands are run in its folder."""
    patch.delenv("MIZZEN_NATS_URL", raising=False)
    patch.chdir(folder)
    directory = folder / ".mizzen"
    directory.mkdir()
    server = NatsServer({}, directory / "nats")
    access = await server.start()
    found = {"url": access.url, "fleet": FLEET, "directory": str(directory), "pid": os.getpid()}
    (directory / "plane.json").write_text(json.dumps(found))
    connection = await NatsConnection.connect(access.url, FLEET, "region")
    place = Place(folder, server, access.url, connection.endpoint("region"))
    await place.bus.listen(Address("control", (EU,)), lambda parcel, _: place.heard.append(parcel.message))
    try:
        yield place
    finally:
        await connection.close()
        await server.stop()
    assert [] == servers_left()


@pytest.mark.processes
async def test_credentials_are_one_controllers_alone(
    tmp_path: Path, monkeypatch: Patch, capsys: Captured
) -> None:
    """The file can be read by its owner alone, and lets its controller be served and no other; the plane's clients stay."""
    async with a_place(tmp_path, monkeypatch) as place:
        assert 0 == await place.command("controller", "credentials", "web", "--tenant", "ml")
        said = capsys.readouterr().out
        path = tmp_path / "ml.web.credentials.json"
        assert 0o600 == stat.S_IMODE(path.stat().st_mode)
        granted = json.loads(path.read_text())
        assert (FLEET, "ml", "web") == (granted["fleet"], granted["tenant"], granted["controller"])
        secret = granted["url"].partition("controller.ml.web:")[2].partition("@")[0]
        assert len(secret) > 30
        assert secret not in said
        async with serving(Agrees(), plane=path):
            await place.ask_until_answered("web", 7)
        with pytest.raises(CommandError, match="for the name web, not for db"):
            access_to(path, name="db")
        with pytest.raises(CommandError, match="for the tenant ml, not for x"):
            access_to(path, tenant="x")
        assert 0 == place.bus.counts.reconnects


@pytest.mark.processes
async def test_granted_again_and_revoked(tmp_path: Path, monkeypatch: Patch, capsys: Captured) -> None:
    """Who lost the file is given the same again; who is revoked is out, and when let in again has another secret."""
    async with a_place(tmp_path, monkeypatch) as place:
        words = ("controller", "credentials", "web", "--tenant", "ml", "--json")
        assert 0 == await place.command(*words, "--output", "one.json")
        told = json.loads(capsys.readouterr().out)
        assert ("one.json", "controller.ml.web") == (told["file"], told["user"])
        assert ["mizzen.controller.ml.web.*", "_INBOX.controller.ml.web.>"] == told["hears"]
        assert ["mizzen.control.*.task_control_response/ml/web", "_INBOX.controller.ml.web.>"] == told["says"]
        assert 0 == await place.command(*words, "--output", "two.json")
        one, two = (json.loads((tmp_path / name).read_text()) for name in ("one.json", "two.json"))
        assert one == two
        assert 0 == await place.command(*words, "--revoke")
        with pytest.raises(BusError, match="Authorization"):
            await NatsConnection.connect(one["url"], FLEET, "gone", timeout=seconds(5))
        assert 1 == await place.command(*words, "--revoke")
        assert "controller web of ml has no credentials to revoke" in capsys.readouterr().err
        assert 0 == await place.command(*words, "--output", "three.json")
        assert one["url"] != json.loads((tmp_path / "three.json").read_text())["url"]


@pytest.mark.processes
async def test_credentials_outlive_server_and_keeper(tmp_path: Path, monkeypatch: Patch) -> None:
    """Killed and started again, by the same keeper or the next, the server lets the controller in, which comes back by itself."""
    async with a_place(tmp_path, monkeypatch) as place:
        assert 0 == await place.command("controller", "credentials", "web", "--tenant", "ml")
        async with serving(Agrees(), plane=tmp_path / "ml.web.credentials.json"):
            await place.ask_until_answered("web", 7)
            await place.server.kill()
            await place.server.start()
            await place.ask_until_answered("web", 8)
        names = [user.user for user in users_in(tmp_path / ".mizzen" / "nats")]
        assert ["mizzen", "controller.ml.web"] == names


@pytest.mark.processes
async def test_controller_in_its_own_process(tmp_path: Path, monkeypatch: Patch) -> None:
    """`mizzen controller run` imports it from where it is run, serves until SIGTERM, and ends in order."""
    async with a_place(tmp_path, monkeypatch) as place:
        (tmp_path / "mine.py").write_text(CONTROLLER)
        assert 0 == await place.command("controller", "credentials", "web", "--tenant", "ml")
        words = ["controller", "run", "mine:Agrees", "--credentials", "ml.web.credentials.json", "--json"]
        with (
            (tmp_path / "said").open("w") as said,
            subprocess.Popen(  # noqa: ASYNC220  # it only begins
                [sys.executable, "-m", "mizzen", *words],
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": str(HOUSE)},
                stderr=said,
            ) as process,
        ):
            try:
                await place.ask_until_answered("web", 7)
            finally:
                process.send_signal(signal.SIGTERM)
            await until(lambda: process.poll() is not None, PATIENCE_SECONDS, lambda: "it does not end")
        assert 0 == process.returncode
        events = [json.loads(line)["event"] for line in (tmp_path / "said").read_text().splitlines()]
        assert ["controller_serves", "process_ending"] == events


@pytest.mark.processes
async def test_waits_for_its_server(tmp_path: Path, monkeypatch: Patch) -> None:
    """It may be started before the plane is."""
    async with a_place(tmp_path, monkeypatch) as place:
        await place.server.kill()

        async def serve() -> None:
            async with serving(Agrees(), name="web", tenant="ml", plane=place.url) as server:
                await server.wait()

        waiting = asyncio.get_running_loop().create_task(serve())
        await asyncio.sleep(0)
        await place.server.start()
        await place.ask_until_answered("web", 7)
        waiting.cancel()
        await asyncio.wait([waiting])


async def test_user_of_a_foreign_server_is_told_the_permissions_to_grant(
    tmp_path: Path, monkeypatch: Patch, capsys: Captured
) -> None:
    """Its users are for its operator to change; the lines of its configuration are on standard output."""
    monkeypatch.setenv("MIZZEN_NATS_URL", "nats://operator:secret@nats.example:4222")
    monkeypatch.chdir(tmp_path)
    assert 0 == main(["controller", "credentials", "web", "--tenant", "ml"])
    said = capsys.readouterr()
    for text in (
        '"user": "controller.ml.web"', '"mizzen.controller.ml.web.*"', '"mizzen.control.*.task_control_response/ml/web"',
    ):  # fmt: skip
        assert text in said.out
    assert "MIZZEN_NATS_URL=nats://controller.ml.web:PASSWORD@HOST:PORT" in said.err
    assert "secret" not in said.out + said.err
    assert 1 == main(["controller", "credentials", "web", "--tenant", "ml", "--revoke"])
    assert "remove its user controller.ml.web" in capsys.readouterr().err
    assert [] == list(tmp_path.iterdir())


async def test_plane_on_a_foreign_server_is_foreign(
    tmp_path: Path, monkeypatch: Patch, capsys: Captured
) -> None:
    """Also when its directory has users of a server that it once kept."""
    monkeypatch.delenv("MIZZEN_NATS_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    nats = tmp_path / ".mizzen" / "nats"
    nats.mkdir(parents=True)
    (nats / USERS_FILE).write_text('users: [{"user":"mizzen","password":"old"}]')
    found = {
        "url": "nats://a:new@host:4222",
        "fleet": FLEET,
        "directory": str(tmp_path / ".mizzen"),
        "pid": 1,
    }
    (tmp_path / ".mizzen" / "plane.json").write_text(json.dumps(found))
    assert 0 == main(["controller", "credentials", "web"])
    assert "controller.default.web" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["credentials", "a.b"], "cannot be part of a subject"),
        (["credentials", "web", "--tenant", "x y"], "cannot be part of a subject"),
        (["run", "mine"], "write MODULE:CLASS"),
        (["run", "nowhere:Agrees"], "there is no module nowhere"),
        (["run", "mine:Missing"], "mine has no Missing"),
        (["run", "mine:nothing"], "is no mizzen.TaskController"),
        (["run", "mine:broken"], "cannot be made: ZeroDivisionError"),
        (["run", "wrong:Agrees"], "wrong cannot be imported: SyntaxError"),
        (["run", "mine:Agrees"], "which controller is it"),
        (["run", "mine:Agrees", "--name", "a/b"], "cannot be part of a subject"),
        (["run", "mine:Agrees", "--credentials", "missing.json"], "missing.json cannot be read"),
    ],
)
def test_mistakes_are_explained(
    words: list[str], says: str, tmp_path: Path, monkeypatch: Patch, capsys: Captured
) -> None:
    """In one sentence that says what to do, and never by a trace."""
    monkeypatch.setenv("MIZZEN_NATS_URL", "nats://127.0.0.1:1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    (tmp_path / "mine.py").write_text(CONTROLLER)
    (tmp_path / "wrong.py").write_text("class")
    assert 0 != main(["controller", *words])
    assert says in capsys.readouterr().err
    sys.modules.pop("mine", None)


def test_whatever_makes_a_controller_is_found(tmp_path: Path, monkeypatch: Patch) -> None:
    """A class, an instance, or a function that returns one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "made.py").write_text(f"{CONTROLLER}\ndef make():\n    return agrees\n")
    for name in ("Agrees", "agrees", "make"):
        assert "Agrees" == type(find_controller(f"made:{name}")).__name__
    sys.modules.pop("made", None)
