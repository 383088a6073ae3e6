"""The supervisor of a plane: processes that are kept up, each started again when it dies, and ended in order.

A process that dies is started again after 0.1 s, and later each time up to 10 s unless it lived longer than that. All are
forked from one server that has loaded everything once (multiprocessing's), so a plane of twenty is up in a second or two
and not in ten. A process dies with its supervisor, by whatever ends that one; what users run on nodes does not, for runners
are in nobody's hands. Each process writes into a file of its own.
"""

import asyncio
import importlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path

import structlog
from msgspec import Struct

from core.nouns.instant import SECOND, Nanoseconds
from core.nouns.limits import (
    PROCESS_LOG_BYTES_MAX,
    PROCESS_STOP_SPAN,
    RESTART_DELAY_MAX,
    RESTART_DELAY_MIN,
)

logger = structlog.get_logger()

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if sys.platform != "win32" else ()
"""What a terminal or an operator ends a process group with."""


class Process(Struct, frozen=True):
    """One process to keep up."""

    name: str
    module: str
    """Its `main` is called with the arguments, and returns the exit code."""
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    wave: int = 0
    """All of the highest wave end first, together; then those of the next."""


class Kept:
    """A process that is kept up, in whichever life it is."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.lives = 0
        self.child: BaseProcess | None = None
        self.keeping: asyncio.Task[None] | None = None
        self.holds = 0
        """How many keep it down."""
        self.is_free = asyncio.Event()
        """Set while nobody keeps it down."""
        self.is_dead = asyncio.Event()
        """Set between two lives."""
        self.is_free.set()
        self.is_dead.set()

    @property
    def pid(self) -> int:
        """Of its present life; 0 between two."""
        return (self.child.pid or 0) if self.child is not None else 0

    def send(self, number: signal.Signals) -> None:
        """Signal its present life, if there is one."""
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


class Supervisor:
    """Keeps processes up until it is told to stop."""

    def __init__(
        self,
        directory: Path,
        loaded_once: Sequence[str] = (),
        died: Callable[[str, int], None] | None = None,
    ) -> None:
        """What processes write goes into `directory`. Modules that they share are loaded once, before any is forked.

        `died` is told of each unordered death, with the exit code.
        """
        self._kept: dict[str, Kept] = {}
        self._directory = directory
        self._died = died
        self._stopping = asyncio.Event()
        self._starting = asyncio.Lock()
        if sys.platform == "win32":
            self._forks = multiprocessing.get_context("spawn")
        else:
            self._forks = multiprocessing.get_context("forkserver")
            self._forks.set_forkserver_preload(list(loaded_once))

    @property
    def restarts(self) -> int:
        """Lives after the first, of all of them."""
        return sum(max(0, kept.lives - 1) for kept in self._kept.values())

    def names(self) -> list[str]:
        """Whom it keeps up, in the order in which they were started."""
        return list(self._kept)

    def pid_of(self, name: str) -> int:
        """The process id of the present life; 0 between two."""
        return self._kept[name].pid

    def start(self, process: Process) -> None:
        """Keep it up from now on."""
        assert process.name not in self._kept, process.name
        if not self._kept:
            self._directory.mkdir(parents=True, exist_ok=True)
            _start_server()
        kept = self._kept[process.name] = Kept(process)
        loop = asyncio.get_running_loop()
        kept.keeping = loop.create_task(self._keep_up(kept), name=f"keep/{process.name}")

    def kill(self, name: str) -> int:
        """As by kill -9; it is started again. Returns the process id, 0 if it is between two lives."""
        kept = self._kept[name]
        pid = kept.pid
        kept.send(signal.SIGKILL)
        return pid

    async def hold(self, name: str) -> int:
        """As by kill -9, and it stays dead until everybody who holds it lets it go. Returns as `kill` does, once it is dead.

        Whoever is cancelled before that holds it no more: it is started again.
        """
        kept = self._kept[name]
        kept.holds += 1
        kept.is_free.clear()
        pid = self.kill(name)
        try:
            await kept.is_dead.wait()
        except asyncio.CancelledError:
            self.release(name)
            raise
        return pid

    def release(self, name: str) -> None:
        """Let it be started again. No harm if nobody holds it."""
        kept = self._kept[name]
        kept.holds = max(0, kept.holds - 1)
        if not kept.holds:
            kept.is_free.set()

    async def stop(self) -> None:
        """End all, wave by wave, each with time to close its log; then by force."""
        self._stopping.set()
        for kept in self._kept.values():
            kept.is_free.set()  # Whoever is held down is not started any more, and nobody need wait for that.
        waves = sorted({kept.process.wave for kept in self._kept.values()}, reverse=True)
        for wave in waves:
            mine = [kept for kept in self._kept.values() if kept.process.wave == wave]
            await asyncio.gather(*(self._end(kept) for kept in mine))

    async def _end(self, kept: Kept) -> None:
        assert kept.keeping is not None, kept.process.name
        kept.send(signal.SIGTERM)
        _, alive = await asyncio.wait([kept.keeping], timeout=PROCESS_STOP_SPAN / SECOND)
        if alive:
            logger.warning("process_killed", name=kept.process.name, after_seconds=PROCESS_STOP_SPAN / SECOND)
            kept.send(signal.SIGKILL)
            await asyncio.wait([kept.keeping])

    async def _keep_up(self, kept: Kept) -> None:
        """Life after life, until all are to stop; then this life's end is the last."""
        loop = asyncio.get_running_loop()
        name = kept.process.name
        delay = RESTART_DELAY_MIN
        while not self._stopping.is_set():
            begun = loop.time()
            kept.is_dead.clear()
            try:
                kept.child = await self._started(kept.process)
            except (
                OSError,
                EOFError,
            ) as error:  # The server that forks may die meanwhile; the next try starts another.
                logger.error("process_not_started", name=name, error=str(error))
            else:
                kept.lives += 1
                if self._stopping.is_set():
                    kept.send(signal.SIGTERM)  # Told to stop while it was being started.
                elif kept.holds:
                    kept.send(signal.SIGKILL)  # The same, and to stay dead.
                code = await _ended(kept.child)
                kept.child = None
                if self._stopping.is_set():
                    return
                if self._died is not None:
                    self._died(name, code)
                logger.warning("process_died", name=name, exit_code=code, again_seconds=delay / SECOND)
            kept.is_dead.set()
            if loop.time() - begun > RESTART_DELAY_MAX / SECOND:
                delay = RESTART_DELAY_MIN
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay / SECOND)
            delay = Nanoseconds(min(2 * delay, RESTART_DELAY_MAX))
            await kept.is_free.wait()

    async def _started(self, process: Process) -> BaseProcess:
        """One at a time, and not in the loop: the first one waits until the server has loaded everything."""
        arguments = (process, str(self._output_of(process.name)))
        child = self._forks.Process(target=_live, args=arguments, name=process.name)
        async with self._starting:
            await asyncio.to_thread(child.start)
        return child

    def _output_of(self, name: str) -> Path:
        """Where a life writes: behind what the lives before wrote, unless that has grown too long."""
        path = self._directory / f"{name}.log"
        if path.exists() and path.stat().st_size > PROCESS_LOG_BYTES_MAX:
            path.replace(path.with_suffix(".log.1"))
        return path


def _start_server() -> None:
    """Deaf to what ends a whole process group: that is for the supervisor, which then ends all in order."""
    if sys.platform != "win32":
        resource_tracker.ensure_running()  # Which would open our ears again.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        forkserver.ensure_running()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


async def _ended(child: BaseProcess) -> int:
    """Its exit code, once it has one: negative if a signal ended it."""
    loop = asyncio.get_running_loop()
    has_ended = asyncio.Event()
    loop.add_reader(child.sentinel, has_ended.set)
    try:
        await has_ended.wait()
    finally:
        loop.remove_reader(child.sentinel)
    child.join()
    code = child.exitcode
    child.close()
    return -1 if code is None else code


def _live(process: Process, output: str) -> None:
    """In the new process."""
    if sys.platform != "win32":
        os.setsid()  # Ctrl-C on the terminal is for the supervisor, which ends all in order.
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    _keep_to_itself()
    _listen_again()
    _be_called(process.name)
    threading.Thread(target=_die_with_supervisor, name="supervisor", daemon=True).start()
    os.environ.clear()
    os.environ.update(process.environment)
    main: Callable[[list[str]], int] = importlib.import_module(process.module).main
    sys.exit(main(list(process.arguments)))


def _keep_to_itself() -> None:
    """What the server that forked us has open is not for whatever we start: it would outlive us in their hands."""
    with suppress(OSError):
        for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
            with suppress(OSError):
                if int(name) > 2:
                    os.set_inheritable(int(name), False)


def _listen_again() -> None:
    """To what was kept from the server. What came meanwhile was for the whole group, and so for the supervisor."""
    if sys.platform != "win32":
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        for number in ENDING:
            signal.signal(number, signal.SIG_DFL)


def _be_called(name: str) -> None:
    """What `ps` and `top` show, where there is a way to say so."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text(name[-15:])


def _die_with_supervisor() -> None:
    """However that one ends: nobody else would."""
    supervisor = multiprocessing.parent_process()
    assert supervisor is not None, "it was started by one"
    supervisor.join()
    os.kill(os.getpid(), signal.SIGKILL)
