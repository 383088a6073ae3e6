"""A fact: one event as a log remembers it. Everything that must survive is one of these.

An `Event` is kept in a log and announced in the same words. A `Note` is evolved and kept nowhere: a component's own
memory of what it heard and said, which it can lose. Both reach `evolve` inside a `Fact`, a note under no log.
"""

from typing import ClassVar

from msgspec import Struct

from core.nouns.ids import LogName
from core.nouns.instant import Instant

NO_LOG = LogName("")


class Event(Struct, frozen=True):
    """Something that happened and is remembered. Subclasses write their tag by hand, so that a class may be renamed."""

    about_field: ClassVar[str] = ""
    """The field that names the thing this is about; empty when it is about the log itself."""

    @property
    def about(self) -> str:
        """The name under which `show` and `story` find this fact again, after the image forgot the thing."""
        return str(getattr(self, self.about_field)) if self.about_field else ""


class Note(Struct, frozen=True):
    """Something heard or said that its component may forget. Never encoded."""


class Fact(Struct, frozen=True):
    """One event with its place in a log."""

    log: LogName
    sequence: int
    """Gap-free from 1 in its log; 0 for a note."""
    at: Instant
    """On the keeper's clock; never earlier than the fact before it."""
    cause: str
    """The id of the message that led to it."""
    actor: str
    """Who said that message."""
    event: Event | Note
    heard_at: Instant = Instant(0)
    """On the folding host's clock: what a follower's deadlines count from. Not kept, not announced."""


class Head(Struct, frozen=True):
    """How far a log has come: what a keeper says, and what a follower compares."""

    log: LogName
    log_id: str
    """Drawn once, when the log was made. Another id is another log, whatever its name."""
    term: int
    """One more at each opening. A lower one is a keeper that should not be there."""
    sequence: int
    hash: bytes
    """Of the row at `sequence`, chained over all rows before it."""
