"""One process at a time serves a spool. Its lock goes when it dies, by whatever ends it."""

import os
import sys
from pathlib import Path

from runtime.tasks.errors import SpoolInUse


class SpoolLock:
    """Held by this process, until it lets go."""

    def __init__(self, path: Path) -> None:
        """Take it. Raises SpoolInUse."""
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(self._descriptor)
        except OSError as error:
            os.close(self._descriptor)
            raise SpoolInUse(path.parent) from error

    def release(self) -> None:
        """Let go at once, though a process that was started a moment ago may not have closed its copy of it yet."""
        _unlock(self._descriptor)
        os.close(self._descriptor)


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _unlock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
