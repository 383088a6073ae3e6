"""The pipe from a supervised process to its supervisor, on which the process's event loop answers for itself.

Each line is one word: `beat` every `BEAT_INTERVAL` while the loop turns, `up` once a unit has begun, and `end` with the error that
ends the process, so that the supervisor can tell of it. A loop that is busy with one decision, and a process that was stopped, write
nothing: that is what the supervisor looks for.

A process without a supervisor ends by itself when its loop stands still (`end_when_hung`): a timer of `faulthandler`, which needs no
instruction of Python, is wound up again at each beat. The timer stands still too while the process is stopped.
"""

import asyncio
import faulthandler
import os
from collections import deque
from contextlib import suppress
from itertools import islice

from core.nouns.instant import SECOND, Nanoseconds
from core.nouns.limits import BEAT_INTERVAL, STARTING_SPAN_MAX, STATUS_INTERVAL, WORKER_STATUS_FACTOR

BEAT, UP, END = b"beat\n", b"up\n", b"end "
STDERR = 2
BEATS_KEPT = 2 * STATUS_INTERVAL * WORKER_STATUS_FACTOR // BEAT_INTERVAL
"""More than there are between two statuses of any unit."""
END_BYTES_MAX = 500
"""Of the text of an error: with its line it is far below what a pipe takes in one piece."""


class LifeLine:
    """The process's end of the pipe. Without a supervisor it leads nowhere."""

    def __init__(self) -> None:
        self._descriptor = -1
        self.beats = 0
        self._late: deque[Nanoseconds] = deque(maxlen=BEATS_KEPT)
        """By how much each of the newest beats was late."""
        self._beat_due = 0.0
        self._hung_after = Nanoseconds(0)
        self._is_up = False

    def attach(self, descriptor: int) -> None:
        """From now on this is the pipe."""
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor

    def end_when_hung(self, hung_after: Nanoseconds) -> None:
        """End this process, with all stacks on stderr, when its loop has stood still for so long: exit code 1. 0: never."""
        faulthandler.enable(file=STDERR)
        self._hung_after = hung_after

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Beat at once, and again for as long as the loop turns."""
        now = loop.time()
        self._late.append(Nanoseconds(max(0, round((now - self._beat_due) * SECOND)) if self.beats else 0))
        self.beats += 1
        self._beat_due = now + BEAT_INTERVAL / SECOND
        self._write(BEAT)
        self._wind_up()
        loop.call_later(BEAT_INTERVAL / SECOND, self.begin, loop)

    def worst_late(self, count: int) -> Nanoseconds:
        """Return by how much the loop was late for one of the newest beats, so many of them, at worst."""
        return max(islice(reversed(self._late), count), default=Nanoseconds(0))

    def end(self) -> None:
        """The loop is over, and its silence is in order."""
        if self._hung_after:
            faulthandler.cancel_dump_traceback_later()

    def tell_up(self) -> None:
        """A unit of this process has begun: from now on a silence is soon too long."""
        self._is_up = True
        self._write(UP)
        self._wind_up()

    def tell_end(self, error: str) -> None:
        """The process is about to end, because of this."""
        text = " ".join(error.split()).encode(errors="replace")[:END_BYTES_MAX]
        self._write(END + text + b"\n")

    def _wind_up(self) -> None:
        """Before a unit has begun, the process may be silent for longer: a keeper folds its log first."""
        if self._hung_after:
            span = self._hung_after if self._is_up else max(STARTING_SPAN_MAX, self._hung_after)
            faulthandler.dump_traceback_later(span / SECOND, exit=True, file=STDERR)

    def _write(self, line: bytes) -> None:
        """A pipe that is full, or whose reader is gone, is no reason to stop."""
        if self._descriptor >= 0:
            with suppress(OSError):
                os.write(self._descriptor, line)


LIFE_LINE = LifeLine()
"""This process's."""
