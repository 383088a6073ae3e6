"""What a task lends for a while: its devices that are idle, on which functions run until the task wants them back.

The task writes a word into its own directory and rings its worker; the worker answers there once no function uses what is wanted back
(runtime/tasks/lending.py).
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["idle_gpus"]

BACK_SECONDS_MAX = 90.0
"""A worker gives back within 45 seconds, and one that has died is started again meanwhile."""
LOOK_SECONDS, LOOK_SECONDS_MAX = 0.001, 0.02
"""Between two looks for the worker's answer: at first, and in the end."""
RING_SECONDS = 1.0
"""Between two rings to a worker that has not answered."""


def idle_gpus(count: int, keeps_bytes: int = 0) -> None:
    """Say how many of this task's devices are idle now: functions may use them, the ones that come last in the task.

    With a smaller number than before it returns once no function uses any of the others, at the end of the pool's grace at the latest.

    keeps_bytes  main memory that the task uses while devices are idle; of the rest a device's part goes with each of them
    Raises ValueError for a number that the task does not have, RuntimeError outside a task of Mizzen, or where no worker answers.
    """
    mine = _Files()
    if type(count) is not int or not 0 <= count <= mine.devices:
        raise ValueError(f"this task holds {mine.devices} devices, so {count!r} of them cannot be idle")
    if type(keeps_bytes) is not int or keeps_bytes < 0:
        raise ValueError(f"a task cannot keep {keeps_bytes!r} bytes of memory")
    with mine.locked():
        idle, keeps, number, waits = mine.said()
        is_less = bool(waits)
        if (count, keeps_bytes) != (idle, keeps):
            is_less = count < idle or keeps_bytes > keeps
            # Another thread may wait for the word before, which the worker may never read.
            is_awaited = waits and mine.heard() < number
            number += 1
            mine.say(count, keeps_bytes, number, int(is_less or is_awaited))
    if is_less:
        mine.wait_for(number)


class _Files:
    """The directory of this task, as its worker has told it."""

    def __init__(self) -> None:
        directory, self._bell = os.environ.get("MIZZEN_TASK_DIR"), os.environ.get("MIZZEN_BELL", "")
        if not directory or not self._bell or not os.path.exists(self._bell):  # noqa: PTH110  # no path of ours
            raise RuntimeError("idle_gpus() works in a task of Mizzen alone, beside the worker that runs it")
        self._directory = Path(directory)
        self.devices = int(os.environ.get("MIZZEN_DEVICES", "0"))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other threads and processes of this task from saying something meanwhile."""
        import fcntl

        descriptor = os.open(self._directory / ".idle.lock", os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def said(self) -> "list[int]":
        """What was said last: how many are idle, memory that is kept, the number of the word, and whether somebody waits."""
        try:
            return [int(word) for word in (self._directory / "idle").read_text().split()]
        except FileNotFoundError:
            return [0, 0, 0, 0]

    def say(self, *words: int) -> None:
        """Say something, and ring."""
        unfinished = self._directory / ".idle.new"
        unfinished.write_text(" ".join(map(str, words)) + "\n")
        unfinished.replace(self._directory / "idle")
        self._ring()

    def wait_for(self, number: int) -> None:
        """Wait until the worker has obeyed a word."""
        begun = rung = time.monotonic()
        pause = LOOK_SECONDS
        while self.heard() < number:
            now = time.monotonic()
            if now - begun > BACK_SECONDS_MAX:
                raise RuntimeError(
                    f"no worker has answered for {BACK_SECONDS_MAX:.0f} s: functions may still use devices of this task"
                )
            if now - rung > RING_SECONDS:
                rung = now
                self._ring()
            time.sleep(pause)  # noqa: TID251  # the script goes on once its devices are its own
            pause = min(2 * pause, LOOK_SECONDS_MAX)

    def heard(self) -> int:
        """The newest word that the worker has obeyed."""
        with suppress(FileNotFoundError):
            return int((self._directory / "heard").read_text())
        return 0

    def _ring(self) -> None:
        """Have the worker look. One that is just being started again looks by itself."""
        name = "/".join(self._directory.parts[-3:-1])
        with suppress(OSError):
            bell = os.open(self._bell, os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(bell, os.fsencode(f"{name}\n"))
            finally:
                os.close(bell)
