"""One region in virtual time: the shipped router and servers, emulated executors, and one caller as the SDK has it.

Components are hosted by the least that hosts do: a message is decided, the notes are folded, messages travel for a fixed time, effects begin
at once, and a component is woken when due. Decisions take no time.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from bench.support.functions.load import TENANT
from components.function_router.component import FunctionRouter
from components.function_server.component import FunctionServer
from core.calls.caller import Caller
from core.component import Component, Effect, Images
from core.fact import NO_LOG, Fact, Note
from core.messages.base import Envelope, Message, Woken
from core.messages.functions import CallFunction, RunCalls, ServerReport
from core.messages.harvest import HarvestOdds, NodeSize, SizeServer
from core.nouns.function import CallAnswer, FunctionSpec, Holding
from core.nouns.ids import RegionName
from core.nouns.instant import MILLISECOND, SECOND, Instant, Nanoseconds
from core.nouns.quantities import Amount
from core.nouns.workload import NEVER, Serves
from core.routing.policy import RoutingPolicy
from runtime.clock import Clock
from runtime.functions.emulated import BookSource, EmulatedExecutors
from runtime.tasks.book import ExecutorUse
from runtime.virtual_loop import VirtualLoop

START = Instant(1_767_225_600 * SECOND)
REGION, ROUTER = RegionName("eu"), "r0"
ON_THE_WAY = Nanoseconds(MILLISECOND // 5)
"""Time of a message from one component to another."""


class Hosted:
    """One component."""

    def __init__(self, stage: "Stage", component: Component[Any]) -> None:  # Any: state of any component
        self.component = component
        self.executors: EmulatedExecutors | None = None
        self._stage = stage
        self._state = component.initial(Images(stage.clock.now()))
        self._woken_at: Instant | None = None
        self.wake_when_due()

    @property
    def state(self) -> Any:  # Any: that of the component
        """Return the state of the component, to look at."""
        return self._state

    def hear(self, message: Message, tenant: str = "") -> None:
        """Decide a message, and do all that follows."""
        now = self._stage.clock.now()
        decision = self.component.decide(self._state, Envelope(message, "", "", now, tenant=tenant))
        for event in decision.events:
            assert isinstance(event, Note), event
            self._stage.noted(event)
            self._state = self.component.evolve(self._state, Fact(NO_LOG, 0, now, "", "", event, now))
        for said in decision.messages:
            self._stage.carry(said)
        for effect in decision.effects:
            assert self.executors is not None, effect
            self._stage.began(effect)
            self.executors.begin(effect)
        self.wake_when_due()

    def wake_when_due(self) -> None:
        """Have the component woken when something is due, unless that is so for earlier."""
        due = self.component.due(self._state)
        if due is not None and (self._woken_at is None or due < self._woken_at):
            self._woken_at = max(due, self._stage.clock.now())
            self._stage.clock.call_at(self._woken_at, self._wake)

    def _wake(self) -> None:
        now, due = self._stage.clock.now(), self.component.due(self._state)
        if self._woken_at is not None and self._woken_at <= now:
            self._woken_at = None
        if due is not None and due <= now:
            self.hear(Woken())
        else:
            self.wake_when_due()


class HeldBook:
    """The size of one server, which tasks hold for functions and which stays."""

    def __init__(self, size: Amount) -> None:
        self._size = size

    def holdings(self) -> tuple[Holding, ...]:
        """Return the size, for functions of all tenants."""
        return (Holding("all", TENANT, Serves.ALL, False, (), (), self._size),)

    def watch(self, changed: Callable[[], None]) -> None:
        """Never call back."""

    def keep_harvested(self, revision: int, sizes: tuple[NodeSize, ...]) -> None:
        """Nothing is harvested."""

    def note_executors(self, executors: tuple[ExecutorUse, ...]) -> None:
        """Nobody asks."""


class Stage:
    """A router, function servers with their books, and a caller."""

    def __init__(self, policy: RoutingPolicy, books: Callable[[Clock], Mapping[str, BookSource]]) -> None:
        self.loop = VirtualLoop(START)
        self.clock = Clock(self.loop, START)
        self._caller = Caller(TENANT, "c1")
        self._said_at: Instant | None = None
        router = FunctionRouter(REGION, ROUTER, (ROUTER,))
        router.policy = policy
        self.router = Hosted(self, router)
        self.servers = {name: self._server(name, book) for name, book in books(self.clock).items()}

    # For whoever plays on it.

    def began(self, effect: Effect) -> None:
        """Watch an effect that begins."""

    def noted(self, event: Note) -> None:
        """Watch a note of a component."""

    def answered(self, answer: CallAnswer) -> None:
        """Hear the end of a call."""

    def told(self, message: Message) -> None:
        """Hear a message that is for none of the components here."""
        self._caller.hear(message, self.clock.now())
        for answer in self._caller.ended():
            self.answered(answer)
        self.say()

    def add_call(self, spec: FunctionSpec, run_time: Nanoseconds, within: Nanoseconds = NEVER) -> int:
        """Return the number of a new call, which is said with the next `say`."""
        return self._caller.add(spec, msgspec.msgpack.encode(run_time), self.clock.now(), within=within)

    def say(self) -> None:
        """Have the caller say what is to be said now."""
        for message in self._caller.take(self.clock.now()):
            self.carry(message)
        due = self._caller.due()
        if due is not None and (self._said_at is None or due < self._said_at):
            self._said_at = max(due, self.clock.now())
            self.clock.call_at(self._said_at, self._say_again)

    def carry(self, message: Message) -> None:
        """Bring a message to its hearer."""
        match message:
            case CallFunction(tenant=tenant):
                self.loop.call_after_ns(ON_THE_WAY, self.router.hear, message, tenant)
            case ServerReport() | HarvestOdds():
                self.loop.call_after_ns(ON_THE_WAY, self.router.hear, message)
            case RunCalls(server=server) | SizeServer(server=server):
                self.loop.call_after_ns(ON_THE_WAY, self.servers[server].hear, message)
            case _:
                self.loop.call_after_ns(ON_THE_WAY, self.told, message)

    def _say_again(self) -> None:
        self._said_at = None
        self.say()

    def _server(self, name: str, book: BookSource) -> Hosted:
        hosted = Hosted(self, FunctionServer(REGION, name, (ROUTER,)))
        hosted.executors = EmulatedExecutors(self.clock, book)

        def done(message: Message) -> None:
            self.loop.call_soon(hosted.hear, message)

        hosted.executors.attach(done)
        return hosted
