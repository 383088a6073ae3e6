"""The common part of a data service's programs: their exit codes, their end with the service, and their lines of progress.

A program that a person starts does the same, but for the end and the niceness.
"""

import errno
import os
import sys
import time
from collections.abc import Callable

from runtime.data.errors import DatasetMissing, UnsafeEntry
from runtime.tasks.machine import be_gentle, die_with_parent, load_prctl

PARENT = "MIZZEN_DATA_PARENT"
"""The variable with the process id of the data service that started the program."""
MARK = "MIZZEN_DATA_COPY"
"""The variable with the path of the unfinished copy that a program, and each of its descendants, writes."""

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_MISSING = 3
"""The dataset does not exist."""
EXIT_FULL = 4
"""The disk, or the share of it that this user may have, is full."""

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The last: no file of this size fits there."""
TELL_SECONDS = 0.1
"""Between two lines of progress."""


def run_program(work: Callable[[], None]) -> int:
    """Run a program, and return its exit code; a failure is one line on standard error."""
    _heed_parent()
    try:
        work()
    except DatasetMissing as error:
        return _complain(str(error), EXIT_MISSING)
    except UnsafeEntry as error:
        return _complain(str(error), EXIT_FAILED)
    except OSError as error:
        return _complain(str(error), EXIT_FULL if error.errno in FULL else EXIT_FAILED)
    return 0


def end_without_parent() -> None:
    """End this process if its data service has died: where the kernel does not see to that, a copier asks now and then."""
    parent = os.environ.get(PARENT)
    if parent is not None and os.getppid() != int(parent):
        os._exit(EXIT_FAILED)


class Progress:
    """Lines on standard output, `WORD COUNT`, which also show that the program lives. Without a word there are none."""

    def __init__(self, word: str) -> None:
        self._word = word
        self._told_at = 0.0
        self.count = 0

    def add(self, count: int) -> None:
        """Count, and tell if it is time."""
        self.count += count
        if time.monotonic() - self._told_at >= TELL_SECONDS:
            self.tell()

    def tell(self) -> None:
        """Tell the count now."""
        self._told_at = time.monotonic()
        if self._word:
            os.write(sys.stdout.fileno(), f"{self._word} {self.count}\n".encode())


def _heed_parent() -> None:
    """Be killed with the data service that started this process, and give way to everything else on the machine."""
    if PARENT in os.environ:
        die_with_parent(load_prctl())
        end_without_parent()  # It may have died before the kernel was asked.
        be_gentle()


def _complain(text: str, code: int) -> int:
    os.write(sys.stderr.fileno(), os.fsencode(text) + b"\n")
    return code
