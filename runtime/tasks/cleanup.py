"""What is on its way out: out of sight at once, and removed by a process of its own, for it may be a large tree."""

import os
import shutil
import time
from pathlib import Path

from runtime.tasks import processes

REMOVER = "/bin/rm"


class Rubbish:
    """A directory from which nothing comes back."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._removing: list[int] = []

    @property
    def is_removing(self) -> bool:
        """Whether a process is still at it."""
        return bool(self._removing)

    def throw(self, path: Path) -> None:
        """From now on it is not there. What is not there already is no matter. Raises OSError."""
        try:
            path.rename(self._directory / f"{time.monotonic_ns()}.{path.name}")
        except FileNotFoundError:
            return
        self.remove()

    def remove(self) -> None:
        """Remove all that was thrown, also by a process before this one."""
        left = [str(path) for path in self._directory.iterdir()]
        if not left:
            return
        try:
            self._removing.append(os.posix_spawn(REMOVER, [REMOVER, "-rf", "--", *left[:1000]], {}))
        except (AttributeError, OSError):
            for path in left:
                shutil.rmtree(path, ignore_errors=True)

    def reap(self) -> None:
        """Let go of processes that are done."""
        self._removing = [pid for pid in self._removing if not processes.reap(pid)]
