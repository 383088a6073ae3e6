"""Child processes of a data service: one child a deed, in a session of its own, heard while it runs, and gone at its end.

A child that says nothing and changes nothing for too long is killed. So is every descendant of a foreign command, when the command ends,
however it ends: they are found by a mark in their environment, also after the service was killed. (Only Linux shows the environment;
elsewhere a descendant that leaves the command's group is not found.) Our own programs, and a command's first process, are killed by the
kernel when the service dies.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import structlog
from msgspec import Struct

from core.nouns.instant import SECOND, Nanoseconds
from core.nouns.limits import CHILD_END_SPAN, COMMAND_SILENCE_MAX, COPY_REPORT_INTERVAL
from runtime.data.child import MARK, PARENT

logger = structlog.get_logger()

PROC = Path("/proc")
LINE_BYTES_MAX = 4096
"""Kept of a line, and of the last words on standard error."""
LOOK_AGAIN_SECONDS = 0.02
MEASURING_PART = 10
"""Looking at the target takes at most this part of the time."""
FIRST_LOOK_SECONDS = 0.2


class Watch:
    """Hears and sees one child. This one ignores all."""

    def heard(self, line: str) -> None:
        """Hear a line of standard output."""

    async def sign(self) -> object:
        """Return a value that differs from the one before if the child has done something meanwhile."""
        return None

    def is_enough(self) -> bool:
        """Return whether the child is to be killed; asked after each line and each sign."""
        return False


class Ended(Struct, frozen=True):
    """How a child ended."""

    code: int
    """As a shell's, but negative for a signal."""
    said: str
    """Last line of standard output."""
    complaint: str
    """Last line of standard error."""
    is_silent: bool = False
    """Whether the child was killed for its silence."""


class Children:
    """Runs the children of one data service."""

    def __init__(
        self,
        silence_max: Nanoseconds = COMMAND_SILENCE_MAX,
        look_interval: Nanoseconds = COPY_REPORT_INTERVAL,
    ) -> None:
        self._silence_seconds = silence_max / SECOND
        self._look_seconds = min(look_interval, silence_max // 4) / SECOND
        self._running: dict[int, asyncio.SubprocessTransport] = {}
        """By process id."""

    async def run(
        self, words: Sequence[str], watch: Watch | None = None, *, mark: str = "", has_family: bool = False
    ) -> Ended:
        """Run a command to its end, and end its family, if it has one. Raises OSError when the command cannot be started."""
        loop = asyncio.get_running_loop()
        watch = watch or Watch()
        voice = _Voice(loop, watch)
        environment = {**os.environ, PARENT: str(os.getpid())} | ({MARK: mark} if mark else {})
        transport, _ = await loop.subprocess_exec(
            lambda: voice,
            *words,
            # Where the kernel does not end a child with its parent, bus/guard.py does: it reads this pipe.
            stdin=asyncio.subprocess.DEVNULL if sys.platform == "linux" else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        pid = transport.get_pid()
        self._running[pid] = transport
        is_silent = False
        try:
            is_silent = await self._listen(voice, watch)
        finally:
            if has_family or not voice.exited.done():
                _kill_group(pid)
            await _wait(voice.exited)
            if has_family and mark:
                await end_strays(mark)
            await _wait(voice.closed)  # There may be last words.
            transport.close()
            del self._running[pid]
        code = transport.get_returncode()
        return Ended(-signal.SIGKILL if code is None else code, *voice.last_words(), is_silent)

    def kill_all(self) -> None:
        """Kill every child at once."""
        for pid in sorted(self._running):
            _kill_group(pid)

    async def _listen(self, voice: "_Voice", watch: Watch) -> bool:
        """Wait until the child ends or has done enough; return whether it was silent for too long instead."""
        loop = asyncio.get_running_loop()
        before: object = None
        changed_at = loop.time()
        pause = min(self._look_seconds, FIRST_LOOK_SECONDS)
        while True:
            await asyncio.wait([voice.is_over], timeout=pause)
            if voice.is_over.done():
                return False
            begun = loop.time()
            now = (voice.count, await watch.sign())
            ended = loop.time()
            if watch.is_enough():
                return False
            if now != before:
                before, changed_at = now, begun
            elif begun - changed_at > self._silence_seconds:
                return True
            pause = max(self._look_seconds, MEASURING_PART * (ended - begun))


class _Voice(asyncio.SubprocessProtocol):
    """Listens to one child."""

    def __init__(self, loop: asyncio.AbstractEventLoop, watch: Watch) -> None:
        self._watch = watch
        self._line = self._said = self._complaint = b""
        self.count = 0
        """Pieces of output."""
        self.exited: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        """Set once the child has exited, and no process holds its output open."""
        self.is_over: asyncio.Future[None] = loop.create_future()
        """Set once the child has exited or done enough."""

    def pipe_data_received(self, fd: int, data: bytes | bytearray | memoryview) -> None:
        self.count += 1
        if fd != 1:
            self._complaint = (self._complaint + bytes(data))[-LINE_BYTES_MAX:]
            return
        *lines, rest = (self._line + bytes(data)).split(b"\n")
        self._line = rest[:LINE_BYTES_MAX]
        for line in lines:
            self._said = line
            self._watch.heard(line.decode(errors="replace"))
        if self._watch.is_enough():
            _set(self.is_over)

    def process_exited(self) -> None:
        _set(self.exited)
        _set(self.is_over)

    def connection_lost(self, exc: Exception | None) -> None:
        _set(self.closed)

    def last_words(self) -> tuple[str, str]:
        """Return the last lines of standard output and standard error."""
        said = self._line or self._said
        lines = self._complaint.decode(errors="replace").strip().splitlines()
        return said.decode(errors="replace"), lines[-1] if lines else ""


async def end_strays(mark: str) -> bool:
    """Kill every process that carries this mark, and return whether all are gone."""
    tries = CHILD_END_SPAN // round(LOOK_AGAIN_SECONDS * SECOND)
    for _ in range(tries):
        strays = marked(mark)
        if not strays:
            return True
        for pid in strays:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
    logger.error("copy_processes_stay", mark=mark, processes=marked(mark))
    return False


def marked(mark: str) -> list[int]:
    """Return the processes, but this one, that carry a mark; none where the system does not show it."""
    wanted = os.fsencode(f"{MARK}={mark}")
    found = []
    with suppress(OSError):
        numbers = sorted(int(path.name) for path in PROC.iterdir() if path.name.isdecimal())
        found = [pid for pid in numbers if pid != os.getpid() and wanted in _environment_of(pid)]
    return found


def _environment_of(pid: int) -> list[bytes]:
    try:
        return (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


async def _wait(end: asyncio.Future[None]) -> None:
    """Wait a while for a child's end: one that hangs in the kernel is left."""
    await asyncio.wait([end], timeout=CHILD_END_SPAN / SECOND)


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
