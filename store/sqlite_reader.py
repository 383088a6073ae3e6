"""Reading a log's SQLite file, beside its keeper or without one: short statements only, every row checked.

The rows are fetched in aiosqlite's thread and checked in the caller's: handing a page over costs 60 µs, and two threads
would only take the interpreter from one another.
"""

import asyncio
import errno
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import aiosqlite

from core.fact import Head
from core.nouns.ids import LogName
from core.nouns.instant import Instant
from store import sqlite_file as file
from store.archive import Archive
from store.archive_file import ArchiveFile
from store.archiving import archive_next
from store.chain import GENESIS, Stored, checked
from store.errors import ArchiveInUse, LogBroken, LogError, LogFull
from store.images import ImageFiles
from store.port import Archived, Page, Row, Snapshot, Verification
from store.rows import fitting

FETCH_ROWS_MAX = 400
"""Rows in one fetch. They are in memory before their size is known: facts of 256 KiB each would be 100 MB. And they should
stay in the processor's cache until they are checked and decoded: 2,000 at once were read 0.93 times as fast."""

WEIGHT_GUESSED_FIRST = 8192
"""Bytes that a row is thought to have before any was seen: small first fetches rather than large ones."""


class SqliteReader:
    """Reads one log. It connects when it is first asked for something and finds the log there."""

    def __init__(self, directory: Path, name: LogName) -> None:
        self._name = name
        self._directory = directory
        self._path = file.path_of(directory, name)
        self._archive = Archive(directory, name)
        self._images = ImageFiles(directory, name)
        self._connection: aiosqlite.Connection | None = None
        self._connecting = asyncio.Lock()
        self._weight = WEIGHT_GUESSED_FIRST
        self._not_archived = 0

    @property
    def not_archived(self) -> int:
        return self._not_archived

    async def head(self) -> Head:
        rows = await self._fetch(file.HEAD)
        return Head(self._name, *rows[0]) if rows else Head(self._name, "", 0, 0, GENESIS)

    async def read(self, first: int, count_max: int, bytes_max: int) -> Page:
        assert first >= 1, first
        # From the row before on: that one's hash is what the first must follow.
        early = int(first > 1)
        wanted = self._wanted(count_max, bytes_max)
        stored = await self._stored(first - early, wanted + early)
        if stored and stored[0][0] == first - early:
            hash_before = stored.pop(0)[-1] if early else GENESIS
            page = Page([], hash_before, hash_before)
        else:
            archive = await self._archived()
            if not stored and first > archive.last + 1:
                head = await self.head()
                return Page([], head.hash, head.hash)
            page = await self._before(archive, first, count_max, bytes_max, stored)
            reached = page.rows[-1].sequence if page.rows else first - 1
            if reached < archive.last:
                return page
            if not stored or stored[0][0] != reached + 1:
                stored = await self._stored(reached + 1, wanted, page.hash_after)
        return await self._filled(page, stored, first, wanted, count_max, bytes_max)

    async def _before(
        self, archive: Archive, first: int, count_max: int, bytes_max: int, stored: list[Stored]
    ) -> Page:
        """What is archived of a page whose first row, or the row before that, is not in the file."""
        if first <= archive.last:
            return await asyncio.to_thread(archive.read, first, count_max, bytes_max)
        if first == archive.last + 1:
            return Page([], archive.hash_after, archive.hash_after)
        raise LogBroken(self._name, first - 1, f"the row is missing; the next one is {stored[0][0]}")

    async def _filled(
        self, page: Page, stored: list[Stored], first: int, wanted: int, count_max: int, bytes_max: int
    ) -> Page:
        """A page with the rows that follow its own, as far as there is room."""
        rows, hash_before, hash_after = page
        bytes_left = bytes_max - fitting(rows, bytes_max, at_least=0)[1]
        wanted = min(wanted, max(0, count_max - len(rows)))
        while stored and wanted and (bytes_left > 0 or not rows):
            if rows and stored[0][0] != first + len(rows):
                break  # Archived meanwhile, or missing: who asks for the next one is told.
            following = checked(self._name, stored[:wanted], first + len(rows), hash_after)
            count, bytes_used = fitting(following, bytes_left, at_least=0 if rows else 1)
            self._weight = bytes_used // len(following)
            bytes_left -= bytes_used
            rows += following[:count]
            if count:
                hash_after = stored[count - 1][-1]
            if count < wanted or len(rows) >= count_max or bytes_left <= 0:
                break
            wanted = self._wanted(count_max - len(rows), bytes_left)
            stored = await self._stored(first + len(rows), wanted, hash_after)
        return Page(rows, hash_before, hash_after)

    async def read_about(self, about: str, after: int, count_max: int, bytes_max: int) -> list[Row]:
        # First here, then in the archive: a row that is moved meanwhile is found in both, and none in neither.
        rows = await self._about_here(about, after, count_max, bytes_max)
        archive = await self._archived()
        if not about or archive.last <= after:
            return rows
        archived = await asyncio.to_thread(archive.about, about, after, count_max, bytes_max)
        rows = (archived + [row for row in rows if row.sequence > archive.last])[:count_max]
        return rows[: fitting(rows, bytes_max, at_least=1)[0]]

    async def _about_here(self, about: str, after: int, count_max: int, bytes_max: int) -> list[Row]:
        rows: list[Row] = []
        bytes_left = bytes_max
        while len(rows) < count_max and (bytes_left > 0 or not rows):
            wanted = self._wanted(count_max - len(rows), bytes_left)
            found = await self._fetch(file.ABOUT, (about, after, wanted), after + 1, None)
            page: list[Row] = []
            for *stored, before in found:
                known = before or await self._hash_of(stored[0] - 1)
                if known is None and stored[0] <= (await self._archived()).last:
                    continue  # The row before it is deleted already; it is read from the archive.
                page += checked(self._name, [tuple(stored)], stored[0], known or GENESIS)
            count, bytes_used = fitting(page, bytes_left, at_least=0 if rows else 1)
            rows += page[:count]
            if count < wanted:
                break
            bytes_left -= bytes_used
            after = page[-1].sequence
        return rows

    async def snapshot(self) -> Snapshot | None:
        head = await self.head()
        for sequence in await asyncio.to_thread(self._images.sequences):
            snapshot = await asyncio.to_thread(self._images.read, sequence)
            if snapshot is None or snapshot.head.log_id != head.log_id:
                continue
            if snapshot.head.hash == await self._hash_of(sequence):
                return snapshot
        return None

    async def keep_snapshot(self, snapshot: Snapshot) -> None:
        assert snapshot.head.log == self._name, (snapshot.head.log, self._name)
        head = await self.head()
        try:
            await asyncio.to_thread(self._images.keep, snapshot, head)
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                raise LogFull(self._name, "no room for a snapshot; the older ones stay") from error
            raise

    async def archive(self, before: Instant, *, is_whole: bool = True) -> Archived | None:
        try:
            return await asyncio.to_thread(
                archive_next, self._directory, self._name, before, is_whole=is_whole
            )
        except LogError as error:
            self._not_archived += not isinstance(error, ArchiveInUse)
            raise
        except sqlite3.DatabaseError as error:
            self._not_archived += 1
            raise await asyncio.to_thread(self._explained, error, 1, GENESIS) from error
        except OSError as error:
            self._not_archived += 1
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                raise LogFull(self._name, "no room for an archive file; the facts stay in the log") from error
            raise

    async def verify(self) -> Verification:
        count, before = 0, GENESIS
        try:
            head = await self.head()
            while True:
                archive = await self._archived()
                while count < archive.last:
                    archived = await asyncio.to_thread(archive.check, count + 1, before)
                    count, before = archived.last, archived.hash_after
                stored = await self._stored(count + 1, file.PAGE_ROWS, before)
                if stored and stored[0][0] != count + 1 and (await self._archived()).last > count:
                    continue  # Its keeper let go of it meanwhile.
                if not stored:
                    break
                count += len(checked(self._name, stored, count + 1, before))
                before = stored[-1][-1]
        except LogBroken as broken:
            archive_file = str(broken.archive) if broken.archive is not None else ""
            return Verification(broken.sequence - 1, broken.sequence, str(broken), archive_file)
        if count < head.sequence:
            problem = f"the row is missing, though {head.sequence} is there"
            return Verification(rows=count, broken_at=count + 1, problem=problem)
        return Verification(rows=count, broken_at=0)

    async def close(self) -> None:
        async with self._connecting:
            connection, self._connection = self._connection, None
            if connection is not None:
                await connection.close()

    async def _stored(self, first: int, count_max: int, before: bytes | None = None) -> list[Stored]:
        """At most so many rows from `first` on, not checked yet. `before` is the hash they follow, where it is known."""
        stored: list[Stored] = await self._fetch(file.FROM, (first, count_max), first, before)
        return stored

    async def _hash_of(self, sequence: int) -> bytes | None:
        """The hash kept at a sequence; None when there is no such row here, and no archive file ends with it."""
        if sequence == 0:
            return GENESIS
        found = await self._fetch(file.HASH, (sequence,))
        return found[0][0] if found else (await self._archived()).hash_of(sequence)

    async def _archived(self) -> Archive:
        """The archive as it is now."""
        found = await self._fetch(file.ARCHIVE_FILES, (self._archive.last,))
        self._archive.add([ArchiveFile(*row) for row in found])
        return self._archive

    def _wanted(self, count_max: int, bytes_max: int) -> int:
        """Rows to fetch, so that not much is fetched in vain: by what rows weighed so far."""
        return min(count_max, FETCH_ROWS_MAX, max(0, bytes_max) // self._weight + 1)

    async def _fetch(
        self, sql: str, values: Iterable[object] = (), first: int = 1, before: bytes | None = GENESIS
    ) -> list[Any]:  # Any: sqlite3 knows no column types
        """All that a statement finds; nothing while there is no log. It is one short transaction."""
        # Not asked of aiosqlite: a connection that fails leaves its thread behind for a moment, and that may be too long.
        if self._connection is None and not self._path.exists():
            return []
        try:
            connection = await self._connected()
            return list(await connection.execute_fetchall(sql, values))
        except sqlite3.DatabaseError as error:
            if file.is_unmade(error):
                return []
            raise await asyncio.to_thread(self._explained, error, first, before) from error

    async def _connected(self) -> aiosqlite.Connection:
        async with self._connecting:
            if self._connection is None:
                uri = file.reading_uri(self._path)
                connection = await aiosqlite.connect(
                    uri, uri=True, timeout=file.BUSY_SECONDS_MAX, isolation_level=None
                )
                try:
                    ((version,),) = await connection.execute_fetchall(file.USER_VERSION)
                    file.check_format(self._name, version)
                except BaseException:
                    await connection.close()
                    raise
                self._connection = connection
            return self._connection

    def _explained(self, error: sqlite3.DatabaseError, first: int, before: bytes | None) -> LogError:
        with closing(file.connect_to_read(self._path)) as connection:
            return file.explained(self._name, error, connection, first, before)
