"""The server's ends of an executor's pipes. No method waits: the loop calls back when a pipe can take more, or has something."""

import asyncio
import os
from collections.abc import Callable

from runtime.functions.wire import BadFrame, take_frames

READ_BYTES = 64 * 1024
"""As much as a pipe holds."""
PAUSE_SECONDS = 0.001
"""Between two looks at an executor that has more calls: answers of short calls travel together, and none waits for longer."""


class Pipes:
    """Frames to an executor, and from it."""

    def __init__(
        self, calls: int, answers: int, heard: Callable[[list[bytes]], bool], damaged: Callable[[], None]
    ) -> None:
        """Made in a running loop.

        calls    the end to write to; it is the pipes' own from now on, as is the next
        answers  the end to read from
        heard    takes the frames of one read, and returns whether more are to come soon. Raises BadFrame
        damaged  called once if the executor wrote something else than frames; nothing more of it is read then
        """
        self._calls, self._answers = calls, answers
        self._heard, self._damaged = heard, damaged
        self._loop = asyncio.get_running_loop()
        self._unsent = bytearray()
        self._unread = bytearray()
        self._pause: asyncio.TimerHandle | None = None
        self._is_over = False
        self._ended: Callable[[], None] | None = None
        for end in (calls, answers):
            os.set_blocking(end, False)
        self._loop.add_reader(answers, self._look)

    def send(self, frame: bytes) -> None:
        """Send a frame after all others."""
        was_empty = not self._unsent
        self._unsent += frame
        if was_empty:
            self._send()

    def read(self) -> bool:
        """Take the frames that have come, as many as the pipe holds at most. Return whether more are to come soon."""
        if self._is_over:
            return False
        try:
            data = os.read(self._answers, READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._stop()
            if self._ended is not None:
                self._ended()
            return False
        self._unread += data
        try:
            return self._heard(take_frames(self._unread)) and len(data) < READ_BYTES
        except BadFrame:
            self._stop()
            self._damaged()
            return False

    def tell_end(self, ended: Callable[[], None]) -> None:
        """Call back once the executor, and all that it forked, has no end of the pipe of answers."""
        if self._is_over:
            self._loop.call_soon(ended)
        else:
            self._ended = ended

    def close(self) -> None:
        """Let go of both pipes."""
        self._stop()
        self._loop.remove_writer(self._calls)
        os.close(self._answers)
        os.close(self._calls)

    # Helpers.

    def _send(self) -> None:
        try:
            sent = os.write(self._calls, self._unsent)
        except BlockingIOError:
            sent = 0
        except BrokenPipeError:  # The executor is dead, which its parent tells.
            sent = len(self._unsent)
        del self._unsent[:sent]
        if self._unsent:
            self._loop.add_writer(self._calls, self._send)
        else:
            self._loop.remove_writer(self._calls)

    def _look(self) -> None:
        if self.read():
            self._loop.remove_reader(self._answers)
            self._pause = self._loop.call_later(PAUSE_SECONDS, self._go_on)

    def _go_on(self) -> None:
        self._pause = None
        self._loop.add_reader(self._answers, self._look)

    def _stop(self) -> None:
        """Read nothing more."""
        self._is_over = True
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        self._loop.remove_reader(self._answers)
