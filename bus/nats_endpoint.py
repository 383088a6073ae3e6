"""One endpoint on a NATS connection: a `Bus`. It knows messages, the connection (bus/nats.py) knows bytes."""

import asyncio
import secrets
from collections.abc import Callable
from typing import Protocol

import structlog

from bus.catalogue import answers_to, dead_letters_of, is_forged, pattern_of, subject_of
from bus.errors import AskTimedOut, NobodyListens
from bus.packing import FORGED, not_ours, pack
from bus.port import Address, BusCounts, Hear, Subscription
from core.codec import CodecError, Parcel, decode_parcel, encode
from core.dispatch.context import NO_CONTEXT, Context
from core.messages.base import Answer, Message
from core.nouns.instant import SECOND, Nanoseconds, seconds

logger = structlog.get_logger()

CLOSE_SPAN: Nanoseconds = seconds(1)
"""The port's promise: what waits is sent within a second when an endpoint is closed."""

Arrived = Callable[[str, bytes, str], None]
"""Called with a subject, bytes, and where an answer goes. Must not raise, must not wait."""
Answered = Callable[[bytes | None], None]
"""Called with an answer's bytes, or with None when nobody listens to what was asked."""


class Line(Protocol):
    """The connection, as far as an endpoint uses it."""

    fleet: str
    tenant: str

    def send(self, subject: str, data: bytes, reply_to: str, counts: BusCounts) -> None:
        """Hand bytes to the wire, now or when it takes them; count what does not fit."""

    def expect(self, answered: Answered) -> str:
        """A subject of our inbox: whatever arrives there is handed over until `expect_no_more`."""

    def expect_no_more(self, subject: str) -> None:
        """Forget it."""

    async def open_ear(self, pattern: str, group: str, arrived: Arrived) -> Subscription:
        """Hand over what arrives; returns when the server knows of it."""

    async def echo(self, timeout: Nanoseconds) -> bool:
        """Whether the server carries something from us to us in time."""

    async def settle(self, timeout: Nanoseconds) -> None:
        """Wait until all that was sent has reached the server, or the time is over."""

    def forget(self, counts: BusCounts) -> None:
        """An endpoint is gone."""


class NatsBus:
    """One endpoint."""

    def __init__(self, line: Line, name: str, counts: BusCounts) -> None:
        self.name = name
        self.counts = counts
        self.tenant = line.tenant
        self._line = line
        self._fleet = line.fleet
        self._dead_letters = dead_letters_of(line.fleet)
        self._stem = f"{name}.{secrets.token_hex(4)}"
        """Of the ids of its messages. Drawn anew at each start, so that they are never used again."""
        self._said = 0
        self._ears: list[Subscription] = []
        self._asks: dict[str, asyncio.Future[Message]] = {}
        self._is_open = True

    def say(self, message: Message, reply_to: str = "", context: Context = NO_CONTEXT) -> str:
        """As the port promises. An answer that nobody waits for goes nowhere."""
        is_answer = isinstance(message, Answer)
        subject = reply_to if is_answer else subject_of(self._fleet, message, self.tenant)
        self._said += 1
        identity = f"{self._stem}.{self._said}"
        data = pack(identity, self.name, message, self.tenant, context)
        if not subject:
            return identity
        if not self._is_open:
            self.counts.lost += 1
            return identity
        self.counts.said += 1
        self._line.send(subject, data, "" if is_answer else reply_to, self.counts)
        return identity

    def pass_on_dead(self, parcel: Parcel) -> None:
        """As the port promises."""
        self._dead_letter("", encode(parcel), "it makes its component fail")

    async def ask(self, message: Message, timeout: Nanoseconds) -> Message:
        """As the port promises."""
        assert not isinstance(message, Answer), message
        loop = asyncio.get_running_loop()
        subject = subject_of(self._fleet, message, self.tenant)
        answer: asyncio.Future[Message] = loop.create_future()

        def answered(data: bytes | None) -> None:
            if answer.done():
                return
            if data is None:
                answer.set_exception(NobodyListens(f"nobody listens to {subject}"))
                return
            try:
                parcel = decode_parcel(data)
            except CodecError as error:
                self._dead_letter(subject, data, str(error))
                return
            self.counts.heard += 1
            answer.set_result(parcel.message)

        reply_to = self._line.expect(answered)
        self._asks[reply_to] = answer
        timer = loop.call_later(
            timeout / SECOND, _give_up, answer, f"no answer from {subject} in {timeout} ns"
        )
        try:
            self.say(message, reply_to)
            return await answer
        finally:
            timer.cancel()
            self._line.expect_no_more(reply_to)
            del self._asks[reply_to]

    async def listen(self, address: Address, hear: Hear, group: str = "") -> Subscription:
        """As the port promises. Raises BusError when the server cannot be reached for long."""

        def arrived(subject: str, data: bytes, reply_to: str) -> None:
            reply_to = answers_to(subject, reply_to)
            try:
                parcel = decode_parcel(data)
            except CodecError as error:
                self._dead_letter(subject, data, str(error))
                if reply_to and subject != self._dead_letters and self._is_open:
                    self.say(not_ours(error), reply_to)  # Whoever asked is told what is wrong.
                return
            if is_forged(self._fleet, subject, parcel):
                self._dead_letter(subject, data, FORGED)
                return
            self.counts.heard += 1
            hear(parcel, reply_to)

        ear = await self._line.open_ear(pattern_of(self._fleet, address), group, arrived)
        self._ears.append(ear)
        return ear

    async def round_trip(self, timeout: Nanoseconds) -> bool:
        """As the port promises."""
        return self._is_open and await self._line.echo(timeout)

    async def close(self) -> None:
        """As the port promises. The connection stays: others may share it."""
        if not self._is_open:
            return
        self._is_open = False
        for ear in self._ears:
            await ear.close()
        for answer in self._asks.values():
            _give_up(answer, f"{self.name} was closed while it waited for an answer")
        await self._line.settle(CLOSE_SPAN)
        self._line.forget(self.counts)

    def _dead_letter(self, subject: str, data: bytes, problem: str) -> None:
        """Count a letter and pass the letter on; a listener to dead letters counts them too, and passes none on."""
        self.counts.dead_letters += 1
        logger.warning(
            "message_not_ours", endpoint=self.name, subject=subject, size=len(data), problem=problem
        )
        if subject != self._dead_letters and self._is_open:
            self._line.send(self._dead_letters, data, "", self.counts)


def _give_up(answer: asyncio.Future[Message], text: str) -> None:
    if not answer.done():
        answer.set_exception(AskTimedOut(text))
