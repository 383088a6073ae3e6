"""A process for the supervisor's tests: it says that it lives, and then does as it was told."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

from runtime.supervision.life_line import LIFE_LINE


def main(arguments: list[str]) -> int:
    """`here` is a directory into which each life writes its process id."""
    here, way = Path(arguments[0]), arguments[1]

    def end(*_: object) -> None:
        (here / f"{time.monotonic_ns()}.ended").touch()
        sys.exit(0)

    if way == "ignores":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if way == "orderly":
        signal.signal(signal.SIGTERM, end)
    print("lives", os.environ.get("COLOUR", ""), flush=True)
    print("complains", file=sys.stderr, flush=True)
    print("life", os.environ["MIZZEN_RESTARTS"], os.environ["MIZZEN_LAST_END"], flush=True)
    if way in ("answers", "hangs", "tells"):
        asyncio.run(_turn(here, way))
        return 1
    _say_that_it_lives(here)
    if way == "fails":
        return 3
    if way == "starts":  # As the runner of a task is: every descriptor that may be inherited is.
        look = f'set -- /proc/$$/fd/*; echo "$@" > {here}/descriptors'
        os.posix_spawn("/bin/sh", ["/bin/sh", "-c", look], dict(os.environ))
    while True:
        signal.pause()


def _say_that_it_lives(here: Path) -> None:
    """Last of all: it may be stopped or killed as soon as this is seen."""
    (here / f"{time.monotonic_ns()}.{os.getpid()}").touch()


async def _turn(here: Path, way: str) -> None:
    """An event loop that answers to the supervisor: for ever, until it decides without end, or until an error ends it."""
    LIFE_LINE.begin(asyncio.get_running_loop())
    LIFE_LINE.tell_up()
    _say_that_it_lives(here)
    await asyncio.sleep(0.2)
    if way == "tells":
        LIFE_LINE.tell_end("ValueError: no\nsuch thing")
        return
    if way == "hangs":
        decide_without_end()
    await asyncio.get_running_loop().create_future()


def decide_without_end() -> None:
    """What a hanging component does."""
    while True:
        pass
