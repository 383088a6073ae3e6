"""An asyncio event loop in virtual time: to wait is to move the clock.

A simulated run must be repeatable to the byte and much faster than the time it tells of. So nothing here reads a clock,
selects on a socket or starts a thread. When no callback is ready the clock jumps to the next timer, and when there is no
timer either, whoever still waits waits for ever, which is an error that names them.

Three things differ from the loop of the standard library, each for the sake of repeatability: timers of one instant fire
in the order in which they were set; a task's hash is its number, so that a set of tasks (a TaskGroup has one) is walked in
an order that does not depend on addresses; and an exception that leaves a plain callback ends the run, unless an exception
handler was set.

Of BaseEventLoop this uses three private names, `_run_once`, `_stopping` and `_ready`, which mean the same in Python 3.11 to
3.13 and are pinned by tests/runtime/test_virtual_loop.py.
"""

import asyncio
import contextvars
import itertools
from collections import deque
from collections.abc import Callable, Coroutine
from heapq import heapify, heappop, heappush
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from core.nouns.instant import SECOND, Instant, Nanoseconds

Result = TypeVar("Result")

EPOCH = Instant(0)
OWNER: contextvars.ContextVar[str] = contextvars.ContextVar("OWNER", default="")
"""Whose callbacks and tasks those are that are made in a context; empty: nobody's, and nobody can freeze them."""
SPINS_MAX = 1_000_000
"""Rounds of callbacks at one instant; more means that somebody polls with `sleep(0)`, and virtual time never passes."""
_CANCELLED_MIN = 256
"""Cancelled timers below which clearing them out is not worth a walk over the heap (our choice)."""


class VirtualTimeError(RuntimeError):
    """Virtual time cannot go on; the text names the tasks that wait."""


class NothingCanWake(VirtualTimeError):
    """Virtual deadlock: something is awaited, and there is no timer and no callback that could ever wake it."""


class SpinsForEver(VirtualTimeError):
    """Callbacks follow each other without end at one instant."""


class NoThreads(VirtualTimeError):
    """A thread would race with virtual time: a timeout of hours passes while it does a moment's work."""


def run_virtual(main: Coroutine[Any, Any, Result], start: Instant = EPOCH) -> Result:
    """Run a coroutine in a virtual loop of its own, whose clock begins at `start`; cancel what it leaves behind."""
    loop = VirtualLoop(start)
    try:
        return loop.run_until_complete(main)
    finally:
        try:
            loop.cancel_all()
        finally:
            loop.close()


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop whose clock moves only when nothing is ready."""

    _stopping: bool
    """Set by `stop` and cleared by `run_forever`, both of BaseEventLoop."""

    def __init__(self, start: Instant = EPOCH) -> None:
        super().__init__()
        self._start = int(start)
        self._elapsed = 0
        """Nanoseconds since the start. `time()` is derived from it, so floats stay small and whole nanoseconds exact."""
        self._timers: list[tuple[int, int, _Timer]] = []
        self._timer_count = itertools.count()
        self._cancelled_timers = 0
        self._task_count = itertools.count(1)
        self._tasks: WeakKeyDictionary[asyncio.Task[Any], None] = WeakKeyDictionary()
        """Every task that lives, in the order of creation."""
        self._has_handler = False
        self._ready: deque[_Call] = deque()
        self._frozen: dict[str, list[_Call]] = {}
        """By owner, what would have run."""
        self._countdowns: dict[str, list[_Countdown]] = {}
        """By owner, who counts its callbacks."""

    # Pauses.

    def freeze(self, owner: str) -> None:
        """Run nothing more of an owner's (`OWNER`), as SIGSTOP does to a process. Time goes on."""
        assert owner, "nobody's callbacks are the loop's own"
        self._frozen.setdefault(owner, [])

    def thaw(self, owner: str) -> None:
        """Run all that would have run meanwhile, in its order; nothing if the owner is not frozen."""
        self._ready.extend(self._frozen.pop(owner, ()))

    # Moments.

    def call_after_calls(
        self, owner: str, count: int, callback: Callable[..., object], *args: Any
    ) -> asyncio.Handle:
        """Call back right after so many callbacks of an owner's (`OWNER`) from now, before anything else runs: with whatever
        the last of them left half done. Of an owner who does nothing more it is never called.
        """
        assert count > 0, count
        countdown = _Countdown(callback, args, self, owner, count)
        self._countdowns.setdefault(owner, []).append(countdown)
        return countdown

    # The clock.

    def time(self) -> float:
        """Seconds since the start."""
        return self._elapsed / SECOND

    def now_ns(self) -> Instant:
        """The instant it is, exact."""
        return Instant(self._start + self._elapsed)

    def call_at_ns(
        self,
        when: Instant,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call back at an instant, exactly; at once when it has passed."""
        return self._set_timer(when - self._start, callback, args, context)

    def call_after_ns(
        self, span: Nanoseconds, callback: Callable[..., object], *args: Any
    ) -> asyncio.TimerHandle:
        """Call back after a span, exactly."""
        return self._set_timer(self._elapsed + span, callback, args, None)

    async def sleep_ns(self, span: Nanoseconds) -> None:
        """Wait for a span, exactly."""
        waiter: asyncio.Future[None] = self.create_future()
        timer = self._set_timer(self._elapsed + span, _resolve, (waiter,), None)
        try:
            await waiter
        finally:
            timer.cancel()

    # What asyncio calls. Signatures are those of the standard library.

    def call_soon(  # type: ignore[override]  # typeshed's is generic in the arguments, and this is the hottest call
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Call back after what is ready already."""
        call = _Call(callback, args, context)
        self._ready.append(call)
        return call

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # there are no threads

    def call_at(  # type: ignore[override]  # as call_soon
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call back when `time()` says `when`."""
        return self._set_timer(round(when * SECOND), callback, args, context)

    def call_later(  # type: ignore[override]  # as call_soon
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call back after so many seconds; whoever waits until a time that no nanosecond is does not wait for ever."""
        span = round(delay * SECOND) or int(delay > 0)
        return self._set_timer(self._elapsed + span, callback, args, context)

    def create_task(  # type: ignore[override]  # as call_soon
        self, coro: Any, *, name: str | None = None, context: contextvars.Context | None = None
    ) -> asyncio.Task[Any]:
        """A task that begins after what is ready already. Its number, and so its name, repeats with the run."""
        number = next(self._task_count)
        task = _Task(number, coro, loop=self, name=name or f"task-{number}", context=context)
        self._tasks[task] = None
        return task

    def run_in_executor(self, *args: Any) -> Any:  # type: ignore[override]  # always refused
        """Refused: a thread races with virtual time."""
        raise NoThreads(f"there are no threads in virtual time, and one is wanted for {args[1:]!r}")

    def set_exception_handler(self, handler: Any) -> None:  # Any: as typeshed
        """As in asyncio; without a handler, an exception that leaves a callback ends the run."""
        self._has_handler = handler is not None
        super().set_exception_handler(handler)

    def cancel_all(self) -> None:
        """Cancel every task that lives, in the order of creation, and run until they have ended."""
        left = self._waiting()
        for task in left:
            task.cancel()
        if left:
            self.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self.run_until_complete(self.shutdown_asyncgens())

    def _set_timer(
        self,
        when: int,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
    ) -> asyncio.TimerHandle:
        timer = _Timer(callback, args, context, self, when)
        heappush(self._timers, (when, next(self._timer_count), timer))
        return timer

    def _run_once(self) -> None:
        """Run until somebody calls `stop`. BaseEventLoop would run one round, select, and come back."""
        ready, timers, frozen, countdowns = self._ready, self._timers, self._frozen, self._countdowns
        spins = 0
        while True:
            # 1. When nothing is ready, jump to the next timer that still counts.
            if not ready:
                if self._stopping:
                    return
                self._elapsed = self._next_timer()
                spins = 0
            elif (spins := spins + 1) > SPINS_MAX:
                raise SpinsForEver(
                    f"{SPINS_MAX} rounds of callbacks at {self.now_ns()} ns:{self._describe_waiting()}"
                )

            # 2. What is due joins what is ready, after it.
            now = self._elapsed
            while timers and timers[0][0] <= now:
                timer = heappop(timers)[2]
                timer.is_set = False
                ready.append(timer)

            # 3. Run what is ready now; what that makes ready belongs to the next round.
            for _ in range(len(ready)):
                call = ready.popleft()
                if call.is_cancelled:
                    continue
                if frozen and (owner := call.context.get(OWNER, "")) in frozen:
                    frozen[owner].append(call)
                    continue
                try:
                    call.context.run(call.callback, *call.args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:
                    if not self._has_handler:
                        raise
                    self.call_exception_handler({"message": f"{call!r} raised", "exception": error})
                if countdowns:
                    self._count_down(call.context.get(OWNER, ""))
            if self._stopping:
                return

    def _count_down(self, owner: str) -> None:
        """A callback of this owner has run: whoever has counted enough of them is called now."""
        counting = self._countdowns.get(owner)
        if counting is None:
            return
        for countdown in list(counting):
            countdown.left -= 1
            if not countdown.left and not countdown.is_cancelled:
                self.forget_countdown(countdown)
                countdown.context.run(countdown.callback, *countdown.args)

    def forget_countdown(self, countdown: "_Countdown") -> None:
        """Nobody waits for it any more."""
        counting = self._countdowns.get(countdown.owner, [])
        if countdown in counting:
            counting.remove(countdown)
            if not counting:
                del self._countdowns[countdown.owner]

    def _next_timer(self) -> int:
        """When the next timer is due that was not cancelled; never before now. Raises NothingCanWake."""
        timers = self._timers
        if self._cancelled_timers > _CANCELLED_MIN and self._cancelled_timers * 2 > len(timers):
            timers[:] = [entry for entry in timers if not entry[2].is_cancelled]
            heapify(timers)
            self._cancelled_timers = 0
        while timers and timers[0][2].is_cancelled:
            heappop(timers)
            self._cancelled_timers -= 1
        if not timers:
            raise NothingCanWake(
                f"virtual deadlock at {self.now_ns()} ns: nothing can wake{self._describe_waiting()}"
            )
        return max(self._elapsed, timers[0][0])

    def timer_cancelled(self) -> None:
        """For the heap's own accounts."""
        self._cancelled_timers += 1

    def _waiting(self) -> list[asyncio.Task[Any]]:
        return [task for task in list(self._tasks) if not task.done()]

    def _describe_waiting(self) -> str:
        """One line for each task that is not done: its name, and where it waits."""
        lines = [f"\n  {task.get_name()} in {_where(task)}" for task in self._waiting()]
        return "".join(lines) or " (no task is left)"

    def _write_to_self(self) -> None:
        """Nobody sleeps in a selector, so nobody needs to be woken."""


class _Call(asyncio.TimerHandle):
    """A callback that is ready. Leaner than its base class, of which it keeps nothing but the name."""

    __slots__ = ("args", "callback", "context", "is_cancelled")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context | None
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = contextvars.copy_context() if context is None else context
        self.is_cancelled = False

    def cancel(self) -> None:
        """Never call back."""
        self.is_cancelled = True
        self.callback, self.args = _forget, ()

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self.is_cancelled

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {getattr(self.callback, '__qualname__', self.callback)}>"


class _Countdown(_Call):
    """A callback that waits for so many of somebody's."""

    __slots__ = ("left", "loop", "owner")

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: VirtualLoop,
        owner: str,
        left: int,
    ) -> None:
        _Call.__init__(self, callback, args, None)
        self.loop = loop
        self.owner = owner
        self.left = left

    def cancel(self) -> None:
        """Never call back, and count no more."""
        self.loop.forget_countdown(self)
        _Call.cancel(self)


class _Timer(_Call):
    """A callback that waits in the heap."""

    __slots__ = ("due", "is_set", "loop")

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
        loop: VirtualLoop,
        due: int,
    ) -> None:
        _Call.__init__(self, callback, args, context)
        self.loop = loop
        self.due = due
        self.is_set = True

    def cancel(self) -> None:
        """Never call back; the heap is cleared of it later."""
        if self.is_set and not self.is_cancelled:
            self.loop.timer_cancelled()
        _Call.cancel(self)

    def when(self) -> float:
        """In seconds, as `time()` counts them."""
        return self.due / SECOND


class _Task(asyncio.Task[Any]):  # Any: of whatever its coroutine returns
    """A task whose hash is its number. Equality stays identity."""

    def __init__(
        self, number: int, coro: Coroutine[Any, Any, Any], **options: Any
    ) -> None:  # Any: as typeshed
        self.number = number  # first, because making a task puts it into sets
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self.number


def _where(task: asyncio.Task[Any]) -> str:
    """The coroutines that wait for each other in a task, with their lines; the innermost last."""
    names = []
    awaited: Any = task.get_coro()  # Any: a coroutine, or whatever the innermost one awaits
    while (frame := getattr(awaited, "cr_frame", None)) is not None:
        names.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
        awaited = awaited.cr_await
    return " > ".join(names)


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _forget() -> None:
    """What a cancelled callback calls."""
