"""The pipe from a supervised process to its supervisor, on which the process's event loop answers for itself.

Each line is one word: `beat` every `BEAT_INTERVAL` while the loop turns, `up` once a unit has begun, and `end` with the error that
ends the process, so that the supervisor can tell of it. A loop that is busy with one decision, and a process that was stopped, write
nothing: that is what the supervisor looks for.
"""

import asyncio
import os
from contextlib import suppress

from core.nouns.instant import SECOND
from core.nouns.limits import BEAT_INTERVAL

BEAT, UP, END = b"beat\n", b"up\n", b"end "
END_BYTES_MAX = 500
"""Of the text of an error: with its line it is far below what a pipe takes in one piece."""


class LifeLine:
    """The process's end of the pipe. Without a supervisor it leads nowhere."""

    def __init__(self) -> None:
        self._descriptor = -1

    def attach(self, descriptor: int) -> None:
        """From now on this is the pipe."""
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Write a beat at once, and again for as long as the loop turns."""
        if self._descriptor >= 0:
            self._write(BEAT)
            loop.call_later(BEAT_INTERVAL / SECOND, self.begin, loop)

    def tell_up(self) -> None:
        """A unit of this process has begun: from now on a silence is soon too long."""
        self._write(UP)

    def tell_end(self, error: str) -> None:
        """The process is about to end, because of this."""
        text = " ".join(error.split()).encode(errors="replace")[:END_BYTES_MAX]
        self._write(END + text + b"\n")

    def _write(self, line: bytes) -> None:
        """A pipe that is full, or whose reader is gone, is no reason to stop."""
        if self._descriptor >= 0:
            with suppress(OSError):
                os.write(self._descriptor, line)


LIFE_LINE = LifeLine()
"""This process's."""
