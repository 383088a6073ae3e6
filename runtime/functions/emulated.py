"""Executors of a function server in an emulated world: levels and calls take the time that the function and its callers name.

A function is emulated if its `warm` is set; the arguments of a call are its run time, a whole number of nanoseconds in MessagePack. As
real executors die with their server, emulated ones end with each life of it.

Executors use no more than tasks hold for functions: what a server orders beyond that, before it has heard of a change, is not done, and
when a task has ended, those that are still on its part are ended at once.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from core.component import Effect
from core.effects import EndExecutor, ForgetCode, GiveCalls, KeepCode, KeepHarvest, ReadBook, StartExecutor
from core.messages.base import Message
from core.messages.executors import CallsEnded, CodeKept, EndedCall, ExecutorChanged, PlaceRead
from core.messages.harvest import NodeSize
from core.nouns.function import CallAnswer, CallOutcome, FunctionSpec, Holding, Place, WarmLevel, WarmSpans
from core.nouns.ids import TenantName
from core.nouns.instant import Instant, Nanoseconds, after
from core.nouns.quantities import NOTHING, Amount
from core.routing.room import Room, cores_of, held_idle
from runtime.clock import Clock
from runtime.effects import Done
from runtime.functions.devices import read
from runtime.tasks.book import ExecutorUse

NO_SPANS = WarmSpans()
SLOWEST = 10
"""Milli of a core that all calls on a place have at least: they are ended, or have more, before long."""
ALONE = 1, 1
"""The pace of calls that have all of their cores."""
NO_ROOM = Room(NOTHING, {}, {})
TAKEN_BACK = "its capacity was taken back"
ENDED = "its server became smaller"
UNBEGUN = CallAnswer(0, CallOutcome.REFUSED)


class BookSource(Protocol):
    """The device book beside an emulated worker."""

    def holdings(self) -> tuple[Holding, ...]:
        """Return all holdings for functions, those that end included."""

    def watch(self, changed: Callable[[], None]) -> None:
        """Call back whenever holdings change, from now on; the newest one who asks is called."""

    def keep_harvested(self, revision: int, sizes: tuple[NodeSize, ...]) -> None:
        """Write down what is harvested, unless something newer is there. Raises OSError."""

    def note_executors(self, executors: tuple[ExecutorUse, ...]) -> None:
        """Write down what executors use of what is harvested. Raises OSError."""


class Running(Struct):
    """One emulated executor."""

    spec: FunctionSpec
    place: Place
    uses: Amount
    """Now: all of its need, but for the cores of one that waits for a call."""
    level: WarmLevel = WarmLevel.COLD
    calls: deque[tuple[int, bytes]] = field(default_factory=deque)
    """Ticket and arguments, the one first that runs."""
    timer: asyncio.TimerHandle | None = None
    begun_at: Instant = Instant(0)
    left: int = 0
    """Nanoseconds of the call that runs, alone on its cores, as of `paced_at`."""
    paced_at: Instant = Instant(0)
    pace: tuple[int, int] = ALONE
    """Since then, as a fraction."""

    @property
    def is_running(self) -> bool:
        """Return whether a call runs."""
        return self.level is self.spec.top and bool(self.calls)


class EmulatedExecutors:
    """The executors of one function server."""

    def __init__(self, clock: Clock, book: BookSource) -> None:
        self._clock = clock
        self._book = book
        self._done: Done | None = None
        self._executors: dict[int, Running] = {}
        self._places: dict[Place, PlaceRead] = {}
        self._rooms: dict[Place, Room] = {}
        """All that tasks hold, those that stop included, and what executors use of that."""
        self._paces: dict[Place, tuple[int, int]] = {}
        """The pace of calls on harvested places, as last set."""
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
            case StartExecutor(number, spec, place):
                self._start(number, spec, place)
            case GiveCalls(number, calls) if number in self._executors:
                self._give(number, self._executors[number], calls)
            case GiveCalls():
                pass  # The executor is gone, and the component is about to hear that.
            case EndExecutor(number):
                self._end_told(number, ENDED)
            case KeepHarvest(revision, sizes):
                self._book.keep_harvested(revision, sizes)
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

    def used(self, place: Place | None = None) -> dict[TenantName, Amount]:
        """Return what executors use, of a place or in all, by the tenant of their functions."""
        used: dict[TenantName, Amount] = {}
        for one in self._executors.values():
            if place in (None, one.place):
                used[one.spec.tenant] = used.get(one.spec.tenant, NOTHING).plus(one.uses)
        return used

    def places(self) -> set[Place]:
        """Return the places where there are executors."""
        return {one.place for one in self._executors.values()}

    # Levels and calls.

    def _start(self, number: int, spec: FunctionSpec, place: Place) -> None:
        running = Running(spec, place, NOTHING)
        if self._takes_all(running):
            self._executors[number] = running
            self._note(running.place)
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
        running.begun_at = running.paced_at = self._clock.now()
        running.left = run_time_of(arguments)
        if self.on_begun is not None:
            self.on_begun(arguments)
        self._pace_call(number, running, self._cores(running.place))

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
        """Holdings have changed: tell the server, and end executors that are beyond all of them."""
        self._tell(read(self._book.holdings()))
        self._take_back()

    def take_back_now(self) -> None:
        """End executors that are beyond the sizes of their places, whether they have some time left or not."""
        self._take_back(is_late=True)

    def _take_back(self, *, is_late: bool = False) -> None:
        """End executors that have to be gone by now, the newest first, and look again when others have to be."""
        now, holdings = self._clock.now(), self._book.holdings()
        held = read(replace(one, is_ending=False) for one in holdings)
        self._places = {one.place: one for one in held.places}
        for place in sorted(self.places() - set(self._places)):
            self._places[place] = PlaceRead(place, NOTHING)
        self._rooms = {
            place: Room(one.size, dict(one.lent), self.used(place)) for place, one in self._places.items()
        }
        for number in sorted(self._executors, reverse=True):
            running = self._executors[number]
            if self._places[running.place].leaves_by > now and not is_late:
                continue
            uses, excess = running.uses, self._excess(running.place)
            self._use(running, NOTHING)
            if self._excess(running.place) == excess:
                self._use(running, uses)  # To end this one would make no room for others.
            else:
                self._end_told(number, TAKEN_BACK)
        for place in sorted(self.places()):
            self._pace(place)
        later = min((one.leaves_by for one in held.places if one.leaves_by > now), default=None)
        if later is not None:
            self._clock.call_at(later, self._take_back_in_time)

    def _take_back_in_time(self) -> None:
        if self._done is not None:
            self._take_back()

    def _excess(self, place: Place) -> Amount:
        """Return what executors use beyond the size of a place, without cores where they become slower for that."""
        excess, read_ = self._rooms[place].excess(), self._places[place]
        if read_.slows and read_.size != NOTHING:
            return excess.minus(cores_of(excess))
        return excess

    def _pace(self, place: Place) -> None:
        """Let calls on a place go on at the pace that they have from now on."""
        if not place.is_harvested:
            return
        pace = self._cores(place)
        # A call whose pace stays ends when it was to end: to set every end anew at every change would take quadratic time.
        if pace == self._paces.get(place, ALONE):
            return
        self._paces[place] = pace
        for number, running in list(self._executors.items()):
            if running.place == place and running.timer is not None and running.is_running:
                running.timer.cancel()
                self._pace_call(number, running, pace)

    def _pace_call(self, number: int, running: Running, pace: tuple[int, int]) -> None:
        """Set the end of the call that runs."""
        has, uses = pace
        now = self._clock.now()
        running.left -= (now - running.paced_at) * running.pace[0] // running.pace[1]
        running.paced_at, running.pace = now, pace
        span = Nanoseconds(max(0, running.left) * uses // has)
        running.timer = self._after(span, partial(self._ended, number))

    def _cores(self, place: Place) -> tuple[int, int]:
        """Return the pace of calls on a place, as a fraction: fewer cores than executors use make them slower."""
        read_ = self._places.get(place)
        if not place.is_harvested or read_ is None or not read_.slows or read_.size == NOTHING:
            return (
                ALONE  # Of a place that is given back whole, others use nothing before the calls have left.
            )
        uses = self._rooms[place].used_by_all().cpu_milli
        has = max(SLOWEST, read_.size.cpu_milli)
        return ALONE if uses <= has else (has, uses)

    def _end_told(self, number: int, problem: str) -> None:
        """End an executor, and tell how its calls ended: only the first may have begun."""
        running = self._executors.get(number)
        self._end(number)
        if running is not None and running.calls:
            has_begun = running.level is running.spec.top
            ran = Nanoseconds(self._clock.now() - running.begun_at)
            lost = CallAnswer(0, CallOutcome.LOST, problem=problem, ran=ran)
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
        room = self._rooms.get(running.place, NO_ROOM)
        if more != NOTHING and not room.fits(running.spec.tenant, more):
            return False
        self._use(running, need)
        return True

    def _use(self, running: Running, uses: Amount) -> None:
        if uses != running.uses:
            self._rooms[running.place].add(running.spec.tenant, uses.minus(running.uses))
            running.uses = uses
            self._pace(running.place)

    def _note(self, place: Place) -> None:
        """Write down what executors use, where a worker looks at that before its tasks may begin."""
        if place.is_harvested:
            pid = os.getpid()
            self._book.note_executors(
                tuple(
                    ExecutorUse(
                        pid,
                        pid,
                        one.spec.tenant,
                        (),
                        (),
                        one.spec.need,
                        one.place,
                        number=number,
                        is_emulated=True,
                    )
                    for number, one in self._executors.items()
                    if one.place.is_harvested
                )
            )

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
        self._note(running.place)
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
