"""A log as the rest of Mizzen knows it.

The promise of every implementation, held by tests/contracts/:

- **Append-only, one writer.** Opening takes the log for one keeper; a second one is refused.
- **Whole batches.** After a kill at any byte the log holds a prefix of the batches, each whole. A batch whose `append`
  returned is there.
- **Gap-free and chained.** Rows are numbered from 1; each row's hash covers its content and the hash before it.
- **An append is never torn by cancellation.** A cancelled `append` either happened or did not; the next one starts clean.
- **Readers never hinder the writer**, and see durable rows only.
- **A log does not grow for ever.** Old rows may move to archive files; whoever reads is not told the difference.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct

from core.fact import Head
from core.nouns.ids import LogName
from core.nouns.instant import Instant


class Row(NamedTuple):
    """A fact as the log holds it."""

    sequence: int
    at: int
    cause: str
    actor: str
    about: str
    event: bytes
    """Encoded by core/codec.py."""


class Page(NamedTuple):
    """Consecutive rows and the hashes around them."""

    rows: list[Row]
    hash_before: bytes
    hash_after: bytes
    """Of the last row; equal to `hash_before` when there is none."""


class Snapshot(Struct, frozen=True):
    """An encoded image with the head it was folded up to."""

    head: Head
    image: bytes
    made_of: str = ""
    """Version and shape of the image (core/images/versions.py); empty when the build that kept it said neither."""


class Archived(Struct, frozen=True):
    """What was put into one archive file."""

    first: int
    last: int
    path: str
    bytes: int
    """How large the file is."""


class Verification(Struct, frozen=True):
    """What checking a whole log found."""

    rows: int
    broken_at: int
    """The first row whose hash does not follow; 0 when all do."""
    problem: str = ""
    archive: str = ""
    """The archive file that has that row, when it is one of those; empty when the log's own file has it."""


class Log(Protocol):
    """The keeper's side of one log."""

    @property
    def head(self) -> Head:
        """Of what is durable. Term 0 and sequence 0 when nothing is."""

    @property
    def not_archived(self) -> int:
        """Failed tries to delete rows that an archive file has, since the log was opened; each is repeated later."""

    async def append(self, rows: Sequence[Row], term: int) -> Head:
        """Make a batch durable, whole; returns the head after it.

        The first row follows the head, or the last row of the append called before this one. `term` is remembered
        with the batch and never falls. No rows write nothing: the answer is the head when all appends called before
        are settled, which tells whether a cancelled one happened.
        Raises LogFull and NotNext (the batch is absent), and AppendFailed (then the log must be reopened).
        """

    async def close(self) -> None:
        """Let go of the log. What was appended stays."""


class LogReader(Protocol):
    """What anybody may ask of a log, beside its keeper or without one."""

    @property
    def not_archived(self) -> int:
        """Calls of `archive` that failed; one beside another process that archives the log is not counted."""

    async def head(self) -> Head:
        """Of what is durable."""

    async def read(self, first: int, count_max: int, bytes_max: int) -> Page:
        """Rows from `first` on, at most so many and so large together (one row at least, if there is one).

        Beyond the head there are none, and both hashes are the head's. Raises LogBroken when a hash does not follow.
        """

    async def read_about(self, about: str, after: int, count_max: int, bytes_max: int) -> list[Row]:
        """Rows about a thing behind this sequence, oldest first; at most so many and so large together (one row at least,
        if there is one). Each is checked against the one before it in the log. Raises LogBroken.

        What is about the log itself is about nothing, and is not found by that.
        """

    async def snapshot(self) -> Snapshot | None:
        """The newest snapshot whose bytes and place in the chain are right; None without one."""

    async def keep_snapshot(self, snapshot: Snapshot) -> None:
        """Keep it, whole or not at all, and let go of all but the newest two."""

    async def archive(self, before: Instant, *, is_whole: bool = True) -> Archived | None:
        """Put the oldest rows into an archive file, so that the keeper can let go of them; None when none is due.

        Those that were recorded before an instant, in order, none twice, and never the row of the oldest snapshot that is
        kept or one after it. `is_whole`: only when there are enough for a whole file. Reading finds them as before. A log
        may keep all of its rows where they are, and then none is ever due. Raises LogError.
        """

    async def verify(self) -> Verification:
        """Check every row."""

    async def close(self) -> None:
        """Let go."""


class LogStore(Protocol):
    """Where logs are."""

    async def open(self, name: LogName, log_id_if_new: str) -> Log:
        """Take a log for its one keeper, making it if there is none, and check the chain from the newest snapshot on.

        Raises LogInUse and LogBroken.
        """

    async def reader(self, name: LogName) -> LogReader:
        """Read a log, whether or not a keeper has it. One that was never made is empty, and its log id too."""
