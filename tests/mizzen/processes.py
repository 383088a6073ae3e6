"""`mizzen start` as processes of their own: a group each, so that whatever they start is seen too."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from bus.nats import NatsConnection
from bus.port import Bus
from bus.server import NatsServer

HOUSE = Path(__file__).resolve().parents[2]
MIZZEN = ("-m", "mizzen")
PATIENCE_SECONDS = 30.0
"""A process starts in a second; on a machine that is busy beyond measure it may take so long."""
END_SECONDS = 10.0
"""From SIGTERM to the end, on such a machine; otherwise a tenth of a second."""


class Plane:
    """A NATS server, and whatever was started on it."""

    def __init__(self, url: str, directory: Path, user: Bus, connection: NatsConnection) -> None:
        self.url = url
        self.connection = connection
        self.directory = directory
        self.user = user
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, *words: str, program: Sequence[str] = MIZZEN) -> subprocess.Popen[str]:
        """`mizzen start` with these words; its log lines go into a file, to be read by `said`."""
        log = self.directory / f"{len(self.processes)}.log"
        environment = {**os.environ, "MIZZEN_NATS_URL": self.url}
        with log.open("w") as said:
            process = subprocess.Popen(
                [
                    sys.executable,
                    *program,
                    "start",
                    *words,
                    "--directory",
                    str(self.directory / "logs"),
                ],
                cwd=HOUSE,
                env=environment,
                stdout=said,
                stderr=said,
                text=True,
                process_group=0,
            )
        self.processes.append(process)
        return process

    def said(self, process: subprocess.Popen[str]) -> str:
        """All that it wrote."""
        return (self.directory / f"{self.processes.index(process)}.log").read_text()

    async def ended(self, process: subprocess.Popen[str]) -> int:
        """Its exit code, once it and all that it started have ended."""
        await until(lambda: process.poll() is not None, END_SECONDS, lambda: self.said(process))
        await until(lambda: not _has_group(process.pid), END_SECONDS, lambda: "a process is left")
        assert process.returncode is not None
        return process.returncode


@asynccontextmanager
async def plane(directory: Path) -> AsyncIterator[Plane]:
    """A server of its own; everything is killed in the end."""
    server = NatsServer({"PATH": os.environ.get("PATH", "")})
    url = (await server.start()).url
    connection = await NatsConnection.connect(url, "mizzen", "user")
    made = Plane(url, directory, connection.endpoint("client.user"), connection)
    try:
        yield made
    finally:
        for process in made.processes:
            if _has_group(process.pid):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        await connection.close()
        await server.stop()


async def until(holds: Callable[[], bool], seconds_max: float, what: Callable[[], str]) -> None:
    """Wait until something holds; fail with what is said of it when it does not."""

    async def asked() -> bool:
        return holds()

    await until_true(asked, seconds_max, what)


async def until_true(ask: Callable[[], Awaitable[bool]], seconds_max: float, what: Callable[[], str]) -> None:
    """The same, for what must be asked."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds_max
    while not await ask():
        assert loop.time() < deadline, what()
        await asyncio.sleep(0.01)


def _has_group(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True
