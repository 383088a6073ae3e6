"""What logs ask of a file system beside SQLite: one holder at a time, and names that survive a power cut."""

import os
import sys
from pathlib import Path

from core.nouns.ids import LogName
from store.errors import LogInUse


def make_directory(directory: Path) -> None:
    """Make a directory, durably, if it is not there."""
    if not directory.is_dir():
        directory.mkdir(parents=True, exist_ok=True)
        sync_directory(directory.parent)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable: a synced file under a lost name is lost."""
    if sys.platform == "win32":
        return  # directories cannot be opened there; renaming is durable by itself
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """Make a file's content durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_alike(path: Path, model: Path) -> None:
    """Give a new file or directory the mode of another file and, if this process is root, the other file's owner, so that the
    users of the one may use the other.
    """
    if sys.platform == "win32":
        return
    wanted = model.stat()
    mode = wanted.st_mode & 0o666
    if path.is_dir():
        mode |= 0o300 | (mode & 0o444) >> 2  # To enter it.
    if os.geteuid() == 0:
        os.chown(path, wanted.st_uid, wanted.st_gid)
    path.chmod(mode)


class FileLock:
    """A file that one holder at a time has, in this process or any other; the system lets go of it when that dies.

    The file stays when the lock is let go: deleting it would let two hold locks on two files of one name. A process
    that is forked, and not started anew, shares its parent's lock and keeps it.
    """

    def __init__(self, log: LogName, path: Path) -> None:
        """Take it. Raises LogInUse."""
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(self._descriptor)
        except OSError as error:
            os.close(self._descriptor)
            raise LogInUse(
                log, f"another process keeps it, or this one twice ({path} is locked); stop that one"
            ) from error

    def release(self) -> None:
        """Let go, so that the next one may have it."""
        os.close(self._descriptor)


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        # flock, not lockf: POSIX locks are a process's, so the same process could open the log twice, and closing
        # any other descriptor of the file would let go of it.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
