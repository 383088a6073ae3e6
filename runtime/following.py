"""Following a log: subscribe, fetch the image, and hand on every fact from there, gap-free and in order.

What arrives in order is handed on at once. Anything else (a gap, a head beyond what was heard) is read from the reader
beside the keeper. A batch that does not chain to what was heard before means that this is not the history we knew: the
follower starts from the image again, and says so. A keeper of a lower term, of another log, or one whose log is shorter
than what we know (a file restored from an older copy) is refused: nothing of it is folded.
"""

from typing import Protocol

import structlog

from bus.catalogue import LOG
from bus.errors import AskTimedOut, BusError
from bus.port import Address, Bus
from core.codec import CodecError, Parcel, begins_with, decode_event_shared, tag_prefixes
from core.component import Follow, RowsAlone, RowsTold
from core.dispatch.costs import CostsTold
from core.fact import Fact, Head, Note
from core.images import Image
from core.images.fetch import ImageFetch
from core.messages.base import Message
from core.messages.logs import FactsTold, HeadTold, LogPage, ReadLog, ToldFact
from core.nouns.ids import LogName
from core.nouns.instant import Instant, after
from core.nouns.limits import (
    FOLLOW_LAG_INTERVAL,
    FOLLOW_LAG_MIN,
    FOLLOW_RETRY,
    HEAD_SILENCE_MAX,
    READ_FACTS_MAX,
    READ_TIMEOUT,
)
from runtime.catch_up.ahead import Ahead
from runtime.clock import Clock
from runtime.gc_tuning import undisturbed
from runtime.wake import Wake

logger = structlog.get_logger()


class Listener(Protocol):
    """Who follows: a host."""

    def adopt(self, log: LogName, image: Image, head: Head, *, has_rows_alone: bool = False) -> bool:
        """The log is known from here on. False: this image cannot be what we knew, and is not adopted.

        has_rows_alone   whether only some facts are handed on from here on, and all rows
        """

    def take_facts(self, facts: list[Fact]) -> None:
        """The next facts, in order."""

    def take_note(self, note: Note) -> None:
        """What is to be known beside the facts just taken: `RowsTold` or `RowsAlone` (core/component.py)."""

    def take_silence(self, log: LogName, is_silent: bool) -> None:
        """The keeper fell silent, or is heard and caught up with."""

    def take_costs(self, sender: str, costs: CostsTold) -> None:
        """What the keeper told of its costs (core/dispatch/costs.py)."""


class FollowCounts:
    """What a follower can tell of itself."""

    def __init__(self) -> None:
        self.gaps = 0
        self.images = 0
        self.refused = 0
        self.dropped = 0
        """Announcements that came while facts before them were missing, and for which there was no room: they are read."""


class Following:
    """One followed log of one host."""

    def __init__(
        self, follow: Follow, bus: Bus, clock: Clock, listener: Listener, *, is_keeper: bool = False
    ) -> None:
        self.follow = follow
        self._wanted = _prefixes_of(follow)
        """Prefixes of the encoded facts that are handed on; None: all are."""
        self.counts = FollowCounts()
        self._bus = bus
        self._clock = clock
        self._listener = listener
        self._is_keeper = is_keeper
        self._wake = Wake(clock)
        self._head: Head | None = None
        """How far was handed on; None before the first image."""
        self._told = 0
        """The highest sequence heard of."""
        self._told_early: dict[str, int] = {}
        """The same by log id, before the first image says which log it is that we follow."""
        self._is_unreadable = False
        """Whether the next fact is one that this build does not know."""
        self._holds_back = False
        """Whether facts wait for the image: those before them cannot be handed on, or are not wanted as they would be."""
        self._is_diverged = False
        """Whether the log was seen to have another history than the one we know."""
        self._needs_image = True
        self._fetch = ImageFetch(follow.log, follow.sections)
        """The image, as far as it was fetched."""
        self._ahead = Ahead()
        self._lag_told_at: Instant | None = None
        self._heard_at = clock.now()
        self._is_silent = False

    @property
    def log(self) -> LogName:
        """Which log."""
        return self.follow.log

    @property
    def lag(self) -> int:
        """How many facts were told and not handed on yet."""
        return max(0, self._told - self._head.sequence) if self._head is not None else 0

    # Hearing: called by the bus, never waits.

    def hear(self, parcel: Parcel, reply_to: str) -> None:
        """An announcement of the log's keeper."""
        if self._is_diverged:
            return  # Its keeper's silence is what the component hears of it.
        if parcel.costs:
            self._listener.take_costs(parcel.sender, parcel.costs)
        message = parcel.message
        head = self._head
        if (
            type(message) is FactsTold
            and head is not None
            and message.hash_before == head.hash
            and message.first == head.sequence + 1
            and message.term == head.term
            and message.log_id == head.log_id
            and not self._ahead
            and not self._is_silent
            and not self._needs_image
        ):
            # By far the most common: the next batch of the history we know, from the keeper we know.
            self._heard_at = self._clock.now()
            self._told = max(self._told, head.sequence + len(message.facts))
            self._hand_on(message.first, message.facts, message.hash_before, message.hash_after, message.term)
            self._hand_on_rows(message)
            return
        if not isinstance(message, FactsTold | HeadTold) or message.log != self.log:
            return
        if head is None:
            known = self._told_early.get(message.log_id, 0)
            self._told_early[message.log_id] = max(known, _last_of(message))
            return
        if not self._is_of_this_keeper(message, head):
            return
        if _last_of(message) >= head.sequence and not self._is_unreadable:
            # What lies behind us was long on its way, or comes from an older copy: it is no sign of life.
            self._heard_at = self._clock.now()
        if isinstance(message, FactsTold):
            self._hear_facts(message)
        else:
            self._hear_head(message)
        if self._is_silent and not self._is_behind():
            self._wake.ring()

    def _is_of_this_keeper(self, message: FactsTold | HeadTold, head: Head) -> bool:
        sequence = message.first - 1 if isinstance(message, FactsTold) else message.sequence
        is_restored = message.term > head.term and sequence < head.sequence
        if message.log_id != head.log_id or message.term < head.term or is_restored:
            self._refuse(message, head)
            return False
        return True

    def _refuse(self, message: FactsTold | HeadTold | Head, head: Head) -> None:
        self.counts.refused += 1
        logger.warning(
            "keeper_refused", host=self._bus.name, log=self.log, term=message.term, known_term=head.term,
            log_id=message.log_id, known_log_id=head.log_id, known_sequence=head.sequence,
        )  # fmt: skip

    def _hear_facts(self, told: FactsTold) -> None:
        last = _last_of(told)
        self._told = max(self._told, last)
        head = self._head
        if head is None or last <= head.sequence or self._is_unreadable:
            return
        if self._holds_back:
            self.counts.dropped += self._ahead.put(told)
            return
        if told.first <= head.sequence:
            # Part of it is behind us, so nothing in it says that the rest follows what we know: the reader's page will.
            self._wake.ring()
            return
        if told.first > head.sequence + 1:
            self.counts.dropped += self._ahead.put(told)
            self._wake.ring()
            return
        self._hand_on(told.first, told.facts, told.hash_before, told.hash_after, told.term)
        self._hand_on_rows(told)
        self._hand_on_what_was_ahead()

    def _hand_on_rows(self, told: FactsTold) -> None:
        """Only while they are news: rows say how nodes stand after the last of their facts."""
        head, last = self._head, told.first + len(told.facts) - 1
        if head is None or head.sequence != last or not self.follow.with_rows or self._needs_image:
            return
        if told.rows or (self._wanted is not None and told.is_last and told.rows is not None):
            self._listener.take_note(RowsTold(self.log, last, told.rows or b""))
        elif self._wanted is not None and told.is_last:
            self._start_again("rows_not_told")

    def _hear_head(self, told: HeadTold) -> None:
        self._told = max(self._told, told.sequence)
        head = self._head
        if head is None:
            return
        if told.sequence == head.sequence and told.hash != head.hash:
            self._start_again("head_differs")
        elif told.sequence > head.sequence:
            self._wake.ring()

    def _hand_on_what_was_ahead(self) -> None:
        while self._head is not None and not self._needs_image:
            told = self._ahead.take(self._head.sequence + 1)
            if told is None or self._is_unreadable:
                return
            self._hand_on(told.first, told.facts, told.hash_before, told.hash_after, told.term)
            if self._wanted is not None:
                self._hand_on_rows(told)

    def _hand_on(
        self, first: int, facts: tuple[ToldFact, ...], hash_before: bytes, hash_after: bytes, term: int
    ) -> None:
        head = self._head
        assert head is not None, self.log
        assert first == head.sequence + 1, (self.log, first, head.sequence)
        if hash_before != head.hash:
            self._start_again("hash_does_not_chain")
            return
        now, wanted = self._clock.now(), self._wanted
        try:
            known = [
                Fact(
                    self.log,
                    first + index,
                    told.at,
                    told.cause,
                    told.actor,
                    decode_event_shared(told.event),
                    now,
                )
                for index, told in enumerate(facts)
                if wanted is None or begins_with(told.event, wanted)
            ]
        except CodecError as error:
            # A newer build wrote it: nothing can be folded past it, and the silence that follows says so.
            logger.error("followed_event_unknown", host=self._bus.name, log=self.log, error=str(error))
            self._is_unreadable = True
            return
        self._is_unreadable = False
        self._head = Head(self.log, head.log_id, max(term, head.term), first + len(facts) - 1, hash_after)
        if known:
            self._listener.take_facts(known)

    def _start_again(self, why: str) -> None:
        """Another history than the one we know. A keeper has built facts of its own on that one, and goes no further."""
        if self._is_keeper:
            self.counts.refused += 1
            self._is_diverged = True
            logger.error("other_history_refused", host=self._bus.name, log=self.log, why=why)
            return
        logger.warning("log_adopted_anew", host=self._bus.name, log=self.log, why=why)
        self._told = 0  # Of that history, which is none of ours any more.
        self._ahead.clear()
        self._want_image(holds_back=self._wanted is not None)

    def _want_image(self, *, holds_back: bool) -> None:
        self._needs_image, self._holds_back = True, holds_back
        self._fetch = ImageFetch(self.log, self.follow.sections)
        self._is_unreadable = False
        self._wake.ring()

    def follow_as(self, follow: Follow) -> None:
        """Follow the log otherwise from now on. Who gets fewer facts goes on from here; who gets more needs an image."""
        assert follow.log == self.log, follow
        if follow == self.follow:
            return
        is_less = follow.facts is not None and self.follow.facts is None
        self.follow, self._wanted = follow, _prefixes_of(follow)
        if self._head is None or self._needs_image or not is_less:
            self._want_image(holds_back=True)
        else:
            self._listener.take_note(RowsAlone(self.log))

    # Keeping up: one coroutine.

    async def keep_up(self) -> None:
        """Listen, adopt the image, and read whatever was not heard, for ever."""
        await self._bus.listen(Address(LOG.noun, (self.log,)), self.hear)
        while True:
            # 1. Start from the image, at first and whenever history is not what we knew.
            if self._needs_image and not await self._adopt():
                self._watch_silence()
                await self._wake.wait(after(self._clock.now(), FOLLOW_RETRY))
                continue
            # 2. Read what was told and not heard, page after page; or an image, where rows replace facts.
            if self._is_behind():
                if self._wanted is not None:
                    logger.info("rows_missing", host=self._bus.name, log=self.log)
                    self.counts.gaps += 1
                    self._want_image(holds_back=True)
                    continue
                if not await self._read():
                    self._watch_silence()
                    await self._wake.wait(after(self._clock.now(), FOLLOW_RETRY))
                self._watch_lag()
                continue
            # 3. Say when the keeper falls silent, and when it is heard again.
            self._watch_silence()
            await self._wake.wait(after(self._heard_at, HEAD_SILENCE_MAX) if not self._is_silent else None)

    def _is_behind(self) -> bool:
        return not self._is_diverged and (self._head is None or self._told > self._head.sequence)

    def _watch_silence(self) -> None:
        """Silent whether or not we are behind; heard again only once caught up with."""
        is_silent = after(self._heard_at, HEAD_SILENCE_MAX) <= self._clock.now()
        if self._head is None or is_silent == self._is_silent or (self._is_behind() and not is_silent):
            return
        self._is_silent = is_silent
        self._listener.take_silence(self.log, is_silent)

    def _watch_lag(self) -> None:
        """A keeper that is heard is not silent, but a follower that is slower than its log must not be taken for one that keeps up."""
        now = self._clock.now()
        is_told = self._lag_told_at is not None and now < after(self._lag_told_at, FOLLOW_LAG_INTERVAL)
        if self.lag >= FOLLOW_LAG_MIN and not is_told:
            self._lag_told_at = now
            logger.warning("follower_lags", host=self._bus.name, log=self.log, facts=self.lag)

    async def _ask(self, message: Message) -> Message | None:
        try:
            return await self._bus.ask(message, READ_TIMEOUT)
        except AskTimedOut:
            return None
        except BusError as error:
            logger.debug("reader_missing", host=self._bus.name, log=self.log, error=str(error))
            return None

    async def _adopt(self) -> bool:
        """Go on fetching the image, and adopt it once it is there. False: try again, from what is there already."""
        fetch = self._fetch
        try:
            while (wanted := self._wanted_by(fetch)) is not None:
                answer = await self._ask(wanted)
                if fetch is not self._fetch:
                    fetch = self._fetch  # What was fetched is of a history that is none of ours any more.
                    continue
                if answer is None or not fetch.take(answer):
                    return False
                if fetch.is_whole:
                    with undisturbed(fetch.bytes_held):
                        fetch.decode()
        except CodecError as error:
            logger.error("image_unknown", host=self._bus.name, log=self.log, error=str(error))
            self._fetch = ImageFetch(self.log, self.follow.sections)
            return False
        self._fetch = ImageFetch(self.log, self.follow.sections)
        head, image = fetch.head, fetch.image
        assert head is not None, self.log
        assert image is not None, self.log
        known = self._head
        if known is not None and (head.log_id != known.log_id or head.term < known.term):
            self._refuse(head, known)
            return False
        if not self._listener.adopt(self.log, image, head, has_rows_alone=self._wanted is not None):
            self.counts.refused += 1
            return False
        self.counts.images += 1
        self._head = head
        self._told = max(self._told, self._told_early.pop(head.log_id, 0))
        self._told_early.clear()
        self._needs_image = self._holds_back = self._is_silent = False
        self._heard_at = self._clock.now()
        self._hand_on_what_was_ahead()
        return True

    def _wanted_by(self, fetch: ImageFetch) -> Message | None:
        """Return the next request. Where rows replace facts, the image must reach the first announcement that was kept."""
        wanted = fetch.wanted()
        head = fetch.head
        if wanted is None and self._wanted is not None and head is not None:
            missing = self._ahead.needed_before(head.sequence)
            if not missing and not self._ahead:
                missing = self._told
            if missing > head.sequence:
                fetch.read_on(missing)
                wanted = fetch.wanted()
        return wanted

    async def _read(self) -> bool:
        """One page of what was not heard. False: nobody answered, or nothing came of it."""
        head = before = self._head
        assert head is not None, self.log
        self.counts.gaps += 1
        # What is there already is not read again: a page that ended within it would leave another gap.
        first_ahead = self._ahead.first
        missing = READ_FACTS_MAX if first_ahead is None else first_ahead - head.sequence - 1
        assert missing > 0, (self.log, first_ahead, head.sequence)
        count = min(READ_FACTS_MAX, missing)
        page = await self._ask(ReadLog(self.log, head.sequence + 1, count))
        if not isinstance(page, LogPage) or page.log_id != head.log_id or page.term < head.term:
            return False
        head = self._head  # Facts may have been heard while the page was on its way.
        assert head is not None, self.log
        # No facts: what was told is not there, because the file is an older copy.
        if page.facts and page.first == head.sequence + 1:
            self._hand_on(page.first, page.facts, page.hash_before, page.hash_after, page.term)
            self._hand_on_what_was_ahead()
        return self._needs_image or self._head is not before

    def close(self) -> None:
        """Let go of its timer."""
        self._wake.close()


def _prefixes_of(follow: Follow) -> tuple[bytes, ...] | None:
    return None if follow.facts is None else tag_prefixes(follow.facts)


def _last_of(message: FactsTold | HeadTold) -> int:
    """The highest sequence that a word of the keeper is about."""
    return message.first + len(message.facts) - 1 if isinstance(message, FactsTold) else message.sequence
