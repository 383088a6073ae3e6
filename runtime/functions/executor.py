"""One executor as its server knows it: its devices, its level, the calls that it has, and how each of them ends."""

from collections import deque

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from core.messages.executors import CallsEnded, EndedCall, ExecutorChanged
from core.nouns.function import CallAnswer, CallOutcome, FunctionSpec, Place, WarmLevel
from core.nouns.function_limits import CALL_BATCH_BYTES, CALLS_AT_ONCE_MAX
from core.nouns.instant import Instant, Nanoseconds, after
from core.nouns.workload import NEVER
from core.routing.room import held_idle
from runtime.effects import Done
from runtime.functions.devices import Use
from runtime.functions.pipes import Pipes
from runtime.functions.wire import GO, BadFrame, decode_change, decode_end, frame_of


class End(Struct, frozen=True):
    """Why an executor ends, or has ended."""

    problem: str
    """One sentence, for the calls that the executor has."""
    first: CallOutcome = CallOutcome.LOST
    """The outcome of the call that runs."""
    is_failure: bool = True
    """Whether the executor is at fault; else the component is told no problem, and starts others."""


ASKED = End("the component ended its executor", is_failure=False)
"""The component knows of the calls, and hears of none."""


class Executor:
    """An executor, from the order to start it until nothing of it is left."""

    def __init__(self, serial: int, number: int, spec: FunctionSpec, place: Place, tell: Done) -> None:
        self.serial = serial
        self.number = number
        self.spec = spec
        self.place = place
        self.tell: Done | None = tell
        """None: the life of the server that started the executor is over."""
        self.use: Use | None = None
        """None: the executor waits for devices."""
        self.pid = 0
        """0: not forked yet."""
        self.parent = 0
        """The process that forked it."""
        self.cpus: tuple[int, ...] = ()
        self.pipes: Pipes | None = None
        self.level = WarmLevel.COLD
        self.calls: deque[int] = deque()
        """Tickets; the first runs."""
        self.begun_at = Instant(0)
        """When the first began, or a moment later."""
        self.end: End | None = None
        """Set once the server ends the executor."""
        self._said = ""
        """Why the executor cannot get ready, in its own words."""
        self._early: list[bytes] = []
        """Frames for an executor that may not begin yet."""
        self._may_begin = False

    @property
    def is_ready(self) -> bool:
        """Return whether the executor runs calls."""
        return self.level is self.spec.top

    @property
    def held(self) -> Use | None:
        """Return the capacity that the executor holds now: without a call it leaves its cores to others."""
        if self.use is None or self.calls or not self.is_ready:
            return self.use
        return replace(self.use, need=held_idle(self.use.need))

    @property
    def due(self) -> Instant | None:
        """Return when the call that runs has run for too long."""
        if not self.calls or self.spec.timeout == NEVER:
            return None
        return after(self.begun_at, self.spec.timeout)

    def connect(self, pid: int, parent: int, pipes: Pipes) -> None:
        """Take the process that was forked, the one that forked it, and the pipes."""
        self.pid, self.parent, self.pipes = pid, parent, pipes

    def let_begin(self) -> None:
        """Have the process load the function, and use its devices from now on."""
        assert self.pipes is not None, self.serial
        self._may_begin = True
        for frame in (frame_of(GO), *self._early):
            self.pipes.send(frame)
        self._early.clear()

    def give(self, calls: tuple[tuple[int, bytes], ...], now: Instant) -> None:
        """Have the executor run these calls after those that it has."""
        if not self.calls:
            self.begun_at = now
        self.calls.extend(ticket for ticket, _ in calls)
        if self.pipes is None or not self._may_begin:
            self._early.append(frame_of(calls))
        else:
            self.pipes.send(frame_of(calls))

    def hear(self, frames: list[bytes], now: Instant) -> bool:
        """Tell what the executor says. Return whether the executor is to say more soon. Raises BadFrame."""
        try:
            at = 0
            while at < len(frames) and not self.is_ready:
                self._change(decode_change(frames[at]), now)
                at += 1
            ends = [decode_end(frame) for frame in frames[at:]]
        except msgspec.MsgspecError as error:
            raise BadFrame(self.number) from error
        for end in ends:
            if not self.calls or end.executor != self.number or end.ticket != self.calls[0]:
                raise BadFrame(self.number)
            self.calls.popleft()
        if ends:
            self.begun_at = now
            self._tell_ends(ends)
        return bool(self.calls)

    def tell_gone(self, how: str, output: str, now: Instant) -> None:
        """Nothing of the executor is left: tell how its calls ended, and that it is gone.

        how     exit code or signal, in words, if the executor ended by itself
        output  the newest that the executor printed
        """
        end = self.end or self._own_end(how, output)
        if self.calls and end is not ASKED:
            ran = Nanoseconds(now - self.begun_at if end.first is CallOutcome.FAILED else 0)
            first = CallAnswer(0, end.first, problem=end.problem, ran=ran, level=self.level)
            # An answer is written before the next call begins, and all answers were read: the calls behind were not begun.
            behind = CallAnswer(0, CallOutcome.REFUSED, problem="its executor ended before the call's turn")
            answers = [first] + [behind] * (len(self.calls) - 1)
            self._tell_ends(
                [EndedCall(self.number, one, answer) for one, answer in zip(self.calls, answers, strict=True)]
            )
        self.calls.clear()
        if self.tell is not None:
            problem = end.problem if end.is_failure else ""
            self.tell(ExecutorChanged(self.number, WarmLevel.COLD, is_gone=True, problem=problem))

    def _change(self, changed: ExecutorChanged, now: Instant) -> None:
        if changed.is_gone:
            self._said = changed.problem
            return
        self.level, self.begun_at = changed.level, now
        if self.tell is not None:
            self.tell(ExecutorChanged(self.number, changed.level))

    def _own_end(self, how: str, output: str) -> End:
        if self._said:
            return End(self._said)
        when = "of it" if self.is_ready else "while it started"
        last = f"; its last output: {output}" if output.strip() else ""
        return End(f"its executor died {when}: {how}{last}", CallOutcome.FAILED)

    def _tell_ends(self, ends: list[EndedCall]) -> None:
        """Tell ends in order, so many at once as one message to a caller may have."""
        if self.tell is None:
            return
        batch: list[EndedCall] = []
        size = 0
        for end in ends:
            more = len(end.answer.value) + len(end.answer.problem)
            if batch and (size + more > CALL_BATCH_BYTES or len(batch) == CALLS_AT_ONCE_MAX):
                self.tell(CallsEnded(tuple(batch)))
                batch, size = [], 0
            batch.append(end)
            size += more
        self.tell(CallsEnded(tuple(batch)))
