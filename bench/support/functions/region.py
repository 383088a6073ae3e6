"""One region in virtual time: the shipped router and servers, emulated executors, and one caller as the SDK has it.

Components are hosted by the least that hosts do: a message is decided, the notes are folded, messages travel for a fixed time, effects begin
at once, and a component is woken when due. Decisions take no time.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest.mock import patch

import msgspec
from msgspec import Struct

from bench.support.functions.load import TENANT, Arrival, CallLoad
from components.function_router.component import FunctionRouter
from components.function_router.notes import MembersChanged
from components.function_server.component import FunctionServer
from core.calls.caller import Caller
from core.component import Component, Effect, Images
from core.effects import StartExecutor
from core.fact import NO_LOG, Fact, Note
from core.messages.base import Envelope, Message, Woken
from core.messages.functions import CallFunction, RunCalls, ServerReport
from core.nouns.function import CallOutcome, Holding
from core.nouns.function_limits import KEEP_ALIVE_MAX
from core.nouns.ids import FunctionId, RegionName
from core.nouns.instant import MILLISECOND, SECOND, Instant, Nanoseconds, after, seconds
from core.nouns.quantities import Amount
from core.nouns.workload import Serves
from core.routing.policy import RoutingPolicy
from core.routing.rates import CallRates, PublishedRates
from runtime.clock import Clock
from runtime.functions.emulated import EmulatedExecutors
from runtime.virtual_loop import VirtualLoop

START = Instant(1_767_225_600 * SECOND)
SERVERS, SIZE = 10, Amount(0, 16_000, 64 << 30)
REGION, ROUTER = RegionName("eu"), "r0"
ON_THE_WAY = Nanoseconds(MILLISECOND // 5)
"""Time of a message from one component to another."""
LATE_SECONDS = 50.0
"""Latency that 99 of 100 calls may have at most. source: spec/cameo-harvest.md 2.3"""
LATE_PART = 0.01
HOPELESS_SECONDS = 2 * LATE_SECONDS
"""A run is over its capacity, and given up, as soon as more calls are open than arrive in so much time."""


class Spans(Struct, frozen=True):
    """Seconds of one run."""

    warm: float
    """Before the measured time; in the first half of them the rate rises."""
    measured: float


class Setup(Struct, frozen=True):
    """One way to route calls."""

    policy: RoutingPolicy
    rates: Callable[[], CallRates | PublishedRates] = CallRates
    keep_alive_min: Nanoseconds = KEEP_ALIVE_MAX
    """Idle executors are kept for 10 minutes; with `KEEP_ALIVE_MIN` for as long as servers have learned."""


class Measured(Struct):
    """The calls that arrived in the measured time of one run."""

    latencies: list[float] = []
    """Seconds, of those with an answer."""
    calls: int = 0
    late: int = 0
    """Calls without an answer in time."""
    is_given_up: bool = False
    starts: int = 0
    """Of executors, in the measured time."""
    resizes: int = 0
    """Changes of the size of sets, in the measured time."""

    @property
    def is_within(self) -> bool:
        """Return whether 99 of 100 calls had their answer in time."""
        return not self.is_given_up and self.late <= LATE_PART * self.calls

    @property
    def cold_share(self) -> float:
        """Return executors started for each call."""
        return self.starts / max(1, self.calls)


class _Hosted:
    """One component."""

    def __init__(self, region: "Region", component: Component[Any]) -> None:  # Any: state of any component
        self.component = component
        self.executors: EmulatedExecutors | None = None
        self._region = region
        self._state = component.initial(Images(region.clock.now()))
        self._woken_at: Instant | None = None
        self.wake_when_due()

    def hear(self, message: Message, tenant: str = "") -> None:
        """Decide a message, and do all that follows."""
        now = self._region.clock.now()
        decision = self.component.decide(self._state, Envelope(message, "", "", now, tenant=tenant))
        for event in decision.events:
            assert isinstance(event, Note), event
            self._region.noted(event)
            self._state = self.component.evolve(self._state, Fact(NO_LOG, 0, now, "", "", event, now))
        for said in decision.messages:
            self._region.carry(said)
        for effect in decision.effects:
            assert self.executors is not None, effect
            self._region.began(effect)
            self.executors.begin(effect)
        self.wake_when_due()

    def wake_when_due(self) -> None:
        """Have the component woken when something is due, unless that is so for earlier."""
        due = self.component.due(self._state)
        if due is not None and (self._woken_at is None or due < self._woken_at):
            self._woken_at = max(due, self._region.clock.now())
            self._region.clock.call_at(self._woken_at, self._wake)

    def _wake(self) -> None:
        now, due = self._region.clock.now(), self.component.due(self._state)
        if self._woken_at is not None and self._woken_at <= now:
            self._woken_at = None
        if due is not None and due <= now:
            self.hear(Woken())
        else:
            self.wake_when_due()


class _Book:
    """The size of one server, which stays."""

    def holdings(self) -> tuple[Holding, ...]:
        """Return the size, for functions of all tenants."""
        return (Holding("all", TENANT, Serves.ALL, False, (), (), SIZE),)

    def watch(self, changed: Callable[[], None]) -> None:
        """Never call back."""


class Region:
    """One run."""

    def __init__(self, setup: Setup, load: CallLoad, rate: float, spans: Spans) -> None:
        self.loop = VirtualLoop(START)
        self.clock = Clock(self.loop, START)
        self.measured = Measured()
        self.is_measuring = False
        self._setup, self._load, self._rate = setup, load, rate
        self._begin = seconds(spans.warm)
        self._end = seconds(spans.warm + spans.measured)
        self._caller = Caller(TENANT, "c1")
        self._woken_at: Instant | None = None
        self._open: dict[int, Nanoseconds] = {}
        """Calls without an answer, by number: time of arrival."""
        self._sizes: dict[FunctionId, int] = {}
        router = FunctionRouter(REGION, ROUTER, (ROUTER,))
        router.policy = setup.policy
        self._router = _Hosted(self, router)
        self._servers = {name: self._server(name) for name in (f"w{one}" for one in range(SERVERS))}

    def play(self) -> Measured:
        """Return what was measured."""
        self._arrive(self._load.arrivals(self._rate, self._begin / SECOND / 2))
        with (
            patch("components.function_router.notes.CallRates", self._setup.rates),
            patch("components.function_server.state.KEEP_ALIVE_MIN", self._setup.keep_alive_min),
        ):
            self.loop.run_forever()
        self.loop.close()
        return self.measured

    def began(self, effect: Effect) -> None:
        """Count an effect."""
        self.measured.starts += self.is_measuring and isinstance(effect, StartExecutor)

    def noted(self, event: Note) -> None:
        """Count the changes of sizes in a note."""
        if isinstance(event, MembersChanged):
            sizes = {function: members.size for function, members in event.members}
            changed = sum(self._sizes.get(function, size) != size for function, size in sizes.items())
            self.measured.resizes += self.is_measuring * changed
            self._sizes |= sizes

    def carry(self, message: Message) -> None:
        """Bring a message to its hearer."""
        match message:
            case CallFunction(tenant=tenant):
                self.loop.call_after_ns(ON_THE_WAY, self._router.hear, message, tenant)
            case ServerReport():
                self.loop.call_after_ns(ON_THE_WAY, self._router.hear, message)
            case RunCalls(server=server):
                self.loop.call_after_ns(ON_THE_WAY, self._servers[server].hear, message)
            case _:
                self.loop.call_after_ns(ON_THE_WAY, self._told, message)

    def _server(self, name: str) -> _Hosted:
        hosted = _Hosted(self, FunctionServer(REGION, name, (ROUTER,)))
        hosted.executors = EmulatedExecutors(self.clock, _Book())

        def done(message: Message) -> None:
            self.loop.call_soon(hosted.hear, message)

        hosted.executors.attach(done)
        return hosted

    # The caller.

    def _arrive(self, arrivals: Iterator[Arrival]) -> None:
        arrival = next(arrivals)
        self.clock.call_at(after(START, arrival.at), partial(self._call, arrival, arrivals))

    def _call(self, arrival: Arrival, arrivals: Iterator[Arrival]) -> None:
        self.is_measuring = self._begin <= arrival.at < self._end
        self.measured.calls += self.is_measuring
        spec = self._load.functions[arrival.function]
        arguments = msgspec.msgpack.encode(arrival.run_time)
        self._open[self._caller.add(spec, arguments, self.clock.now())] = arrival.at
        self._say()
        if not self._is_over(arrival.at):
            self._arrive(arrivals)

    def _say(self) -> None:
        for message in self._caller.take(self.clock.now()):
            self.carry(message)
        due = self._caller.due()
        if due is not None and (self._woken_at is None or due < self._woken_at):
            self._woken_at = max(due, self.clock.now())
            self.clock.call_at(self._woken_at, self._woken)

    def _woken(self) -> None:
        self._woken_at = None
        self._say()

    def _told(self, message: Message) -> None:
        self._caller.hear(message, self.clock.now())
        for answer in self._caller.ended():
            assert answer.outcome is CallOutcome.DONE, answer
            at = self._open.pop(answer.number)
            if self._begin <= at < self._end:
                latency = (self.clock.now() - START - at) / SECOND
                self.measured.latencies.append(latency)
                self.measured.late += latency > LATE_SECONDS
        self._say()

    def _is_over(self, now: Nanoseconds) -> bool:
        """End the run once all measured calls are answered or late, or are known to be late too often."""
        measured = self.measured
        late_max = LATE_PART * self._rate * (self._end - self._begin) / SECOND
        if len(self._open) > HOPELESS_SECONDS * self._rate or measured.late > 2 * late_max:
            measured.is_given_up = True
        elif now < self._end + seconds(LATE_SECONDS):
            return False
        measured.late += sum(self._begin <= at < self._end for at in self._open.values())
        self.loop.stop()
        return True
