"""`python -m runtime.data.copier SOURCE TARGET RATE`: copy a dataset at no more than so many bytes a second.

A file that the target has in full length is left alone, and a shorter one is gone on with; neither is trusted, as the whole copy is
hashed afterwards. Each file is synced. Directories, files with their modes, and links that stay inside the dataset are copied; other
entries are refused (runtime/data/tree.py). Lines `moved BYTES` on standard output tell the bytes that are in the target.
"""

import os
import stat
import sys
import time
from pathlib import Path

from runtime.data.child import EXIT_USAGE, Progress, end_without_parent, run_program
from runtime.data.errors import UnsafeEntry
from runtime.data.tree import Entry, entries

BLOCK_MAX = 1 << 20
BLOCKS_A_SECOND = 8
"""At least: so a slow copy shows that it lives."""
SYNC_BYTES = 256 << 20
"""Written between syncs, so that none takes minutes."""
CREDIT_SECONDS = 1.0
"""Of time in which nothing was written, that may be made up for by writing faster."""


class Pace:
    """Holds a copy to its rate, and tells how far it is."""

    def __init__(self, rate: int) -> None:
        self.block = max(1, min(BLOCK_MAX, rate // BLOCKS_A_SECOND))
        self._rate = rate
        self._progress = Progress("moved")
        self._due_at = time.monotonic()
        """When all that was written is written, at the rate."""

    def found(self, count: int) -> None:
        """Count bytes that the target has already."""
        self._progress.add(count)

    def wrote(self, count: int) -> None:
        """Count bytes that were written, and wait until they are due."""
        self._due_at += count / self._rate
        self._progress.add(count)
        end_without_parent()
        now = time.monotonic()
        if self._due_at > now:
            time.sleep(self._due_at - now)  # noqa: TID251  # nothing else is to happen in this process
        else:
            self._due_at = max(self._due_at, now - CREDIT_SECONDS)

    def end(self) -> None:
        """Tell the last count."""
        self._progress.tell()


def copy(source: Path, target: Path, pace: Pace) -> None:
    """Copy a dataset. Raises DatasetMissing, UnsafeEntry and OSError."""
    for entry in entries(source):
        path = target / os.fsdecode(entry.relative) if entry.relative else target
        if entry.is_directory:
            _make_directory(path, stat.S_IMODE(entry.mode) & 0o777 | stat.S_IRWXU)
        elif entry.link:
            _copy_link(entry, path)
        else:
            _copy_file(entry, path, pace)
    pace.end()


def main(arguments: list[str]) -> int:
    """Copy as the three words say."""
    if len(arguments) != 3 or not arguments[2].isdecimal() or int(arguments[2]) < 1:
        sys.stderr.write("usage: python -m runtime.data.copier SOURCE TARGET BYTES_A_SECOND\n")
        return EXIT_USAGE
    source, target, rate = arguments
    return run_program(lambda: copy(Path(source), Path(target), Pace(int(rate))))


def _make_directory(path: Path, mode: int) -> None:
    """Make a directory; a link in its place would lead the copy elsewhere."""
    if path.is_symlink():
        raise UnsafeEntry(path, "is a symbolic link")
    path.mkdir(exist_ok=True)
    path.chmod(mode)


def _copy_link(entry: Entry, path: Path) -> None:
    if not path.is_symlink():
        path.symlink_to(entry.link)


def _copy_file(entry: Entry, path: Path, pace: Pace) -> None:
    mode = stat.S_IMODE(entry.mode) & 0o777 | stat.S_IRUSR
    if _is_whole(entry, path):
        pace.found(entry.size)
        path.chmod(mode)
        return
    reading = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        writing = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            _copy_rest(reading, writing, pace)
            os.fchmod(writing, mode)
            os.fsync(writing)
        finally:
            os.close(writing)
    finally:
        os.close(reading)


def _is_whole(entry: Entry, path: Path) -> bool:
    """Return whether the target has a file of the full length, which may be one that only others may write."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == entry.size


def _copy_rest(reading: int, writing: int, pace: Pace) -> None:
    """Write all that the target's file lacks; all of a file if the target's is longer."""
    have = os.fstat(writing).st_size
    if have > os.fstat(reading).st_size:
        os.ftruncate(writing, 0)
        have = 0
    pace.found(have)
    os.lseek(reading, have, os.SEEK_SET)
    os.lseek(writing, have, os.SEEK_SET)
    unsynced = 0
    while block := os.read(reading, pace.block):
        left = memoryview(block)
        while left:
            left = left[os.write(writing, left) :]
        pace.wrote(len(block))
        unsynced += len(block)
        if unsynced >= SYNC_BYTES:
            os.fdatasync(writing)
            unsynced = 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
