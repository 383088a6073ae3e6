"""Telling what was decided, once every fact that was evolved before is durable: messages, answers and effects, in order.

A durable batch is announced: its facts in order, in parts that fit a message, with the hashes around each part.
"""

from collections.abc import Iterable, Iterator

import structlog
from msgspec import Struct
from msgspec.structs import replace

from bus.errors import BusError
from bus.port import Bus
from core.codec import Parcel
from core.component import Effect
from core.dispatch.context import LATE_MAX, NO_CONTEXT, Context, Urgency
from core.dispatch.costs import NO_COSTS, Costs
from core.fact import Head
from core.messages.base import Answer, Message, Refused
from core.messages.logs import FactsTold, HeadTold, ToldFact
from core.nouns.instant import Instant
from core.nouns.limits import TOLD_BYTES_MAX
from core.nouns.reasons import Reason, sentence
from runtime.clock import Clock
from runtime.effects import Doer
from runtime.status.put_aside import Suspect, hold_of
from store.chain import chain
from store.port import Row

logger = structlog.get_logger()

PROBLEMS_LOGGED_MAX = 8
"""Of one refusal; the asker is told all."""
_TOLD_OVERHEAD_BYTES = 48
"""Of a told fact beside its texts and its event: field names, numbers and lengths take 42 at most."""


class HostCounts(Struct):
    """What a host can tell of itself, since its start."""

    decided: int = 0
    facts: int = 0
    batches: int = 0
    told: int = 0
    inbox_lost: int = 0
    unexpected: int = 0
    put_aside: int = 0
    not_said: int = 0
    log_full: int = 0


class Outgoing(Struct, frozen=True):
    """What one decision says and does, once it may."""

    messages: tuple[Message, ...]
    reply_to: str
    effects: tuple[Effect, ...]
    sort: str = ""
    """The class of the message that led to it; empty: none did."""
    deadline: int = 0
    """When the chain of that message should be over."""


class Teller:
    """Tells what one component has decided."""

    def __init__(
        self, name: str, bus: Bus, counts: HostCounts, doer: Doer | None, clock: Clock, costs: Costs
    ) -> None:
        self._clock = clock
        self._costs = costs
        self._name = name
        self._bus = bus
        self._counts = counts
        self._doer = doer

    def tell(self, outgoing: Outgoing) -> None:
        """Say the messages of one decision, and begin its effects."""
        now, urgency = self._clock.now(), None
        if outgoing.sort:
            urgency = Urgency(outgoing.sort, max(-LATE_MAX, outgoing.deadline - now))
        for message in outgoing.messages:
            self._counts.told += 1
            if not isinstance(message, Answer):
                if refusal := message.refusal:
                    logger.info("claim_refused", host=self._name, **refusal)
                self.say(message, urgency=urgency, now=now)
            elif outgoing.reply_to:
                if isinstance(message, Refused):
                    # Nothing is in a log of what was refused: this line is all that is known of it afterwards.
                    told = {"reason": message.reason, "problems": message.problems[:PROBLEMS_LOGGED_MAX]}
                    logger.info("request_refused", host=self._name, **told)
                self.say(message, outgoing.reply_to)
        if outgoing.effects:
            assert self._doer is not None, self._name
            for effect in outgoing.effects:
                self._doer.begin(effect)

    def say_head(self, head: Head, term: int) -> None:
        """Say how far the log has come."""
        self.say(HeadTold(head.log, head.log_id, term, head.sequence, head.hash))

    def announce(self, parts: Iterable[FactsTold]) -> None:
        """Tell a durable batch, in parts if it is large."""
        for told in parts:
            self.say(told)

    def say(
        self,
        message: Message,
        reply_to: str = "",
        urgency: Urgency | None = None,
        now: Instant | None = None,
    ) -> None:
        """Say one message, with what its chain has left, and with costs if it is time to tell them. `now` is the instant, if it is known."""
        costs = NO_COSTS if reply_to else self._costs.to_tell(type(message), now or self._clock.now())
        context = Context(urgency, costs) if costs or urgency is not None else NO_CONTEXT
        try:
            self._bus.say(message, reply_to, context)
        except BusError as error:
            # Too large, or a name that no subject can hold: its hearer will never have it, and waits for nothing.
            self._counts.not_said += 1
            logger.error("not_said", host=self._name, message=type(message).__name__, error=str(error))
            if reply_to and not isinstance(message, Refused):
                self._bus.say(Refused(Reason.TOO_LARGE, sentence(Reason.TOO_LARGE)), reply_to)

    def refuse(self, outgoing: Iterable[Outgoing], reason: Reason) -> None:
        """Answer requests whose facts did not become durable."""
        for item in outgoing:
            if item.reply_to:
                self._bus.say(Refused(reason, sentence(reason)), item.reply_to)

    def put_aside(self, parcel: Parcel, reply_to: str, aside: tuple[tuple[Message, Suspect], ...]) -> None:
        """Pass a message, or parts of it, on to the dead letters, answer that nothing comes of it, and have its workload held."""
        for message, suspect in aside:
            self._put_aside(replace(parcel, message=message), reply_to, suspect)

    def _put_aside(self, parcel: Parcel, reply_to: str, suspect: Suspect) -> None:
        self._counts.put_aside += 1
        logger.error(
            "message_put_aside",
            host=self._name,
            message=suspect.message,
            subject=suspect.subject,
            error=suspect.error,
        )
        self._bus.pass_on_dead(parcel)
        if reply_to:
            self.say(Refused(Reason.UNHANDLED, sentence(Reason.UNHANDLED), (suspect.error,)), reply_to)
        if (hold := hold_of(parcel.message, parcel.id, self._name, suspect)) is not None:
            self.say(hold)


def announcements(
    rows: list[Row], before: Head, head: Head, term: int, packed: bytes | None
) -> Iterator[FactsTold]:
    """What a keeper tells of a batch. The packed node rows go beside its last part, if there is room for them."""
    for part, hash_before, hash_after in _parts(rows, before, head):
        is_last = part[-1] is rows[-1]
        beside = packed if is_last and packed is not None and len(packed) <= TOLD_BYTES_MAX else None
        yield FactsTold(
            log=head.log,
            log_id=head.log_id,
            term=term,
            first=part[0].sequence,
            hash_before=hash_before,
            hash_after=hash_after,
            facts=tuple(ToldFact(Instant(row.at), row.cause, row.actor, row.event) for row in part),
            rows=beside,
            is_last=is_last,
        )


def _parts(rows: list[Row], before: Head, head: Head) -> list[tuple[list[Row], bytes, bytes]]:
    """A batch cut so that each part fits an announcement, with the hashes around each."""
    if sum(map(_weight, rows)) <= TOLD_BYTES_MAX:
        return [(rows, before.hash, head.hash)]
    parts: list[tuple[list[Row], bytes, bytes]] = []
    part: list[Row] = []
    weight, hash_before = 0, before.hash
    for row, hash_after in zip(rows, chain(before.hash, rows), strict=True):
        part.append(row)
        weight += _weight(row)
        if weight >= TOLD_BYTES_MAX or row is rows[-1]:
            parts.append((part, hash_before, hash_after))
            part, weight, hash_before = [], 0, hash_after
    return parts


def _weight(row: Row) -> int:
    """What a row weighs in an announcement: small facts weigh more by their causes than by themselves."""
    return len(row.event) + len(row.cause) + len(row.actor) + _TOLD_OVERHEAD_BYTES
