"""Functions that executors of tests import; most of them are bad ones."""

import asyncio
import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LOOPS: list[int] = []
READY: list[str] = []
NUMBER = 3


def double(number: int) -> int:
    """Return twice the number."""
    return 2 * number


async def double_later(number: int) -> tuple[int, int]:
    """Return the double, and in how many loops this executor has run calls."""
    await asyncio.sleep(0.001)
    LOOPS.append(id(asyncio.get_running_loop()))
    return 2 * number, len(set(LOOPS))


def seen(name: str) -> tuple[int, int, str | None, list[int], str]:
    """Return numbers of this process and its parent, a variable, the CPUs that it may use, and its directory."""
    return os.getpid(), os.getppid(), os.environ.get(name), sorted(os.sched_getaffinity(0)), str(Path.cwd())


def threads_of(pid: int) -> int:
    """Return how many threads a process has."""
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def descriptors(_: Any) -> int:
    """Return how many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def load_weights() -> None:
    """Be an `init`."""
    READY.append("weights")


def loaded(_: Any) -> list[str]:
    """Return which inits have run."""
    return READY


def raising_init() -> None:
    """Be an `init` that fails."""
    raise ValueError("no weights here")


class Wrapper:
    """A function as its module has it once it is decorated: to call the object would call the plane."""

    def __init__(self, function: Callable[..., Any], init: Callable[[], Any] | None = None) -> None:
        self.__mizzen_function__ = function
        self.__mizzen_init__ = init

    def __call__(self, *_: Any) -> None:
        raise AssertionError("called through the plane")


wrapped = Wrapper(loaded, load_weights)
unready = Wrapper(loaded, raising_init)


def sleep(seconds: float) -> float:
    """Sleep, and return how long."""
    time.sleep(seconds)  # noqa: TID251  # an executor has no loop
    return seconds


def spin(seconds: float) -> None:
    """Be busy for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


class OwnError(Exception):
    """An exception that a caller cannot make again: pickle calls it with one argument."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")


def fail(kind: str) -> None:
    """Raise an exception of one of many kinds."""
    raise {"value": ValueError("bad"), "own": OwnError("this", "that"), "key": KeyboardInterrupt()}[kind]


def end(how: str) -> None:
    """End this process in one of many ways, or not."""
    if how == "stays":
        return
    print("last words", flush=True)
    match how:
        case "sys":
            sys.exit(3)
        case "text":
            sys.exit("in words")
        case "os":
            os._exit(4)
        case "segfault":
            ctypes.string_at(0)
        case "closes":
            os.closerange(3, 1000)
        case "writes":
            for descriptor in range(3, 1000):
                try:
                    os.write(descriptor, b"x" * 100)
                except OSError:
                    continue


def fork(path: str) -> int:
    """Fork a process that returns from here too, and one that outlives the call; write the number of the latter."""
    if not os.fork():
        return -1
    pid = os.fork()
    if not pid:
        time.sleep(600)  # noqa: TID251  # an executor has no loop
    Path(path).write_text(str(pid))
    return 1


def spawn(_: Any) -> int:
    """Start a program that outlives the call."""
    return subprocess.Popen(["sleep", "600"]).pid


def spawn_apart(_: Any) -> int:
    """Start a program in a session of its own."""
    return subprocess.Popen(["sleep", "600"], start_new_session=True).pid


def spawn_behind(seconds: float) -> int:
    """Start a program in the background of a shell that ends."""
    command = f"sleep {seconds} > /dev/null 2>&1 & echo $!"
    return int(subprocess.run(["sh", "-c", command], capture_output=True, check=True).stdout)


def touch(path: str) -> None:
    """Leave a file."""
    Path(path).touch()


def forked_descriptors(_: Any) -> tuple[int, int]:
    """Return the number of pipes that this process has, and that a process forked from it has."""
    read, write = os.pipe()
    if not os.fork():
        os.write(write, bytes([_pipes()]))
        os._exit(0)
    os.wait()
    return _pipes(), os.read(read, 1)[0]


def _pipes() -> int:
    return sum("pipe:" in str(one.readlink()) for one in Path("/proc/self/fd").iterdir() if one.exists())


def print_much(megabytes: int) -> int:
    """Print so many megabytes."""
    for _ in range(megabytes):
        print("x" * 1_000_000)
    return megabytes


def large(size: int) -> bytes:
    """Return so many bytes."""
    return bytes(size)


def not_pickled(_: Any) -> Any:
    """Return a value that stays here."""
    return threading.Lock()
