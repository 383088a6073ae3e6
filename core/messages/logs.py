"""How facts travel: announced by a keeper's host, asked for from the reader beside it. Hosts speak these; components
never hear them.
"""

from msgspec import Struct

from core.messages.base import Answer, Message
from core.nouns.ids import LogName
from core.nouns.instant import Instant
from core.nouns.limits import READ_FACTS_MAX


class ToldFact(Struct, frozen=True):
    """A fact without what its announcement already says."""

    at: Instant
    cause: str
    actor: str
    event: bytes
    """Encoded by core/codec.py, exactly as the log holds it."""


class FactsTold(Message, frozen=True, tag="facts-told"):
    """A durable batch, in order."""

    log: LogName
    log_id: str
    term: int
    first: int
    """Sequence of the first fact."""
    hash_before: bytes
    """Of the row before it: who has another one there starts from the image."""
    hash_after: bytes
    facts: tuple[ToldFact, ...]
    rows: bytes | None = b""
    """The node rows that the facts of the batch changed, packed (core/rows.py); only beside the last part of a batch, which
    `is_last` says. None: they are not known, or too many."""
    is_last: bool = True
    """Whether the batch ends here."""


class HeadTold(Message, frozen=True, tag="head-told"):
    """The keeper is there, and this is how far its log has come."""

    log: LogName
    log_id: str
    term: int
    sequence: int
    hash: bytes


class AskHead(Message, frozen=True, tag="ask-head"):
    """Is this log kept, and how far is it? Only its keeper answers."""

    log: LogName


class AcceptClock(Message, frozen=True, tag="accept-clock"):
    """An operator lets a log go on whose keeper waits because of its machine's clock (runtime/keeping/clock_guard.py)."""

    log: LogName


class ClockWord(Answer, frozen=True, tag="clock-word"):
    """The keeper has heard the operator's word."""

    log: LogName
    was_waited_for: bool
    """False: the keeper does not wait, and the word changes nothing."""


class ReadLog(Message, frozen=True, tag="read-log"):
    """Facts from `first` on."""

    log: LogName
    first: int
    count_max: int


class ReadAbout(Message, frozen=True, tag="read-about"):
    """Facts about one thing, also one that has left the image."""

    log: LogName
    about: str
    after: int = 0
    """The sequence behind which to go on."""
    count_max: int = READ_FACTS_MAX


class FetchImage(Message, frozen=True, tag="fetch-image-pages"):
    """One page of an encoded image, in these sections; none named means all."""

    log: LogName
    sections: tuple[str, ...]
    page: int = 0
    sequence: int = 0
    """With `hash`, the head of the image of which the page is wanted; 0 with page 0. If that image is no longer kept, the answer is
    page 0 of the newest."""
    hash: bytes = b""


class HeadAnswer(Answer, frozen=True, tag="head-answer"):
    """A log's durable head."""

    log: LogName
    log_id: str
    term: int
    sequence: int
    hash: bytes


class LogPage(Answer, frozen=True, tag="log-page"):
    """Consecutive durable facts; none when there are none from there on."""

    log: LogName
    log_id: str
    term: int
    first: int
    hash_before: bytes
    hash_after: bytes
    facts: tuple[ToldFact, ...]


class AboutFact(Struct, frozen=True):
    """One of the facts about a thing: they are not consecutive, so each has its sequence."""

    sequence: int
    at: Instant
    cause: str
    actor: str
    event: bytes


class AboutPage(Answer, frozen=True, tag="about-page"):
    """Durable facts about one thing, in order."""

    log: LogName
    log_id: str
    term: int
    facts: tuple[AboutFact, ...]
    next: int
    """What to ask `after` for more; 0: there are none up to `head`."""
    head: int
    """How far the log had come."""


class ImagePart(Struct, frozen=True):
    """One section of an encoded image."""

    section: str
    size: int
    """Bytes of the section's encoding, as the pages hold it."""
    is_packed: bool
    """Whether the encoding is compressed (zlib)."""


class ImagePage(Answer, frozen=True, tag="image-page-packed"):
    """One page of an encoded image. The encodings of its parts, one behind the other, are cut into pages."""

    log: LogName
    log_id: str
    term: int
    sequence: int
    hash: bytes
    page: int
    pages: int
    parts: tuple[ImagePart, ...]
    data: bytes
    newest: int
    """Sequence of the log's durable head at the time of the answer: the facts behind `sequence` are read from the log."""


MESSAGES: tuple[type[Message], ...] = (
    AcceptClock,
    ClockWord,
    FactsTold,
    HeadTold,
    AskHead,
    ReadLog,
    ReadAbout,
    FetchImage,
    HeadAnswer,
    LogPage,
    AboutPage,
    ImagePage,
)
