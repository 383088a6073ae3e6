"""The process of a task that serves functions: holds a part of its machine in the device book, until told to stop.

`python -I -m runtime.functions.hold` is started by a worker in place of a program, with `HOLDING` and `BOOK` in its environment. Told to
stop, the process lets executors leave its part, kills those that are still there after `PATIENCE`, and ends when none is: the worker
gives the devices to others then.
"""

import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from core.nouns.function import Holding
from runtime.functions.book import has_room
from runtime.tasks import processes
from runtime.tasks.book import BookFiles, UsedBy
from runtime.tasks.environment import BOOK, HOLDING

PATIENCE = 1.0
"""Seconds in which the function server ends executors by itself: it looks at the book ten times a second."""
LOOK = 0.05
"""Seconds between two looks at executors."""


def main(environ: Mapping[str, str]) -> int:
    """Hold, wait for SIGTERM, and let go. Return the exit code."""
    holding = msgspec.json.decode(environ[HOLDING], type=Holding)
    files = BookFiles(Path(environ[BOOK]))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    files.hold(holding, os.getpid())
    signal.sigwait({signal.SIGTERM})
    tell_end(files, holding)
    let_go(files, holding)
    files.release(holding.share)
    return 0


def tell_end(files: BookFiles, holding: Holding) -> None:
    """Have no executor start on this holding from now on: before uses are read, as book.py explains. Raises OSError."""
    try:
        files.hold(replace(holding, is_ending=True), os.getpid())
    except OSError:  # On a full disk a file can be taken out still: executors leave such a holding too.
        files.release(holding.share)


def let_go(files: BookFiles, holding: Holding) -> None:
    """Wait until executors use no part of this holding. Kill those that do, the newest first, once they had their time."""
    begun = time.monotonic()
    while not has_room(files.holdings(), [one.use for one in files.uses()]):
        if time.monotonic() - begun >= PATIENCE:
            _kill_newest(files, holding)
        signal.sigtimedwait({signal.SIGTERM}, LOOK)


def _kill_newest(files: BookFiles, holding: Holding) -> None:
    """Kill as many executors as have to go, those on GPUs of this holding before others."""
    held = {gpu.index for gpu in holding.gpus}
    others = [one for one in files.holdings() if one.share != holding.share]
    left = sorted(files.uses(), key=lambda one: _is_on(one, held))
    while left and not has_room(others, [one.use for one in left]):
        last = left.pop().process
        if last.is_alive():
            processes.kill(last.pid)


def _is_on(used: UsedBy, gpus: set[int]) -> bool:
    return any(gpu.index in gpus for gpu in used.use.gpus)


if __name__ == "__main__":
    sys.exit(main(os.environ))
