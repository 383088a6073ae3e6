"""A region's data directory: the one place that renames and deletes in it, and that touches nothing outside.

    DIRECTORY/DATASET                  a whole dataset, a file or a directory
    DIRECTORY/.incoming/COPY/DATASET   an unfinished copy, by the order's number
    DIRECTORY/.incoming/drop-NUMBER    a tree that is being deleted
    DIRECTORY/.incoming/made-DATASET   the hash of the copy that was put in the dataset's place
    DIRECTORY/.incoming/.lock          held by the process that serves the directory

A dataset is renamed before it is deleted, so that no part of one is ever found under its name.
"""

import asyncio
import errno
import fcntl
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import structlog
from msgspec import Struct

from core.nouns.ids import DatasetName
from core.nouns.instant import SECOND, Nanoseconds
from core.nouns.limits import DATA_LOCK_SPAN
from core.rules.data.datasets import is_dataset_name
from runtime.data.children import Children, end_strays

logger = structlog.get_logger()

INCOMING = ".incoming"
LOCK = ".lock"
DROP = "drop-"
MADE = "made-"
DELETER = ("-P", "-m", "runtime.data.deleter")
LOCK_AGAIN_SECONDS = 0.1
ENTRIES_AT_ONCE = 256
"""Looked at in one go: about a millisecond."""


class Measure(Struct, frozen=True):
    """Size of a tree; any difference shows that a command works."""

    bytes: int = 0
    blocks: int = 0
    entries: int = 0
    newest: int = 0
    """Time of the newest change, in nanoseconds."""


class DataDirectory:
    """The directory of one region, on this machine."""

    def __init__(self, path: Path, children: Children, lock_span: Nanoseconds = DATA_LOCK_SPAN) -> None:
        self.path = path.absolute()
        self._children = children
        self._lock_seconds = lock_span / SECOND
        self._lock: int | None = None
        """Descriptor of the lock."""

    # Places.

    def dataset(self, name: DatasetName) -> Path:
        """Return the place of a whole dataset."""
        assert is_dataset_name(name), name
        return self.path / name

    def incoming(self, copy: int) -> Path:
        """Return the place of an unfinished copy."""
        return self.path / INCOMING / str(int(copy))

    def partials(self) -> list[int]:
        """Return the orders of which there is an unfinished copy."""
        return sorted(int(path.name) for path in self._listed() if path.name.isdecimal())

    # The lock.

    async def opened(self) -> bool:
        """Return whether the directory is there, can be written, and is served by this process alone."""
        deadline = asyncio.get_running_loop().time() + self._lock_seconds
        while True:
            try:
                if self._take_lock():
                    return True
            except OSError as error:
                logger.error("no_data_directory", directory=str(self.path), error=str(error))
                return False
            if asyncio.get_running_loop().time() > deadline:
                logger.error("data_directory_in_use", directory=str(self.path))
                return False
            await asyncio.sleep(LOCK_AGAIN_SECONDS)

    def release(self) -> None:
        """Let another process serve the directory."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _take_lock(self) -> bool:
        """Take the lock unless it is held already. Raises OSError when the directory cannot be used."""
        if not os.access(self.path, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "it is not there, or may not be written", str(self.path))
        incoming = self.path / INCOMING
        _make(incoming)
        if self._lock is not None:
            if _is_same(self._lock, incoming / LOCK):
                return True
            self.release()  # Another disk was mounted there.
        descriptor = os.open(incoming / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except OSError as error:
            # Some network disks know no locks: that two services have one directory is then the operator's to prevent.
            logger.warning("data_directory_unlocked", directory=str(self.path), error=str(error))
        self._lock = descriptor
        return True

    # Changes. Each but `discard` raises OSError.

    def begin(self, copy: int) -> None:
        """Make the place of an unfinished copy."""
        _make(self.incoming(copy))

    def settle(self, copy: int, name: DatasetName, digest: str) -> None:
        """Put a copy, which is whole, durable and of this hash, in its place, and note the hash. There must be nothing there."""
        place = self.dataset(name)
        assert not os.path.lexists(place), place
        self._note_made(name, digest)
        (self.incoming(copy) / name).rename(place)
        self.sync()

    def made(self, name: DatasetName) -> str:
        """Return the hash of the copy that was last put in a dataset's place and not deleted since; empty: none was."""
        try:
            return self._made(name).read_text(encoding="ascii")
        except (OSError, ValueError):
            return ""

    def sync(self) -> None:
        """Make durable which datasets there are."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    async def discard(self, copy: int) -> None:
        """Delete an unfinished copy, if there is one, after the processes that write it. Raises nothing."""
        place = self.incoming(copy)
        with suppress(OSError):
            place.rmdir()  # Of a copy that was made nothing else is left.
        if os.path.lexists(place):
            await end_strays(str(place))
        try:
            if (thrown := self._throw(place)) is not None:
                await self._delete(thrown)
        except OSError as error:
            logger.warning("copy_not_deleted", copy=copy, error=str(error))

    async def drop(self, name: DatasetName) -> None:
        """Delete a dataset, if there is one."""
        thrown = self._throw(self.dataset(name))
        self._made(name).unlink(missing_ok=True)
        if thrown is not None:
            self.sync()
            await self._delete(thrown)

    async def delete_thrown(self) -> None:
        """Delete all that was renamed to be deleted, by an earlier process too."""
        for path in [path for path in self._listed() if path.name.startswith(DROP)]:
            await self._delete(path)

    def _made(self, name: DatasetName) -> Path:
        return self.path / INCOMING / f"{MADE}{name}"

    def _note_made(self, name: DatasetName, digest: str) -> None:
        """Note a hash durably. One of an older copy is replaced as a whole."""
        written = self.path / INCOMING / f".{MADE}{name}"
        with written.open("w", encoding="ascii") as file:
            file.write(digest)
            file.flush()
            os.fsync(file.fileno())
        written.rename(self._made(name))

    def _throw(self, path: Path) -> Path | None:
        if not os.path.lexists(path):
            return None
        incoming = self.path / INCOMING
        thrown = next(
            place for number in count() if not os.path.lexists(place := incoming / f"{DROP}{number}")
        )
        return path.rename(thrown)

    async def _delete(self, path: Path) -> None:
        """Delete a tree in a child process: it may be large."""
        ended = await self._children.run((sys.executable, *DELETER, str(path)))
        if ended.code:
            logger.warning("data_not_deleted", path=str(path), code=ended.code, said=ended.complaint)

    def _listed(self) -> list[Path]:
        try:
            return sorted((self.path / INCOMING).iterdir())
        except OSError:
            return []


def free_bytes(directory: Path) -> int:
    """Return the bytes that may still be written to a disk, 0 if it can hold no further file. Raises OSError."""
    status = os.statvfs(directory)
    has_files = status.f_files == 0 or status.f_favail > 0
    return status.f_bavail * status.f_frsize if has_files else 0


async def measured(root: Path) -> Measure:
    """Return the size of a tree while a command writes it, entry by entry, so that other tasks go on."""
    total = blocks = entries = newest = 0
    for status in _statuses(root):
        entries += 1
        blocks += status.st_blocks
        newest = max(newest, status.st_mtime_ns, status.st_ctime_ns)
        total += status.st_size if stat.S_ISREG(status.st_mode) else 0
        if entries % ENTRIES_AT_ONCE == 0:
            await asyncio.sleep(0)
    return Measure(total, blocks, entries, newest)


def _statuses(root: Path) -> Iterator[os.stat_result]:
    try:
        yield root.lstat()
    except OSError:
        return
    waiting = [root]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as listing:
                for one in listing:
                    try:
                        status = one.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    yield status
                    if one.is_dir(follow_symlinks=False):
                        waiting.append(Path(one.path))
        except (FileNotFoundError, NotADirectoryError):
            continue


def _make(place: Path) -> None:
    """Make a directory, if there is none. Raises OSError, also for a link: it would lead elsewhere."""
    place.mkdir(exist_ok=True)
    if place.is_symlink():
        raise NotADirectoryError(errno.ENOTDIR, "it is a symbolic link", str(place))


def _is_same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
