"""Who a process is, though its number may be another's tomorrow; and what is left of a task whose runner died.

Linux tells all of it under /proc. Elsewhere a process is its number, and nothing is found but by its group.
"""

import os
import signal
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from msgspec import Struct

from runtime.tasks import machine

MARK = "MIZZEN_TASK_DIR"
"""The variable by which whatever descends from a task is found: it holds the task's own directory."""


class Identity(Struct, frozen=True):
    """A process: its number, when it started, and in which life of the machine."""

    pid: int
    start: int
    """Ticks since the boot; 0 where nobody says so."""
    boot: str

    def is_alive(self) -> bool:
        """Whether this process runs, and not another one of its number."""
        if self.boot != boot_id():
            return False
        if self.start:
            return start_of_living(self.pid) == self.start
        try:
            os.kill(self.pid, 0)
        except OSError:
            return False
        return True


@cache
def boot_id() -> str:
    """Of the machine, as it runs now."""
    return machine.boot_id()


def identity_of(pid: int) -> Identity:
    """Who has this number now."""
    return Identity(pid, machine.start_of(str(pid)), boot_id())


def start_of_living(pid: int) -> int:
    """When it started; 0 when it does not run, be it a zombie."""
    try:
        words = machine.stat_of(str(pid))
        return 0 if words[0] in "ZX" else int(words[19])
    except (OSError, IndexError):
        return 0


def left_of(mark: str, session: Identity | None, variable: str = MARK) -> list[int]:
    """Processes that a process has left or started: those of the session that it leads, and those that carry its mark."""
    is_ours = _membership(session)
    return [pid for pid, words in _living() if is_ours(words) or mark_of(pid, variable) == mark]


def marked_under(directory: str, variable: str = MARK) -> list[tuple[int, str]]:
    """Processes that carry a mark below this directory, each with its mark."""
    found = ((pid, mark_of(pid, variable)) for pid, _ in _living())
    return [(pid, mark) for pid, mark in found if mark.startswith(f"{directory}/")]


def mark_of(pid: int, variable: str = MARK) -> str:
    """The directory of the task that a process descends from; empty when it carries none, or is not ours to ask."""
    try:
        return machine.decoded(Path(f"/proc/{pid}/environ").read_bytes()).get(variable, "")
    except OSError:
        return ""


def kill(pid: int) -> None:
    """SIGKILL, if it is still there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        return


def reap(pid: int) -> bool:
    """Take the exit of a child of ours that has ended. True once there is nothing to wait for: it may be no child."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def _membership(session: Identity | None) -> Callable[[list[str]], bool]:
    """Whether a process is of that session.

    A number is not given again while a session has it, so if its leader's number is another's by now, the session is gone.
    """
    if session is None or session.boot != boot_id():
        return lambda _: False
    if start_of_living(session.pid) not in (0, session.start):
        return lambda _: False
    return lambda words: int(words[3]) == session.pid and int(words[19]) >= session.start


def _living() -> Iterator[tuple[int, list[str]]]:
    """Every process but this one and zombies, with what its `stat` says."""
    try:
        pids = sorted(int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    except OSError:
        return
    for pid in pids:
        try:
            words = machine.stat_of(str(pid))
        except (OSError, IndexError):
            continue
        if words[0] not in "ZX" and pid != os.getpid():
            yield pid, words
