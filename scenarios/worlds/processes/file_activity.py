"""Whether another process writes to a file just now, seen from outside."""

import asyncio
import time
from pathlib import Path

LOOK_SECONDS = 0.0005
"""Between looks: less than a batch takes to be durable."""


async def has_grown(path: Path, seconds_max: float) -> bool:
    """Whether it is written to within so long; returns as soon as it is."""
    before = written(path)
    until = time.monotonic() + seconds_max
    while time.monotonic() < until:
        await asyncio.sleep(LOOK_SECONDS)
        if written(path) != before:
            return True
    return False


def written(path: Path) -> tuple[int, int]:
    """What changes with a write: its size, and the instant of the newest one; zeros, if it is empty or not there."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, 0
    return (found.st_size, found.st_mtime_ns) if found.st_size else (0, 0)
