"""A map: many calls of one function, whose values are yielded while later calls run.

Inputs are pulled as values are taken, and no further ahead than `Ahead` allows: a map of a million inputs takes the memory of some
thousands. Whoever stops taking values early, by `break`, an exception or Ctrl-C, drops the calls that are out.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import Any  # Any: arguments and values are of every type.

from msgspec import Struct

from core.nouns.function import CallAnswer
from core.nouns.function_limits import CALLS_AT_ONCE_MAX, CALLS_OUT_MAX
from core.nouns.instant import Nanoseconds
from mizzen.functions.calls import Ended, Request, Waiter, request_of, tell, value_of
from mizzen.functions.description import Description
from mizzen.functions.session import Session

AHEAD_MAX = 2 * CALLS_OUT_MAX
"""Calls whose value was not taken: as many as a router takes of one caller may be out, and as many may wait for an earlier one."""
AHEAD_BYTES_MAX = 64 * 1024 * 1024
"""Of their arguments and values together, as far as values can be foreseen."""
PULLED_AT_ONCE = 2
"""Inputs pulled for each value that is there to be taken: one in its place, and one by which the map comes further ahead."""
SLOW_INPUT_SECONDS = 0.001
"""Inputs that take so long to come are pulled only while no value is there: each value would wait for them, and fall further behind."""


class MapKind(Struct, frozen=True):
    """How a map is asked for."""

    as_completed: bool
    """Values are yielded as calls end, each with its place among the inputs; otherwise in the order of inputs."""
    return_exceptions: bool
    """Exceptions are yielded in the place of values; otherwise the first one is raised in its place, and ends the map."""
    within: Nanoseconds


class Ahead(Struct):
    """How far a map is ahead of whoever takes its values."""

    count: int = 0
    """Calls whose value was not taken."""
    out: int = 0
    """Of these, without an answer."""
    size: int = 0
    """Bytes of arguments that are out, and of values that were not taken."""
    answered: int = 0
    answered_size: int = 0

    def has_room(self) -> bool:
        """Return whether one call more may be begun. The sizes of values are learnt first, so a map begins with few calls."""
        if self.count >= min(AHEAD_MAX, CALLS_AT_ONCE_MAX + self.answered):
            return False
        expected = self.out * self.answered_size // max(1, self.answered)
        return not self.count or self.size + expected < AHEAD_BYTES_MAX


class Map:
    """The calls of one map, without the waiting."""

    def __init__(self, description: Description, kind: MapKind, session: Session, waiter: Waiter) -> None:
        self._description = description
        self._kind = kind
        self._spec = description.spec(session.tenant)
        self._session = session
        self._waiter = waiter
        self._out: dict[int, Request] = {}
        """By place."""
        self._ended: dict[int, CallAnswer | Exception] = {}
        """By place, in the order in which they ended: those whose value was not taken."""
        self._ahead = Ahead()
        self._given = 0
        self._taken = 0
        self._are_inputs_slow = False
        self.is_whole = False
        """Whether the last input was pulled."""

    @property
    def is_over(self) -> bool:
        """Whether all values were taken."""
        return self.is_whole and not self._ahead.count

    def has_value(self) -> bool:
        """Return whether a value is there to be taken."""
        return bool(self._ended) if self._kind.as_completed else self._taken in self._ended

    def wants_input(self, pulled: int) -> bool:
        """Return whether to pull one input more, after so many since the last value was taken."""
        is_early = (pulled < PULLED_AT_ONCE and not self._are_inputs_slow) or not self.has_value()
        return not self.is_whole and is_early and self._ahead.has_room()

    def give(self, argument: Any, waited: float) -> None:
        """Call the function with this argument, for which the map waited so many seconds. Arguments that cannot be sent fail in their place."""
        place, ahead = self._given, self._ahead
        self._are_inputs_slow = waited >= SLOW_INPUT_SECONDS
        self._given += 1
        ahead.count += 1
        try:
            request = request_of(
                self._description, self._spec, ((argument,), {}), self._kind.within, self._waiter, place
            )
        except Exception as error:  # noqa: BLE001  # an argument's own code raises anything
            self._ended[place] = error
            return
        self._out[place] = request
        ahead.out += 1
        ahead.size += len(request.arguments)
        self._session.give(request)

    def end(self, ended: Ended) -> None:
        """Take in answers."""
        ahead = self._ahead
        for place, answer in ended:
            size = len(answer.value)
            ahead.out -= 1
            ahead.size += size - len(self._out.pop(place).arguments)
            ahead.answered += 1
            ahead.answered_size += size
            self._ended[place] = answer

    def take(self) -> Any:
        """Take and return what the map yields next. Raises whatever became of a call that has no value."""
        place = next(iter(self._ended)) if self._kind.as_completed else self._taken
        answer = self._ended.pop(place)
        self._taken += 1
        self._ahead.count -= 1
        value, error = self._outcome(answer)
        if error is not None:
            if not self._kind.return_exceptions:
                raise error
            value = error
        return (place, value) if self._kind.as_completed else value

    def _outcome(self, answer: CallAnswer | Exception) -> tuple[Any, Exception | None]:
        if isinstance(answer, Exception):
            return None, answer
        self._ahead.size -= len(answer.value)
        try:
            return value_of(answer, self._description.name), None
        except Exception as error:  # noqa: BLE001  # the function's own
            return None, error

    def close(self) -> None:
        """Wait for answers no more."""
        if self._out:
            self._session.drop(tuple(self._out.values()))


def mapped(one: Map, arrivals: "Arrivals", inputs: Iterable[Any]) -> Iterator[Any]:
    """Yield the values of a map."""
    rest = iter(inputs)
    try:
        while True:
            one.end(arrivals.now())
            pulled = 0
            while one.wants_input(pulled):
                begun = time.monotonic()
                try:
                    argument = next(rest)
                except StopIteration:
                    one.is_whole = True
                    break
                one.give(argument, time.monotonic() - begun)
                one.end(arrivals.now())
                pulled += 1
            if one.has_value():
                yield one.take()
            elif one.is_over:
                return
            else:
                one.end(arrivals.wait())
    finally:
        one.close()


async def mapped_on_loop(
    one: Map, arrivals: "LoopArrivals", inputs: Iterable[Any] | AsyncIterable[Any]
) -> AsyncGenerator[Any, None]:
    """Yield the values of a map, in an event loop."""
    rest = aiter(inputs) if isinstance(inputs, AsyncIterable) else _on_loop(inputs)
    try:
        while True:
            one.end(arrivals.now())
            pulled = 0
            while one.wants_input(pulled):
                begun = time.monotonic()
                try:
                    argument = await anext(rest)
                except StopAsyncIteration:
                    one.is_whole = True
                    break
                one.give(argument, time.monotonic() - begun)
                one.end(arrivals.now())
                pulled += 1
            if one.has_value():
                yield one.take()
            elif one.is_over:
                return
            else:
                one.end(await arrivals.wait())
    finally:
        one.close()


async def _on_loop(inputs: Iterable[Any]) -> AsyncIterator[Any]:
    """Yield inputs, and let others of the loop run now and then."""
    for number, argument in enumerate(inputs, 1):
        if number % CALLS_AT_ONCE_MAX == 0:
            await asyncio.sleep(0)
        yield argument


class Arrivals:
    """Answers of one map on their way from the session's thread to the thread that takes values."""

    def __init__(self) -> None:
        self._ended: deque[tuple[int, CallAnswer]] = deque()
        self._has_come = threading.Condition()

    def take(self, ended: Ended) -> None:
        """Take answers, and let the thread go on."""
        with self._has_come:
            self._ended.extend(ended)
            self._has_come.notify()

    def now(self) -> list[tuple[int, CallAnswer]]:
        """Return the answers that have come."""
        return _emptied(self._ended)

    def wait(self) -> list[tuple[int, CallAnswer]]:
        """Return the answers that have come, one at least."""
        with self._has_come:
            while not self._ended:
                self._has_come.wait()
        return self.now()


class LoopArrivals:
    """The same, to an event loop."""

    def __init__(self) -> None:
        self._ended: deque[tuple[int, CallAnswer]] = deque()
        self._loop = asyncio.get_running_loop()
        self._has_come = asyncio.Event()

    def take(self, ended: Ended) -> None:
        """Take answers, and let the map go on."""
        self._ended.extend(ended)
        tell(self._loop, self._has_come.set)

    def now(self) -> list[tuple[int, CallAnswer]]:
        """Return the answers that have come."""
        return _emptied(self._ended)

    async def wait(self) -> list[tuple[int, CallAnswer]]:
        """Return the answers that have come, one at least."""
        while not self._ended:
            self._has_come.clear()
            if not self._ended:
                await self._has_come.wait()
        return self.now()


def _emptied(ended: deque[tuple[int, CallAnswer]]) -> list[tuple[int, CallAnswer]]:
    """Take everything out of a deque into which another thread puts."""
    found = []
    while ended:
        found.append(ended.popleft())
    return found
