"""Executors of a function server in an emulated world: levels and calls take the time that the function and its callers name.

A function is emulated if its `warm` is set; the arguments of a call are its run time, a whole number of nanoseconds in MessagePack. As
real executors die with their server, emulated ones end with each life of it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec
from msgspec import Struct, field

from core.component import Effect
from core.effects import EndExecutor, GiveCalls, KeepCode, ReadBook, StartExecutor
from core.messages.base import Message
from core.messages.executors import BookRead, CallsEnded, CodeKept, EndedCall, ExecutorChanged
from core.nouns.function import CallAnswer, CallOutcome, FunctionSpec, WarmLevel, WarmSpans
from core.nouns.instant import Instant, Nanoseconds, after
from runtime.clock import Clock
from runtime.effects import Done

NO_SPANS = WarmSpans()


class BookSource(Protocol):
    """What functions may use on the emulated nodes of one worker."""

    def lent(self) -> BookRead:
        """Return it."""

    def watch(self, changed: Callable[[], None]) -> None:
        """Call back whenever it changes, from now on; the newest one who asks is called."""


class Running(Struct):
    """One emulated executor."""

    spec: FunctionSpec
    level: WarmLevel = WarmLevel.COLD
    calls: deque[tuple[int, bytes]] = field(default_factory=deque)
    """Ticket and arguments, the one first that runs."""
    timer: asyncio.TimerHandle | None = None
    begun_at: Instant = Instant(0)


class EmulatedExecutors:
    """The executors of one function server."""

    def __init__(self, clock: Clock, book: BookSource) -> None:
        self._clock = clock
        self._book = book
        self._done: Done | None = None
        self._executors: dict[int, Running] = {}
        self.on_begun: Callable[[bytes], None] | None = None
        """Called with the arguments of each call that begins."""

    # Doer.

    def attach(self, done: Done) -> None:
        """A server has just started: nothing of the life before runs."""
        self._clear()
        self._done = done

    def detach(self) -> None:
        """The server was killed, and its executors with it."""
        self._clear()
        self._done = None

    def begin(self, effect: Effect) -> None:
        """Start, feed and end executors."""
        match effect:
            case ReadBook():
                self._book.watch(self._tell_book)
                self._tell_book()
            case StartExecutor(number, spec):
                self._executors[number] = Running(spec)
                self._warm_up(number)
            case GiveCalls(number, calls):
                running = self._executors.get(number)
                if running is not None:
                    is_idle = not running.calls
                    running.calls += calls
                    if is_idle:
                        self._run_next(number, running)
            case EndExecutor(number):
                self._end(number)
                self._tell(ExecutorChanged(number, WarmLevel.COLD, is_gone=True))
            case KeepCode(function, _):
                self._tell(CodeKept(function))
            case _:
                raise AssertionError(effect)

    async def run(self) -> None:
        """Wait for ever: timers do all that there is to do."""
        await asyncio.Event().wait()

    def close(self) -> None:
        """Let go of timers."""
        self._clear()

    # Levels and calls.

    def _warm_up(self, number: int) -> None:
        running = self._executors[number]
        spans = running.spec.warm or NO_SPANS
        span = (spans.process, spans.host, spans.device)[running.level]
        running.timer = self._after(span, partial(self._reached, number))

    def _reached(self, number: int) -> None:
        running = self._executors[number]
        running.level = WarmLevel(running.level + 1)
        running.timer = None
        self._tell(ExecutorChanged(number, running.level))
        if running.level < running.spec.top:
            self._warm_up(number)
        elif running.calls:
            self._run_next(number, running)

    def _run_next(self, number: int, running: Running) -> None:
        if running.level < running.spec.top or not running.calls:
            return
        arguments = running.calls[0][1]
        running.begun_at = self._clock.now()
        if self.on_begun is not None:
            self.on_begun(arguments)
        running.timer = self._after(run_time_of(arguments), partial(self._ended, number))

    def _ended(self, number: int) -> None:
        running = self._executors[number]
        running.timer = None
        ticket, arguments = running.calls.popleft()
        ran = Nanoseconds(self._clock.now() - running.begun_at)
        answer = CallAnswer(0, CallOutcome.DONE, arguments, ran=ran, level=running.level)
        self._tell(CallsEnded((EndedCall(number, ticket, answer),)))
        if number in self._executors:
            self._run_next(number, running)

    # Helpers.

    def _after(self, span: Nanoseconds, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self._clock.call_at(after(self._clock.now(), span), callback)

    def _end(self, number: int) -> None:
        running = self._executors.pop(number, None)
        if running is not None and running.timer is not None:
            running.timer.cancel()

    def _clear(self) -> None:
        for number in list(self._executors):
            self._end(number)

    def _tell_book(self) -> None:
        self._tell(self._book.lent())

    def _tell(self, message: Message) -> None:
        if self._done is not None:
            self._done(message)


def run_time_of(arguments: bytes) -> Nanoseconds:
    """Return the run time that the arguments of an emulated call name; 0 if they name none."""
    try:
        return Nanoseconds(max(0, msgspec.msgpack.decode(arguments, type=int)))
    except msgspec.MsgspecError:
        return Nanoseconds(0)
