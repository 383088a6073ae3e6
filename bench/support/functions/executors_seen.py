"""Executors on this machine, looked for in two ways: in the device book, and by the mark that their processes have in the environment.

A look at known executors and at the book takes a fraction of a millisecond. A search of all processes for the mark takes longer.
"""

import time
from pathlib import Path

from runtime.tasks.book import EXECUTOR_MARK, BookFiles
from runtime.tasks.machine import stat_of
from runtime.tasks.processes import Identity, identity_of, marked_under

REALTIME_COARSE = 5
"""Linux: the clock from which files have their times. The standard library has no name for it."""


class ExecutorsSeen:
    """Keeps when each executor was seen alive last."""

    def __init__(self, book: BookFiles, directory: Path) -> None:
        """Watch the executors of one book; marks lie below the directory."""
        self._book = book
        self._directory = str(directory.absolute())
        self._alive: set[Identity] = set()
        self._last: dict[Identity, int] = {}
        """By executor: when the last look began at which it lived, in nanoseconds of the clock of files."""

    def look(self) -> int:
        """Return how many executors live now, of those that were seen before or are in the book."""
        at = clock_of_files()
        self._alive.update(one.process for one in self._book.uses())
        self._alive = {one for one in self._alive if one.is_alive()}
        self._last.update(dict.fromkeys(self._alive, at))
        return len(self._alive)

    def search(self) -> int:
        """Return how many executors live now, with those that only their mark tells of."""
        self._alive |= self._marked()
        return self.look()

    def seen_after(self, at: int) -> int:
        """Return how many executors lived at a look that began after a time, in nanoseconds of the clock of files."""
        return sum(last > at for last in self._last.values())

    def _marked(self) -> set[Identity]:
        """Return executors, and programs that they have started: their parent has the mark too, that of the warm parent has none."""
        marked = {pid for pid, _ in marked_under(self._directory, EXECUTOR_MARK)}
        return {identity_of(pid) for pid in marked if _parent_of(pid) in marked}


def clock_of_files() -> int:
    """Return the time that a file would have that is made now, in nanoseconds. It stands still for some milliseconds at a time.

    A look that begins at a later time than a file has began after that file was made.
    """
    return time.clock_gettime_ns(REALTIME_COARSE)


def _parent_of(pid: int) -> int:
    try:
        return int(stat_of(str(pid))[1])
    except (OSError, IndexError):
        return 0
