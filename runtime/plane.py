"""A plane as processes on this machine: a NATS server, and a process for every unit, kept up in one directory.

    up.lock               held by whoever keeps the plane up
    plane.json            how it is reached; readable by its user alone, for the address holds a password
    fleet.yaml            the fleet, as it was when the directory was made
    nats/                 the server's configuration, and the port and password that it keeps
    <log>.sqlite, ...     logs and snapshots
    processes/<unit>.log  what each process wrote, and .log.1, .log.2 ... before that
    suspects/<unit>.json  messages on which a unit has failed (runtime/status/put_aside.py)
    violations.jsonl      violations that no operator has acknowledged (runtime/status/violation_file.py)

Whoever starts a plane in the same directory again resumes it: its logs say all, and what users run went on meanwhile.
"""

import asyncio
import errno
import os
import secrets
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import structlog
from msgspec import Struct

from bus.errors import BusError
from bus.server import LOOPBACK, URL_VARIABLE, NatsServer
from core.nouns.ids import LogName
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.limits import RESTART_DELAY_MAX, RESTART_DELAY_MIN, UNANSWERED_MAX
from runtime.supervision.supervisor import Process, Supervisor
from runtime.tasks.processes import marked_under
from runtime.wiring import Plan, Unit, units_of
from store.errors import LogInUse
from store.files import FileLock

logger = structlog.get_logger()

FLEET_FILE = "fleet.yaml"
PLANE_FILE = "plane.json"
WAVES = {"job_queue": 0, "placement_store": 0, "reader": 1}
"""Who ends last: keepers, so that what others still say is recorded."""
OTHERS_WAVE = 2
COMMAND_LINE = "mizzen.cli"
"""Each process is what `mizzen start` would be in the foreground."""
LOADED_ONCE = (COMMAND_LINE, "mizzen.commands.start")
"""Modules that all processes need."""


PROCESSES = "processes"
"""In a plane's directory, what its processes wrote."""
CHECKPOINTS = "checkpoints"
"""In a plane's directory, where its nodes keep checkpoints of programs that name no place."""
NATS = "nats"
SPOOLS = "nodes"
"""In a plane's directory, where its workers' spools are."""
TASKS_END_SPAN = seconds(3)
"""From SIGTERM to SIGKILL for what users run, when it is to end with its plane."""


class PlaneError(Exception):
    """A plane that cannot be started; the text says what to do."""


class Reached(Struct, frozen=True):
    """How a plane is reached: what `plane.json` holds."""

    url: str
    fleet: str
    directory: str
    pid: int


class _Known(Struct, frozen=True):
    """What the server's clients were told once, and find again."""

    port: int
    password: str


class PlaneProcesses:
    """A plane that is kept up in one directory."""

    def __init__(
        self,
        plan: Plan,
        fleet_file: Path | None,
        directory: Path,
        *,
        host: str = LOOPBACK,
        port: int = 0,
        died: Callable[[str, int], None] | None = None,
        variables: Callable[[Unit], Mapping[str, str]] | None = None,
        unanswered_max: Nanoseconds = UNANSWERED_MAX,
        command_line: str = COMMAND_LINE,
    ) -> None:
        """`fleet_file` is the one that the plan was read from; none: this machine alone. `died` is told of deaths.

        `variables` are what a unit has in its environment beside, or instead of, what we have. `unanswered_max` is how long a process
        may hang (runtime/supervision/supervisor.py). `command_line` is the module whose `main` each process is.
        """
        self.plan = plan
        self.directory = directory
        self.url = ""
        loaded = (command_line, *LOADED_ONCE)
        self.supervisor = Supervisor(directory / PROCESSES, loaded, died, unanswered_max=unanswered_max)
        self._command_line = command_line
        self._fleet_file = fleet_file
        self.on_death = died
        self._variables = variables
        self._host = host
        self._port = port
        self._lock: FileLock | None = None
        self.server: NatsServer | None = None
        """Ours; None while it is somebody else's."""
        self._serving: asyncio.Task[None] | None = None
        self._bus_stops = 0
        """How many keep our server dead."""
        self._may_serve = asyncio.Event()
        """Cleared while our server is to stay dead."""
        self._may_serve.set()
        self._is_served = asyncio.Event()
        """Set while our server is up."""
        self._written: list[Path] = []

    async def start(self) -> None:
        """Take the directory, and begin to keep everything up. Raises PlaneError."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._lock = FileLock(LogName("up"), self.directory / "up.lock")
        except LogInUse as error:
            text = (
                f"a plane is already kept up in {self.directory}; stop that one, or name another --directory"
            )
            raise PlaneError(text) from error
        try:
            self._keep_fleet_file()
            await self._start_server()
            if self.server is not None:
                self._is_served.set()
                self._serving = asyncio.get_running_loop().create_task(self._serve(), name="keep/nats")
            for unit in units_of(self.plan):
                self.supervisor.start(self._process(unit))
            self.write_how_to_reach_it(self.directory / PLANE_FILE)
        except BaseException:
            await self.stop()
            raise

    async def stop(self, *, ends_tasks: bool = False) -> None:
        """End everything in order. What users run goes on, unless it is to end too."""
        for path in self._written:
            if _reached(path) == self._how_to_reach_it():  # Another plane may have written there since.
                path.unlink(missing_ok=True)
        await self.supervisor.stop()
        if ends_tasks:
            await self._end_tasks()
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.wait([self._serving])
        if self.server is not None:
            await self.server.stop()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    async def stop_bus(self) -> None:
        """Kill our server; it stays dead until everybody who stopped it has started it. Whoever is cancelled meanwhile has not
        stopped it.
        """
        assert self.server is not None, "it is somebody else's"
        self._bus_stops += 1
        self._may_serve.clear()
        if self._is_served.is_set():
            self._is_served.clear()
            try:
                await self.server.kill()
            except asyncio.CancelledError:
                self._let_serve()
                raise

    async def start_bus(self) -> None:
        """Have our server started again, unless somebody else keeps it dead, and wait until it is up. No harm if it is."""
        assert self.server is not None, "it is somebody else's"
        self._let_serve()
        if self._may_serve.is_set():
            await self._is_served.wait()

    def _let_serve(self) -> None:
        self._bus_stops = max(0, self._bus_stops - 1)
        if not self._bus_stops:
            self._may_serve.set()

    def tasks(self) -> list[int]:
        """Processes of what users run on this plane's machine, their runners among them."""
        return [pid for pid, _ in marked_under(str((self.directory / SPOOLS).absolute()))]

    async def _end_tasks(self) -> None:
        """SIGTERM to all at once, and SIGKILL to whoever is still there when their time is over."""
        deadline = time.monotonic() + TASKS_END_SPAN / SECOND
        _signal(self.tasks(), signal.SIGTERM)
        while (alive := self.tasks()) and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        while alive:
            _signal(alive, signal.SIGKILL)
            await asyncio.sleep(0.02)
            alive = self.tasks()

    def write_how_to_reach_it(self, path: Path) -> None:
        """Where commands look for a plane; it goes when the plane stops."""
        write_for_me_alone(path, msgspec.json.encode(self._how_to_reach_it()))
        self._written.append(path)

    def _how_to_reach_it(self) -> Reached:
        return Reached(self.url, self.plan.fleet, str(self.directory.absolute()), os.getpid())

    def _keep_fleet_file(self) -> None:
        """The directory's own copy: the fleet became facts under it. Raises PlaneError when it is another fleet's now."""
        kept = self.directory / FLEET_FILE
        if self._fleet_file is None:
            return
        text = self._fleet_file.read_bytes()
        if not kept.exists():
            kept.write_bytes(text)
        elif kept.read_bytes() != text:
            text_ = f"{self.directory} holds the plane of another fleet file (see {kept}); name another --directory"
            raise PlaneError(text_)

    async def _start_server(self) -> None:
        configured = os.environ.get(URL_VARIABLE, "")
        if configured:
            self.url = configured  # Somebody else keeps it up.
            return
        directory = self.directory / "nats"
        known = _known(directory / "access.json")
        port = self._port or (known.port if known else 0)
        _check_address(self._host, port)
        password = known.password if known else secrets.token_urlsafe(32)
        server = NatsServer({**os.environ}, directory, host=self._host, port=port, password=password)
        access = await server.start()
        self.server, self.url = server, access.url
        found = _Known(int(access.url.rpartition(":")[2]), password)
        write_for_me_alone(directory / "access.json", msgspec.json.encode(found))

    async def _serve(self) -> None:
        """Start the server again whenever it dies, on its port and with its password."""
        assert self.server is not None, "it was started"
        while True:
            await self.server.wait()
            self._is_served.clear()
            delay = RESTART_DELAY_MIN
            while not self._is_served.is_set():
                if self._may_serve.is_set():
                    self._tell_death(NATS, delay)
                    await asyncio.sleep(delay / SECOND)
                    delay = Nanoseconds(min(2 * delay, RESTART_DELAY_MAX))
                await self._may_serve.wait()
                try:
                    await self.server.start()
                except (BusError, OSError) as error:  # Its port may be another's for a while.
                    logger.error("nats_not_started", problem=str(error))
                    continue
                if self._may_serve.is_set():
                    self._is_served.set()
                else:
                    await self.server.kill()  # It was to be dead before it was up.

    def _tell_death(self, name: str, again: Nanoseconds) -> None:
        logger.warning("process_died", name=name, again_seconds=again / SECOND)
        if self.on_death is not None:
            self.on_death(name, -1)

    def words_of(self, unit: Unit, directory: Path) -> tuple[str, ...]:
        """What the command line is told, so that it is this unit, on the logs of a directory."""
        words = ["start", unit.role, "--directory", str(directory), "--no-reader", "--supervised"]
        if unit.region:
            words += ["--region", unit.region]
        if unit.member and unit.role != "reader":
            words += ["--member", unit.member]
        kept = self.directory / FLEET_FILE
        if kept.exists():
            words += ["--fleet", str(kept)]
        return tuple(words)

    def _process(self, unit: Unit) -> Process:
        own = self._variables(unit) if self._variables is not None else {}
        environment = {**os.environ, URL_VARIABLE: self.url, **own}
        wave = WAVES.get(unit.role, OTHERS_WAVE)
        return Process(unit.name, self._command_line, self.words_of(unit, self.directory), environment, wave)


def spool_of(directory: Path, region: str, member: str) -> Path:
    """Where a worker's spool is, in a directory that its process was given."""
    return directory / SPOOLS / f"{region}.{member}"


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    """Whoever has gone meanwhile needs no signal."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _reached(path: Path) -> Reached | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Reached)
    except (OSError, msgspec.MsgspecError):
        return None


def _known(path: Path) -> _Known | None:
    """Damaged or missing, both are drawn anew."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Known)
    except (OSError, msgspec.MsgspecError):
        return None


def _check_address(host: str, port: int) -> None:
    """Whether a server could listen there. Raises PlaneError."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PlaneError(f"port {port} is in use; name another with --port") from error
            text = f"the server cannot listen on {host} ({(error.strerror or str(error)).lower()})"
            raise PlaneError(f"{text}; name an address of this machine with --listen") from error


def write_for_me_alone(path: Path, data: bytes) -> None:
    """Whole or not at all, and never readable by others."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".tmp")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    unfinished.replace(path)
