"""Callers, the shipped routers and servers, and executors, over a network that loses, repeats and reorders messages.

Components are hosted as hosts do it: what is decided is folded, and then told and begun, one after the other. A component may die between
any two of these, and starts again at once or later, without its memory.
"""

import random
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from msgspec import Struct, field

from components.function_router.component import FunctionRouter
from components.function_server.component import FunctionServer
from core.calls.caller import Caller
from core.component import Component, Effect, Images
from core.effects import EndExecutor, GiveCalls, ReadBook, StartExecutor
from core.fact import NO_LOG, Fact, Note
from core.messages.base import Envelope, Message, Woken
from core.messages.executors import CallsEnded, EndedCall, ExecutorChanged
from core.messages.functions import (
    AskCalls,
    CallFunction,
    CallsAnswered,
    CallsKnown,
    CallsRefused,
    RouterHere,
    RunCalls,
    ServerReport,
)
from core.nouns.function import CallAnswer, CallOutcome, FunctionCode, FunctionSpec, WarmLevel
from core.nouns.ids import TenantName
from core.nouns.instant import SECOND, Instant, Nanoseconds, after, seconds
from core.nouns.quantities import Amount
from tests.builders import EU, START, US
from tests.components.support.functions import sized

ML = TenantName("ml")
ROUTERS = {EU: ("r0", "r1"), US: ("r0",)}
SERVERS = {EU: ("w0", "w1"), US: ("w0",)}
ROUTER_NAMES = [f"{region}/{name}" for region, names in ROUTERS.items() for name in names]
SERVER_NAMES = [f"{region}/{name}" for region, names in SERVERS.items() for name in names]
SIZE, SMALL = Amount(0, 2_000, 8 << 30), Amount(0, 1_000, 1 << 30)
FUNCTIONS = [
    FunctionSpec(ML, name, "0123abcd", Amount(0, 1_000, 1 << 30), FunctionCode(f"work:{name}", "/code"))
    for name in ("score", "tune")
]
STARTING = seconds(0.4)
"""Until an executor is ready."""
DROPPED, REPEATED = 0.15, 0.1
"""Parts of the messages while there are faults."""
DELAY_SECONDS_MAX = 1.5
IN_TIME = 0.005
"""Seconds on the way while there are no faults: messages then come in their order."""


class Fault(Struct, frozen=True):
    """One misfortune."""

    at: float
    """Seconds from the start."""
    target: str
    """A router or a server, with its region before."""
    told: int
    """What a component that dies still tells and begins of its next decision."""
    down: float
    """Seconds until it starts again."""
    sort: str = "dies"
    """`dies`; `is cut off`: no message comes or goes; of a server: `loses an executor`, `shrinks`, `has nothing`."""


class Wanted(Struct, frozen=True):
    """One call that a caller makes."""

    at: float
    caller: str
    function: int
    run_seconds: float
    is_once: bool
    within: float = 0.0


class Made(Struct):
    """One call, and all that became of it."""

    wanted: Wanted
    number: int
    arguments: bytes
    made_at: Instant
    begun: int = 0
    answers: list[CallAnswer] = field(default_factory=list)
    ended_at: Instant | None = None


class _Executor(Struct):
    """One process."""

    top: WarmLevel
    is_ready: bool = False
    calls: deque[tuple[int, bytes]] = field(default_factory=deque)


class _Hosted:
    """One component, while it lives."""

    def __init__(self, world: "World", component: Component[Any]) -> None:  # Any: state of any component
        self.component = component
        self.world = world
        self.state: Any = None
        self.life = 0
        self.told_before_death: int | None = None
        self.down = 0.0
        self.executors: dict[int, _Executor] = {}
        self.size = SIZE
        self.start()

    def start(self) -> None:
        """Begin a life without memory."""
        self.life += 1
        self.told_before_death = None
        self.executors = {}
        self.state = self.component.initial(Images(self.world.now))
        self.world.wake(self)

    def hear(self, message: Message, tenant: str = "") -> None:
        """Decide a message, and do all that follows, unless the component dies of it."""
        if self.state is None:
            return
        now = self.world.now
        decision = self.component.decide(self.state, Envelope(message, "", "", now, tenant=tenant))
        for event in decision.events:
            assert isinstance(event, Note), event
            self.state = self.component.evolve(self.state, Fact(NO_LOG, 0, now, "", "", event, now))
        deeds: list[Message | Effect] = [*decision.messages, *decision.effects]
        for deed in deeds:
            if self.told_before_death is not None:
                if not self.told_before_death:
                    break
                self.told_before_death -= 1
            if isinstance(deed, Effect):
                self._begin(deed)
            else:
                self.world.send(deed, "/".join(self.component.scope))
        if self.told_before_death is not None:
            self.die()
        else:
            self.world.wake(self)

    def die(self) -> None:
        """End this life, with all executors; the next begins later."""
        self.state, self.executors = None, {}
        self.life += 1
        self.world.later(self.down, self.start)

    # Executors.

    def _begin(self, effect: Effect) -> None:
        match effect:
            case ReadBook():
                self.tell(sized(self.size))
            case StartExecutor(number, function):
                self.executors[number] = _Executor(function.top)
                self._later(STARTING / SECOND, lambda: self._ready(number))
            case GiveCalls(number, calls) if number in self.executors:
                one = self.executors[number]
                is_idle = not one.calls
                one.calls.extend(calls)
                if is_idle and one.is_ready:
                    self._run(number)
            case EndExecutor(number):
                self.executors.pop(number, None)
                self.tell(ExecutorChanged(number, WarmLevel.COLD, is_gone=True))

    def lose_executor(self) -> None:
        """Have the busiest executor taken: its first call is lost, those behind were not begun."""
        number = max(self.executors, key=lambda one: len(self.executors[one].calls), default=None)
        if number is None:
            return
        one = self.executors.pop(number)
        outcomes = [CallOutcome.LOST if one.is_ready else CallOutcome.REFUSED]
        outcomes += [CallOutcome.REFUSED] * len(one.calls)
        ends = tuple(
            EndedCall(number, ticket, CallAnswer(0, outcome, problem="taken"))
            for (ticket, _), outcome in zip(one.calls, outcomes, strict=False)
        )
        if ends:
            self.tell(CallsEnded(ends))
        self.tell(ExecutorChanged(number, WarmLevel.COLD, is_gone=True))

    def _ready(self, number: int) -> None:
        one = self.executors.get(number)
        if one is not None:
            one.is_ready = True
            self.tell(ExecutorChanged(number, one.top))
            self._run(number)

    def _run(self, number: int) -> None:
        one = self.executors[number]
        if one.calls:
            arguments = one.calls[0][1]
            self._later(self.world.begun(arguments), lambda: self._ended(number, arguments))

    def _ended(self, number: int, arguments: bytes) -> None:
        one = self.executors.get(number)
        if one is not None and one.calls:
            ticket, _ = one.calls.popleft()
            answer = CallAnswer(0, CallOutcome.DONE, arguments, ran=Nanoseconds(SECOND))
            self.tell(CallsEnded((EndedCall(number, ticket, answer),)))
            self._run(number)

    def tell(self, notice: Message) -> None:
        """Tell the component of this life something, now but after what is being decided."""
        self._later(0.0, lambda: self.hear(notice))

    def _later(self, span: float, deed: Callable[[], None]) -> None:
        life = self.life

        def done() -> None:
            if self.life == life:
                deed()

        self.world.later(span, done)


class World:
    """All of it."""

    def __init__(self, seed: int, wanted: list[Wanted], faults: list[Fault], faults_until: float) -> None:
        self.seed = seed
        self.now: Instant = START
        self.made: dict[bytes, Made] = {}
        self.faults_until = after(START, seconds(faults_until))
        self._dice = random.Random(seed)
        self._events: list[tuple[Instant, int, Callable[[], None]]] = []
        self._count = 0
        self._cut: dict[str, Instant] = {}
        self._hosts: dict[str, _Hosted] = {}
        self._callers = {name: Caller(ML, name) for name in sorted({one.caller for one in wanted})}
        for region, routers in ROUTERS.items():
            for name in routers:
                self._hosts[f"{region}/{name}"] = _Hosted(self, FunctionRouter(region, name, routers))
            for name in SERVERS[region]:
                self._hosts[f"{region}/{name}"] = _Hosted(self, FunctionServer(region, name, routers))
        for number, one in enumerate(wanted):
            self.later(one.at, lambda one=one, number=number: self._call(one, number))  # type: ignore[misc]
        for fault in faults:
            self.later(fault.at, lambda fault=fault: self._strike(fault))  # type: ignore[misc]

    def run(self, span: float) -> None:
        """Let so many seconds pass."""
        end = after(self.now, seconds(span))
        while self._events and self._events[0][0] <= end:
            self.now, _, deed = heappop(self._events)
            deed()
        self.now = end

    # For components.

    def later(self, span: float, deed: Callable[[], None]) -> None:
        """Do something after so many seconds."""
        self._count += 1
        heappush(self._events, (after(self.now, seconds(span)), self._count, deed))

    def wake(self, hosted: _Hosted) -> None:
        """Wake a component when something is due."""
        due = None if hosted.state is None else hosted.component.due(hosted.state)
        if due is None:
            return
        life = hosted.life

        def woken() -> None:
            if hosted.life != life or hosted.state is None:
                return
            now_due = hosted.component.due(hosted.state)
            if now_due is not None and now_due <= self.now:
                hosted.hear(Woken())

        self.later(max(0, due - self.now) / SECOND, woken)

    def begun(self, arguments: bytes) -> float:
        """Count the begin of a call. Return its run time in seconds."""
        made = self.made[arguments]
        made.begun += 1
        return made.wanted.run_seconds

    def send(self, message: Message, sender: str) -> None:
        """Bring a message to all that hear it, in time, late, twice or never."""
        hearers: list[str] = []
        match message:
            case CallFunction(region=region, router=name) | ServerReport(region=region, router=name):
                hearers = [f"{region}/{name}"]
            case RunCalls(region=region, server=name):
                hearers = [f"{region}/{name}"]
            case AskCalls(region=region):
                hearers = [f"{region}/{name}" for name in SERVERS[region]]
            case RouterHere():
                hearers = list(self._callers)
            case CallsAnswered(caller=name) | CallsRefused(caller=name) | CallsKnown(caller=name):
                hearers = [name]
        for hearer in hearers:
            is_faulty = self.now < self.faults_until
            for _ in range(1 + (is_faulty and self._dice.random() < REPEATED)):
                is_lost = is_faulty and self._dice.random() < DROPPED
                if not is_lost and not self._is_cut(sender) and not self._is_cut(hearer):
                    delay = IN_TIME
                    if is_faulty:
                        delay = self._dice.random() * (
                            DELAY_SECONDS_MAX if self._dice.random() < 0.3 else 0.01
                        )
                    self.later(delay, lambda hearer=hearer: self._hear(hearer, message))  # type: ignore[misc]

    def _hear(self, hearer: str, message: Message) -> None:
        caller = self._callers.get(hearer)
        if caller is None:
            self._hosts[hearer].hear(message, ML if isinstance(message, CallFunction | AskCalls) else "")
            return
        caller.hear(message, self.now)
        self._say(hearer)

    def _is_cut(self, name: str) -> bool:
        return self._cut.get(name, START) > self.now

    # Callers.

    def _call(self, one: Wanted, number: int) -> None:
        arguments = str(number).encode()
        caller = self._callers[one.caller]
        within = seconds(one.within)
        said = caller.add(FUNCTIONS[one.function], arguments, self.now, within=within, is_once=one.is_once)
        self.made[arguments] = Made(one, said, arguments, self.now)
        self._say(one.caller)

    def _say(self, name: str) -> None:
        caller = self._callers[name]
        due = caller.due()
        if due is not None and due <= self.now:
            for message in caller.take(self.now):
                self.send(message, name)
            due = caller.due()
        for answer in caller.ended():
            made = self._made(name, answer.number)
            made.answers.append(answer)
            made.ended_at = self.now
        if due is not None:
            self.later(max(0, due - self.now) / SECOND, lambda: self._say_if_due(name))

    def _say_if_due(self, name: str) -> None:
        due = self._callers[name].due()
        if due is not None and due <= self.now:
            self._say(name)

    def _made(self, caller: str, number: int) -> Made:
        return next(one for one in self.made.values() if (one.wanted.caller, one.number) == (caller, number))

    # Misfortune.

    def _strike(self, fault: Fault) -> None:
        hosted = self._hosts[fault.target]
        if hosted.state is None:
            return
        if fault.sort == "is cut off":
            self._cut[fault.target] = after(self.now, seconds(fault.down))
        elif fault.sort == "dies":
            hosted.told_before_death, hosted.down = fault.told, fault.down
        elif fault.sort == "loses an executor":
            hosted.lose_executor()
        elif fault.target in SERVER_NAMES:
            self._resize(hosted, SMALL if fault.sort == "shrinks" else Amount())
            self.later(fault.down, lambda: self._resize(hosted, SIZE))

    def _resize(self, hosted: _Hosted, size: Amount) -> None:
        hosted.size = size
        hosted.hear(sized(size))
