"""Notes about copies of data, which the queue evolves and keeps nowhere."""

from core.fact import Note
from core.nouns.instant import Instant


class CopiesLooked(Note, frozen=True):
    """Copies were ordered as far as links, storage and the day's bytes allow."""

    again_at: Instant | None
    """None: at the next change."""


class CopyMoved(Note, frozen=True):
    """A copy under way has moved so many bytes."""

    copy: int
    moved: int


class ReadsLooked(Note, frozen=True):
    """Waiting work that reads data was counted."""

    again_at: Instant | None
    """None: no such work waits."""
