"""Processes that serve one region's data until they kill themselves at a stage of a copy, by -9.

`python -m tests.runtime.data.killed_service` forks one for each `Life` that it reads, a line each, and writes how it ended: so a life
does not begin with a third of a second of imports.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from core.effects import CopyData
from runtime.data import file_copy
from runtime.data.directory import DataDirectory
from runtime.data.file_copy import FileCopy
from runtime.data.files import DataFiles
from runtime.data.hashing import HASHER
from runtime.loop import run
from tests.runtime.data.aids import EU, US

Deed = Callable[..., Any]  # Any: of every stage its own
LIFE_SECONDS_MAX = 30
KILLS_PARENT = ("-c", "import os, signal; os.kill(os.getppid(), signal.SIGKILL)")
"""In the hasher's place."""


def die(*_: object) -> None:
    """Be killed."""
    os.kill(os.getpid(), signal.SIGKILL)


def before(place: type, name: str) -> None:
    """Be killed in place of a step."""
    setattr(place, name, die)


def after(place: type, name: str, *, when: Callable[..., bool] = lambda *_: True) -> None:
    """Be killed behind a step."""
    done: Deed = getattr(place, name)

    def deed(*arguments: object) -> object:
        outcome = done(*arguments)
        if when(*arguments):
            die()
        return outcome

    setattr(place, name, deed)


def is_half_way(watch: file_copy._OwnWatch, _: str) -> bool:
    """Return whether a copy of our own is under way."""
    return watch._copy.moved * 3 > watch._copy.order.bytes


STAGES: dict[str, Callable[[], None]] = {
    "begun": lambda: after(DataDirectory, "begin"),
    "half_way": lambda: after(file_copy._OwnWatch, "heard", when=is_half_way),
    "copied": lambda: before(FileCopy, "_verified"),
    "hashing": lambda: None,
    "verified": lambda: before(FileCopy, "_settled"),
    "renamed": lambda: before(DataDirectory, "sync"),
    "settled": lambda: after(DataDirectory, "settle"),
    "failed": lambda: before(DataDirectory, "discard"),
    "thrown": lambda: before(DataDirectory, "_delete"),
    "foreign": lambda: after(
        file_copy._ForeignWatch, "is_enough", when=lambda watch: watch._measure.bytes > 0
    ),
}
"""Where the service is killed."""


class Life(Struct):
    """One service, its order, and its end."""

    eu: str
    us: str
    order: CopyData
    stage: str
    command: str
    variables: dict[str, str]
    """Of its environment."""


def serve(life: Life) -> None:
    """Serve until killed."""
    os.environ.update(life.variables)
    STAGES.get(life.stage, lambda: None)()
    hasher = KILLS_PARENT if life.stage == "hashing" else HASHER
    data = DataFiles(US, Path(life.us), {EU: Path(life.eu)}, life.command, hasher=hasher)
    data.attach(die if life.stage == "over" else lambda _: None)
    data.begin(life.order)
    run(data.run())


def main() -> None:
    """Fork a process for each line."""
    for line in sys.stdin.buffer:
        pid = os.fork()
        if pid == 0:
            signal.alarm(LIFE_SECONDS_MAX)
            serve(msgspec.json.decode(line, type=Life))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
