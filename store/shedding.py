"""How a log's SQLite file lets go of the rows that archive files hold: the side of the keeper, in its writer's thread.

Another process writes archive files (store/archiving.py), and checks each before the file gets its name. But a name is not
durable at that moment, and a disk may return other bytes later, so each file is checked again before its rows are deleted.
Three sorts of step are left, each of about two milliseconds, taken while no append waits:

1. Check some blocks of the next file: the file's rows follow those archived before, its last hash is that of the same row
   here, and every row in between follows, so it has the same rows.
2. Take the file up, once all blocks are checked, and the file and its name are durable. From the commit on the file's rows
   count as archived (table `archived`).
3. Delete some of the rows that are archived, oldest first. The commit gives the pages that became free back to the file
   system.

After a crash at any moment the rows are in the archive file, or here, or in both, and `archived` says from where they are
read. A step that is not durable is taken again.
"""

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from core.nouns.ids import LogName
from store import sqlite_file as file
from store.archive import directory_of
from store.archive_file import ArchiveFile, Reading, range_of
from store.errors import LogBroken, LogError
from store.files import sync_directory, sync_file

STEP_SECONDS = 0.002
"""How long a step may hold up an append that comes meanwhile, beside its commit. Steps become smaller or larger by it."""
ROWS_MIN, ROWS_FIRST, ROWS_MAX = 16, 128, 512
"""Rows that are deleted in one step. More would free so many pages that moving others into their place takes longer than that."""
SETTLED_SECONDS = 2.0
"""A directory that changed so lately may change again at what looks like the same time."""


class Shedding:
    """The steps, one after the other."""

    def __init__(self, log: LogName, directory: Path, connection: sqlite3.Connection) -> None:
        self._log = log
        self._directory = directory_of(directory, log)
        self._connection = connection
        self._border = file.border(connection)[0]
        self._rows = ROWS_FIRST
        self._has_rows = True
        """Whether rows that are archived may still be here."""
        self._looked_at = 0
        """When the directory had changed last, as far as it was looked through."""
        self._reading: Reading | None = None
        """The file that is being checked."""
        self._checks: Iterator[None] = iter(())
        """The rest of the check of that file."""
        self._unsound: dict[str, LogError] = {}
        """Files that were left out at this look, by name, with the reason."""

    def step(self) -> bool:
        """Take the next step; whether there was one.

        Raises sqlite3.Error, LogError and OSError; after any exception `recover` must follow. A step's commit waits for no
        disk: a step that a power cut undoes is taken again, and the fsync of the next append makes it durable before what is
        appended.
        """
        execute = self._connection.execute
        execute("PRAGMA synchronous = NORMAL")
        found = self._delete() or self._take_up()
        execute(file.SYNCHRONOUS)
        return found

    def recover(self, error: Exception) -> bool:
        """Roll back a step that failed, have commits wait for the disk again, and look anew at the next step; whether all
        of it worked.
        """
        self._look_anew()
        execute = self._connection.execute
        try:
            if self._connection.in_transaction:
                execute("ROLLBACK")
            execute(file.SYNCHRONOUS)
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_IOERR_FSYNC:
                # The system may forget pages that could not be synced, and call the next sync a success. Once the write-ahead
                # log is empty no later append depends on such a page.
                (is_busy, *_) = execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                return not is_busy
        except sqlite3.Error:
            return False
        return True

    def finish(self) -> None:
        """Take all steps, and leave no free page, whatever the file was made with. Appends wait. Raises what `step` does."""
        self._look_anew()
        while self.step():
            pass
        if not file.can_shrink(self._connection):
            file.rebuild(self._connection)
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _delete(self) -> bool:
        if not self._has_rows:
            return False
        (oldest,) = self._connection.execute("SELECT min(sequence) FROM facts").fetchone()
        self._has_rows = oldest is not None and oldest <= self._border
        if not self._has_rows:
            return False
        last = min(self._border, oldest + self._rows - 1)
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        began = time.perf_counter()
        execute("DELETE FROM facts WHERE sequence <= ?", (last,))
        seconds = time.perf_counter() - began
        execute("COMMIT")
        if seconds > STEP_SECONDS:
            self._rows = max(ROWS_MIN, self._rows // 2)
        elif seconds < STEP_SECONDS / 3:
            self._rows = min(ROWS_MAX, self._rows * 2)
        return True

    def _take_up(self) -> bool:
        if self._reading is None and not self._find():
            return False
        assert self._reading is not None
        until = time.perf_counter() + STEP_SECONDS
        try:
            for _ in self._checks:
                if time.perf_counter() >= until:
                    return True
        except LogBroken as error:
            self._unsound[self._reading.path.name] = error
            self._reading = None
            return True
        # The process that wrote the file may not have come to this yet, or an operator has put a copy there.
        sync_file(self._reading.path)
        sync_directory(self._directory)
        found = self._reading.file
        values = (found.last, found.first, found.hash_before, found.hash_after)
        self._connection.execute(
            "INSERT INTO archived (last, first, hash_before, hash_after) VALUES (?, ?, ?, ?)", values
        )
        self._border, self._has_rows = found.last, True
        self._look_anew()
        return True

    def _find(self) -> bool:
        """Begin to check the next file; whether there is one. Raises LogError when there are only unsound ones."""
        try:
            changed = self._directory.stat().st_mtime_ns
        except FileNotFoundError:
            return False  # Nothing was ever archived.
        if changed == self._looked_at:
            return False
        for path in following(self._directory, self._border):
            if path.name in self._unsound:
                continue
            try:
                self._reading = as_here(self._log, path, self._connection)
            except LogBroken as error:
                self._unsound[path.name] = error
            if self._reading is not None:
                self._checks = self._reading.checks()
                return True
        for unsound in self._unsound.values():
            text = "an archive file is not sound; its facts stay in the log until the file is written again"
            raise LogError(self._log, f"{text} ({unsound})") from unsound
        if time.time_ns() - changed > SETTLED_SECONDS * 1e9:
            self._looked_at = changed
        return False

    def _look_anew(self) -> None:
        self._looked_at, self._reading, self._unsound = 0, None, {}


def following(directory: Path, after: int) -> list[Path]:
    """Files in an archive's directory whose rows begin behind a sequence, by their names. Raises OSError."""
    try:
        names = sorted(entry.name for entry in directory.iterdir())
    except FileNotFoundError:
        return []
    return [directory / name for name in names if (range_of(name) or (0,))[0] == after + 1]


def as_here(log: LogName, path: Path, connection: sqlite3.Connection) -> Reading | None:
    """A file whose rows, by its name, are the rows that the SQLite file has there; None when they are others.

    The newest row stays where it is: a file that has it is not one. Raises LogBroken when it cannot be read, or holds something
    else than its name says.
    """
    first, last = range_of(path.name) or (0, 0)
    before, after = file.hash_at(connection, first - 1), file.hash_at(connection, last)
    (newest,) = connection.execute("SELECT max(sequence) FROM facts").fetchone()
    if before is None or after is None or newest <= last:
        return None
    expected = ArchiveFile(first, last, before, after)
    return Reading(log, path, expected) if path.name == expected.name else None
