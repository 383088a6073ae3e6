"""A log's image, encoded for followers: made section by section, cut into pages, kept while somebody reads it.

All sets of sections are served from one encoding: a set is the encodings of its sections, one behind the other.
"""

import asyncio
import zlib

from msgspec import Raw

from core.codec import encode
from core.fact import Head
from core.images import Image
from core.messages.logs import FetchImage, ImagePage, ImagePart
from core.nouns.instant import Instant, after
from core.nouns.limits import (
    IMAGE_KEPT_SPAN,
    IMAGE_PAGE_BYTES,
    IMAGE_SHARED_SPAN,
    IMAGES_ENCODED_MAX,
    PACKED_AT_ONCE,
)

PACKING = 1
"""The level of compression: the fastest. It makes an image of a large region a tenth as large, in less time than it takes to send."""


class EncodedImage:
    """All sections of a log's image at one head."""

    def __init__(self, head: Head, made_at: Instant, sections: dict[str, tuple[ImagePart, bytes]]) -> None:
        self.head = head
        self.made_at = made_at
        self.asked_at = made_at
        """When a page of it was last asked for."""
        self._sections = sections

    def page(self, asked: FetchImage, newest: int) -> ImagePage:
        """Return the page that is asked for; page 0 instead of one of another image, or one that there is not."""
        chosen = [self._sections[name] for name in asked.sections or self._sections]
        parts = tuple(part for part, _ in chosen)
        pages = max(1, -(-sum(part.size for part in parts) // IMAGE_PAGE_BYTES))
        head = self.head
        is_named = (asked.sequence, asked.hash) == (head.sequence, head.hash)
        number = asked.page if is_named and 0 <= asked.page < pages else 0
        return ImagePage(
            head.log,
            head.log_id,
            head.term,
            head.sequence,
            head.hash,
            number,
            pages,
            parts,
            _cut([data for _, data in chosen], number * IMAGE_PAGE_BYTES, IMAGE_PAGE_BYTES),
            newest,
        )


def _cut(pieces: list[bytes], begin: int, size: int) -> bytes:
    """Return so many bytes of the pieces as they stand one behind the other."""
    found = []
    for piece in pieces:
        if begin < len(piece):
            part = piece[begin : begin + size]
            found.append(part)
            size -= len(part)
        begin = max(0, begin - len(piece))
    return b"".join(found)


async def encode_image(image: Image, head: Head, now: Instant) -> EncodedImage:
    """Encode an image that nobody folds meanwhile, letting others have their turn between sections and between parts of large ones.

    The longest step is the largest section's encoding: 0.3 s with 100,000 nodes and 1.3 attempts each.
    """
    sections = {}
    for name, section in image.sections.items():
        data = encode(section)
        await asyncio.sleep(0)
        is_packed = len(data) > IMAGE_PAGE_BYTES
        if is_packed:
            data = await _packed(data)
        sections[name] = ImagePart(name, len(data), is_packed), data
    return EncodedImage(head, now, sections)


async def _packed(data: bytes) -> bytes:
    packer = zlib.compressobj(PACKING)
    found = []
    for begin in range(0, len(data), PACKED_AT_ONCE):
        found.append(packer.compress(memoryview(data)[begin : begin + PACKED_AT_ONCE]))
        await asyncio.sleep(0)
    found.append(packer.flush())
    return b"".join(found)


async def encode_in_turns(image: Image) -> bytes:
    """Return what `image.encode()` does, letting others have their turn between sections. Nobody folds the image meanwhile."""
    sections = {}
    for name, section in image.sections.items():
        sections[name] = Raw(encode(section))
        await asyncio.sleep(0)
    return encode(sections)


class EncodedImages:
    """The encodings that a reader keeps, oldest first."""

    def __init__(self) -> None:
        self.kept: list[EncodedImage] = []

    def find(self, asked: FetchImage, head: Head, now: Instant) -> EncodedImage | None:
        """Return the encoding that answers a request: the one named, or else the newest if it may serve. None: another is to be made."""
        found = None
        if asked.page:
            named = (asked.sequence, asked.hash)
            found = next((one for one in self.kept if (one.head.sequence, one.head.hash) == named), None)
        if found is None and self.kept and self._may_serve(self.kept[-1], head, now):
            found = self.kept[-1]
        if found is not None:
            found.asked_at = now
        return found

    def _may_serve(self, newest: EncodedImage, head: Head, now: Instant) -> bool:
        """Whether an image is as new as the log, or nearly so, or there is no room for another."""
        if newest.head.log_id != head.log_id or newest.head.sequence > head.sequence:
            return False
        is_current = newest.head.sequence == head.sequence and newest.head.hash == head.hash
        if is_current or now < after(newest.made_at, IMAGE_SHARED_SPAN):
            return True
        self.drop_unread(now)
        return len(self.kept) >= IMAGES_ENCODED_MAX

    def keep(self, encoded: EncodedImage) -> None:
        """Keep one more, and only of its log: what a file held that is there no more is dropped."""
        log_id = encoded.head.log_id
        before = [one for one in self.kept if one.head.log_id == log_id]
        self.kept = [*before, encoded][-IMAGES_ENCODED_MAX:]

    def drop_unread(self, now: Instant) -> None:
        """Drop encodings that nobody reads any more."""
        self.kept = [one for one in self.kept if now < after(one.asked_at, IMAGE_KEPT_SPAN)]
