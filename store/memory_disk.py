"""A disk in memory, with a disk's misfortunes: it can lose or tear what was not synced, be full, fail, rot, and be
restored from an old copy. It outlives the keepers whose logs are on it.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Self

from core.nouns.ids import LogName
from store.chain import GENESIS, Stored
from store.images import unsealed
from store.port import Row, Snapshot


class Fate(StrEnum):
    """What a crash leaves of the batches that were written and not yet synced."""

    LOST = "lost"
    KEPT = "kept"
    TORN = "torn"
    """The last one is there in part and without its mark, which the next opening finds out; those before it are whole."""


class DiskFile:
    """One log's bytes, so to speak: rows, and behind each batch the mark that says that all of it is there.

    While a keeper writes it is known how much of that was synced. A machine that crashed knows nothing: whoever looks at the
    file first afterwards goes by the marks, as SQLite goes by the commit frames of its write-ahead log.
    """

    def __init__(self, log_id: str) -> None:
        self.log_id = log_id
        self.term = 0
        self.rows: list[Row] = []
        self.hashes: list[bytes] = []
        self.marks: list[tuple[int, int]] = []
        """Of each batch that is there to its end: how many rows there are after it, and its term."""
        self.durable = 0
        """How many rows are durable, and may be read."""
        self._synced = 0
        """How many marks are."""
        self._has_crashed = False
        """Whether nobody has looked since."""
        self.images: dict[int, bytes] = {}
        self.holder: object | None = None
        """The open log that may write; None when nobody has it."""
        self.on_durable: Callable[[list[Row]], None] | None = None
        """Told of each row as it becomes durable."""
        self.on_written: Callable[[], None] | None = None
        """Told of each batch as it is written, before it is synced."""

    def copy(self) -> Self:
        """What is durable, held by nobody."""
        copy = type(self)(self.log_id)
        copy.term, copy.durable, copy.images = self.term, self.durable, dict(self.images)
        copy.rows, copy.hashes = self.rows[: self.durable], self.hashes[: self.durable]
        copy.marks, copy._synced = self.marks[: self._synced], self._synced  # noqa: SLF001  # another one of ours
        return copy

    @property
    def newest_term(self) -> int:
        """Of the newest batch, durable or not."""
        return self.marks[-1][1] if self.marks else self.term

    def write(self, rows: Sequence[Row], hashes: Sequence[bytes], term: int) -> None:
        """A batch and its mark; durable once it is synced."""
        self.rows += rows
        self.hashes += hashes
        self.marks.append((len(self.rows), term))
        if self.on_written is not None:
            self.on_written()

    def sync(self, count: int) -> None:
        """Make the first so many rows durable: whoever syncs takes along what was written before."""
        before = self.durable
        while self._synced < len(self.marks) and self.marks[self._synced][0] <= count:
            self.durable, self.term = self.marks[self._synced]
            self._synced += 1
        if self.on_durable is not None and self.durable > before:
            self.on_durable(self.rows[before : self.durable])

    @property
    def is_under_way(self) -> bool:
        """Whether a batch is written and not synced."""
        return self._synced < len(self.marks)

    def crash(self, fate: Fate) -> None:
        """The machine stopped. What it leaves is bytes: nobody has noted down which of them are whole batches."""
        if fate is Fate.TORN and self.is_under_way:
            self._tear()
        if fate is Fate.LOST:
            del self.rows[self.durable :], self.hashes[self.durable :], self.marks[self._synced :]
        self.holder = None
        self._has_crashed = True

    def recover(self) -> None:
        """Find out by the marks what is whole, and drop what is behind the last of them; nothing without a crash."""
        if not self._has_crashed:
            return
        self._has_crashed = False
        whole = self.marks[-1][0] if self.marks else 0
        assert whole >= self.durable, (whole, self.durable)
        del self.rows[whole:], self.hashes[whole:]
        self.sync(whole)

    def _tear(self) -> None:
        """Of the newest batch the first half of its rows is there, of the last of these the first half; and no mark."""
        end, _ = self.marks.pop()
        begin = self.marks[-1][0] if self.marks else 0
        left = begin + (end - begin + 1) // 2
        del self.rows[left:], self.hashes[left:]
        row = self.rows[-1]
        self.rows[-1] = row._replace(event=row.event[: len(row.event) // 2])
        self.hashes[-1] = self.hashes[-1][: len(self.hashes[-1]) // 2]

    def hash_at(self, sequence: int) -> bytes:
        """The hash of a row; what comes before the first has one too."""
        return self.hashes[sequence - 1] if sequence else GENESIS

    def newest_snapshot(self) -> Snapshot | None:
        """The newest that is undamaged and stands where the log has this hash."""
        for sequence in sorted(self.images, reverse=True):
            snapshot = unsealed(self.images[sequence])
            if snapshot is None or sequence > self.durable:
                continue
            if (snapshot.head.log_id, snapshot.head.hash) == (self.log_id, self.hash_at(sequence)):
                return snapshot
        return None

    def stored(self, first: int, count_max: int) -> list[Stored]:
        """Durable rows with their hashes, as they lie there."""
        end = min(self.durable, first - 1 + count_max)
        pairs = zip(self.rows[first - 1 : end], self.hashes[first - 1 : end], strict=True)
        return [(*row, hash_) for row, hash_ in pairs]


class MemoryDisk:
    """What survives its users. Every misfortune is a method or an attribute, and strikes all logs on the disk."""

    def __init__(self, files: dict[LogName, DiskFile] | None = None) -> None:
        self._files = files or {}
        self.is_full = False
        """Nothing more can be written until it is set back."""
        self.on_file: Callable[[LogName, DiskFile], None] | None = None
        """Told of each log that is made on it."""
        self.sync_fails: Fate | None = None
        """The next syncs fail, and leave the batch lost or kept: its keeper cannot know which before it reopens."""

    def crash(self, fate: Fate = Fate.LOST, name: LogName | None = None) -> None:
        """The keeper of this log, or of every log, is gone at once. What it had open fails from now on."""
        for file in self._files.values() if name is None else [self._files[name]]:
            file.crash(fate)

    def copy(self) -> Self:
        """Another disk with what is durable on this one: a backup, to be used instead of it one day."""
        return type(self)({name: file.copy() for name, file in self._files.items()})

    def flip_byte(self, name: LogName, sequence: int) -> None:
        """One byte of a row's event rots."""
        rows = self._files[name].rows
        row = rows[sequence - 1]
        rows[sequence - 1] = row._replace(event=bytes((row.event[0] ^ 1,)) + row.event[1:])

    def flip_byte_in_snapshot(self, name: LogName, sequence: int) -> None:
        """One byte of a snapshot rots."""
        images = self._files[name].images
        images[sequence] = images[sequence][:-1] + bytes((images[sequence][-1] ^ 1,))

    def file(self, name: LogName) -> DiskFile | None:
        """The log of this name, if there is one. Whoever looks first after a crash has it recovered. For stores only."""
        file = self._files.get(name)
        if file is not None:
            file.recover()
        return file

    def make_file(self, name: LogName, log_id: str) -> DiskFile:
        """The log of this name, made now if there is none. For stores only."""
        file = self.file(name)
        if file is None:
            file = self._files[name] = DiskFile(log_id)
            if self.on_file is not None:
                self.on_file(name, file)
        return file
