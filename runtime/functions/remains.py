"""Processes that executors have left, and how they are found: by a mark in their environment, of the server and of the executor.

A warm parent ends all that its executors leave. Where the parent is dead itself, and where a server has died before this one,
processes may be left on devices: `Remains` sees to their end, and no executor is given devices before.
"""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

import structlog

from core.nouns.instant import MILLISECOND, Instant, Nanoseconds, after
from runtime.clock import Clock
from runtime.tasks import processes
from runtime.tasks.book import EXECUTOR_MARK

logger = structlog.get_logger()

VARIABLE = EXECUTOR_MARK
"""Holds the mark."""
PARENT = 0
"""In place of a serial, for the warm parent and for what is forked from an executor and does not become another program."""
LOOK = Nanoseconds(50 * MILLISECOND)


def mark_of_executor(directory: str, serial: int) -> str:
    """Return the mark of an executor; the directory is that of its server."""
    return f"{directory}/{serial}"


def executor_of(pid: int) -> int:
    """Return the serial of the executor that has started a process; `PARENT` if the process does not say so."""
    serial = processes.mark_of(pid, VARIABLE).rpartition("/")[2]
    return int(serial) if serial.isdecimal() else PARENT


class Remains:
    """Processes without a living warm parent, until all of them are gone."""

    def __init__(
        self, clock: Clock, directory: Path, noted: Callable[[], Iterable[int]], over: Callable[[], None]
    ) -> None:
        """Take where processes are found.

        directory  of the server, in all marks
        noted      returns the processes that the device book names
        over       called once none is left
        """
        self.directory = str(directory.absolute())
        self.is_over = False
        """Whether none was left at the last look, after `end`."""
        self._clock, self._noted, self._over = clock, noted, over
        self._kills_at = Instant(0)
        self._timer: asyncio.TimerHandle | None = None

    def end(self, span: Nanoseconds) -> None:
        """Wait until none is left; those that are still there after a span are killed."""
        self.close()
        self.is_over = False
        self._kills_at = after(self._clock.now(), span)
        self._look()

    def kill(self) -> bool:
        """Kill all that is left now. Return whether there was any."""
        left = self._found()
        for pid in left:
            logger.warning("executor_killed", pid=pid)
            processes.kill(pid)
        return bool(left)

    def close(self) -> None:
        """Wait no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if not self._found():
            self.is_over = True
            self._over()
            return
        if self._kills_at <= self._clock.now():
            self.kill()
        self._timer = self._clock.call_at(after(self._clock.now(), LOOK), self._look)

    def _found(self) -> set[int]:
        marked = (pid for pid, _ in processes.marked_under(self.directory, VARIABLE))
        return {*marked, *self._noted()}
