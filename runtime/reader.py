"""The reader of one log: serves whoever is behind, and writes snapshots, so that the keeper never pauses for either.

It runs beside the keeper, in a process of its own where there are processes, and reads what is durable. It is no
component: it decides nothing.
"""

from collections import OrderedDict, deque
from collections.abc import Coroutine
from typing import Any

import structlog

from bus.catalogue import READER
from bus.port import Address, Bus
from core.codec import Parcel
from core.fact import Head
from core.images import Image, image_type
from core.images.versions import VERSIONS
from core.messages.base import Answer, Refused
from core.messages.logs import (
    AboutFact,
    AboutPage,
    FetchImage,
    LogPage,
    ReadAbout,
    ReadLog,
    ToldFact,
)
from core.messages.units import AsideMessage
from core.nouns.ids import LogName
from core.nouns.instant import Instant, after
from core.nouns.limits import (
    INBOX_MAX,
    LOG_PAGES_KEPT_MAX,
    READ_BYTES_MAX,
    READ_FACTS_MAX,
    SNAPSHOT_FACTS,
    SNAPSHOT_INTERVAL,
)
from core.nouns.reasons import Reason, sentence
from runtime.catch_up.encoded_images import EncodedImages, encode_image, encode_in_turns
from runtime.clock import Clock
from runtime.images import fold_up, load_image
from runtime.wake import Wake
from store.errors import LogError
from store.port import LogReader, Snapshot

logger = structlog.get_logger()

Question = ReadLog | ReadAbout | FetchImage


class Reader:
    """Answers for one log."""

    def __init__(self, log: LogName, reader: LogReader, bus: Bus, clock: Clock) -> None:
        self.log = log
        self.name = f"reader.{log}"
        self._reader = reader
        self._bus = bus
        self._clock = clock
        self._wake = Wake(clock)
        self._asked: deque[tuple[Question, str]] = deque()
        self._to_find = Wake(clock)
        self._asked_about: deque[tuple[Question, str]] = deque()
        """Requests that may look through thousands of archive files, one after the other."""
        self._asks_lost = self._unanswered = 0
        self._pages: OrderedDict[tuple[str, int, int, int], LogPage] = OrderedDict()
        """Pages of the log that ended before its head: followers that start together read the same ones."""
        self._to_fold = Wake(clock)
        self._waiting: deque[tuple[FetchImage, str]] = deque()
        """Requests for which an image has to be encoded first."""
        self._image: Image | None = None
        self._head: Head | None = None
        self._snapshot_sequence = 0
        self.images = EncodedImages()

    def tasks(self) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        """What is to run for as long as the reader lives, each under a name: nobody who reads pages waits for an image, a snapshot or a look through the archive."""
        return [
            (f"{self.name}/answering", self._answer_forever()),
            (f"{self.name}/finding", self._find_forever()),
            (f"{self.name}/folding", self._fold_forever()),
        ]

    def close(self) -> None:
        """Let go of its timers."""
        self._wake.close()
        self._to_find.close()
        self._to_fold.close()

    # Answering: one coroutine, which never folds, and one for facts about a thing. The archive is read in another thread.

    async def _answer_forever(self) -> None:
        await self._bus.listen(Address(READER.noun, (self.log,)), self._hear)
        while True:
            while self._asked:
                await self._answer(*self._asked.popleft())
            await self._wake.wait()

    async def _find_forever(self) -> None:
        while True:
            while self._asked_about:
                await self._answer(*self._asked_about.popleft())
            await self._to_find.wait()

    # Its status (runtime/status/unit_status.py, Told).

    def losses(self) -> dict[str, int]:
        """Return what was lost or not answered since the start."""
        return {
            "asks_lost": self._asks_lost,
            "unanswered": self._unanswered,
            "not_archived": self._reader.not_archived,
        }

    def behind(self) -> int:
        """Return 0: a reader reads at each request."""
        return 0

    def waiting(self) -> int:
        """Return the number of requests that wait."""
        return len(self._asked) + len(self._asked_about) + len(self._waiting)

    def put_aside(self) -> tuple[AsideMessage, ...]:
        """Return nothing: a reader decides no message."""
        return ()

    def waits_for(self) -> str:
        """Return nothing: a reader waits for no operator."""
        return ""

    def _hear(self, parcel: Parcel, reply_to: str) -> None:
        message = parcel.message
        if isinstance(message, Question) and message.log == self.log and reply_to:
            is_about = isinstance(message, ReadAbout)
            asked, wake = (self._asked_about, self._to_find) if is_about else (self._asked, self._wake)
            if len(asked) >= INBOX_MAX:
                self._asks_lost += 1
                return
            asked.append((message, reply_to))
            wake.ring()

    async def _answer(self, message: Question, reply_to: str) -> None:
        """A log that is not there yet, or cannot be read, is not answered for: who asks tries again."""
        try:
            answer: Answer | None
            if isinstance(message, ReadLog):
                answer = await self._page(message)
            elif isinstance(message, ReadAbout):
                answer = await self._page_about(message)
            else:
                answer = await self._image_page(message, reply_to)
        except LogError as error:
            self._unanswered += 1
            logger.error("log_unreadable", log=self.log, error=str(error))
            return
        if answer is not None:
            self._bus.say(answer, reply_to)

    async def _page(self, asked: ReadLog) -> LogPage | None:
        head = await self._reader.head()
        if not head.sequence:
            return None
        count = min(asked.count_max, READ_FACTS_MAX)
        key = (head.log_id, head.term, asked.first, count)
        found = self._pages.get(key)
        if found is None:
            page = await self._reader.read(asked.first, count, READ_BYTES_MAX)
            facts = tuple(ToldFact(Instant(row.at), row.cause, row.actor, row.event) for row in page.rows)
            found = LogPage(
                self.log, head.log_id, head.term, asked.first, page.hash_before, page.hash_after, facts
            )
            if asked.first + len(facts) <= head.sequence:  # Another that begins there will be the same.
                self._pages[key] = found
                if len(self._pages) > LOG_PAGES_KEPT_MAX:
                    self._pages.popitem(last=False)
        return found

    async def _page_about(self, asked: ReadAbout) -> AboutPage | None:
        # The head first: what is found may be newer than it, and then is found again, but nothing is left out.
        head = await self._reader.head()
        if not head.sequence:
            return None
        count = min(max(1, asked.count_max), READ_FACTS_MAX)
        rows = await self._reader.read_about(asked.about, max(0, asked.after), count, READ_BYTES_MAX)
        has_more = bool(rows) and bool(await self._reader.read_about(asked.about, rows[-1].sequence, 1, 1))
        facts = tuple(
            AboutFact(row.sequence, Instant(row.at), row.cause, row.actor, row.event) for row in rows
        )
        following = rows[-1].sequence if has_more else 0
        return AboutPage(self.log, head.log_id, head.term, facts, following, head.sequence)

    async def _image_page(self, asked: FetchImage, reply_to: str) -> Answer | None:
        """Return a page of an encoding that is kept; None: the answer follows once there is one."""
        unknown = [name for name in asked.sections if name not in image_type(self.log).SECTIONS]
        if unknown:
            problems = tuple(f"no section of {self.log} is called {name!r}" for name in unknown)
            return Refused(Reason.INVALID, sentence(Reason.INVALID), problems)
        head = await self._reader.head()
        if not head.sequence:
            return None
        found = self.images.find(asked, head, self._clock.now())
        if found is not None:
            return found.page(asked, head.sequence)
        if len(self._waiting) >= INBOX_MAX:
            self._asks_lost += 1
            return None
        self._waiting.append((asked, reply_to))
        self._to_fold.ring()
        return None

    # Folding: one coroutine, to which the image belongs.

    async def _fold_forever(self) -> None:
        next_snapshot = after(self._clock.now(), SNAPSHOT_INTERVAL)
        # 1. Know the log before the first one asks: after a boot all ask at one moment.
        await self._load()
        while True:
            # 2. Encode the image for all that wait for one.
            if self._waiting:
                await self._encode()
            # 3. Keep a snapshot, where one is due, and no encoding that nobody reads.
            if self._clock.now() >= next_snapshot:
                self.images.drop_unread(self._clock.now())
                await self._keep_snapshot()
                next_snapshot = after(self._clock.now(), SNAPSHOT_INTERVAL)
            if not self._waiting:
                await self._to_fold.wait(next_snapshot)

    async def _load(self) -> None:
        try:
            if (await self._reader.head()).sequence:
                await self._catch_up()
        except LogError as error:
            logger.error("log_unreadable", log=self.log, error=str(error))

    async def _encode(self) -> None:
        """Encode the newest image, and answer whoever waits for it."""
        try:
            head = await self._catch_up()
            assert self._image is not None, self.log
            encoded = await encode_image(self._image, head, self._clock.now())
            newest = await self._reader.head()
        except LogError as error:
            logger.error("log_unreadable", log=self.log, error=str(error))
            self._unanswered += len(self._waiting)
            self._waiting.clear()
            return
        self.images.keep(encoded)
        while self._waiting:
            asked, reply_to = self._waiting.popleft()
            self._bus.say(encoded.page(asked, newest.sequence), reply_to)

    async def _catch_up(self) -> Head:
        if self._image is None or self._head is None:
            self._image, self._head, self._snapshot_sequence = await load_image(self._reader, self.log)
        else:
            image, sequence = self._image, self._head.sequence
            # A page that fails leaves the image between two heads: it is not ours any more until the fold has come through.
            self._image = self._head = None
            self._head = await fold_up(self._reader, self.log, image, sequence)
            self._image = image
        return self._head

    async def _keep_snapshot(self) -> None:
        """Not before so many facts: start-up folds at most about that many."""
        try:
            head = await self._reader.head()
            if head.sequence - self._snapshot_sequence < SNAPSHOT_FACTS:
                return
            head = await self._catch_up()
            assert self._image is not None, self.log
            await self._reader.keep_snapshot(
                Snapshot(head, await encode_in_turns(self._image), VERSIONS.made_of)
            )
            self._snapshot_sequence = head.sequence
        except (LogError, OSError) as error:
            logger.error("snapshot_not_kept", log=self.log, error=str(error))
