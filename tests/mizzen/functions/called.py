"""Functions that tests call on executors."""

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

READY: list[int] = []


class Unlucky(ValueError):
    """An exception of the user's own, with a field."""

    def __init__(self, number: int) -> None:
        super().__init__(f"{number} is unlucky")
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return Unlucky, (self.number,)


def double(number: int) -> int:
    """Return twice the number."""
    return 2 * number


def parts(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """Return everything that came."""
    return args, kwargs


async def double_later(number: int) -> int:
    """Return twice the number, a little later."""
    await asyncio.sleep(0.001)
    return 2 * number


def no_thirteen(number: int) -> int:
    """Return the number, unless it is unlucky."""
    if number == 13:
        raise Unlucky(number)
    return number


def load() -> None:
    """Be an `init`."""
    READY.append(os.getpid())


def loaded() -> tuple[list[int], int]:
    """Return in which processes `init` has run, and this one."""
    return READY, os.getpid()


def sleep(seconds: float) -> float:
    """Take some time."""
    time.sleep(seconds)  # noqa: TID251  # this is the work
    return seconds


def leave(code: int) -> None:
    """End the executor."""
    sys.exit(code)


def wait_for(path: str) -> str:
    """Say that it runs, and wait until the file is there."""
    Path(f"{path}.begun").touch()
    while not Path(path).exists():
        time.sleep(0.005)  # noqa: TID251  # this is the work
    return path


def large(size: int) -> bytes:
    """Return so many bytes."""
    return bytes(size)
