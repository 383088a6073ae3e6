"""What each process of a scenario is: a unit as `mizzen start` runs it, which SIGUSR1 gives a decision without end."""

import importlib
import signal
from collections.abc import Callable, Sequence

from runtime.plane import COMMAND_LINE

HANGS = signal.SIGUSR1
"""Python runs the handler between two instructions of whatever the event loop does, which then goes no further."""


def _decide_without_end(*_: object) -> None:
    while True:
        pass


def main(arguments: Sequence[str]) -> int:
    """Return the exit code, as `mizzen` does."""
    signal.signal(HANGS, _decide_without_end)
    start: Callable[[list[str]], int] = importlib.import_module(COMMAND_LINE).main
    return start(list(arguments))
