"""Does the effects of a function server with processes: one warm parent, and executors that are forked from it.

Executors run on devices that services of this machine hold for functions (devices.py). An executor that is started while others still
use its devices, and one that is ended, has its place until the kernel says that the process is gone: no device is used twice. For the
same reason a process that was forked may begin once the book names it and its devices are held still (book.py), and no executor is
placed while processes are left of a server before this one, or of a parent that has died (remains.py).
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import structlog

from core.component import Effect
from core.effects import EndExecutor, ForgetCode, GiveCalls, KeepCode, KeepHarvest, ReadBook, StartExecutor
from core.messages.base import Message
from core.messages.executors import CodeKept, ExecutorChanged
from core.messages.harvest import NodeSize
from core.nouns.function import CallOutcome, FunctionSpec, Place, WarmLevel
from core.nouns.instant import MILLISECOND, SECOND, Instant, Nanoseconds, after, seconds
from runtime.clock import Clock
from runtime.effects import Done
from runtime.functions.code_files import CodeFiles
from runtime.functions.devices import (
    FunctionBook,
    Use,
    beyond,
    cpu_slots_for,
    cpus_of,
    is_in_pieces,
    parts_for,
    read,
)
from runtime.functions.executor import ASKED, End, Executor
from runtime.functions.pipes import Pipes
from runtime.functions.remains import Remains, mark_of_executor
from runtime.functions.warm_parent import WarmParent
from runtime.functions.wire import MESSAGE_BYTES_MAX, Fork, Forked, Gone, Kill, Pin, Plan, encode
from runtime.tasks.book import ExecutorUse

logger = structlog.get_logger()

PRELOADED = ("numpy",)
"""Modules that many functions use."""
PLACE_SPAN: Nanoseconds = seconds(15)
"""How long an executor waits for devices that others leave, or that are free in too many pieces."""
LOAD_SPAN: Nanoseconds = seconds(600)
"""How long an executor may take to its top level: as long as weights of a large model need."""
TAKE_BACK: Nanoseconds = Nanoseconds(100 * MILLISECOND)
"""From when the component hears that capacity is taken back, to the end of executors that are still beyond it."""
DYING: Nanoseconds = seconds(1)
"""For executors of a server before this one, which the kernel ends, and their parent, which ends what they have left."""
TAKEN_BACK = End("its capacity was taken back", is_failure=False)
IN_PIECES = End(
    "services hold enough GPUs for it, but in pieces that one executor cannot have", CallOutcome.FAILED
)
PARENT_DIED = End("the process that forks executors died")
DAMAGED = End("it wrote into the pipe of its executor's answers", CallOutcome.FAILED)


class FunctionDoer:
    """The executors of one function server. Starts no process before the first executor is wanted. Linux alone."""

    def __init__(
        self,
        clock: Clock,
        book: FunctionBook,
        directory: Path,
        environ: Mapping[str, str],
        modules: tuple[str, ...] = PRELOADED,
    ) -> None:
        """Take what executors need.

        directory  for pickled code
        environ    of executors: holds no password, and lets libraries start no threads
        modules    loaded once for all executors
        """
        self._clock, self._book = clock, book
        self._code = CodeFiles(directory)
        self._remains = Remains(clock, directory, book.noted, self._lose_remains)
        self._parent = WarmParent(environ, self._remains.directory, modules, self._hear, self._lose_parent)
        self._done: Done | None = None
        self._serial = 0
        self._executors: dict[int, Executor] = {}
        """Of this life of the server, by the component's number."""
        self._placed: dict[int, Executor] = {}
        """By serial, of all lives: whatever has devices."""
        self._waiting: dict[int, Executor] = {}
        """By serial: for devices."""
        self._timers: dict[int, asyncio.TimerHandle] = {}
        """By serial."""
        self._taking_back: asyncio.TimerHandle | None = None
        self._takes_back_at = Instant(0)

    # Doer.

    def attach(self, done: Done) -> None:
        """A server has just started; executors of the life before end."""
        self.detach()
        self._code.forget_all()
        self._done = done
        if not self._remains.is_over:
            self._remains.end(DYING)

    def detach(self) -> None:
        """The server is gone: nobody hears of its executors, and each of them ends."""
        self._done = None
        for executor in self._waiting.values():
            self._unwatch(executor)
        self._executors.clear()
        self._waiting.clear()
        for executor in self._placed.values():
            executor.tell = None
            self._end(executor, ASKED)

    def begin(self, effect: Effect) -> None:
        """Start, feed and end executors."""
        match effect:
            case ReadBook():
                self._book.watch(self._change_book)
                self._tell(read(self._book.holdings()))
            case StartExecutor(number, spec, place):
                self._start(number, spec, place)
            case GiveCalls(number, calls) if number in self._executors:
                executor = self._executors[number]
                executor.give(calls, self._clock.now())
                self._watch_call(executor)
            case GiveCalls():
                pass  # The executor is gone, and the component is about to hear that.
            case EndExecutor(number):
                self._obey_end(number)
            case KeepHarvest(revision, sizes):
                self._keep_harvest(revision, sizes)
            case KeepCode(function, code):
                self._tell(CodeKept(function, self._code.keep(function, code)))
            case ForgetCode(functions):
                self._code.forget(functions)
            case _:
                raise AssertionError(effect)

    async def run(self) -> None:
        """Wait for ever: the loop calls back with all that there is to do."""
        await asyncio.Event().wait()

    def close(self) -> None:
        """End all executors and their parent."""
        self.detach()
        for timer in self._timers.values():
            timer.cancel()
        if self._taking_back is not None:
            self._taking_back.cancel()
        self._parent.close()
        self._remains.close()
        has_left = self._remains.kill()
        for executor in self._placed.values():
            if executor.pipes is not None:
                executor.pipes.close()
        self._placed.clear()
        if not has_left:
            self._note()

    # Starting and ending.

    def _start(self, number: int, spec: FunctionSpec, place: Place) -> None:
        assert self._done is not None, number
        if number in self._executors:
            return
        self._serial += 1
        executor = Executor(self._serial, number, spec, place, self._done)
        self._executors[number] = executor
        self._waiting[executor.serial] = executor
        self._watch(executor, after(self._clock.now(), PLACE_SPAN), partial(self._give_up, executor))
        self._place()

    def _obey_end(self, number: int) -> None:
        executor = self._executors.get(number)
        if executor is None:
            self._tell(ExecutorChanged(number, WarmLevel.COLD, is_gone=True))
        elif executor.use is None:
            self._drop(executor, ASKED)
        else:
            self._end(executor, ASKED)

    def _place(self) -> None:
        """Fork the executors that wait, in order, if there are devices for them."""
        if not self._remains.is_over:
            return
        holdings = self._book.holdings()
        for executor in list(self._waiting.values()):
            spec = executor.spec
            parts = parts_for(holdings, self._uses().values(), executor.place, spec.tenant, spec.need)
            if parts is not None and executor.serial in self._waiting:
                del self._waiting[executor.serial]
                executor.use = Use(spec.tenant, spec.need, parts, executor.place)
                executor.cpus = self._cpus_for(executor)
                self._placed[executor.serial] = executor
                self._fork(executor, executor.use)

    def _give_up(self, executor: Executor) -> None:
        """End an executor that has found no devices. That is no failure, unless it never could: the component may end others for it."""
        spec = executor.spec
        never = is_in_pieces(self._book.holdings(), executor.place, spec.tenant, spec.need)
        self._drop(executor, IN_PIECES if never else ASKED)

    def _fork(self, executor: Executor, use: Use) -> None:
        spec = executor.spec
        plan = Plan(
            executor.number,
            spec.code,
            "" if spec.code.target else str(self._code.path_of(spec.id)),
            spec.top is WarmLevel.DEVICE,
            tuple(gpu.index for gpu in use.gpus),
            executor.cpus,
            executor.place.is_harvested,
        )
        order = Fork(executor.serial, plan)
        if len(encode(order)) > MESSAGE_BYTES_MAX:
            self._drop(executor, End("the name of its code is too long"))
            return
        late = End(f"its executor was not ready after {LOAD_SPAN / SECOND:g} s")
        self._watch(executor, after(self._clock.now(), LOAD_SPAN), partial(self._end, executor, late))
        try:
            self._parent.say(order)
        except OSError as error:
            self._drop(executor, End(f"no executor can be started: {error}"))

    def _end(self, executor: Executor, end: End) -> None:
        """End an executor that has devices; the parent tells when it is gone."""
        if executor.end is None:
            executor.end = end
            self._parent.say(Kill(executor.serial))

    def _drop(self, executor: Executor, end: End | None = None, how: str = "", output: str = "") -> None:
        """Nothing of an executor is left; `how` and `output` are of one that ended by itself."""
        executor.end = executor.end or end
        if executor.pipes is not None:
            executor.pipes.read()
            executor.pipes.close()
        self._unwatch(executor)
        self._waiting.pop(executor.serial, None)
        self._placed.pop(executor.serial, None)
        if self._executors.get(executor.number) is executor:
            del self._executors[executor.number]
        executor.tell_gone(how, output, self._clock.now())
        self._note()
        self._place()

    # Parent and executors.

    def _hear(self, report: Forked | Gone, pipes: list[int]) -> None:
        executor = self._placed[report.serial]
        match report:
            case Forked(_, pid):
                calls, answers = pipes
                hear, damaged = partial(self._hear_executor, executor), partial(self._end, executor, DAMAGED)
                executor.connect(pid, self._parent.pid, Pipes(calls, answers, hear, damaged))
                self._let_begin(executor)
            case Gone(_, how, output):
                self._drop(executor, TAKEN_BACK if self._was_killed(executor) else None, how, output)

    def _let_begin(self, executor: Executor) -> None:
        """Have an executor begin on its devices: note their use first, and look then whether they are held still."""
        problem = self._note()
        if problem:
            self._end(executor, End(f"the use of its devices cannot be noted: {problem}"))
        elif executor.serial in beyond(self._book.holdings(), self._living_uses(), None):
            self._end(executor, TAKEN_BACK)
        elif executor.end is None:
            executor.let_begin()

    def _hear_executor(self, executor: Executor, frames: list[bytes]) -> bool:
        was_ready = executor.is_ready
        is_busy = executor.hear(frames, self._clock.now())
        if executor.is_ready and not was_ready:
            self._unwatch(executor)
            self._watch_call(executor)
        if self._waiting and not executor.calls:
            self._place()  # Without a call it has left its cores to others.
        return is_busy

    def _lose_parent(self) -> None:
        """The parent has died, and executors with it: each has its devices until no process of any is left."""
        for executor in self._placed.values():
            executor.end = executor.end or PARENT_DIED
        self._remains.end(Nanoseconds(0))

    def _lose_remains(self) -> None:
        """No process is left of a parent or a server: executors that they had are gone once their end of the pipes is closed."""
        for executor in list(self._placed.values()):
            gone = partial(self._drop, executor)
            if executor.pipes is None:
                gone()
            else:
                executor.pipes.tell_end(gone)
        self._place()

    # Time.

    def _watch(self, executor: Executor, due: Instant, passed: Callable[[], None]) -> None:
        self._unwatch(executor)
        self._timers[executor.serial] = self._clock.call_at(due, passed)

    def _unwatch(self, executor: Executor) -> None:
        timer = self._timers.pop(executor.serial, None)
        if timer is not None:
            timer.cancel()

    def _watch_call(self, executor: Executor) -> None:
        """Watch the call that runs. One timer lasts for many short calls: when it has passed, it is set to the call that runs then."""
        due = executor.due
        if due is not None and executor.is_ready and executor.serial not in self._timers:
            self._watch(executor, due, partial(self._look_at_call, executor))

    def _look_at_call(self, executor: Executor) -> None:
        self._unwatch(executor)
        if executor.pipes is not None:
            executor.pipes.read()
        due = executor.due
        if due is not None and due <= self._clock.now():
            span = executor.spec.timeout / SECOND
            self._end(executor, End(f"it ran for longer than {span:g} s", CallOutcome.FAILED))
        else:
            self._watch_call(executor)

    # The book.

    def _change_book(self) -> None:
        """Holdings have changed: tell the component first, and end what is beyond the size a little later."""
        self._tell(read(self._book.holdings()))
        for executor in self._placed.values():
            cpus = self._cpus_for(executor)
            if cpus and cpus != executor.cpus:
                executor.cpus = cpus
                self._parent.say(Pin(executor.serial, cpus))
        self._note()
        self._place()
        self._take_back_at(after(self._clock.now(), TAKE_BACK))

    def _take_back(self) -> None:
        """End executors that have to be gone by now, and look again when others have to be."""
        self._taking_back = None
        now, holdings = self._clock.now(), self._book.holdings()
        for serial in beyond(holdings, self._living_uses(), now):
            self._end(self._placed[serial], TAKEN_BACK)
        self._note()
        later = min((one.leaves_by for one in holdings if one.leaves_by > now), default=None)
        if later is not None:
            self._take_back_at(later)

    def _take_back_at(self, due: Instant) -> None:
        """Look then whether executors have to be gone, unless that is done sooner."""
        if self._taking_back is None or due < self._takes_back_at:
            if self._taking_back is not None:
                self._taking_back.cancel()
            self._takes_back_at = due
            self._taking_back = self._clock.call_at(due, self._take_back)

    def _was_killed(self, executor: Executor) -> bool:
        """Return whether a worker has killed an executor that had not left what is harvested in time."""
        return executor.place.is_harvested and self._book.was_killed(executor.pid, executor.serial)

    def _keep_harvest(self, revision: int, sizes: tuple[NodeSize, ...]) -> None:
        try:
            self._book.keep_harvested(revision, sizes)
        except OSError as error:  # It is said again.
            logger.error("harvest_not_kept", error=str(error))

    def _living_uses(self) -> dict[int, Use]:
        """Return the uses of executors, by serial, apart from those that leave already."""
        return {serial: use for serial, use in self._uses().items() if self._placed[serial].end is None}

    def _uses(self) -> dict[int, Use]:
        return {serial: held for serial, one in self._placed.items() if (held := one.held) is not None}

    def _cpus_for(self, executor: Executor) -> tuple[int, ...]:
        slots = cpu_slots_for(self._book.holdings(), executor.spec.tenant, executor.place)
        return cpus_of(slots, sorted(os.sched_getaffinity(0)))

    def _note(self) -> str:
        """Write down the use of all executors that are forked: others use nothing yet. Return the problem, if there is one.

        As long as executors are left of another server or parent, what was noted of them stays.
        """
        if not self._remains.is_over:
            return ""
        holdings = self._book.holdings()
        noted = tuple(
            ExecutorUse(
                one.pid,
                one.parent,
                use.tenant,
                use.gpus,
                cpu_slots_for(holdings, use.tenant, use.place),
                use.need,
                use.place,
                mark_of_executor(self._remains.directory, serial),
                serial,
            )
            for serial, use in self._uses().items()
            if (one := self._placed[serial]).pid
        )
        try:
            self._book.note_executors(noted)
        except OSError as error:
            logger.error("executors_not_noted", error=str(error))
            return str(error)
        return ""

    def _tell(self, message: Message) -> None:
        if self._done is not None:
            self._done(message)
