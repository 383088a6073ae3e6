"""The supervisor of a plane: processes that are kept up, each started again when it dies, and ended in order.

A process that dies is started again after 0.1 s, and later each time up to 10 s unless it lived longer than that. All are
forked from one server that has loaded everything once (multiprocessing's), so a plane of twenty is up in a second or two
and not in ten. A process dies with its supervisor, by whatever ends that one; what users run on nodes does not, for runners
are in nobody's hands. Each process writes into a file of its own (runtime/supervision/process_log.py).

A process answers from its event loop once a second (runtime/supervision/life_line.py). One that has not answered for `unanswered_max` hangs: its
stacks are written, it is ended, and it is started again as if it had died.
"""

import asyncio
import faulthandler
import importlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import structlog
from msgspec import Struct

from core.nouns.instant import SECOND, Nanoseconds
from core.nouns.limits import (
    ABORT_SPAN,
    BEAT_INTERVAL,
    PROCESS_STOP_SPAN,
    RESTART_DELAY_MAX,
    RESTART_DELAY_MIN,
    STARTING_SPAN_MAX,
    UNANSWERED_MAX,
)
from runtime.status.unit_status import LAST_END_VARIABLE, LIFE_VARIABLE
from runtime.supervision.life_line import BEAT, END, LIFE_LINE, UP
from runtime.supervision.process_log import write_all_to

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
        self.last_end = ""
        """How the newest life ended, as a few words; empty: none has ended."""
        self.is_left_alone = False
        """Whether its silence is meant, and not to be ended."""
        self.life_line: LifeLineEnd | None = None
        """Of the present life."""
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

    def send(self, number: signal.Signals) -> bool:
        """Signal its present life. Returns whether there is one."""
        if not self.pid:
            return False
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)
        return True


class Supervisor:
    """Keeps processes up until it is told to stop."""

    def __init__(
        self,
        directory: Path,
        loaded_once: Sequence[str] = (),
        died: Callable[[str, int], None] | None = None,
        *,
        unanswered_max: Nanoseconds = UNANSWERED_MAX,
    ) -> None:
        """What processes write goes into `directory`. Modules that they share are loaded once, before any is forked.

        `died` is told of each unordered death, with the exit code. `unanswered_max` is how long an event loop may be silent; 0: for ever.
        """
        self._kept: dict[str, Kept] = {}
        self._directory = directory
        self._died = died
        self._unanswered_max = unanswered_max
        self._watching: asyncio.Task[None] | None = None
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

    def last_end(self, name: str) -> str:
        """How the newest life of it that is over ended, in a few words."""
        return self._kept[name].last_end

    def start(self, process: Process) -> None:
        """Keep it up from now on."""
        assert process.name not in self._kept, process.name
        loop = asyncio.get_running_loop()
        if not self._kept:
            self._directory.mkdir(parents=True, exist_ok=True)
            _start_server()
            if self._unanswered_max:
                self._watching = loop.create_task(self._watch(), name="watch")
        kept = self._kept[process.name] = Kept(process)
        kept.keeping = loop.create_task(self._keep_up(kept), name=f"keep/{process.name}")

    def send(self, name: str, number: signal.Signals) -> bool:
        """Signal its present life. Returns whether there is one: signals to the process id 0 go to the sender's whole group."""
        return self._kept[name].send(number)

    def kill(self, name: str) -> int:
        """As by kill -9; it is started again. Returns the process id, 0 if it is between two lives."""
        kept = self._kept[name]
        pid = kept.pid
        kept.send(signal.SIGKILL)
        return pid

    def leave_alone(self, name: str, *, is_left_alone: bool) -> None:
        """Do not end it, or do again, when it does not answer: whoever has stopped it means to let it go on."""
        self._kept[name].is_left_alone = is_left_alone

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
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])

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
                kept.child = await self._started(kept)
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
                self._note_end(kept, code)
                if self._stopping.is_set():
                    return
                if self._died is not None:
                    self._died(name, code)
                again = delay / SECOND
                logger.warning(
                    "process_died", name=name, exit_code=code, how=kept.last_end, again_seconds=again
                )
            kept.is_dead.set()
            if loop.time() - begun > RESTART_DELAY_MAX / SECOND:
                delay = RESTART_DELAY_MIN
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay / SECOND)
            delay = Nanoseconds(min(2 * delay, RESTART_DELAY_MAX))
            await kept.is_free.wait()

    async def _started(self, kept: Kept) -> BaseProcess:
        """One at a time, and not in the loop: the first one waits until the server has loaded everything."""
        process = kept.process
        environment = {
            **process.environment,
            LIFE_VARIABLE: str(kept.lives),
            LAST_END_VARIABLE: kept.last_end,
        }
        ours, its = self._forks.Pipe(duplex=False)
        arguments = (process, environment, str(self._directory / f"{process.name}.log"), its)
        child = self._forks.Process(target=_live, args=arguments, name=process.name)
        try:
            async with self._starting:
                await asyncio.to_thread(child.start)
        except BaseException:
            ours.close()
            raise
        finally:
            its.close()
        kept.life_line = LifeLineEnd(ours)
        return child

    # Those that hang.

    async def _watch(self) -> None:
        """Look once a second for processes that have not answered for too long."""
        loop = asyncio.get_running_loop()
        interval = BEAT_INTERVAL / SECOND
        looked_at = loop.time()
        while True:
            await asyncio.sleep(interval)
            now = loop.time()
            was_late = now - looked_at > 3 * interval
            looked_at = now
            for kept in self._kept.values():
                line = kept.life_line
                if line is None:
                    continue
                if was_late or kept.is_left_alone:
                    line.heard_at = now  # It was this process that stood still, or the silence is meant.
                elif now - line.heard_at > self._silence_max(line):
                    await self._abort(kept, now - line.heard_at)

    def _silence_max(self, line: "LifeLineEnd") -> float:
        return (self._unanswered_max if line.is_up else max(STARTING_SPAN_MAX, self._unanswered_max)) / SECOND

    async def _abort(self, kept: Kept, silent: float) -> None:
        """End a process that hangs: it writes its stacks on SIGABRT.

        One that was stopped must go on for that, and does so first: no thread of a stopped process is preferred for a signal, and if
        another one than the main thread takes it, it reads the main thread's stack while that thread runs on.
        """
        name, line = kept.process.name, kept.life_line
        assert line is not None, name
        line.verdict = f"did not answer for {silent:.0f} s"
        logger.error("process_hangs", name=name, silent_seconds=round(silent), stacks=f"{name}.log")
        for number in (signal.SIGCONT, signal.SIGABRT) if sys.platform != "win32" else (signal.SIGTERM,):
            kept.send(number)
        with suppress(TimeoutError):
            await asyncio.wait_for(line.is_over.wait(), ABORT_SPAN / SECOND)
        if kept.life_line is line:
            kept.send(signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM)

    def _note_end(self, kept: Kept, code: int) -> None:
        line, kept.life_line = kept.life_line, None
        assert line is not None, kept.process.name
        line.close()
        kept.last_end = line.verdict or line.said or how_it_ended(code)


class LifeLineEnd:
    """The supervisor's end of the pipe of one life (runtime/supervision/life_line.py)."""

    def __init__(self, connection: Connection) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._rest = b""
        self.heard_at = self._loop.time()
        self.is_up = False
        self.said = ""
        """The error that ends the process, if the process has told one."""
        self.verdict = ""
        """Why the supervisor ends the process."""
        self.is_over = asyncio.Event()
        os.set_blocking(connection.fileno(), False)
        self._loop.add_reader(connection.fileno(), self._read)

    def close(self) -> None:
        """The life is over; what it wrote last is read."""
        self._read()
        if not self._connection.closed:
            self._loop.remove_reader(self._connection.fileno())
            self._connection.close()
        self.is_over.set()

    def _read(self) -> None:
        if self._connection.closed:
            return
        while True:
            try:
                data = os.read(self._connection.fileno(), 4096)
            except BlockingIOError:
                return
            if not data:  # Nobody writes any more: the process is about to be dead.
                self._loop.remove_reader(self._connection.fileno())
                self._connection.close()
                return
            self.heard_at = self._loop.time()
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                self._take(line + b"\n")

    def _take(self, line: bytes) -> None:
        if line == UP:
            self.is_up = True
        elif line.startswith(END):
            self.said = line[len(END) :].strip().decode(errors="replace")
        else:
            assert line == BEAT, line


def how_it_ended(code: int) -> str:
    """Return an exit code in a few words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


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


def _live(process: Process, environment: Mapping[str, str], output: str, line: Connection) -> None:
    """In the new process."""
    if sys.platform != "win32":
        os.setsid()  # Ctrl-C on the terminal is for the supervisor, which ends all in order.
    write_all_to(Path(output))
    faulthandler.enable(file=2)  # All stacks go to the process's file when the supervisor aborts it.
    LIFE_LINE.attach(os.dup(line.fileno()))
    line.close()
    _keep_to_itself()
    _listen_again()
    _be_called(process.name)
    threading.Thread(target=_die_with_supervisor, name="supervisor", daemon=True).start()
    os.environ.clear()
    os.environ.update(environment)
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
    if sys.platform != "win32":
        # Not for this thread: whoever takes it writes the stacks of all threads, and the main thread would run on meanwhile.
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGABRT,))
    supervisor = multiprocessing.parent_process()
    assert supervisor is not None, "it was started by one"
    supervisor.join()
    os.kill(os.getpid(), signal.SIGKILL)
