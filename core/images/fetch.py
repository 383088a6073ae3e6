"""Fetching an image from the reader of its log: which request comes next, and what each answer adds.

An image comes in pages of one encoding, which the reader shares among all that ask at about the same time and which may therefore
be some seconds old; the facts since are read from the log and folded. A request whose answer is lost is made again, and nothing
that was fetched before is lost with it.
"""

import zlib

from core.codec import CodecError, decode_event_shared
from core.fact import Fact, Head
from core.images import Image, image_type
from core.messages.base import Message
from core.messages.logs import FetchImage, ImagePage, LogPage, ReadLog
from core.nouns.ids import LogName
from core.nouns.limits import READ_FACTS_MAX


class ImageFetch:
    """The newest image of one log, in these sections, until it is there.

    Make the request that `wanted` names and hand its answer to `take`, until nothing is wanted; `decode` once `is_whole`.
    """

    def __init__(self, log: LogName, sections: tuple[str, ...]) -> None:
        self.log = log
        self.sections = sections
        self.head: Head | None = None
        """Up to which `image` is folded; None until the image is decoded."""
        self.image: Image | None = None
        self._first: ImagePage | None = None
        self._pages: list[bytes] = []
        self._newest = 0
        """The sequence up to which the image is to be folded: a head of the log since the fetch began."""

    def begin_anew(self) -> None:
        """Forget all that was fetched."""
        self.head = self.image = self._first = None
        self._pages = []
        self._newest = 0

    @property
    def bytes_held(self) -> int:
        """Bytes of the pages that wait to be decoded."""
        return sum(map(len, self._pages))

    @property
    def is_whole(self) -> bool:
        """Whether every page is there, and the image is to be decoded."""
        return self._first is not None and len(self._pages) == self._first.pages

    def wanted(self) -> FetchImage | ReadLog | None:
        """Return the next request; None: the image is there, and as new as the log was at the last page."""
        assert not self.is_whole, self.log
        if self.head is not None:
            is_behind = self.head.sequence < self._newest
            return ReadLog(self.log, self.head.sequence + 1, READ_FACTS_MAX) if is_behind else None
        if self._first is None:
            return FetchImage(self.log, self.sections)
        first = self._first
        return FetchImage(self.log, self.sections, len(self._pages), first.sequence, first.hash)

    def read_on(self, sequence: int) -> None:
        """Want the image folded up to this sequence, too."""
        self._newest = max(self._newest, sequence)

    def take(self, answer: Message) -> bool:
        """Add an answer. False: the answer adds nothing. Raises CodecError."""
        if isinstance(answer, ImagePage) and answer.log == self.log and self.head is None:
            return self._take_page(answer)
        if isinstance(answer, LogPage) and answer.log == self.log and self.head is not None:
            return self._take_facts(answer, self.head)
        return False

    def _take_page(self, page: ImagePage) -> bool:
        first = self._first
        is_same = first is not None and (page.log_id, page.sequence, page.hash) == (
            first.log_id,
            first.sequence,
            first.hash,
        )
        if not is_same:
            if page.page:
                return False
            self._first, self._pages = page, []
        elif page.page != len(self._pages):
            return False
        self._pages.append(page.data)
        self._newest = max(page.newest, self._newest if is_same else 0)
        return True

    def decode(self) -> None:
        """Make the image of its pages. Raises CodecError."""
        first = self._first
        assert first is not None, self.log
        data = b"".join(self._pages)
        self._first, self._pages = None, []
        encoded, begin = {}, 0
        try:
            for part in first.parts:
                piece = data[begin : begin + part.size]
                encoded[part.section] = zlib.decompress(piece) if part.is_packed else piece
                begin += part.size
        except zlib.error as error:
            raise CodecError(f"{self.log}: {error}") from error
        self.image = image_type(self.log).of_encoded(encoded, self.sections)
        self.head = Head(self.log, first.log_id, first.term, first.sequence, first.hash)

    def _take_facts(self, page: LogPage, head: Head) -> bool:
        """Fold what was recorded since; a page of another history begins the fetch anew."""
        image = self.image
        assert image is not None, self.log
        if page.first != head.sequence + 1:
            return False
        if page.log_id != head.log_id or page.term < head.term or page.hash_before != head.hash:
            self.begin_anew()
            return False
        facts = [
            Fact(
                self.log, page.first + index, told.at, told.cause, told.actor, decode_event_shared(told.event)
            )
            for index, told in enumerate(page.facts)
        ]
        for fact in facts:
            image.fold(fact)
        self.head = Head(
            self.log, head.log_id, max(page.term, head.term), head.sequence + len(facts), page.hash_after
        )
        return bool(facts)
