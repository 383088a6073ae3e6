"""The memory of one caller of functions: its calls without an answer, and the routers that it has heard.

A caller says each call again, to the router that had it, until there is an answer. A call that may be begun once only is for one life of
one router; when that life is over, servers are asked who has the call, and after `ASK_CALLS_SPAN` without an answer nobody can tell.

Without clock or network: whoever runs a caller (mizzen/functions/, scenarios/) says what it hears, and when, and takes what it says.
"""

from collections import deque
from collections.abc import Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from core.calls.lives import is_older
from core.calls.numbers import Numbers, Range
from core.messages.base import Message
from core.messages.functions import (
    AskCalls,
    CallFunction,
    CallsAnswered,
    CallsKnown,
    CallsRefused,
    RouterHere,
    RoutersWanted,
)
from core.nouns.function import Call, CallAnswer, CallOutcome, FunctionSpec
from core.nouns.function_limits import (
    ASK_CALLS_SPAN,
    CALL_AGAIN,
    CALL_AGAIN_MAX,
    CALL_BATCH_BYTES,
    CALLS_AT_ONCE_MAX,
    CALLS_OUT_MAX,
    NO_SERVER_SPAN,
    RANGES_TOLD_MAX,
    ROUTER_SILENCE_MAX,
)
from core.nouns.ids import FunctionId, RegionName, TenantName
from core.nouns.instant import Instant, Nanoseconds, after, earliest
from core.nouns.quantities import Amount
from core.nouns.reasons import SENTENCES, Reason
from core.nouns.workload import NEVER
from core.routing.ring import router_of

FULL = 1_000_000
"""Load of a region that has no room left, in millionths."""
LOOK = Nanoseconds(CALL_AGAIN // 4)
"""Between two looks at calls without an answer."""
RouterKey = tuple[RegionName, str]


class RouterRow(Struct):
    """One router that was heard."""

    life: str
    heard_at: Instant
    load: int
    size: Amount
    warm: frozenset[FunctionId]
    routers: tuple[str, ...]
    out: int = 0
    """Calls of this caller that it has."""
    rests_until: Instant = Instant(0)
    """It was full, and is told nothing before."""
    lacks: dict[FunctionId, Instant] = field(default_factory=dict)
    """Functions that no server of its region could run, with the time from which on it is asked again."""

    def could_run(self, spec: FunctionSpec, now: Instant) -> bool:
        """Return whether a server of the region may have capacity for an executor of a function, as far as is known."""
        return self.size.covers(spec.need) and self.lacks.get(spec.id, now) <= now


class CallRow(Struct):
    """One call without an answer."""

    function: FunctionSpec
    call: Call
    added_at: Instant
    router: RouterKey | None = None
    """None: it is not said, or is to be said anew."""
    life: str = ""
    first_said_at: Instant = Instant(0)
    """To this life of the router."""
    said_at: Instant = Instant(0)
    word: int = 0
    """The newest that said the call."""
    wait: Nanoseconds = CALL_AGAIN
    """From when it was said to when it is said again."""
    asked_at: Instant = Instant(0)
    """Since when servers are asked who has it; 0: they are not."""
    is_known: bool = False
    """Whether a server has said so since it was asked."""
    may_have_begun: bool = False
    """A router that had the call is gone."""


class Homeless(Struct):
    """A function that no region could run."""

    since: Instant
    told_at: Instant
    """The last time that this was found."""


class Caller:
    """One caller."""

    def __init__(self, tenant: TenantName, name: str) -> None:
        self.tenant = tenant
        self.name = name
        self.routers: dict[RouterKey, RouterRow] = {}
        self.calls: dict[int, CallRow] = {}
        self.count = 0
        """Calls that were added, ever."""
        self._ranges_told = 0
        """Ranges of answered calls that were told since all were."""
        self._heard_first: dict[RegionName, Instant] = {}
        """When a router of a region was heard, for the first time since there was none."""
        self._words = 0
        """Words that were said to routers, ever."""
        self._answered = Numbers()
        self._unsaid: dict[FunctionId, deque[int]] = {}
        """Calls to be said as soon as a router has room, by function, in order."""
        self._ended: list[CallAnswer] = []
        self._proven: set[FunctionId] = set()
        """Functions with an answer from a server."""
        self._homeless: dict[FunctionId, Homeless] = {}
        self._say_at: Instant | None = None
        """Set while there may be something new to say."""
        self._wanted_at = Instant(0)
        """When routers were asked last to say that they live."""
        self._look_at: Instant | None = None
        """When silence and repeats are looked at next."""

    # What its user does.

    def add(
        self,
        function: FunctionSpec,
        arguments: bytes,
        now: Instant,
        *,
        within: Nanoseconds = NEVER,
        is_once: bool = False,
    ) -> int:
        """Add a call, to be said by the next `take`. Return its number."""
        self.count += 1
        self.calls[self.count] = CallRow(function, Call(self.count, arguments, within, is_once), now)
        self._unsaid.setdefault(function.id, deque()).append(self.count)
        self._say_soon(now)
        return self.count

    def ended(self) -> list[CallAnswer]:
        """Return the answers since the last time, each call's once."""
        found, self._ended = self._ended, []
        return found

    def drop(self, number: int) -> None:
        """Wait for a call no more. What was said of it may run."""
        if number in self.calls:
            self._end(number)

    # What it hears.

    def hear(self, message: Message, now: Instant) -> None:
        """Take in a message of a router or a server; others are ignored."""
        match message:
            case RouterHere():
                self._here(message, now)
            case CallsAnswered(server=server, answers=answers):
                for answer in answers:
                    if server and answer.number in self.calls:
                        self._proven.add(self.calls[answer.number].function.id)
                    self._answer(answer)
            case CallsRefused():
                self._refused(message, now)
            case CallsKnown(numbers=numbers):
                for number in numbers:
                    row = self.calls.get(number)
                    if row is not None:
                        row.is_known, row.asked_at = True, now

    def _here(self, said: RouterHere, now: Instant) -> None:
        key = (said.region, said.router)
        row = self.routers.get(key)
        if row is not None and is_older(said.life, row.life):
            return
        if row is not None and row.life != said.life:
            self._lose_router(key, now)
            row = None
        if row is None:
            self._heard_first.setdefault(said.region, now)
            row = self.routers[key] = RouterRow(
                said.life, now, said.load, said.size, frozenset(said.warm), said.routers
            )
            self._say_soon(now)
        row.heard_at, row.load, row.size = now, said.load, said.size
        row.warm, row.routers = frozenset(said.warm), said.routers

    def _answer(self, answer: CallAnswer) -> None:
        row = self.calls.get(answer.number)
        if row is not None:
            if answer.outcome is CallOutcome.REFUSED and row.may_have_begun:
                # A router that is gone may have had it begun.
                answer = replace(answer, outcome=CallOutcome.LOST)
            self._end(answer.number)
            self._ended.append(answer)
            if self._unsaid:
                self._say_at = Instant(0)  # There may be room for them.

    def _refused(self, said: CallsRefused, now: Instant) -> None:
        key = (said.region, said.router)
        router = self.routers.get(key)
        if router is not None and said.reason == Reason.ROUTER_FULL:
            router.rests_until = after(now, said.again_in)
        for number in said.numbers:
            row = self.calls.get(number)
            if row is None or row.router != key or row.asked_at or row.word > said.word:
                continue  # The router may have taken the call by a newer word.
            if said.reason == Reason.OTHER_ROUTER:
                self._ask(row, now)
            elif said.reason == Reason.NO_FUNCTION_SERVER:
                if router is not None:
                    router.lacks[row.function.id] = after(now, said.again_in)
                if said.gives_back:
                    self._homeless.pop(row.function.id, None)
                self._note_homeless(row.function.id, now)
                if self._gives_up(row, now):
                    self._refuse_homeless(number)
                else:
                    self._unsay(number, row)
            elif said.again_in:
                self._unsay(number, row)
            else:
                text = said.problems[0] if said.problems else SENTENCES[said.reason]
                self._answer(CallAnswer(number, CallOutcome.REFUSED, problem=text))
        self._say_soon(now)

    # What it says.

    def due(self) -> Instant | None:
        """Return when `take` may have something new to say."""
        return earliest(self._say_at, self._look_at)

    def take(self, now: Instant) -> list[Message]:
        """Return what is to be said now: calls that were not said yet, those without an answer again, and questions to servers."""
        messages: list[Message] = []
        if self.calls and not self.routers and after(self._wanted_at, LOOK) <= now:
            self._wanted_at = now
            messages.append(RoutersWanted(self.tenant))
        messages += self._look(now) if self._look_at is not None and self._look_at <= now else []
        messages += self._say_unsaid(now)
        self._say_at = None
        if self._look_at is None and self.calls:
            self._look_at = after(now, LOOK)
        return messages

    def _look(self, now: Instant) -> list[Message]:
        """Look at what nothing tells of. Return what is said again, and what is asked."""
        messages: list[Message] = []
        silent = [key for key, row in self.routers.items() if after(row.heard_at, ROUTER_SILENCE_MAX) <= now]
        for key in silent:
            self._lose_router(key, now)
        again: dict[tuple[RouterKey, FunctionId], list[int]] = {}
        asked: dict[RegionName, list[int]] = {}
        for number, row in list(self.calls.items()):
            self._look_at_call(number, row, now, again, asked)
        for (key, _), numbers in again.items():
            messages += self._messages(key, numbers, now)
        self._give_up_homeless(now)
        for region, numbers in asked.items():
            messages += [
                AskCalls(region, self.tenant, self.name, tuple(numbers[begin : begin + CALLS_AT_ONCE_MAX]))
                for begin in range(0, len(numbers), CALLS_AT_ONCE_MAX)
            ]
        self._look_at = after(now, LOOK) if self.calls else None
        return messages

    def _look_at_call(
        self,
        number: int,
        row: CallRow,
        now: Instant,
        again: dict[tuple[RouterKey, FunctionId], list[int]],
        asked: dict[RegionName, list[int]],
    ) -> None:
        """Give a call up, or add it to what is said again or asked for."""
        if row.call.within and row.router is None and after(row.added_at, row.call.within) <= now:
            self._answer(_too_late(number, row))
        elif row.asked_at:
            assert row.router is not None, number
            if after(row.asked_at, ASK_CALLS_SPAN) > now:
                asked.setdefault(row.router[0], []).append(number)
            elif row.is_known:
                row.is_known, row.asked_at = False, now
                asked.setdefault(row.router[0], []).append(number)
            else:
                text = "its router is gone, no server knows it, and it may not be begun twice"
                self._answer(CallAnswer(number, CallOutcome.LOST, problem=text))
        elif row.router is not None and after(row.said_at, row.wait) <= now:
            row.wait = Nanoseconds(min(2 * row.wait, CALL_AGAIN_MAX))
            again.setdefault((row.router, row.function.id), []).append(number)

    def _give_up_homeless(self, now: Instant) -> None:
        """Refuse the calls that no region could run for long."""
        for function in list(self._homeless):
            for number in list(self._unsaid.get(function, ())):
                row = self.calls[number]
                if not self._is_possible(row.function, now) and self._gives_up(row, now):
                    self._refuse_homeless(number)

    def _note_homeless(self, function: FunctionId, now: Instant) -> None:
        """Remember that no region could run a function now, as far as is known."""
        known = self._homeless.get(function)
        if known is None or after(known.told_at, CALL_AGAIN_MAX) <= now:
            known = self._homeless[function] = Homeless(now, now)
        known.told_at = now

    def _gives_up(self, row: CallRow, now: Instant) -> bool:
        """Return whether no region could run a call for long, which has not begun, and of whose function no call was answered ever."""
        known = self._homeless.get(row.function.id)
        is_long = known is not None and after(known.since, NO_SERVER_SPAN) <= now
        return is_long and row.function.id not in self._proven and not row.may_have_begun

    def _refuse_homeless(self, number: int) -> None:
        text = SENTENCES[Reason.NO_FUNCTION_SERVER]
        self._answer(CallAnswer(number, CallOutcome.REFUSED, problem=text))

    def _say_unsaid(self, now: Instant) -> list[Message]:
        messages: list[Message] = []
        for function in list(self._unsaid):
            waiting = self._unsaid[function]
            while waiting:
                spec = self.calls[waiting[0]].function
                key = self._router_for(spec, now)
                room = CALLS_OUT_MAX - self.routers[key].out if key is not None else 0
                if key is None and self.routers and not self._is_possible(spec, now):
                    self._note_homeless(function, now)
                if key is None or room <= 0:
                    break
                numbers = [waiting.popleft() for _ in range(min(room, len(waiting)))]
                for number in numbers:
                    row = self.calls[number]
                    row.router, row.life, row.wait = key, self.routers[key].life, CALL_AGAIN
                    row.first_said_at = now
                self.routers[key].out += len(numbers)
                messages += self._messages(key, numbers, now)
            if not waiting:
                del self._unsaid[function]
        return messages

    def _messages(self, key: RouterKey, numbers: Iterable[int], now: Instant) -> list[Message]:
        """Return the messages that say these calls of one function to a router, none of them too large."""
        parts: list[list[CallRow]] = []
        size = 0
        for number in numbers:
            row = self.calls[number]
            size += len(row.call.arguments)
            is_full = bool(parts) and (len(parts[-1]) >= CALLS_AT_ONCE_MAX or size > CALL_BATCH_BYTES)
            if not parts or is_full:
                parts.append([])
                size = len(row.call.arguments)
            parts[-1].append(row)
        return [self._message(key, part, now) for part in parts]

    def _message(self, key: RouterKey, rows: list[CallRow], now: Instant) -> CallFunction:
        self._words += 1
        calls = []
        for row in rows:
            row.said_at, row.word = now, self._words
            calls.append(self._with_time_left(row, now))
        return CallFunction(
            region=key[0],
            router=key[1],
            life=rows[0].life,
            tenant=self.tenant,
            caller=self.name,
            word=self._words,
            floor=self._answered.taken + 1,
            function=rows[0].function,
            calls=tuple(calls),
            answered=self._ranges(),
            since=Nanoseconds(now - min(row.first_said_at for row in rows)),
        )

    def _ranges(self) -> tuple[Range, ...]:
        """Return ranges of answered calls, others each time until all were told."""
        told = self._answered.ranges(RANGES_TOLD_MAX, self._ranges_told)
        self._ranges_told = self._ranges_told + len(told) if len(told) == RANGES_TOLD_MAX else 0
        return told

    def _with_time_left(self, row: CallRow, now: Instant) -> Call:
        call = row.call
        if not call.within or now == row.added_at:
            return call
        left = Nanoseconds(max(1, row.added_at + call.within - now))
        return Call(call.number, call.arguments, left, call.is_once)

    def _router_for(self, spec: FunctionSpec, now: Instant) -> RouterKey | None:
        """Return the router for new calls of a function: in a region where it is warm, else the least loaded that has room for it."""
        best: tuple[tuple[bool, bool, int, RegionName], RouterKey] | None = None
        for region in sorted({region for region, _ in self.routers}):
            key = (region, router_of(spec.id, self._names(region, now)))
            row = self.routers.get(key)
            if row is None or row.rests_until > now or not row.could_run(spec, now):
                continue
            is_warm = spec.id in row.warm
            place = (row.load >= FULL, not is_warm, row.load, region)
            if best is None or place < best[0]:
                best = place, key
        return best[1] if best is not None else None

    def _names(self, region: RegionName, now: Instant) -> list[str]:
        """Return the routers among which functions are divided: all that the region has, until they must have been heard if they live."""
        heard = {name for one, name in self.routers if one == region}
        if now < after(self._heard_first[region], ROUTER_SILENCE_MAX):
            heard.update(
                name for key in self.routers if key[0] == region for name in self.routers[key].routers
            )
        return sorted(heard)

    def _is_possible(self, spec: FunctionSpec, now: Instant) -> bool:
        return any(row.could_run(spec, now) for row in self.routers.values())

    # Helpers.

    def _lose_router(self, key: RouterKey, now: Instant) -> None:
        """A life of a router is over: its calls are said to another one, or asked for."""
        del self.routers[key]
        if all(region != key[0] for region, _ in self.routers):
            del self._heard_first[key[0]]
        for number, row in self.calls.items():
            if row.router != key or row.asked_at:
                continue
            if row.call.is_once:
                self._ask(row, now)
            else:
                row.router, row.may_have_begun = None, True
                self._unsaid.setdefault(row.function.id, deque()).append(number)
        self._say_soon(now)

    def _ask(self, row: CallRow, now: Instant) -> None:
        if not row.asked_at:
            row.asked_at = now
            self._free(row)
            self._look_at = now

    def _unsay(self, number: int, row: CallRow) -> None:
        """Have a call said anew, to any router."""
        self._free(row)
        row.router = None
        self._unsaid.setdefault(row.function.id, deque()).append(number)

    def _free(self, row: CallRow) -> None:
        router = self.routers.get(row.router) if row.router is not None else None
        if router is not None and router.life == row.life:
            router.out -= 1

    def _end(self, number: int) -> None:
        row = self.calls.pop(number)
        self._answered.add(number)
        if row.router is None:
            waiting = self._unsaid.get(row.function.id)
            if waiting is not None and number in waiting:
                waiting.remove(number)
        elif not row.asked_at:
            self._free(row)

    def _say_soon(self, now: Instant) -> None:
        self._say_at = earliest(self._say_at, now)


def _too_late(number: int, row: CallRow) -> CallAnswer:
    """Return the answer to a call whose time is over, and which no router has."""
    if row.may_have_begun:
        text = "its router is gone, and there is no time to begin it anew"
        return CallAnswer(number, CallOutcome.LOST, problem=text)
    return CallAnswer(number, CallOutcome.REFUSED, problem="no router could take it within its time")
