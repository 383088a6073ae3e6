"""What a session's thread does on the bus: says calls, hears answers, sends code, and tells waiters. It alone touches the `Caller`.

Requests that come while others are out are gathered for `GATHER`, or until a message is full or an answer comes: a call alone is said
at once, and the calls of a map go in few messages.
"""

import asyncio
from collections import deque

from msgspec import Struct

from bus.catalogue import FUNCTION_CALLER, FUNCTIONS
from bus.port import Address, Bus
from core.calls.caller import Caller
from core.codec import Parcel
from core.messages.functions import CodeSent, CodeWanted, RouterHere
from core.nouns.function import CallAnswer, CallOutcome
from core.nouns.function_limits import CALLS_AT_ONCE_MAX, ROUTER_SILENCE_MAX
from core.nouns.ids import FunctionId, TenantName
from core.nouns.instant import MILLISECOND, Instant, Nanoseconds, after
from mizzen.functions.calls import Request, Waiter
from runtime.clock import Clock, wall_now

GATHER: Nanoseconds = Nanoseconds(MILLISECOND)
NO_ROUTER = "no router of functions was heard; a region runs functions if its section of the fleet file says `functions: true`"


class Code(Struct):
    """The pickled code of a function, while calls of it are out."""

    code: bytes
    calls: int = 0


class Speaker:
    """One caller on the bus. Every method is called in the session's thread."""

    def __init__(self, bus: Bus, tenant: TenantName, name: str) -> None:
        self._bus = bus
        self._clock = Clock(asyncio.get_running_loop(), wall_now())
        self._caller = Caller(tenant, name)
        self._out: dict[int, Request] = {}
        """By number, all without an answer."""
        self._codes: dict[FunctionId, Code] = {}
        self._gathered = 0
        """Requests since calls were said last."""
        self._timer: asyncio.TimerHandle | None = None
        self._due = Instant(0)
        """When the timer rings."""
        self._alone_since = Instant(0)
        """Since when there have been calls; no router was heard yet."""
        self._has_heard = False

    async def listen(self) -> None:
        """Hear routers and answers from now on."""
        for address in (
            Address(FUNCTIONS.noun),
            Address(FUNCTION_CALLER.noun, (self._caller.tenant, self._caller.name)),
        ):
            await self._bus.listen(address, self._hear)

    def take(self, given: "deque[Request | tuple[Request, ...]]") -> None:
        """Take new requests, and tuples of those that are wanted no more."""
        now = self._clock.now()
        is_first = not self._out
        while given:
            one = given.popleft()
            if isinstance(one, Request):
                self._add(one, now)
            else:
                self._drop(one)
        if is_first or self._gathered >= CALLS_AT_ONCE_MAX:
            self._say()
        elif self._gathered:
            self._say_by(after(now, GATHER))

    def close(self) -> None:
        """Answer all calls without an answer: they are lost."""
        if self._timer is not None:
            self._timer.cancel()
        problem = "its caller stopped waiting for it"
        self._tell([CallAnswer(number, CallOutcome.LOST, problem=problem) for number in self._out])

    # Requests.

    def _add(self, request: Request, now: Instant) -> None:
        spec = request.function
        number = self._caller.add(
            spec, request.arguments, now, within=request.within, is_once=request.is_once
        )
        request.number = number
        if not self._out:
            self._alone_since = now
        self._out[number] = request
        self._gathered += 1
        if request.pickled:
            self._codes.setdefault(spec.id, Code(request.pickled)).calls += 1

    def _drop(self, requests: tuple[Request, ...]) -> None:
        for request in requests:
            if self._out.pop(request.number, None) is not None:
                self._caller.drop(request.number)
                self._let_go(request)

    def _let_go(self, request: Request) -> None:
        if request.pickled:
            code = self._codes[request.function.id]
            code.calls -= 1
            if not code.calls:
                del self._codes[request.function.id]

    # The bus.

    def _hear(self, parcel: Parcel, _: str) -> None:
        now = self._clock.now()
        match parcel.message:
            case CodeWanted() as wanted:
                self._send_code(wanted)
                return
            case RouterHere():
                self._has_heard = True
        self._caller.hear(parcel.message, now)
        self._tell(self._caller.ended())
        due = self._caller.due()
        if due is not None and due <= now:
            self._say()

    def _send_code(self, wanted: CodeWanted) -> None:
        known = self._codes.get(wanted.function)
        if known is not None:
            sent = CodeSent(wanted.region, wanted.server, self._caller.tenant, wanted.function, known.code)
            self._bus.say(sent)

    def _say(self) -> None:
        """Say all that is to be said now, and come again when more is due."""
        now = self._clock.now()
        self._gathered = 0
        if not self._has_heard and self._out and after(self._alone_since, ROUTER_SILENCE_MAX) <= now:
            self._refuse_all()
        for message in self._caller.take(now):
            self._bus.say(message)
        self._tell(self._caller.ended())
        due = self._caller.due()
        if due is not None:
            self._say_by(due)

    def _say_by(self, due: Instant) -> None:
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        self._timer = self._clock.call_at(due, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._say()

    # Answers.

    def _refuse_all(self) -> None:
        """Refuse all calls: there is nothing that could hear them."""
        refused = [CallAnswer(number, CallOutcome.REFUSED, problem=NO_ROUTER) for number in self._out]
        for answer in refused:
            self._caller.drop(answer.number)
        self._tell(refused)

    def _tell(self, answers: list[CallAnswer]) -> None:
        """Tell waiters, each once for all answers that have come."""
        by_waiter: dict[Waiter, list[tuple[object, CallAnswer]]] = {}
        for answer in answers:
            request = self._out.pop(answer.number)
            self._let_go(request)
            by_waiter.setdefault(request.waiter, []).append((request.key, answer))
        for waiter, ended in by_waiter.items():
            waiter.take(ended)
