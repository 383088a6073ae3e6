"""Logs in SQLite files: one a keeper, in one directory.

`<name>.sqlite` holds the log (beside it, while it is open, its `-wal` and `-shm`), `<name>.lock` is locked by its keeper,
`<name>.<sequence>.image` are its snapshots, and `<name>.archive/` has its oldest facts. docs/decisions/0003-log-in-sqlite.md
says why it is SQLite, and docs/decisions/0039-logs-that-end.md what becomes of old facts.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from core.fact import Fact, Head
from core.nouns.ids import LogName
from store import sqlite_file as file
from store.errors import AppendFailed
from store.port import Row
from store.rows import facts_of
from store.sqlite_reader import SqliteReader
from store.sqlite_writer import Writer


class SqliteLog:
    """A log that is open for its keeper. Many may append at once; they are chained in the order of their calls."""

    def __init__(self, name: LogName, writer: Writer) -> None:
        self._name = name
        self._writer = writer
        self._is_closed = False

    @property
    def head(self) -> Head:
        return self._writer.head

    @property
    def not_archived(self) -> int:
        return self._writer.not_archived

    async def append(self, rows: Sequence[Row], term: int) -> Head:
        if self._is_closed:
            raise AppendFailed(self._name, "it is closed; open it again")
        # Cancelling this cancels the waiting only: what was handed in to the thread is written or not, whole.
        return await self._writer.hand_in(rows, term)

    async def shed(self) -> None:
        """Delete all that archive files have, and give all free pages back, while appends wait. A keeper that is open does
        the same by itself, a little at a time.

        Raises LogError.
        """
        await self._writer.hand_in_shed()

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        await self._writer.hand_in_close()


class SqliteStore:
    """The logs of one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def open(self, name: LogName, log_id_if_new: str) -> SqliteLog:
        writer = Writer(name, self._directory, log_id_if_new)
        await writer.open()
        return SqliteLog(name, writer)

    async def reader(self, name: LogName) -> SqliteReader:
        return SqliteReader(self._directory, name)


def facts_in(directory: Path, name: LogName, first: int = 1) -> Iterator[Fact]:
    """Every fact of a log from `first` on, hash checked: for tools that may wait. A keeper may have the log meanwhile.

    Raises LogBroken and LogFromNewerBuild. From 2 on, the chain is believed up to the row before the first.
    """
    with closing(file.connect_to_read(file.path_of(directory, name))) as connection:
        file.format_of(name, connection)
        for rows, _ in file.all_pages(connection, directory, name, first):
            yield from facts_of(name, rows)


def archived_up_to(directory: Path, name: LogName) -> int:
    """The newest sequence whose row is in an archive file, as its keeper counts; 0 when none is."""
    with closing(file.connect_to_read(file.path_of(directory, name))) as connection:
        return file.border(connection)[0]
