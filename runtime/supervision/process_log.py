"""The file that a supervised process writes to: all that it prints, its log lines, and the stacks of a process that is aborted.

The file is rotated while the process lives, and never becomes much larger than `PROCESS_LOG_BYTES_MAX`; `PROCESS_LOGS_KEPT` older
ones are kept beside it, as `<name>.log.1` and so on. Whatever writes to the descriptors 1 and 2 directly goes into the newest file.
"""

import io
import os
import sys
from contextlib import suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path

from core.nouns.limits import PROCESS_LOG_BYTES_MAX, PROCESS_LOGS_KEPT

STDOUT, STDERR = 1, 2


class ProcessLog(io.TextIOBase):
    """Text that goes into the newest file. It is written through at once: a process may be killed at any time."""

    encoding = "utf-8"

    def __init__(
        self, path: Path, bytes_max: int = PROCESS_LOG_BYTES_MAX, kept: int = PROCESS_LOGS_KEPT
    ) -> None:
        self._files = RotatingFileHandler(
            path, maxBytes=bytes_max, backupCount=kept, encoding="utf-8", errors="replace"
        )
        self._bytes_max = bytes_max
        self._take_descriptors()

    def write(self, text: str, /) -> int:
        """Write, into a new file if this one has grown too long. A line that a full disk does not take is lost, and stops nothing.

        If no new file can be opened, as where no descriptor is left, lines are lost until one can.
        """
        with suppress(OSError):
            if self._files.stream is None:  # A rotation has failed.
                self._files.stream = self._files._open()  # noqa: SLF001  # documented for subclasses
                self._take_descriptors()
            if self._stream.tell() >= self._bytes_max:
                self._files.doRollover()
                self._take_descriptors()
            self._stream.write(text)
            self._stream.flush()
        return len(text)

    def writable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor for whatever writes without us."""
        return STDERR

    def _take_descriptors(self) -> None:
        for descriptor in (STDOUT, STDERR):
            os.dup2(self._stream.fileno(), descriptor)

    @property
    def _stream(self) -> io.TextIOWrapper:
        stream = self._files.stream
        assert stream is not None, "it is opened with the handler, and `write` opens it again"
        return stream


def write_all_to(path: Path) -> None:
    """From now on all that this process writes goes into this file."""
    path.touch(mode=0o600)
    log = ProcessLog(path)
    sys.stdout = sys.stderr = log
