"""Calls with a token each, which is written down when the call begins, and again when the call has ended for its caller.

An executor writes into a file of its own, by one write that appends: a kill at any time loses no begin. A third of the calls is `once`.
"""

import asyncio
import json
import os
import sys
import threading
import time
from typing import NamedTuple

import mizzen

TOKEN_BYTES = 8
ONCE_EVERY = 3
FILES: dict[str, int] = {}
"""Descriptors of this process, by directory."""


class Calls(NamedTuple):
    """The calls of one caller."""

    first: int
    """The first token."""
    many: int
    begins: str
    """The directory into which executors write."""
    ends: str
    """The file into which the caller writes."""
    work_seconds: float
    """Of each call."""
    in_flight: int
    """Calls with `once` that wait for their answers at once, and half of the other calls of one map."""


def begin(argument: tuple[str, int, float]) -> int:
    """Write the token down, take some time, and return the token."""
    directory, token, work_seconds = argument
    if directory not in FILES:
        path = f"{directory}/{os.getpid()}.{time.time_ns()}"
        FILES[directory] = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(FILES[directory], token.to_bytes(TOKEN_BYTES, "little"))
    time.sleep(work_seconds)  # noqa: TID251  # this is the work
    return token


again = mizzen.function(gpus="cpu:1", name="begin")(begin)
once = mizzen.function(gpus="cpu:1", name="begin", once=True)(begin)


class Caller:
    """One caller, in two threads."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        tokens = range(calls.first, calls.first + calls.many)
        self._once = [token for token in tokens if is_once(token)]
        self._again = [token for token in tokens if not is_once(token)]
        self._ends = os.open(calls.ends, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def call_all(self) -> None:
        """Make all calls, both sorts at the same time."""
        other = threading.Thread(target=self._map_all)
        other.start()
        asyncio.run(self._call_once())
        other.join()

    def _map_all(self) -> None:
        size = 2 * self._calls.in_flight
        for first in range(0, len(self._again), size):
            tokens = self._again[first : first + size]
            values = again.map(map(self._argument, tokens), as_completed=True, return_exceptions=True)
            for place, value in values:
                self._end(tokens[place], value)

    async def _call_once(self) -> None:
        tokens = iter(self._once)

        async def call_in_turn() -> None:
            for token in tokens:
                try:
                    value: object = await once.acall(self._argument(token))
                except mizzen.FunctionError as error:
                    value = error
                self._end(token, value)

        await asyncio.gather(*(call_in_turn() for _ in range(self._calls.in_flight)))

    def _argument(self, token: int) -> tuple[str, int, float]:
        return self._calls.begins, token, self._calls.work_seconds

    def _end(self, token: int, value: object) -> None:
        os.write(self._ends, f"{token} {outcome_of(value, token)}\n".encode())


def is_once(token: int) -> bool:
    """Return whether a call is said once."""
    return token % ONCE_EVERY == 0


def outcome_of(value: object, token: int) -> str:
    """Return the end of a call in a word."""
    match value:
        case mizzen.CallLost():
            return "lost"
        case mizzen.CallRefused():
            return "refused"
        case Exception():
            return "failed"
        case _:
            return "done" if value == token else "wrong"


if __name__ == "__main__":
    Caller(Calls(**json.loads(sys.argv[1]))).call_all()
