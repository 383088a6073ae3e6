"""Maps, one after the other, until SIGTERM: the map that runs is brought to its end. Five times a second a line tells how many calls are done."""

import json
import signal
import sys
import time
from typing import Any  # Any: a signal handler's frame.

import mizzen

TOLD_SECONDS = 0.2
MAPPED = 500
"""Calls of one map: so many run on after SIGTERM."""


@mizzen.function(gpus="cpu:1")
def work(work_seconds: float) -> None:
    """Keep a core busy for some time."""
    end = time.perf_counter() + work_seconds
    while time.perf_counter() < end:
        pass


class Done:
    """Calls that are done."""

    def __init__(self) -> None:
        self.is_over = False
        self._count = 0
        self._told_at = 0.0

    def stop(self, *_: Any) -> None:
        """Begin no other map."""
        self.is_over = True

    def add(self) -> None:
        """Count one, and tell now and then."""
        self._count += 1
        now = time.monotonic()
        if now - self._told_at >= TOLD_SECONDS:
            self._told_at = now
            print(json.dumps({"at": now, "done": self._count}), flush=True)


def main(work_seconds: float) -> None:
    """Map until told to stop."""
    done = Done()
    signal.signal(signal.SIGTERM, done.stop)
    while not done.is_over:
        for _ in work.map([work_seconds] * MAPPED, as_completed=True):
            done.add()


if __name__ == "__main__":
    main(float(sys.argv[1]))
