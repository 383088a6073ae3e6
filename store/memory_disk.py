"""A disk in memory, with a disk's misfortunes: it can lose or tear what was not synced, be full, fail, rot, and be
restored from an old copy. It outlives the keepers whose logs are on it.
"""

from collections.abc import Callable
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
    """The last one is there in part, which the next opening drops; those before it are whole."""


class DiskFile:
    """One log's bytes, so to speak: rows that are durable, and behind them those that are only written."""

    def __init__(self, log_id: str) -> None:
        self.log_id = log_id
        self.term = 0
        self.rows: list[Row] = []
        self.hashes: list[bytes] = []
        self.durable = 0
        """How many rows are durable."""
        self.written: list[tuple[int, int]] = []
        """Batches that are not: how many rows there are after each, and its term."""
        self.images: dict[int, bytes] = {}
        self.holder: object | None = None
        """The open log that may write; None when nobody has it."""
        self.on_durable: Callable[[list[Row]], None] | None = None
        """Told of each row as it becomes durable."""

    def copy(self) -> Self:
        """What is durable, held by nobody."""
        copy = type(self)(self.log_id)
        copy.term, copy.durable, copy.images = self.term, self.durable, dict(self.images)
        copy.rows, copy.hashes = self.rows[: self.durable], self.hashes[: self.durable]
        return copy

    def sync(self, count: int) -> None:
        """Make the first so many rows durable: whoever syncs takes along what was written before."""
        before = self.durable
        while self.written and self.written[0][0] <= count:
            self.durable, self.term = self.written.pop(0)
        if self.on_durable is not None and self.durable > before:
            self.on_durable(self.rows[before : self.durable])

    def drop_written(self) -> None:
        """Forget what is not durable."""
        del self.rows[self.durable :], self.hashes[self.durable :]
        self.written.clear()

    def crash(self, fate: Fate) -> None:
        """The machine stopped."""
        if fate is Fate.TORN and self.written:
            whole_before, _ = self.written[-2] if len(self.written) > 1 else (self.durable, 0)
            whole, _ = self.written.pop()
            # Half of the batch's rows stay as a tail that belongs to no batch.
            del self.rows[whole_before + (whole - whole_before) // 2 :]
            del self.hashes[len(self.rows) :]
        if fate is not Fate.LOST and self.written:
            self.sync(self.written[-1][0])
        if fate is Fate.LOST:
            self.drop_written()
        self.holder = None

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
        """The log of this name, if there is one. For stores only."""
        return self._files.get(name)

    def make_file(self, name: LogName, log_id: str) -> DiskFile:
        """The log of this name, made now if there is none. For stores only."""
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = DiskFile(log_id)
            if self.on_file is not None:
                self.on_file(name, file)
        return file
