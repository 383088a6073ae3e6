"""The reader of one log: serves whoever is behind, and writes snapshots, so that the keeper never pauses for either.

It runs beside the keeper, in a process of its own where there are processes, and reads what is durable. It is no
component: it decides nothing.
"""

from collections import OrderedDict, deque

import structlog

from bus.catalogue import READER
from bus.port import Address, Bus
from core.codec import Parcel
from core.fact import Head
from core.images import Image
from core.images.versions import VERSIONS
from core.messages.base import Answer
from core.messages.logs import (
    AboutFact,
    AboutPage,
    FetchImage,
    ImagePage,
    LogPage,
    ReadAbout,
    ReadLog,
    ToldFact,
)
from core.nouns.ids import LogName
from core.nouns.instant import Instant, after
from core.nouns.limits import (
    IMAGE_PAGE_BYTES,
    IMAGES_CACHED_MAX,
    INBOX_MAX,
    READ_BYTES_MAX,
    READ_FACTS_MAX,
    SNAPSHOT_FACTS,
    SNAPSHOT_INTERVAL,
)
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
        self._asked: deque[tuple[Question, str]] = deque(maxlen=INBOX_MAX)
        self._image: Image | None = None
        self._head: Head | None = None
        self._snapshot_sequence = 0
        self._cached: OrderedDict[tuple[tuple[str, ...], int], tuple[Head, list[bytes]]] = OrderedDict()
        """Encoded images in pages, by sections and sequence: a later page is of the same image as the first."""

    async def run(self) -> None:
        """Answer, and keep snapshots, for ever."""
        await self._bus.listen(Address(READER.noun, (self.log,)), self._hear)
        next_snapshot = after(self._clock.now(), SNAPSHOT_INTERVAL)
        while True:
            while self._asked:
                await self._answer(*self._asked.popleft())
            if self._clock.now() >= next_snapshot:
                await self._keep_snapshot()
                next_snapshot = after(self._clock.now(), SNAPSHOT_INTERVAL)
            await self._wake.wait(next_snapshot)

    def close(self) -> None:
        """Let go of its timer."""
        self._wake.close()

    def _hear(self, parcel: Parcel, reply_to: str) -> None:
        message = parcel.message
        if isinstance(message, Question) and message.log == self.log and reply_to:
            self._asked.append((message, reply_to))
            self._wake.ring()

    async def _answer(self, message: Question, reply_to: str) -> None:
        """A log that is not there yet, or cannot be read, is not answered for: who asks tries again."""
        try:
            answer: Answer | None
            if isinstance(message, ReadLog):
                answer = await self._page(message)
            elif isinstance(message, ReadAbout):
                answer = await self._page_about(message)
            else:
                answer = await self._image_page(message)
        except LogError as error:
            logger.error("log_unreadable", log=self.log, error=str(error))
            return
        if answer is not None:
            self._bus.say(answer, reply_to)

    async def _page(self, asked: ReadLog) -> LogPage | None:
        head = await self._reader.head()
        if not head.sequence:
            return None
        count = min(asked.count_max, READ_FACTS_MAX)
        page = await self._reader.read(asked.first, count, READ_BYTES_MAX)
        facts = tuple(ToldFact(Instant(row.at), row.cause, row.actor, row.event) for row in page.rows)
        return LogPage(
            self.log, head.log_id, head.term, asked.first, page.hash_before, page.hash_after, facts
        )

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

    async def _image_page(self, asked: FetchImage) -> ImagePage | None:
        key = (asked.sections, asked.sequence)
        number = asked.page
        if number == 0 or key not in self._cached:
            head = await self._catch_up()
            if not head.sequence or self._image is None:
                return None
            number, key = 0, (asked.sections, head.sequence)
            if key not in self._cached:
                data = self._image.encode(asked.sections)
                pages = [data[at : at + IMAGE_PAGE_BYTES] for at in range(0, len(data), IMAGE_PAGE_BYTES)]
                self._cached[key] = (head, pages)
                if len(self._cached) > IMAGES_CACHED_MAX:
                    self._cached.popitem(last=False)
        head, pages = self._cached[key]
        if number >= len(pages):
            return None
        data = pages[number]
        return ImagePage(self.log, head.log_id, head.term, head.sequence, head.hash, number, len(pages), data)

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
            await self._reader.keep_snapshot(Snapshot(head, self._image.encode(), VERSIONS.made_of))
            self._snapshot_sequence = head.sequence
        except (LogError, OSError) as error:
            logger.error("snapshot_not_kept", log=self.log, error=str(error))
