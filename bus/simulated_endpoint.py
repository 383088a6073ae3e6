"""One endpoint of a simulated network, and its ears."""

import asyncio
import contextvars
import re
from collections.abc import Callable
from typing import Any, Protocol

from bus.catalogue import inbox_of, inbox_of_tenant, pattern_of, subject_of
from bus.errors import AskTimedOut, NobodyListens
from bus.faults import Faults
from bus.packing import pack
from bus.port import Address, BusCounts, Hear
from core.codec import Parcel, encode
from core.dispatch.context import NO_CONTEXT, Context
from core.messages.base import Answer, Message
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.limits import INBOX_MAX

_UNSAID = re.compile(r"[^A-Za-z0-9_.-]")


class Clock(Protocol):
    """The loop of a simulation, as far as it is used here."""

    def now_ns(self) -> Instant:
        """The instant it is."""

    def call_at_ns(
        self,
        when: Instant,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call back at an instant."""

    def create_future(self) -> asyncio.Future[Any]:
        """Something to wait for."""


class Wire(Protocol):
    """The network, as far as an endpoint uses it."""

    fleet: str
    clock: Clock
    faults: Faults
    is_up: bool
    overheard: dict[type[Message], list[Callable[[str, Message], None]]]

    def open_ear(self, ear: "Ear") -> None:
        """Deliver to it from now on."""

    def shut_ear(self, ear: "Ear") -> None:
        """Deliver nothing more to it, nor what is on its way."""

    def forget(self, endpoint: "SimulatedBus") -> None:
        """It is gone."""

    def is_cut(self, sender: str, hearer: str) -> bool:
        """Whether nothing that the one says reaches the other."""

    def pass_on_dead(self, endpoint: "SimulatedBus", data: bytes) -> None:
        """Count a dead letter, and put it on its way to the dead-letter subject."""

    def say(self, sender: "SimulatedBus", subject: str, data: bytes, reply_to: str) -> bool:
        """Put a message on its way; False when it is plain that nobody listens."""


class SimulatedBus:
    """One endpoint of a simulated network: a `Bus`."""

    def __init__(self, network: Wire, name: str, incarnation: int, tenant: str = "") -> None:
        self.name = name
        self.tenant = tenant
        self.counts = BusCounts()
        self.is_open = True
        self._network = network
        self._stem = f"{name}.{incarnation}"
        self._said = 0
        self._ears: list[Ear] = []
        self._asks: dict[str, asyncio.Future[Message]] = {}
        self._asked = 0
        self._inbox = Ear(self, _inbox(self._stem, tenant), "", None)
        self.hear_through(self._inbox)

    def say(self, message: Message, reply_to: str = "", context: Context = NO_CONTEXT) -> str:
        """As the port promises. An answer that nobody waits for goes nowhere."""
        identity, _ = self._say(message, reply_to, context)
        return identity

    async def ask(self, message: Message, timeout: Nanoseconds) -> Message:
        """As the port promises."""
        self._asked += 1
        reply_to = f"{self._inbox.prefix}.{self._asked}"
        clock = self._network.clock
        answer: asyncio.Future[Message] = clock.create_future()
        self._asks[reply_to] = answer
        timer = None
        try:
            _, is_heard = self._say(message, reply_to)
            if not is_heard:
                raise NobodyListens(f"nobody listens to {subject_of(self._network.fleet, message)}")
            late = AskTimedOut(
                f"no answer within {timeout} ns from {subject_of(self._network.fleet, message)}"
            )
            timer = clock.call_at_ns(Instant(clock.now_ns() + timeout), _give_up, answer, late)
            return await answer
        finally:
            del self._asks[reply_to]
            if timer is not None:
                timer.cancel()

    def pass_on_dead(self, parcel: Parcel) -> None:
        """As the port promises."""
        if self.is_open:
            self._network.pass_on_dead(self, encode(parcel))

    async def listen(self, address: Address, hear: Hear, group: str = "") -> "SimulatedSubscription":
        """As the port promises; at once."""
        ear = Ear(self, prefix_of(pattern_of(self._network.fleet, address)), group, hear)
        self.hear_through(ear)
        return SimulatedSubscription(self._network, ear)

    async def round_trip(self, timeout: Nanoseconds) -> bool:
        """To the server and back: not while it is down, nor while this endpoint is cut from itself."""
        network = self._network
        span = min(timeout, 2 * network.faults.delay_min)
        done = network.clock.create_future()
        timer = network.clock.call_at_ns(Instant(network.clock.now_ns() + span), done.set_result, None)
        try:
            await done
        finally:
            timer.cancel()
        return self.is_open and network.is_up and not network.is_cut(self.name, self.name)

    async def close(self) -> None:
        """Be gone. What was said is on its way already."""
        self.crash()

    def crash(self) -> None:
        """Be gone at once, as by kill -9; what is on its way to this endpoint is lost."""
        if not self.is_open:
            return
        self.is_open = False
        for ear in self._ears:
            self._network.shut_ear(ear)
        self._network.forget(self)
        for answer in self._asks.values():
            _give_up(answer, AskTimedOut(f"{self.name} was closed while it waited for an answer"))

    def hear_through(self, ear: "Ear") -> None:
        """Open an ear that is shut when this endpoint is gone."""
        self._ears.append(ear)
        self._network.open_ear(ear)

    def answered(self, subject: str, parcel: Parcel) -> None:
        """The first answer counts; whoever asked may have given up."""
        answer = self._asks.get(subject)
        if answer is not None and not answer.done():
            self.counts.heard += 1
            answer.set_result(parcel.message)

    def _say(self, message: Message, reply_to: str, context: Context = NO_CONTEXT) -> tuple[str, bool]:
        """The message's id, and whether somebody may have heard it."""
        network = self._network
        is_answer = isinstance(message, Answer)
        subject = reply_to if is_answer else subject_of(network.fleet, message, self.tenant)
        self._said += 1
        identity = f"{self._stem}.{self._said}"
        data = pack(identity, self.name, message, self.tenant, context)
        if not subject:
            return identity, False
        if not self.is_open:
            self.counts.lost += 1
            return identity, True
        self.counts.said += 1
        for overhear in network.overheard.get(type(message), ()):
            overhear(self.name, message)
        return identity, network.say(self, subject, data, "" if is_answer else reply_to)


class SimulatedSubscription:
    """An ear that is open."""

    def __init__(self, network: Wire, ear: "Ear") -> None:
        self._network = network
        self._ear = ear

    async def close(self) -> None:
        """Hear nothing more through it."""
        self._network.shut_ear(self._ear)


class Crowd:
    """All ears of one address, in the order in which they were opened."""

    __slots__ = ("count", "groups", "single")

    def __init__(self) -> None:
        self.count = 0
        self.single: list[Ear] = []
        self.groups: dict[str, list[Ear]] = {}


class Ear:
    """What one endpoint hears through; without a `hear` it is its inbox."""

    __slots__ = ("endpoint", "group", "hear", "is_open", "label", "latest", "pending", "prefix")

    def __init__(self, endpoint: SimulatedBus, prefix: str, group: str, hear: Hear | None) -> None:
        self.endpoint = endpoint
        self.prefix = prefix
        self.group = group
        self.hear = hear
        self.is_open = True
        self.pending = 0
        self.label = f"\t{endpoint.name}\t{prefix}\t".encode()
        self.latest: dict[tuple[str, str], int] = {}
        """When the newest message of a sender and subject arrives. What has passed means nothing."""

    def not_before(self, now: int, key: tuple[str, str], at: int) -> int:
        """The instant `at`, or later, so that nothing overtakes what the same sender said to the same subject."""
        latest = self.latest
        at = max(at, latest.get(key, 0))
        latest[key] = at
        if len(latest) > INBOX_MAX:
            self.latest = {one: then for one, then in latest.items() if then >= now}
        return at


class Letter:
    """One message on its way, to however many ears."""

    __slots__ = ("data", "finds_heir", "is_let_go", "mark", "parcel", "reply_to", "sender", "subject")

    def __init__(
        self, sender: SimulatedBus | None, subject: str, data: bytes, mark: bytes, reply_to: str
    ) -> None:
        self.sender, self.subject, self.data, self.reply_to = sender, subject, data, reply_to
        self.mark = mark
        """What stands for the bytes in the network's digest."""
        self.parcel: Parcel | None = None
        """What the bytes say, once one ear has heard them."""
        self.is_let_go = False
        """Whether it was held back, and no longer is."""
        self.finds_heir = False
        """Whether it is a repeat, which arrives also at the next life of whoever heard the first."""


def prefix_of(subject: str) -> str:
    """All but the verb."""
    return subject[: subject.rindex(".")]


def _inbox(stem: str, tenant: str) -> str:
    """A tenant's is one of those that its credentials would let it have, where no name has a slash or an @."""
    return f"{inbox_of_tenant(tenant)}.{_UNSAID.sub('-', stem)}" if tenant else inbox_of(stem)


def _give_up(answer: asyncio.Future[Message], error: AskTimedOut) -> None:
    if not answer.done():
        answer.set_exception(error)
