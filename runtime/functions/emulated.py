"""Executors of a function server in an emulated world: levels and calls take the time that the function and its callers name.

A function is emulated if its `warm` is set; the arguments of a call are its run time, a whole number of nanoseconds in MessagePack. As
real executors die with their server, emulated ones end with each life of it.

Executors use no more than tasks hold for functions: what a server orders beyond that, before it has heard of a change, is not done, and
when a task has ended, those that are still on its part are ended at once.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from core.component import Effect
from core.effects import EndExecutor, ForgetCode, GiveCalls, KeepCode, ReadBook, StartExecutor
from core.messages.base import Message
from core.messages.executors import CallsEnded, CodeKept, EndedCall, ExecutorChanged
from core.nouns.function import CallAnswer, CallOutcome, FunctionSpec, Holding, WarmLevel, WarmSpans
from core.nouns.ids import TenantName
from core.nouns.instant import Instant, Nanoseconds, after
from core.nouns.quantities import NOTHING, Amount
from core.routing.room import Room, held_idle
from runtime.clock import Clock
from runtime.effects import Done
from runtime.functions.devices import read

NO_SPANS = WarmSpans()
TAKEN_BACK = "its capacity was taken back"
ENDED = "its server became smaller"
UNBEGUN = CallAnswer(0, CallOutcome.REFUSED)


class BookSource(Protocol):
    """The device book beside an emulated worker."""

    def holdings(self) -> tuple[Holding, ...]:
        """Return all holdings for functions, those that end included."""

    def watch(self, changed: Callable[[], None]) -> None:
        """Call back whenever holdings change, from now on; the newest one who asks is called."""


class Running(Struct):
    """One emulated executor."""

    spec: FunctionSpec
    uses: Amount
    """Now: all of its need, but for the cores of one that waits for a call."""
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
        self._room = Room(NOTHING, {}, {})
        """All that tasks hold, those that stop included, and what executors use of that."""
        self.on_use: Callable[[], None] | None = None
        """Called whenever executors have come to use more."""
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
                self._book.watch(self._change_book)
                self._change_book()
            case StartExecutor(number, spec):
                self._start(number, spec)
            case GiveCalls(number, calls) if number in self._executors:
                self._give(number, self._executors[number], calls)
            case GiveCalls():
                pass  # The executor is gone, and the component is about to hear that.
            case EndExecutor(number):
                self._end_told(number, ENDED)
            case KeepCode(function, _):
                self._tell(CodeKept(function))
            case ForgetCode():
                pass  # None was kept.
            case _:
                raise AssertionError(effect)

    async def run(self) -> None:
        """Wait for ever: timers do all that there is to do."""
        await asyncio.Event().wait()

    def close(self) -> None:
        """Let go of timers."""
        self._clear()

    def used(self) -> dict[TenantName, Amount]:
        """Return what executors use, by the tenant of their functions."""
        used: dict[TenantName, Amount] = {}
        for one in self._executors.values():
            used[one.spec.tenant] = used.get(one.spec.tenant, NOTHING).plus(one.uses)
        return used

    # Levels and calls.

    def _start(self, number: int, spec: FunctionSpec) -> None:
        running = Running(spec, NOTHING)
        if self._takes_all(running):
            self._executors[number] = running
            self._warm_up(number)
            self._tell_use()
        else:
            self._tell(ExecutorChanged(number, WarmLevel.COLD, is_gone=True))

    def _give(self, number: int, running: Running, calls: tuple[tuple[int, bytes], ...]) -> None:
        is_idle = not running.calls
        if is_idle and not self._takes_all(running):
            self._tell(CallsEnded(tuple(EndedCall(number, ticket, UNBEGUN) for ticket, _ in calls)))
            return
        running.calls += calls
        if is_idle:
            self._tell_use()
            self._run_next(number, running)

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
        else:
            self._run_next(number, running)

    def _run_next(self, number: int, running: Running) -> None:
        """Begin the next call of an executor, if it is at its top level and has one."""
        if running.level < running.spec.top:
            return
        if not running.calls:
            self._use(running, held_idle(running.spec.need))
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

    # Capacity.

    def _change_book(self) -> None:
        """Holdings have changed: tell the server, and end executors that are beyond all of them, the newest first."""
        holdings = self._book.holdings()
        self._tell(read(holdings))
        held = read(replace(one, is_ending=False) for one in holdings)
        self._room = Room(held.size, dict(held.lent), self.used())
        for number in sorted(self._executors, reverse=True):
            running, excess = self._executors[number], self._room.excess()
            uses = running.uses
            self._use(running, NOTHING)
            if self._room.excess() == excess:
                self._use(running, uses)  # To end this one would make no room for others.
            else:
                self._end_told(number, TAKEN_BACK)

    def _end_told(self, number: int, problem: str) -> None:
        """End an executor, and tell how its calls ended: only the first may have begun."""
        running = self._executors.get(number)
        self._end(number)
        if running is not None and running.calls:
            has_begun = running.level is running.spec.top
            lost = CallAnswer(0, CallOutcome.LOST, problem=problem)
            self._tell(
                CallsEnded(
                    tuple(
                        EndedCall(number, ticket, lost if has_begun and not place else UNBEGUN)
                        for place, (ticket, _) in enumerate(running.calls)
                    )
                )
            )
        self._tell(ExecutorChanged(number, WarmLevel.COLD, is_gone=True))

    def _takes_all(self, running: Running) -> bool:
        """Have an executor use all of its need, unless tasks do not hold so much."""
        need = running.spec.need
        more = need.minus(running.uses)
        if more != NOTHING and not self._room.fits(running.spec.tenant, more):
            return False
        self._use(running, need)
        return True

    def _use(self, running: Running, uses: Amount) -> None:
        self._room.add(running.spec.tenant, uses.minus(running.uses))
        running.uses = uses

    def _tell_use(self) -> None:
        if self.on_use is not None:
            self.on_use()

    # Helpers.

    def _after(self, span: Nanoseconds, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self._clock.call_at(after(self._clock.now(), span), callback)

    def _end(self, number: int) -> None:
        running = self._executors.pop(number, None)
        if running is None:
            return
        self._use(running, NOTHING)
        if running.timer is not None:
            running.timer.cancel()

    def _clear(self) -> None:
        for number in list(self._executors):
            self._end(number)

    def _tell(self, message: Message) -> None:
        if self._done is not None:
            self._done(message)


def run_time_of(arguments: bytes) -> Nanoseconds:
    """Return the run time that the arguments of an emulated call name; 0 if they name none."""
    try:
        return Nanoseconds(max(0, msgspec.msgpack.decode(arguments, type=int)))
    except msgspec.MsgspecError:
        return Nanoseconds(0)
