"""Logs in memory, held to the same promise as those in SQLite: what the simulated world keeps its facts in.

Nothing here waits but for the delay that is handed in, and nothing is a thread or a lock: the virtual loop decides what
happens when. An append without a delay never suspends.
"""

from collections.abc import Awaitable, Callable, Sequence
from itertools import islice

from core.fact import Head
from core.nouns.ids import LogName
from core.nouns.instant import Instant
from store.chain import GENESIS, chain, checked
from store.errors import AppendFailed, LogBroken, LogFull, LogInUse, NotNext
from store.images import KEPT, sealed
from store.memory_disk import DiskFile, MemoryDisk
from store.port import Archived, Page, Row, Snapshot, Verification
from store.rows import fitting

SyncDelay = Callable[[], Awaitable[object]]
"""Waits as long as a disk takes to make a batch durable."""


class MemoryLog:
    """A log that is open for its keeper."""

    def __init__(self, name: LogName, disk: MemoryDisk, file: DiskFile, sync_delay: SyncDelay | None) -> None:
        self._name = name
        self._disk = disk
        self._file = file
        self._sync_delay = sync_delay

    @property
    def head(self) -> Head:
        return _head_of(self._name, self._file)

    @property
    def not_archived(self) -> int:
        return 0

    async def append(self, rows: Sequence[Row], term: int) -> Head:
        # 1. Write: from here on a crash decides what becomes of it.
        file = self._held()
        if rows:
            self._write(file, rows, term)
        count = len(file.rows)
        # 2. Sync. Without a delay there is no suspension either; cancelled here, the batch is taken along by the next.
        if self._sync_delay is not None:
            await self._sync_delay()
            self._held()
        if self._disk.sync_fails is not None:
            file.crash(self._disk.sync_fails)
            self._held()
        # 3. The head after this batch. Another may have been synced meanwhile, and this one with it.
        file.sync(count)
        return Head(self._name, file.log_id, term if rows else file.term, count, file.hash_at(count))

    async def close(self) -> None:
        if self._file.holder is self:
            self._file.sync(len(self._file.rows))
            self._file.holder = None

    def _held(self) -> DiskFile:
        if self._file.holder is not self:
            raise AppendFailed(self._name, "it is closed, or its machine crashed; open it again")
        return self._file

    def _write(self, file: DiskFile, rows: Sequence[Row], term: int) -> None:
        if term < file.newest_term:
            raise NotNext(self._name, f"term {term} comes after term {file.newest_term}")
        for expected, row in enumerate(rows, len(file.rows) + 1):
            if row.sequence != expected:
                raise NotNext(self._name, f"sequence {row.sequence} stands where {expected} should")
        if self._disk.is_full:
            raise LogFull(self._name, "no room for more; free some, then go on")
        file.write(rows, chain(file.hashes[-1] if file.hashes else GENESIS, rows), term)


class MemoryReader:
    """Reads one log, with or without its keeper."""

    def __init__(self, name: LogName, disk: MemoryDisk) -> None:
        self._name = name
        self._disk = disk

    @property
    def not_archived(self) -> int:
        return 0

    async def head(self) -> Head:
        file = self._disk.file(self._name)
        return Head(self._name, "", 0, 0, GENESIS) if file is None else _head_of(self._name, file)

    async def read(self, first: int, count_max: int, bytes_max: int) -> Page:
        assert first >= 1, first
        file = self._disk.file(self._name) or DiskFile("")
        if first > file.durable + 1:
            last = file.hash_at(file.durable)
            return Page([], last, last)
        wanted = file.rows[first - 1 : min(file.durable, first - 1 + count_max)]
        count, _ = fitting(wanted, bytes_max, at_least=1)
        before = file.hash_at(first - 1)
        rows = checked(self._name, file.stored(first, count), first, before)
        return Page(rows, before, file.hash_at(first - 1 + count))

    async def read_about(self, about: str, after: int, count_max: int, bytes_max: int) -> list[Row]:
        file = self._disk.file(self._name) or DiskFile("")
        found = (row.sequence for row in file.rows[after : file.durable] if row.about == about and about)
        rows = [
            row
            for sequence in islice(found, count_max)
            for row in checked(self._name, file.stored(sequence, 1), sequence, file.hash_at(sequence - 1))
        ]
        return rows[: fitting(rows, bytes_max, at_least=1)[0]]

    async def snapshot(self) -> Snapshot | None:
        file = self._disk.file(self._name)
        return None if file is None else file.newest_snapshot()

    async def keep_snapshot(self, snapshot: Snapshot) -> None:
        assert snapshot.head.log == self._name, (snapshot.head.log, self._name)
        file = self._disk.file(self._name)
        assert file is not None, "a snapshot is of a log"
        if self._disk.is_full:
            raise LogFull(self._name, "no room for a snapshot; the older ones stay")
        file.images[snapshot.head.sequence] = sealed(snapshot)
        usable = sorted((sequence for sequence in file.images if sequence <= file.durable), reverse=True)
        file.images = {sequence: file.images[sequence] for sequence in usable[:KEPT]}

    async def archive(self, before: Instant, *, is_whole: bool = True) -> Archived | None:
        """A disk in memory keeps all rows where they are: a simulated log lasts for hours."""
        return None

    async def verify(self) -> Verification:
        file = self._disk.file(self._name) or DiskFile("")
        try:
            rows = checked(self._name, file.stored(1, file.durable), 1, GENESIS)
        except LogBroken as broken:
            return Verification(rows=broken.sequence - 1, broken_at=broken.sequence, problem=str(broken))
        return Verification(rows=len(rows), broken_at=0)

    async def close(self) -> None:
        """Nothing is held."""


class MemoryStore:
    """The logs of one disk, as one machine's processes see them."""

    def __init__(self, disk: MemoryDisk, sync_delay: SyncDelay | None = None) -> None:
        self._disk = disk
        self._sync_delay = sync_delay

    async def open(self, name: LogName, log_id_if_new: str) -> MemoryLog:
        file = self._disk.make_file(name, log_id_if_new)
        if file.holder is not None:
            raise LogInUse(name, "another keeper has it; stop that one")
        snapshot = file.newest_snapshot()
        sound = snapshot.head.sequence if snapshot is not None else 0
        checked(name, file.stored(sound + 1, file.durable), sound + 1, file.hash_at(sound))
        log = MemoryLog(name, self._disk, file, self._sync_delay)
        file.holder = log
        return log

    async def reader(self, name: LogName) -> MemoryReader:
        return MemoryReader(name, self._disk)


def _head_of(name: LogName, file: DiskFile) -> Head:
    return Head(name, file.log_id, file.term, file.durable, file.hash_at(file.durable))
