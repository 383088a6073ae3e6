"""One task as the worker knows it: the runner it speaks to, and what the runner's files say.

The files are the truth. What the runner says by its pipe, or by ending, is only a reason to read them.
"""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import structlog
from msgspec import Struct

from runtime.tasks import processes, running
from runtime.tasks.environment import Place
from runtime.tasks.errors import SpoolDamaged
from runtime.tasks.processes import Identity
from runtime.tasks.segments import paths_in

logger = structlog.get_logger()

PROGRAM = Path(__file__).with_name("runner.py")
PART_BYTES = 1024
"""Of a secret, in one word: less than a pipe takes whole or not at all, also in hexadecimal."""
PHASES = (running.WAITING, running.STARTED, running.STOPPING, running.ENDED)


class TaskState(Struct, frozen=True):
    """What a runner wrote."""

    phase: str
    runner: Identity
    exit_code: int
    at: int
    """When it ended, on the machine's monotonic clock."""
    saved: int
    """The newest checkpoint's step; 0: none, or another task looks for them."""


class Task:
    """One task of a share."""

    def __init__(self, directory: Path, output: Path, place: Place, changed: Callable[[], None]) -> None:
        """`changed` is called when the files may say something new."""
        self.directory = directory
        self.output = output
        self.place = place
        self.state: TaskState | None = None
        """None before its runner is there."""
        self.is_dirty = True
        self._changed = changed
        self._runner: Identity | None = None
        self._watch = -1
        self._words: list[bytes] = []
        """Not yet said: the runner is not there, or its pipe is full."""
        self._was_told: set[str] = set()
        self._is_reaped = True

    @property
    def files(self) -> Path:
        """Its own directory, and the mark of whatever descends from it."""
        return self.directory / "files"

    @property
    def phase(self) -> str:
        """Where it is; empty before its runner is there."""
        return self.state.phase if self.state is not None else ""

    @property
    def is_settled(self) -> bool:
        """Whether nothing is to be looked for but what the runner says by itself."""
        if self.phase == running.ENDED:
            return self._is_reaped or self._watch >= 0
        return bool(self.phase) and self._watch >= 0 and not self._words and self._follows_words()

    # Life.

    def spawn(self, task: dict[str, str]) -> None:
        """Start a runner, which waits. Raises OSError."""
        self.files.mkdir(mode=0o700, parents=True)
        self._open_output()
        os.mkfifo(self.directory / "words", 0o600)
        (self.directory / "task").write_bytes(encoded(task))
        log = os.open(self.directory / "runner.log", os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", str(PROGRAM), str(self.directory)],
                {processes.MARK: str(self.files), **_needed_by_python()},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_DUP2, log, 2),
                ],
                setsid=sys.platform == "linux",
            )
        finally:
            os.close(log)
        self._runner = processes.identity_of(pid)
        self._is_reaped = False
        self._begin_watch(pid)

    def adopt(self) -> None:
        """Another process started it: read what is so, and watch its runner if it lives. Raises SpoolDamaged."""
        self._read()
        if self.state is not None and self.phase != running.ENDED:
            self._runner = self.state.runner
            if self._runner.is_alive():
                self._begin_watch(self._runner.pid)
                if not self._runner.is_alive():
                    self._end_watch()  # It ended, and the number we watch is another's.

    def look(self) -> None:
        """Read what is so, and say what was not heard. Raises SpoolDamaged."""
        self.is_dirty = False
        if self.phase == running.ENDED:
            self._reap()
            return
        is_gone = self._is_runner_gone()  # Before the file is read: its last word is in it then.
        self._read()
        if self.phase != running.ENDED:
            if is_gone:
                self._clear_up()
            else:
                self._speak()

    def end_unstarted(self, exit_code: int, text: str) -> None:
        """It cannot be run here, and its output says why."""
        self.files.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._open_output()
        paths = paths_in(str(self.output)) or [str(self.output / f"{0:020d}")]
        with Path(paths[-1]).open("a") as file:
            file.write(text)
        self._end(exit_code)

    def _open_output(self) -> None:
        """Of this run, behind that of earlier ones. Raises OSError."""
        self.output.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.output / "ended").unlink(missing_ok=True)

    def close(self) -> int:
        """Let go of it; it runs on. Returns the number of a child that has not been reaped, or 0."""
        self._end_watch()
        self._reap()
        return 0 if self._is_reaped or self._runner is None else self._runner.pid

    # Words.

    def go(self, environ: dict[str, str], secrets: dict[str, str]) -> None:
        """Run. Saying it twice changes nothing. Raises OSError."""
        if self.phase != running.WAITING:
            return
        unfinished = self.directory / "environ.new"
        unfinished.write_bytes(encoded(environ))
        unfinished.replace(self.directory / "environ")
        data = encoded(secrets).hex()
        parts = [data[at : at + 2 * PART_BYTES] for at in range(0, len(data), 2 * PART_BYTES)]
        self._say("go", ["reset", *(f"part {part}" for part in parts), "go"])

    def note(self, text: str) -> None:
        """Say something in the output before the program does, if there is anything to say."""
        if text and self.phase == running.WAITING:
            self._say("note", [f"note {text.encode()[:PART_BYTES].hex()}"])

    def fail(self, exit_code: int, text: str) -> None:
        """Do not run: the output will say why."""
        if self.phase == running.WAITING:
            self._say("fail", [f"fail {exit_code} {text.encode()[:PART_BYTES].hex()}"])

    def stop(self, grace: int, warning: int) -> None:
        """SIGUSR1 if there is a warning, SIGTERM after it, SIGKILL after the grace. Saying it twice changes nothing."""
        if self.phase not in (running.STOPPING, running.ENDED) and "stop" not in self._was_told:
            self._say("stop", [f"stop {grace} {warning}"])

    def _say(self, word: str, lines: Iterable[str]) -> None:
        if not (word in self._was_told and self._words):
            self._words += [f"{line}\n".encode() for line in lines]
        self._was_told.add(word)
        self._speak()

    def _speak(self) -> None:
        """What the pipe takes now; each line whole or not at all."""
        if not self._words:
            return
        try:
            pipe = os.open(self.directory / "words", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return  # Nobody has it open: the runner is not there yet, or no more.
        try:
            while self._words:
                os.write(pipe, self._words[0])
                del self._words[0]
        except OSError:
            return
        finally:
            os.close(pipe)

    def _follows_words(self) -> bool:
        """Whether its state shows that it heard what it was told."""
        if "stop" in self._was_told:
            return self.phase == running.STOPPING
        return self.phase != running.WAITING if self._was_told else True

    # The runner.

    def _is_runner_gone(self) -> bool:
        return self._runner is None or not self._runner.is_alive()

    def _begin_watch(self, pid: int) -> None:
        """Be told when it ends, where the system can tell."""
        try:
            self._watch = os.pidfd_open(pid)
        except (AttributeError, OSError):
            return
        asyncio.get_running_loop().add_reader(self._watch, self._runner_ended)

    def _end_watch(self) -> None:
        if self._watch >= 0:
            asyncio.get_running_loop().remove_reader(self._watch)
            os.close(self._watch)
            self._watch = -1

    def _runner_ended(self) -> None:
        self.close()
        self.is_dirty = True
        self._changed()

    def _reap(self) -> None:
        """A runner says its last word a moment before it ends."""
        if self._runner is not None and not self._is_reaped:
            self._is_reaped = processes.reap(self._runner.pid)

    def _clear_up(self) -> None:
        """Its runner died without a word: whatever of the task still lives is killed, and only then the end is written."""
        self.close()
        left = processes.left_of(str(self.files), self._runner)
        for pid in left:
            processes.kill(pid)
        if not left:
            logger.warning("runner_lost", task=str(self.directory), said=self._last_words())
            self._end(running.LOST)

    def _last_words(self) -> str:
        try:
            return (self.directory / "runner.log").read_text(errors="replace")[-500:]
        except OSError:
            return ""

    def _end(self, exit_code: int) -> None:
        """What its runner would have written."""
        identity = self._runner or Identity(0, 0, "-")
        saved = self.state.saved if self.state is not None else 0
        self.state = TaskState(running.ENDED, identity, exit_code, time.monotonic_ns(), saved)
        try:
            (self.output / "ended").write_text(f"{exit_code}\n")
            unfinished = self.directory / "state.new"
            unfinished.write_text(_written(self.state))
            unfinished.replace(self.directory / "state")
        except OSError as error:
            logger.error("task_end_not_kept", task=str(self.directory), error=str(error))

    def _read(self) -> None:
        path = self.directory / "state"
        try:
            text = path.read_text()
        except FileNotFoundError:
            return
        self.state = _state_of(path, text)


def _needed_by_python() -> dict[str, str]:
    """What an interpreter may not start without, where it lies in an unusual place."""
    return {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}


def encoded(fields: dict[str, str]) -> bytes:
    """As `machine.decoded` reads it."""
    return b"".join(os.fsencode(f"{name}={text}\0") for name, text in fields.items())


def _written(state: TaskState) -> str:
    who = state.runner
    return (
        f"phase={state.phase} pid={who.pid} start={who.start} boot={who.boot} "
        f"code={state.exit_code} at={state.at} saved={state.saved}\n"
    )


def _state_of(path: Path, text: str) -> TaskState:
    """Raises SpoolDamaged."""
    try:
        fields = dict(word.split("=", 1) for word in text.split())
        identity = Identity(int(fields["pid"]), int(fields["start"]), fields["boot"])
        numbers = [int(fields[name]) for name in ("code", "at", "saved")]
        phase = PHASES[PHASES.index(fields["phase"])]
    except (KeyError, ValueError) as error:
        raise SpoolDamaged(path, f"{error!r}") from error
    return TaskState(phase, identity, *numbers)
